"""The store of documents: a table of documents, one of finished translations, and two files for each document.

SQLite uses a write-ahead log and files are written through to the disk, so stored data survives SIGKILL and a power
failure. Nothing here is asynchronous: the service calls it on one thread.
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from types import MappingProxyType

from app.documents.document import ACTIVE, DATABASE, MAX_ATTEMPTS, NO_MEMORY, Document, MemoryCounts
from app.documents.sentence_store import EDITING_COLUMNS, SENTENCES_SCHEMA, SentenceStore
from app.engine.caller import Priority
from app.storage import make_private, open_database, owned_by
from model.process.files import UNFINISHED, atomic_write

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY, filename TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, options TEXT NOT NULL,
    status TEXT NOT NULL, num_characters INTEGER NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL,
    num_done INTEGER NOT NULL, num_sentences INTEGER, num_left INTEGER NOT NULL, problem TEXT
);
CREATE TABLE IF NOT EXISTS translations (
    document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE, unit INTEGER NOT NULL, text TEXT,
    PRIMARY KEY (document, unit)
) WITHOUT ROWID;
"""
_ADDED_TO_TRANSLATIONS = {"positions": "BLOB NOT NULL DEFAULT x''"}  # app.documents.positions.packed
_ADDED = {
    "owner": "TEXT NOT NULL DEFAULT ''",
    "priority": "INTEGER NOT NULL DEFAULT 0",
    "request": "TEXT NOT NULL DEFAULT ''",
    "memory": "TEXT NOT NULL DEFAULT ''",
    **dict.fromkeys(("num_exact", "num_steered", "num_offered"), "INTEGER NOT NULL DEFAULT 0"),
    "waits_since": "REAL NOT NULL DEFAULT 0",  # when it was added, or its owner last had a turn
    "marked_by": "TEXT NOT NULL DEFAULT ''",  # the run of the service that reads or writes its file
    "num_attempts": "INTEGER NOT NULL DEFAULT 0",  # since it last advanced, without those that ended in order
    **EDITING_COLUMNS,
}
"""Columns that the documents of an earlier release lack."""

_INDEXES = f"""
CREATE INDEX IF NOT EXISTS documents_by_owner ON documents (owner, created_at, id);
CREATE INDEX IF NOT EXISTS documents_by_expiry ON documents (expires_at);
CREATE INDEX IF NOT EXISTS documents_by_request ON documents (request) WHERE request != '';
CREATE INDEX IF NOT EXISTS active_documents ON documents (priority, waits_since) WHERE status IN {ACTIVE};
"""
"""Of columns that may have just been added. Documents that are done are many, and active ones few."""

# FULL: committed data survives a power failure.
_PRAGMAS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")

_PART = ".part"
"""The ending of an unfinished file of an earlier release."""

_COLUMNS = tuple(field.name for field in fields(Document) if field.name != "seconds_left")
_ACTIVE = f"status IN {ACTIVE}"


