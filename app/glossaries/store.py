"""The store of glossaries: SQLite, in a folder or in memory.

A glossary has a name and a dictionary for each of its language pairs. Nothing is opened before it is needed: a service
without glossaries does not load SQLite.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import GlossaryNotFound, GlossaryPairMissing, GlossaryStoreFull
from app.glossaries.terms import merge_glossaries, stored_tsv, to_tsv
from app.storage import open_database, storage_errors
from model.languages import plain_code
from model.text.glossary import Glossary

if TYPE_CHECKING:
    import sqlite3

FILE_NAME = "glossaries.sqlite"
"""The name of the file in the folder for data."""

MAX_GLOSSARIES = 1_000
"""Most stored glossaries."""

MAX_CHARACTERS = 50_000_000
"""Most characters of the terms of all glossaries together."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS glossaries (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, created TEXT NOT NULL, owner TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS dictionaries (
    position INTEGER PRIMARY KEY,
    glossary TEXT NOT NULL REFERENCES glossaries (id) ON DELETE CASCADE,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    num_terms INTEGER NOT NULL,
    num_characters INTEGER NOT NULL,
    terms TEXT NOT NULL,
    UNIQUE (glossary, source, target)
);
"""
# Answered changes survive a power failure; FULL would not wait until the journal's deletion is on the disk.
_PRAGMAS = ("foreign_keys = ON", "synchronous = EXTRA")
_ADDED_COLUMNS = {"glossaries": {"owner": "TEXT NOT NULL DEFAULT ''"}}


@dataclass(frozen=True)
class Dictionary:
    """The terms of one language pair.

    Args:
        source: The source language, without a region.
        target: The target language, without a region.
        terms: The terms.
    """

    source: str
    target: str
    terms: Glossary


@dataclass(frozen=True)
class DictionaryInfo:
    """A dictionary without its terms.

    Args:
        source: The source language, without a region.
        target: The target language, without a region.
        num_terms: Number of terms.
    """

    source: str
    target: str
    num_terms: int


@dataclass(frozen=True)
class GlossaryInfo:
    """A glossary without its terms.

    Args:
        id: Its id.
        name: Its name.
        created: When it was created, as in ``2026-01-31T08:15:00.123Z``.
        dictionaries: Its dictionaries, in the order in which they were added.
    """

    id: str
    name: str
    created: str
    dictionaries: tuple[DictionaryInfo, ...]


@dataclass(frozen=True)
class OwnerBounds:
    """The limits of one owner.

    Args:
        glossaries: Most glossaries.
        characters: Most characters of all their terms.
    """

    glossaries: int
    characters: int


class _Connection:
    """The connection that all views of a store share; it is opened when it is needed.

    Args:
        file: The file, or None for memory.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._opened: sqlite3.Connection | None = None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._opened is not None:
                self._opened.close()
                self._opened = None

    def may_have_glossaries(self) -> bool:
        """Whether there may be glossaries; nothing is opened or created to find out."""
        return self._opened is not None or (self._file is not None and self._file.exists())

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """The connection, with a lock; changes are undone if the block raises.

        Raises:
            StorageFull: The disk is full.
            StorageUnavailable: The disk cannot be read or written.
        """
        with self._lock, storage_errors():
            if self._opened is None:
                self._opened = open_database(self._file, _SCHEMA, _PRAGMAS, _ADDED_COLUMNS)
            connection = self._opened
            with connection:
                yield connection


