"""Where documents are kept: a table of documents, one of finished translations, and two files for each document.

SQLite writes ahead and files are written through to the disk, so what has been stored survives a process that is
killed, and a power failure. Nothing here is asynchronous: the service calls it on one thread of its own.
"""

from __future__ import annotations

import errno
import json
import secrets
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from app.documents.document import ACTIVE, DATABASE, Document
from app.engine.caller import Priority
from app.storage import make_private, open_database
from model.process.files import put_in_place

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
_ADDED = {
    "owner": "TEXT NOT NULL DEFAULT ''",
    "priority": "INTEGER NOT NULL DEFAULT 0",
    "request": "TEXT NOT NULL DEFAULT ''",
    "waits_since": "REAL NOT NULL DEFAULT 0",  # when it was added, or its owner last had a turn
    "marked_by": "TEXT NOT NULL DEFAULT ''",  # the run of the service that reads or writes its file
}
"""Columns of documents that a folder of an earlier release lacks."""

# FULL: what has been stored survives a power failure, too.
_PRAGMAS = ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON")

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
        self._database = open_database(self._folder / DATABASE, _SCHEMA, _PRAGMAS, {"documents": _ADDED}, timeout_s=1.0)
        self._database.row_factory = sqlite3.Row
        self._sweep()

    def close(self) -> None:
        """Give the folder back; a private one is deleted."""
        self._database.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def add(self, document: Document, content: bytes) -> Document:
        """Store a new document and its file; returns it, or the one that its request has added before."""
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
        """Refuse a document if the disk may become full before it and those in work are done.

        Raises:
            OSError: There is no room.
        """
        needed = num_bytes + _needed_bytes(num_bytes, num_characters)
        for row in self._database.execute(f"SELECT id, num_characters FROM documents WHERE {_ACTIVE}"):
            path = self._folder / f"{row['id']}.source"
            needed += _needed_bytes(path.stat().st_size if path.exists() else 0, row["num_characters"])
        free = shutil.disk_usage(self._folder).free
        if needed > free:
            raise OSError(errno.ENOSPC, f"{needed} bytes are needed for the documents in work, {free} are free")

    def of_request(self, request: str) -> Document | None:
        """The document that a request has added, or None."""
        return self._one("SELECT * FROM documents WHERE request = ?", request) if request else None

    def get(self, id: str) -> Document | None:
        """A document, or None if there is none with this id."""
        return self._one("SELECT * FROM documents WHERE id = ?", id)

    def next_active(self) -> Document | None:
        """The document to translate now: of the owner who has waited longest, among the most urgent ones.

        Of an owner's documents it is the one that has begun, else the oldest.
        """
        order = "priority, waits_since, status = 'queued', created_at"
        return self._one(f"SELECT * FROM documents WHERE {_ACTIVE} ORDER BY {order} LIMIT 1")

    def others_wait(self, document: Document) -> bool:
        """Whether there are active documents of other owners that are at least as urgent."""
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
        """Number of documents, of an owner or of all."""
        number: int = self._database.execute(
            "SELECT count(*) FROM documents WHERE owner = coalesce(?, owner)", (owner,)
        ).fetchone()[0]
        return number

    def first_expiry(self, owner: str | None = None) -> float | None:
        """When the next document expires, of an owner or of all; None if none does, as those in work do not."""
        expiry: float | None = self._database.execute(
            f"SELECT min(expires_at) FROM documents WHERE owner = coalesce(?, owner) AND NOT {_ACTIVE}", (owner,)
        ).fetchone()[0]
        return expiry

    def begin(self, id: str, num_sentences: int) -> bool:
        """Note that a document is being translated; returns whether it still is to be."""
        with self._database:
            changed = self._database.execute(
                f"UPDATE documents SET status = 'running', num_sentences = ? WHERE id = ? AND {_ACTIVE}",
                (num_sentences, id),
            )
        return changed.rowcount > 0

    def mark(self, id: str) -> bool:
        """Note that the file of a document is being read or written; returns False if an earlier run was at it."""
        with self._database:
            changed = self._database.execute(
                "UPDATE documents SET marked_by = ? WHERE id = ? AND marked_by IN ('', ?)", (self._run, id, self._run)
            )
        return changed.rowcount > 0

    def unmark(self, id: str) -> None:
        """Note that the file of a document is no longer being read or written by this run."""
        with self._database:
            self._database.execute(
                "UPDATE documents SET marked_by = '' WHERE id = ? AND marked_by = ?", (id, self._run)
            )

    def translations(self, id: str) -> dict[int, str | None]:
        """The finished units of a document: their translations, or None for those that could not be translated."""
        rows = self._database.execute("SELECT unit, text FROM translations WHERE document = ?", (id,))
        return {row["unit"]: row["text"] for row in rows}

    def add_translations(self, id: str, found: Mapping[int, str | None], num_sentences: int, num_left: int) -> None:
        """Store translations of units.

        Args:
            id: The document.
            found: The units and their translations; None for one that could not be translated.
            num_sentences: How many sentences these units have.
            num_left: How many of them could not be translated.
        """
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO translations VALUES (?, ?, ?)",
                [(id, unit, text) for unit, text in found.items()],
            )
            self._database.execute(
                "UPDATE documents SET num_done = num_done + ?, num_left = num_left + ? WHERE id = ?",
                (num_sentences, num_left, id),
            )

    def finish(self, id: str, result: bytes, expires_at: float) -> None:
        """Store the result of a document, unless it has been cancelled."""
        self._write(self._folder / f"{id}.result", result)
        self.end(id, "done", expires_at)
        with self._database:
            self._database.execute(
                "DELETE FROM translations WHERE document = ? AND EXISTS "
                "(SELECT * FROM documents WHERE id = document AND status = 'done')",
                (id,),
            )

    def end(self, id: str, status: str, expires_at: float, problem: Mapping[str, object] | None = None) -> None:
        """Note how the translation of a document ended."""
        with self._database:
            self._database.execute(
                f"UPDATE documents SET status = ?, expires_at = ?, problem = ? WHERE id = ? AND {_ACTIVE}",
                (status, expires_at, None if problem is None else json.dumps(problem), id),
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
        """Delete the documents whose time is over; returns how many they were."""
        rows = self._database.execute(f"SELECT id FROM documents WHERE expires_at <= ? AND NOT {_ACTIVE}", (now,))
        expired = [row["id"] for row in rows]
        for id in expired:
            self.remove(id)
        return len(expired)

    def _one(self, query: str, *values: object) -> Document | None:
        row = self._database.execute(query, values).fetchone()
        if row is None:
            return None
        columns = {name: row[name] for name in _COLUMNS}
        problem, priority = columns["problem"] and json.loads(columns["problem"]), Priority(columns["priority"])
        return Document(**{**columns, "problem": problem, "priority": priority})

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file that is either there and whole, or not there, after a power failure, too."""
        part = path.with_suffix(".part")
        make_private(part)
        part.write_bytes(content)
        put_in_place(part, path)

    def _sweep(self) -> None:
        """Delete files that belong to no document: of a process that was killed while it stored one."""
        ids = {row["id"] for row in self._database.execute("SELECT id FROM documents")}
        for path in self._folder.iterdir():
            if path.suffix == ".part" or (path.suffix in (".source", ".result") and path.stem not in ids):
                path.unlink(missing_ok=True)


def _needed_bytes(num_bytes: int, num_characters: int) -> int:
    """About how much more a document stores until it is done: its result, and twice its translations, in UTF-8."""
    return 2 * num_bytes + 4 * num_characters