class DocumentStore:
    """Documents in a folder.

    Args:
        folder: The folder, which belongs to this process; None for a private one that is deleted by :meth:`close`.

    Raises:
        OSError: The folder cannot be written.
        sqlite3.Error: Another process uses it, or its tables cannot be read or written.
    """

    def __init__(self, folder: Path | None) -> None:
        self._temporary = (
            tempfile.TemporaryDirectory(prefix="verso-documents-", ignore_cleanup_errors=True)
            if folder is None
            else None
        )
        self._folder = Path(self._temporary.name) if self._temporary else Path(folder or "")
        self._run = secrets.token_hex(8)
        added = {"documents": _ADDED, "translations": _ADDED_TO_TRANSLATIONS}
        self._database = open_database(
            self._folder / DATABASE, _SCHEMA + SENTENCES_SCHEMA, _PRAGMAS, added, timeout_s=1.0
        )
        self._database.row_factory = sqlite3.Row
        self.sentences = SentenceStore(self._database)
        """The sentences of documents that are edited."""
        try:
            self._database.executescript(_INDEXES)
            self._sweep()
        except BaseException:
            self.close()  # else no other store could use the folder
            raise

    def close(self) -> None:
        """Release the folder; a private one is deleted."""
        self._database.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def add(self, document: Document, content: bytes) -> Document:
        """Store a new document and its file; returns it, or the one that an earlier attempt of its request added."""
        existing = self.of_request(document.request)
        if existing is not None:
            return existing
        self._require_space(len(content), document.num_characters)
        self._write(self._folder / f"{document.id}.source", content)
        row = {**asdict(document), "problem": None}
        row = {**{name: row[name] for name in _COLUMNS}, "waits_since": document.created_at}
        with self._database:
            self._database.execute(
                f"INSERT INTO documents ({', '.join(row)}) VALUES ({', '.join(':' + name for name in row)})", row
            )
        return document

    def _require_space(self, num_bytes: int, num_characters: int) -> None:
        """Refuse a document if the disk may become full before it and the active ones are done.

        Raises:
            OSError: There is not enough room.
        """
        needed = num_bytes + _needed_bytes(num_bytes, num_characters)
        for row in self._database.execute(f"SELECT id, num_characters FROM documents WHERE {_ACTIVE}"):
            path = self._folder / f"{row['id']}.source"
            needed += _needed_bytes(path.stat().st_size if path.exists() else 0, row["num_characters"])
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed} bytes are needed for active documents, {free} are free")

    def of_request(self, request: str) -> Document | None:
        """The document that a request added, or None."""
        return self._select("SELECT * FROM documents WHERE request = ? AND request != ''", request) if request else None

    def get(self, id: str) -> Document | None:
        """A document, or None if there is none with this id."""
        return self._select("SELECT * FROM documents WHERE id = ?", id)

    def newest(self, owner: str, now: float, limit: int, after: Document | None = None) -> Sequence[Document]:
        """The documents of an owner that have not expired, the newest first.

        Args:
            owner: The owner.
            now: The time.
            limit: At most so many.
            after: Only documents that were added before this one.
        """
        query = (
            f"SELECT * FROM documents WHERE owner = ? AND (expires_at > ? OR {_ACTIVE}) "
            "AND (? IS NULL OR (created_at, id) < (?, ?)) ORDER BY created_at DESC, id DESC LIMIT ?"
        )
        last = (None, None) if after is None else (after.created_at, after.id)
        rows = self._database.execute(query, (owner, now, last[0], *last, limit))
        return [_document(row) for row in rows]

    def next_active(self) -> Document | None:
        """The document to translate now: of the most urgent owners, that of the owner who has waited longest.

        Among an owner's documents, one that has begun goes first, then the oldest.
        """
        order = "priority, waits_since, status = 'queued', created_at"
        return self._select(f"SELECT * FROM documents WHERE {_ACTIVE} ORDER BY {order} LIMIT 1")

    def others_wait(self, document: Document) -> bool:
        """Whether other owners have active documents of the same or a higher priority."""
        rows = self._database.execute(
            f"SELECT EXISTS (SELECT * FROM documents WHERE {_ACTIVE} AND owner != ? AND priority <= ?)",
            (document.owner, document.priority),
        )
        return bool(rows.fetchone()[0])

    def end_turn(self, owner: str, now: float) -> None:
        """Put the documents of an owner behind those of all others."""
        with self._database:
            self._database.execute(f"UPDATE documents SET waits_since = ? WHERE owner = ? AND {_ACTIVE}", (now, owner))

    def count(self, owner: str | None = None) -> int:
        """Number of documents of an owner, or of all."""
        condition, values = owned_by(owner)
        number: int = self._database.execute(f"SELECT count(*) FROM documents WHERE {condition}", values).fetchone()[0]
        return number

    def first_expiry(self, owner: str | None = None) -> float | None:
        """When the next document of an owner, or of all, expires; None if all are active, as these do not expire."""
        condition, values = owned_by(owner)
        expiry: float | None = self._database.execute(
            f"SELECT min(expires_at) FROM documents WHERE {condition} AND NOT {_ACTIVE}", values
        ).fetchone()[0]
        return expiry

    def begin(self, id: str, num_sentences: int) -> int:
        """Note that a document is being translated.

        Returns:
            The number of this attempt since the document last advanced; 0 if the document is no longer active.
        """
        with self._database:
            self._database.execute(
                "UPDATE documents SET status = 'running', num_sentences = ?, num_attempts = num_attempts + 1 "
                f"WHERE id = ? AND {_ACTIVE}",
                (num_sentences, id),
            )
            row = self._database.execute(f"SELECT num_attempts FROM documents WHERE id = ? AND {_ACTIVE}", (id,))
            return next((attempt["num_attempts"] for attempt in row), 0)

    def pause(self, id: str) -> None:
        """Note that the translation of a document was interrupted in order, so that this attempt does not count."""
        with self._database:
            self._database.execute("UPDATE documents SET num_attempts = num_attempts - 1 WHERE id = ?", (id,))

    def mark(self, id: str) -> bool:
        """Note that this run reads or writes the file of a document; returns False if an earlier run ended at it."""
        with self._database:
            changed = self._database.execute(
                "UPDATE documents SET marked_by = ? WHERE id = ? AND marked_by IN ('', ?)", (self._run, id, self._run)
            )
        return changed.rowcount > 0

    def unmark(self, id: str) -> None:
        """Note that this run no longer reads or writes the file of a document."""
        with self._database:
            self._database.execute(
                "UPDATE documents SET marked_by = '' WHERE id = ? AND marked_by = ?", (id, self._run)
            )

    def translations(self, id: str) -> dict[int, str | None]:
        """Stored results of a document by unit; None for a unit that could not be translated."""
        rows = self._database.execute("SELECT unit, text FROM translations WHERE document = ?", (id,))
        return {row["unit"]: row["text"] for row in rows}

    def add_translations(
        self,
        id: str,
        translations: Mapping[int, str | None],
        num_sentences: int,
        num_left: int,
        positions: Mapping[int, bytes] = MappingProxyType({}),
        memory: MemoryCounts = NO_MEMORY,
    ) -> None:
        """Store translations of units.

        Args:
            id: The document.
            translations: By unit; None for a unit that could not be translated.
            num_sentences: The number of sentences in these units.
            num_left: The number of these sentences that could not be translated.
            positions: The positions of the sentences of units (:func:`app.documents.positions.packed`).
            memory: How memories were used for these sentences.
        """
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO translations (document, unit, text, positions) VALUES (?, ?, ?, ?)",
                [(id, unit, text, positions.get(unit, b"")) for unit, text in translations.items()],
            )
            # Once units are translated alone, they stay so: the next one may be as bad.
            self._database.execute(
                "UPDATE documents SET num_done = num_done + ?, num_left = num_left + ?, num_exact = num_exact + ?, "
                "num_steered = num_steered + ?, num_offered = num_offered + ?, "
                "num_attempts = CASE WHEN num_attempts > ? THEN ? ELSE 1 END WHERE id = ?",
                (num_sentences, num_left, *memory, MAX_ATTEMPTS, MAX_ATTEMPTS + 1, id),
            )

    def finish(self, id: str, result: bytes, expires_at: float) -> None:
        """Store the result of a document, unless it was cancelled or deleted; its translations stay, to be edited."""
        document = self.get(id)
        if document is None or not document.is_active:
            return
        self._write(self._folder / f"{id}.result", result)
        self.end(id, "done", expires_at)

    def rewrite(self, id: str, result: bytes, num_changes: int) -> None:
        """Store the result of a document with edited sentences.

        Args:
            id: The document.
            result: The file.
            num_changes: The number of changes that it has.
        """
        if self.get(id) is not None:  # deleted meanwhile
            self._write(self._folder / f"{id}.result", result)
            self.sentences.note_written(id, num_changes)

    def require_free(self, num_bytes: int) -> None:
        """Refuse to store more if the disk may become full.

        Raises:
            OSError: There is not enough room.
        """
        free = shutil.disk_usage(self._folder).free
        if num_bytes > free:
            raise OSError(errno.ENOSPC, f"{num_bytes} bytes are needed, {free} are free")

    def end(self, id: str, status: str, expires_at: float, problem: Mapping[str, object] | None = None) -> None:
        """Store the final status of a document, unless it has one; of one that is done, the translations stay."""
        with self._database:
            self._database.execute(
                "UPDATE documents SET status = ?, expires_at = ?, problem = ?, keeps_translations = ? "
                f"WHERE id = ? AND {_ACTIVE}",
                (status, expires_at, None if problem is None else json.dumps(problem), status == "done", id),
            )

    def source(self, id: str) -> bytes:
        """The file of a document."""
        return (self._folder / f"{id}.source").read_bytes()

    def result(self, id: str) -> bytes:
        """The translated file of a document that is done."""
        return (self._folder / f"{id}.result").read_bytes()

    def remove(self, id: str) -> None:
        """Delete a document and its files."""
        with self._database:
            self._database.execute("DELETE FROM documents WHERE id = ?", (id,))
        for name in (f"{id}.source", f"{id}.result"):
            (self._folder / name).unlink(missing_ok=True)

    def remove_expired(self, now: float) -> int:
        """Delete expired documents; returns their number."""
        rows = self._database.execute(f"SELECT id FROM documents WHERE expires_at <= ? AND NOT {_ACTIVE}", (now,))
        expired = [row["id"] for row in rows]
        for id in expired:
            self.remove(id)
        return len(expired)

    def _select(self, query: str, *values: object) -> Document | None:
        row = self._database.execute(query, values).fetchone()
        return None if row is None else _document(row)

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file that is complete or missing after a power failure."""
        with atomic_write(path) as unfinished:
            make_private(unfinished)
            unfinished.write_bytes(content)

    def _sweep(self) -> None:
        """Delete files without a document: a process was killed while it stored one."""
        ids = {row["id"] for row in self._database.execute("SELECT id FROM documents")}
        for path in self._folder.iterdir():
            if path.suffix in (UNFINISHED, _PART) or (path.suffix in (".source", ".result") and path.stem not in ids):
                path.unlink(missing_ok=True)


def _document(row: sqlite3.Row) -> Document:
    columns = {name: row[name] for name in _COLUMNS}
    problem, priority = columns["problem"] and json.loads(columns["problem"]), Priority(columns["priority"])
    return Document(**{**columns, "problem": problem, "priority": priority})


def _needed_bytes(num_bytes: int, num_characters: int) -> int:
    """Estimated bytes that a document will need: its result, and twice its translations in UTF-8."""
    return 2 * num_bytes + 4 * num_characters