class GlossaryStore:
    """The stored glossaries. Its methods may be called from any thread, and take milliseconds.

    Args:
        folder: The folder of the file; None for memory, until the process ends.
        bounds: The limits of one owner.
    """

    def __init__(self, folder: Path | None, bounds: OwnerBounds | None = None) -> None:
        self._connection = _Connection(None if folder is None else folder / FILE_NAME)
        self._bounds = bounds or OwnerBounds(MAX_GLOSSARIES, MAX_CHARACTERS)
        self._owner: str | None = None

    def owned_by(self, owner: str) -> GlossaryStore:
        """A view of the store with the glossaries of one owner.

        Args:
            owner: The id of a key, or empty for glossaries without an owner.
        """
        view = copy.copy(self)
        view._owner = owner
        return view

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def create(self, name: str, dictionaries: Sequence[Dictionary]) -> GlossaryInfo:
        """Store a new glossary.

        Args:
            name: Its name.
            dictionaries: At most one for each language pair.

        Raises:
            GlossaryStoreFull: No more can be stored.
        """
        glossary_id = str(uuid.uuid4())
        created = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        with self._connection.transaction() as connection:
            for bound, owner in self._with_owner(MAX_GLOSSARIES, self._bounds.glossaries):
                (count,) = connection.execute(
                    "SELECT count(*) FROM glossaries WHERE owner = coalesce(?, owner)", (owner,)
                ).fetchone()
                if count >= bound:
                    raise GlossaryStoreFull(f"{_subject(owner)} may have {bound} glossaries")
            connection.execute(
                "INSERT INTO glossaries (id, name, created, owner) VALUES (?, ?, ?, ?)",
                (glossary_id, name, created, self._owner or ""),
            )
            for dictionary in dictionaries:
                self._put(connection, glossary_id, dictionary)
            return _info(connection, glossary_id)

    def all(self) -> list[GlossaryInfo]:
        """All glossaries, the oldest first."""
        if not self._connection.may_have_glossaries():
            return []
        with self._connection.transaction() as connection:
            ids = connection.execute(
                "SELECT id FROM glossaries WHERE owner = coalesce(?, owner) ORDER BY rowid", (self._owner,)
            ).fetchall()
            return [_info(connection, glossary_id) for (glossary_id,) in ids]

    def get(self, glossary_id: str) -> GlossaryInfo:
        """A glossary.

        Raises:
            GlossaryNotFound: There is none with this id.
        """
        with self._of(glossary_id) as connection:
            return _info(connection, glossary_id)

    def update(self, glossary_id: str, name: str | None, dictionaries: Sequence[Dictionary]) -> GlossaryInfo:
        """Rename a glossary, and add terms to it.

        Args:
            glossary_id: Its id.
            name: The new name, or None.
            dictionaries: Terms that are added, and replace those with the same source.

        Raises:
            GlossaryNotFound: There is none with this id.
            InvalidGlossary: A language pair would have too many terms.
            GlossaryStoreFull: No more terms can be stored.
        """
        with self._of(glossary_id) as connection:
            if name is not None:
                connection.execute("UPDATE glossaries SET name = ? WHERE id = ?", (name, glossary_id))
            for new in dictionaries:
                lines = _lines(connection, glossary_id, new.source, new.target)
                old = () if lines is None else stored_tsv(lines)
                terms = merge_glossaries([new.terms, old])
                self._put(connection, glossary_id, Dictionary(new.source, new.target, terms))
            return _info(connection, glossary_id)

    def replace(self, glossary_id: str, dictionary: Dictionary) -> None:
        """Replace the terms of one language pair, or add the pair.

        Raises:
            GlossaryNotFound: There is none with this id.
            GlossaryStoreFull: No more terms can be stored.
        """
        with self._of(glossary_id) as connection:
            self._put(connection, glossary_id, dictionary)

    def delete(self, glossary_id: str) -> None:
        """Delete a glossary.

        Raises:
            GlossaryNotFound: There is none with this id.
        """
        with self._of(glossary_id) as connection:
            connection.execute("DELETE FROM glossaries WHERE id = ?", (glossary_id,))

    def delete_dictionary(self, glossary_id: str, source: str, target: str) -> None:
        """Delete the terms of one language pair.

        Args:
            glossary_id: The id of the glossary.
            source: The source language.
            target: The target language.

        Raises:
            GlossaryNotFound: There is none with this id.
            GlossaryPairMissing: It has no terms for this pair.
        """
        with self._of(glossary_id) as connection:
            info = _only(_info(connection, glossary_id), source, target)
            connection.execute(
                "DELETE FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?",
                (glossary_id, info.source, info.target),
            )

    def dictionary(self, glossary_id: str, source: str | None, target: str | None) -> Dictionary:
        """The terms of one language pair.

        Args:
            glossary_id: The id of the glossary.
            source: The source language, with or without a region; None for any.
            target: The target language, likewise.

        Raises:
            GlossaryNotFound: There is none with this id.
            GlossaryPairMissing: It has no terms for these languages, or those of several pairs.
        """
        with self._of(glossary_id) as connection:
            info = _only(_info(connection, glossary_id), source, target)
            lines = _lines(connection, glossary_id, info.source, info.target)
        # Outside the transaction: 100,000 terms take a fifth of a second.
        return Dictionary(info.source, info.target, () if lines is None else stored_tsv(lines))

    def _with_owner(self, of_all: int, of_owner: int) -> list[tuple[int, str | None]]:
        """The limits that apply, each with its owner, or None for that of all owners together."""
        return [(of_all, None), *([] if self._owner is None else [(of_owner, self._owner)])]

    def _put(self, connection: sqlite3.Connection, glossary_id: str, dictionary: Dictionary) -> None:
        """Store the terms of a language pair within the limits.

        Raises:
            GlossaryStoreFull: There would be too many characters.
        """
        terms = to_tsv(dictionary.terms)
        connection.execute(
            "INSERT INTO dictionaries (glossary, source, target, num_terms, num_characters, terms) "
            "VALUES (?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET num_terms = excluded.num_terms, num_characters = excluded.num_characters, "
            "terms = excluded.terms",
            (glossary_id, dictionary.source, dictionary.target, len(dictionary.terms), len(terms), terms),
        )
        for bound, owner in self._with_owner(MAX_CHARACTERS, self._bounds.characters):
            (num_characters,) = connection.execute(
                "SELECT sum(num_characters) FROM dictionaries JOIN glossaries ON glossary = id "
                "WHERE owner = coalesce(?, owner)",
                (owner,),
            ).fetchone()
            if num_characters > bound:
                raise GlossaryStoreFull(f"the terms of {_subject(owner)} may have {bound} characters")

    @contextlib.contextmanager
    def _of(self, glossary_id: str) -> Iterator[sqlite3.Connection]:
        """A transaction on a glossary that exists."""
        if not self._connection.may_have_glossaries():
            raise GlossaryNotFound(glossary_id)
        with self._connection.transaction() as connection:
            row = connection.execute(
                "SELECT 1 FROM glossaries WHERE id = ? AND owner = coalesce(?, owner)", (glossary_id, self._owner)
            )
            if row.fetchone() is None:
                raise GlossaryNotFound(glossary_id)
            yield connection


