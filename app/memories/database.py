"""The SQLite file of translation memories: memories, their language pairs, units, and the words of these.

A unit belongs to a pair (a memory and a target language) and is found by the digest of its normalised source. Its words
are in an FTS5 table without contents, each with the number of its pair, so that the words of one pair are never counted
or found for another. ``frequencies`` has the number of units with a word, so that a look-up can begin with the rarest.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from app.storage import open_database

if TYPE_CHECKING:
    import sqlite3

FILE_NAME = "memories.sqlite"
"""The name of the file in the folder for data."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS memories (
    number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, owner TEXT NOT NULL, name TEXT NOT NULL,
    source TEXT NOT NULL, purpose TEXT NOT NULL, created REAL NOT NULL, updated REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS memories_by_owner ON memories (owner);
CREATE TABLE IF NOT EXISTS pairs (
    number INTEGER PRIMARY KEY AUTOINCREMENT, memory INTEGER NOT NULL, target TEXT NOT NULL,
    num_units INTEGER NOT NULL, num_bytes INTEGER NOT NULL, UNIQUE (memory, target)
);
CREATE TABLE IF NOT EXISTS erased_pairs (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS units (
    id INTEGER PRIMARY KEY AUTOINCREMENT, pair INTEGER NOT NULL, digest BLOB NOT NULL, source TEXT NOT NULL,
    target TEXT NOT NULL, length INTEGER NOT NULL, created REAL NOT NULL, updated REAL NOT NULL, used REAL
);
CREATE UNIQUE INDEX IF NOT EXISTS units_by_source ON units (pair, digest);
CREATE INDEX IF NOT EXISTS units_by_pair ON units (pair, id);
CREATE TABLE IF NOT EXISTS frequencies (
    pair INTEGER NOT NULL, word INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (pair, word)
) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(text, content='', detail=none, columnsize=0, tokenize='ascii');
"""
# Answered changes survive a power failure. Readers and the writer do not wait for each other. Erased texts are
# overwritten.
_PRAGMAS = ("journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "cache_size = -32000")


def connect(folder: Path) -> sqlite3.Connection:
    """Open the file. One thread at a time may use the connection, and several connections may be open.

    Args:
        folder: The folder of the file, which is created if needed.

    Raises:
        OSError: The folder or the file cannot be created.
        sqlite3.Error: It cannot be read or written.
    """
    return open_database(folder / FILE_NAME, _SCHEMA, _PRAGMAS)


def token_of(pair: int, word: int) -> str:
    """A word of a pair as the FTS5 table has it."""
    return f"{pair}x{word:x}"
