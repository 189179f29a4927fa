"""The sentences of documents that are edited, and the edits: two tables beside those of the documents.

The sentences of a document are stored when they are first requested; they are never changed. An edit is a row of its
own, committed before its request is answered.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.documents.stored_sentence import SentenceChange, StoredSentence

SENTENCES_SCHEMA = """
CREATE TABLE IF NOT EXISTS sentences (
    document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE, number INTEGER NOT NULL, unit INTEGER NOT NULL,
    position INTEGER NOT NULL, source TEXT NOT NULL, translation TEXT NOT NULL, markers TEXT NOT NULL,
    PRIMARY KEY (document, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS edits (
    document TEXT NOT NULL REFERENCES documents (id) ON DELETE CASCADE, number INTEGER NOT NULL, text TEXT,
    is_confirmed INTEGER NOT NULL, PRIMARY KEY (document, number)
) WITHOUT ROWID;
"""
EDITING_COLUMNS = {
    "keeps_translations": "INTEGER NOT NULL DEFAULT 0",  # earlier releases deleted those of a document that is done
    "num_listed": "INTEGER",  # its sentences, once all are stored
    "num_edited": "INTEGER NOT NULL DEFAULT 0",
    "num_confirmed": "INTEGER NOT NULL DEFAULT 0",
    "num_changes": "INTEGER NOT NULL DEFAULT 0",
    "num_written": "INTEGER NOT NULL DEFAULT 0",  # the changes that its file has
}
"""Columns of the documents."""

_SELECT = (
    "SELECT sentences.*, edits.text, coalesce(edits.is_confirmed, 0) AS is_confirmed "
    "FROM sentences LEFT JOIN edits USING (document, number)"
)


@dataclass(frozen=True)
class Editing:
    """How far a document has been edited.

    Args:
        keeps_translations: Whether its translations are stored, so that it can be edited.
        num_listed: The number of its sentences; None until they are stored.
        num_edited: The number of sentences with another translation than the machine's.
        num_confirmed: The number of confirmed sentences.
        num_changes: How often it was changed.
        num_written: The number of changes that its file has.
    """

    keeps_translations: bool
    num_listed: int | None
    num_edited: int
    num_confirmed: int
    num_changes: int
    num_written: int


class SentenceStore:
    """Sentences and edits in the database of the documents.

    Args:
        database: The database.
    """

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def editing(self, id: str) -> Editing | None:
        """How far a document has been edited; None if there is no such document."""
        columns = ", ".join(EDITING_COLUMNS)
        row = self._database.execute(f"SELECT {columns} FROM documents WHERE id = ?", (id,)).fetchone()
        return None if row is None else Editing(bool(row[0]), *row[1:])

    def positions(self, id: str) -> dict[int, bytes]:
        """The positions of sentences in the translations of a document, by unit; units of one sentence are left out."""
        query = "SELECT unit, positions FROM translations WHERE document = ? AND length(positions)"
        return {row["unit"]: row["positions"] for row in self._database.execute(query, (id,))}

    def add(self, id: str, first: int, rows: Iterable[tuple[int, int, str, str, Mapping[int, str]]]) -> bool:
        """Store some sentences of a document.

        Args:
            id: The document.
            first: The number of the first one.
            rows: For each its unit, its index in the unit, the sentence, its translation and its markers.

        Returns:
            Whether there still is such a document.
        """
        if self.editing(id) is None:
            return False
        with self._database:
            self._database.executemany(
                "INSERT OR REPLACE INTO sentences VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    (id, number, unit, position, source, translation, json.dumps(markers) if markers else "")
                    for number, (unit, position, source, translation, markers) in enumerate(rows, start=first)
                ),
            )
        return True

    def complete(self, id: str, num_listed: int) -> None:
        """Note that all sentences of a document are stored."""
        with self._database:
            self._database.execute("UPDATE documents SET num_listed = ? WHERE id = ?", (num_listed, id))

    def page(self, id: str, after: int, limit: int, *, only_unconfirmed: bool = False) -> Sequence[StoredSentence]:
        """Sentences of a document, in order.

        Args:
            id: The document.
            after: The number of the sentence before them; -1 for the first ones.
            limit: At most so many.
            only_unconfirmed: Whether to leave out confirmed ones.
        """
        condition = "AND coalesce(is_confirmed, 0) = 0" if only_unconfirmed else ""
        query = f"{_SELECT} WHERE document = ? AND number > ? {condition} ORDER BY number LIMIT ?"
        return list(map(_sentence, self._database.execute(query, (id, after, limit))))

    def sentences(self, id: str, numbers: Sequence[int]) -> dict[int, StoredSentence]:
        """Sentences of a document by their numbers; unknown ones are missing.

        Args:
            id: The document.
            numbers: The numbers.
        """
        query = f"{_SELECT} WHERE document = ? AND number = ?"
        rows = (self._database.execute(query, (id, number)).fetchone() for number in numbers)
        return {row["number"]: _sentence(row) for row in rows if row is not None}

    def change(self, id: str, changes: Sequence[SentenceChange], expires_at: float) -> None:
        """Change sentences of a document.

        Args:
            id: The document.
            changes: The changes, at most one of each sentence; those of unknown sentences are left out.
            expires_at: When the document is deleted now.
        """
        sentences = self.sentences(id, [change.number for change in changes])
        num_edited = num_confirmed = 0
        with self._database:
            for change in changes:
                sentence = sentences.get(change.number)
                if sentence is None:
                    continue
                edit, is_confirmed = change.applied(sentence)
                num_edited += (edit is not None) - (sentence.edit is not None)
                num_confirmed += is_confirmed - sentence.is_confirmed
                self._put(id, change.number, edit, is_confirmed)
            self._database.execute(
                "UPDATE documents SET num_edited = num_edited + ?, num_confirmed = num_confirmed + ?, "
                "num_changes = num_changes + 1, expires_at = max(expires_at, ?) WHERE id = ?",
                (num_edited, num_confirmed, expires_at, id),
            )

    def _put(self, id: str, number: int, edit: str | None, is_confirmed: bool) -> None:
        if edit is None and not is_confirmed:
            self._database.execute("DELETE FROM edits WHERE document = ? AND number = ?", (id, number))
            return
        self._database.execute(
            "INSERT OR REPLACE INTO edits (document, number, text, is_confirmed) VALUES (?, ?, ?, ?)",
            (id, number, edit, is_confirmed),
        )

    def edits(self, id: str) -> dict[int, dict[int, str | None]]:
        """The edits of a document by unit and by index in it; None for a sentence that is confirmed as it is."""
        rows = self._database.execute(
            "SELECT unit, position, text FROM edits JOIN sentences USING (document, number) WHERE document = ?", (id,)
        )
        edits: dict[int, dict[int, str | None]] = {}
        for row in rows:
            edits.setdefault(row["unit"], {})[row["position"]] = row["text"]
        return edits

    def note_written(self, id: str, num_changes: int) -> None:
        """Note how many changes the file of a document has."""
        with self._database:
            self._database.execute("UPDATE documents SET num_written = ? WHERE id = ?", (num_changes, id))


def _sentence(row: sqlite3.Row) -> StoredSentence:
    markers = json.loads(row["markers"]) if row["markers"] else {}
    return StoredSentence(
        row["number"],
        row["unit"],
        row["source"],
        row["translation"],
        row["text"],
        bool(row["is_confirmed"]),
        {int(number): shown for number, shown in markers.items()},
    )
