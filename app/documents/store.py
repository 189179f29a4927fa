"""Where documents are kept: a table of documents, one of finished translations, and two files for each document.

SQLite writes ahead and files are written through to the disk, so what has been stored survives a process that is
killed, and a power failure. Nothing here is asynchronous: the
service calls it on one thread of its own.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

from app.documents.document import ACTIVE, DATABASE, Document

_SCHEMA = """
CREATE TABLE IF NOT EXISTS documents (
    id TEXT PRIMARY KEY, filename TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL, options TEXT NOT NULL,
    status TEXT NOT NULL, num_characters INTEGER NOT NULL, created_at REAL NOT NULL, expires_at REAL NOT NULL,
    num_done INTEGER NOT NULL, num_sentences INTEGER, num_left INTEGER NOT NULL, problem TEXT,
    owner TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS translations (
    document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE, unit INTEGER NOT NULL, text TEXT,
    PRIMARY KEY (document, unit)
) WITHOUT ROWID;
"""
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
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        # One thread at a time uses it, which need not be the one that opened it.
        self._database = sqlite3.connect(self._folder / DATABASE, timeout=1.0, check_same_thread=False)
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _set_up(self) -> None:
        self._database.row_factory = sqlite3.Row
        # FULL: what has been stored survives a power failure, too.
        for pragma in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            self._database.execute(f"PRAGMA {pragma}")
        self._database.executescript(_SCHEMA)
        columns = {row["name"] for row in self._database.execute("PRAGMA table_info(documents)")}
        if "owner" not in columns:  # a folder of a release without keys
            self._database.execute("ALTER TABLE documents ADD COLUMN owner TEXT NOT NULL DEFAULT ''")
        self._sweep()

    def close(self) -> None:
        """Give the folder back; a private one is deleted."""
        self._database.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def add(self, document: Document, content: bytes) -> None:
        """Store a new document and its file."""
        self._write(self._folder / f"{document.id}.source", content)
        row = {**asdict(document), "problem": None}
        with self._database:
            self._database.execute(
                f"INSERT INTO documents ({', '.join(_COLUMNS)}) VALUES ({', '.join(':' + name for name in _COLUMNS)})",
                {name: row[name] for name in _COLUMNS},
            )

    def get(self, id: str) -> Document | None:
        """A document, or None if there is none with this id."""
        return self._one("SELECT * FROM documents WHERE id = ?", id)

    def next_active(self) -> Document | None:
        """The document to translate now: the one that has begun, else the one that has waited longest."""
        return self._one(f"SELECT * FROM documents WHERE {_ACTIVE} ORDER BY status = 'queued', created_at LIMIT 1")

    def count(self) -> int:
        """Number of documents."""
        number: int = self._database.execute("SELECT count(*) FROM documents").fetchone()[0]
        return number

    def first_expiry(self) -> float | None:
        """When the next document expires, or None without documents; documents in work do not."""
        found: float | None = self._database.execute(
            f"SELECT min(expires_at) FROM documents WHERE NOT {_ACTIVE}"
        ).fetchone()[0]
        return found

    def begin(self, id: str, num_sentences: int) -> bool:
        """Note that a document is being translated; returns whether it still is to be."""
        with self._database:
            changed = self._database.execute(
                f"UPDATE documents SET status = 'running', num_sentences = ? WHERE id = ? AND {_ACTIVE}",
                (num_sentences, id),
            )
        return changed.rowcount > 0

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
        """Note what has become of a document that was being translated."""
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
        found = {name: row[name] for name in _COLUMNS}
        return Document(**{**found, "problem": found["problem"] and json.loads(found["problem"])})

    def _write(self, path: Path, content: bytes) -> None:
        """Write a file that is either there and whole, or not there, after a power failure, too."""
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _write_through(path.parent)

    def _sweep(self) -> None:
        """Delete files that belong to no document: of a process that was killed while it stored one."""
        known = {row["id"] for row in self._database.execute("SELECT id FROM documents")}
        for path in self._folder.iterdir():
            if path.suffix == ".part" or (path.suffix in (".source", ".result") and path.stem not in known):
                path.unlink(missing_ok=True)


def _write_through(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    if os.name == "nt":
        return  # folders cannot be opened
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