def _subject(owner: str | None) -> str:
    return "all callers together" if owner is None else "a key"


def _info(connection: sqlite3.Connection, glossary_id: str) -> GlossaryInfo:
    name, created = connection.execute("SELECT name, created FROM glossaries WHERE id = ?", (glossary_id,)).fetchone()
    rows = connection.execute(
        "SELECT source, target, num_terms FROM dictionaries WHERE glossary = ? ORDER BY position", (glossary_id,)
    )
    return GlossaryInfo(glossary_id, name, created, tuple(DictionaryInfo(*row) for row in rows))


def _lines(connection: sqlite3.Connection, glossary_id: str, source: str, target: str) -> str | None:
    row: tuple[str] | None = connection.execute(
        "SELECT terms FROM dictionaries WHERE glossary = ? AND source = ? AND target = ?", (glossary_id, source, target)
    ).fetchone()
    return None if row is None else row[0]


def _only(glossary: GlossaryInfo, source: str | None, target: str | None) -> DictionaryInfo:
    """The dictionary of a glossary that matches languages.

    Raises:
        GlossaryPairMissing: None matches, or several do.
    """
    matches = [
        dictionary
        for dictionary in glossary.dictionaries
        if source in (None, dictionary.source) or plain_code(source or "") == dictionary.source
        if target in (None, dictionary.target) or plain_code(target or "") == dictionary.target
    ]
    if len(matches) != 1:
        pairs = [(dictionary.source, dictionary.target) for dictionary in glossary.dictionaries]
        raise GlossaryPairMissing(source, target, pairs)
    return matches[0]
