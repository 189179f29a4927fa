"""The store of translation memories. Nothing here is asynchronous: the service calls it on its threads."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.errors import MemoryNotFound, MemoryStoreFull, MemoryUnitNotFound
from app.memories.database import connect, token_of
from app.memories.unit import StoredUnit, Unit, digest_of, normalised, words_of
from app.storage import owned_by

CORRECTIONS = "corrections"
"""The purpose of the memory that an owner's corrected sentences of a language go to, and its name in requests."""

PURGED_AT_ONCE = 1_000
"""Units of erased memories that are deleted in one transaction, so that other changes do not wait for long."""

_MEMORY = "number, id, name, source, purpose, created, updated"
_UNIT = "units.id, source, units.target, pairs.target, created, updated, used"


@dataclass(frozen=True)
class MemoryBounds:
    """The limits of one owner.

    Args:
        memories: Most memories.
        units: Most units in all of them.
        num_bytes: Most bytes of their texts in UTF-8.
    """

    memories: int
    units: int
    num_bytes: int


@dataclass(frozen=True)
class MemoryInfo:
    """A memory without its units.

    Args:
        id: Its id.
        name: Its name.
        source: The language of its source texts.
        purpose: :data:`CORRECTIONS`, or empty.
        targets: The languages of its translations, with their numbers of units.
        created: When it was created, in seconds since 1970.
        updated: When units were last added or deleted.
    """

    id: str
    name: str
    source: str
    purpose: str
    targets: dict[str, int]
    created: float
    updated: float

    @property
    def num_units(self) -> int:
        """Number of its units."""
        return sum(self.targets.values())


@dataclass(frozen=True)
class Added:
    """What was added to a memory.

    Args:
        new: Units that were added.
        replaced: Units whose translation was changed.
        unchanged: Units that it had already.
    """

    new: int = 0
    replaced: int = 0
    unchanged: int = 0

    def __add__(self, other: Added) -> Added:
        """The sum of both."""
        return Added(self.new + other.new, self.replaced + other.replaced, self.unchanged + other.unchanged)


class MemoryStore:
    """Memories in a file. Each change is one transaction; one thread at a time may use a store.

    Of a memory's units with the same source and language there is only the one that was added last. An owner is the id
    of a key, empty for memories without an owner, or None for those of all owners.

    Args:
        folder: The folder of the file.
        bounds: The limits of one owner.

    Raises:
        OSError: The folder cannot be written.
        sqlite3.Error: The file cannot be read or written.
    """

    def __init__(self, folder: Path, bounds: MemoryBounds) -> None:
        self.connection = connect(folder)
        self._bounds = bounds

    def close(self) -> None:
        """Close the file."""
        self.connection.close()

    def create(self, owner: str | None, name: str, source: str, now: float, purpose: str = "") -> MemoryInfo:
        """Store a new, empty memory.

        Args:
            owner: Its owner.
            name: Its name.
            source: The language of its source texts.
            now: Seconds since 1970.
            purpose: :data:`CORRECTIONS`, or empty.

        Raises:
            MemoryStoreFull: The owner has too many.
        """
        id = str(uuid.uuid4())
        with self.connection:
            condition, values = owned_by(owner)
            (count,) = self.connection.execute(f"SELECT count(*) FROM memories WHERE {condition}", values).fetchone()
            if count >= self._bounds.memories:
                raise MemoryStoreFull(f"the limit of {self._bounds.memories} memories is reached")
            self.connection.execute(
                "INSERT INTO memories (id, owner, name, source, purpose, created, updated) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (id, owner or "", name, source, purpose, now, now),
            )
        return self.get(owner, id)

    def all(self, owner: str | None) -> list[MemoryInfo]:
        """The memories of an owner, the oldest first."""
        condition, values = owned_by(owner)
        rows = self.connection.execute(
            f"SELECT {_MEMORY} FROM memories WHERE {condition} ORDER BY number", values
        ).fetchall()
        return [self._info(*row) for row in rows]

    def owners(self) -> list[str]:
        """All owners of memories."""
        rows = self.connection.execute("SELECT DISTINCT owner FROM memories ORDER BY owner")
        return [owner for (owner,) in rows]

    def get(self, owner: str | None, id: str) -> MemoryInfo:
        """A memory.

        Raises:
            MemoryNotFound: The owner has none with this id.
        """
        row = self.connection.execute(
            f"SELECT {_MEMORY} FROM memories WHERE id = ? AND owner = coalesce(?, owner)", (id, owner)
        ).fetchone()
        if row is None:
            raise MemoryNotFound(id)
        return self._info(*row)

    def corrections(self, owner: str | None, source: str, now: float) -> MemoryInfo:
        """The memory of an owner's corrected sentences of a language; it is created if needed."""
        for memory in self.all(owner):
            if memory.purpose == CORRECTIONS and memory.source == source:
                return memory
        return self.create(owner, "Corrections", source, now, CORRECTIONS)

    def delete(self, owner: str | None, id: str) -> MemoryInfo:
        """Delete a memory. Its units can no longer be found; :meth:`purge` deletes them.

        Raises:
            MemoryNotFound: The owner has none with this id.
        """
        memory = self.get(owner, id)
        with self.connection:
            number = self._number(owner, id)
            self.connection.execute("INSERT INTO erased_pairs SELECT number FROM pairs WHERE memory = ?", (number,))
            self.connection.execute("DELETE FROM pairs WHERE memory = ?", (number,))
            self.connection.execute("DELETE FROM memories WHERE number = ?", (number,))
        return memory

    def purge(self) -> bool:
        """Delete some units of deleted memories; returns whether there may be more."""
        row = self.connection.execute("SELECT number FROM erased_pairs LIMIT 1").fetchone()
        if row is None:
            return False
        (pair,) = row
        with self.connection:
            rows = self.connection.execute(
                "SELECT id, source FROM units WHERE pair = ? LIMIT ?", (pair, PURGED_AT_ONCE)
            ).fetchall()
            self._remove_words(pair, rows)
            self.connection.executemany("DELETE FROM units WHERE id = ?", [(id,) for id, _ in rows])
            if len(rows) < PURGED_AT_ONCE:
                self.connection.execute("DELETE FROM frequencies WHERE pair = ?", (pair,))
                self.connection.execute("DELETE FROM erased_pairs WHERE number = ?", (pair,))
        return True

    def add(self, owner: str | None, id: str, units: Iterable[Unit], now: float) -> Added:
        """Add units to a memory; those with the same source and language are replaced.

        Args:
            owner: The owner of the memory.
            id: The memory.
            units: The units, without flaws.
            now: Seconds since 1970.

        Raises:
            MemoryNotFound: The owner has no such memory.
            MemoryStoreFull: There would be too many units or bytes; none is added.
        """
        by_language: dict[str, dict[bytes, tuple[str, Unit]]] = {}
        for unit in units:
            text = normalised(unit.source)
            by_language.setdefault(unit.language, {})[digest_of(text)] = text, unit
        added = Added()
        with self.connection:
            number = self._number(owner, id)
            for language, by_digest in by_language.items():
                added += self._add_to_pair(self._pair(number, language), by_digest, now)
            self.connection.execute("UPDATE memories SET updated = ? WHERE number = ?", (now, number))
            self._check_bounds(owner)
        return added

    def units(
        self, owner: str | None, id: str, after: int = 0, limit: int = 50, language: str | None = None
    ) -> list[StoredUnit]:
        """Units of a memory, the oldest first.

        Args:
            owner: The owner of the memory.
            id: The memory.
            after: Only those with a higher id.
            limit: At most so many.
            language: Only translations in this language, or None.

        Raises:
            MemoryNotFound: The owner has no such memory.
        """
        number = self._number(owner, id)
        pairs = self.connection.execute(
            "SELECT number FROM pairs WHERE memory = ? AND target = coalesce(?, target)", (number, language)
        ).fetchall()
        rows: list[tuple[int, str, str, str, float, float, float | None]] = []
        for (pair,) in pairs:
            rows += self.connection.execute(
                f"SELECT {_UNIT} FROM units JOIN pairs ON pairs.number = pair WHERE pair = ? AND units.id > ? "
                "ORDER BY units.id LIMIT ?",
                (pair, after, limit),
            ).fetchall()
        return [StoredUnit(*row) for row in sorted(rows)[:limit]]

    def delete_unit(self, owner: str | None, id: str, unit: int, now: float) -> StoredUnit:
        """Delete a unit of a memory.

        Raises:
            MemoryNotFound: The owner has no such memory.
            MemoryUnitNotFound: The memory has no such unit.
        """
        with self.connection:
            number = self._number(owner, id)
            row = self.connection.execute(
                f"SELECT pairs.number, {_UNIT} FROM units JOIN pairs ON pairs.number = pair "
                "WHERE units.id = ? AND memory = ?",
                (unit, number),
            ).fetchone()
            if row is None:
                raise MemoryUnitNotFound(unit)
            pair, *values = row
            stored = StoredUnit(*values)
            self._remove_words(pair, [(stored.id, stored.source)])
            self.connection.execute("DELETE FROM units WHERE id = ?", (unit,))
            num_bytes = Unit(stored.source, stored.target, stored.language).num_bytes
            self._count(pair, -1, -num_bytes)
            self.connection.execute("DELETE FROM pairs WHERE number = ? AND num_units = 0", (pair,))
            self.connection.execute("UPDATE memories SET updated = ? WHERE number = ?", (now, number))
        return stored

    def note_used(self, units: Sequence[int], now: float) -> None:
        """Note that units have answered a request."""
        with self.connection:
            self.connection.executemany("UPDATE units SET used = ? WHERE id = ?", [(now, unit) for unit in units])

    def _info(
        self, number: int, id: str, name: str, source: str, purpose: str, created: float, updated: float
    ) -> MemoryInfo:
        targets = self.connection.execute(
            "SELECT target, num_units FROM pairs WHERE memory = ? ORDER BY number", (number,)
        )
        return MemoryInfo(id, name, source, purpose, dict(targets.fetchall()), created, updated)

    def _number(self, owner: str | None, id: str) -> int:
        row: tuple[int] | None = self.connection.execute(
            "SELECT number FROM memories WHERE id = ? AND owner = coalesce(?, owner)", (id, owner)
        ).fetchone()
        if row is None:
            raise MemoryNotFound(id)
        return row[0]

    def _pair(self, memory: int, language: str) -> int:
        self.connection.execute(
            "INSERT OR IGNORE INTO pairs (memory, target, num_units, num_bytes) VALUES (?, ?, 0, 0)", (memory, language)
        )
        (number,) = self.connection.execute(
            "SELECT number FROM pairs WHERE memory = ? AND target = ?", (memory, language)
        ).fetchone()
        return int(number)

    def _add_to_pair(self, pair: int, by_digest: dict[bytes, tuple[str, Unit]], now: float) -> Added:
        """Add units of one language, by the digest of their normalised source."""
        execute = self.connection.execute
        new: list[tuple[int, set[int]]] = []
        num_replaced = num_unchanged = num_bytes = 0
        for digest, (text, unit) in by_digest.items():
            row = execute(
                "SELECT id, source, target FROM units WHERE pair = ? AND digest = ?", (pair, digest)
            ).fetchone()
            if row is None:
                cursor = execute(
                    "INSERT INTO units (pair, digest, source, target, length, created, updated) "
                    "VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (pair, digest, unit.source, unit.target, len(text), now, now),
                )
                new.append((cursor.lastrowid or 0, words_of(text)))
                num_bytes += unit.num_bytes
            elif row[2] == unit.target:
                num_unchanged += 1
            else:
                values = (unit.source, unit.target, now, row[0])
                execute("UPDATE units SET source = ?, target = ?, updated = ? WHERE id = ?", values)
                num_replaced += 1
                num_bytes += unit.num_bytes - Unit(row[1], row[2], unit.language).num_bytes
        self._add_words(pair, new)
        self._count(pair, len(new), num_bytes)
        return Added(len(new), num_replaced, num_unchanged)

    def _add_words(self, pair: int, rows: Sequence[tuple[int, set[int]]]) -> None:
        """Index units by their words."""
        self.connection.executemany(
            "INSERT INTO words (rowid, text) VALUES (?, ?)",
            [(id, " ".join(token_of(pair, word) for word in words)) for id, words in rows],
        )
        self._count_words(pair, Counter(word for _, words in rows for word in words))

    def _remove_words(self, pair: int, rows: Sequence[tuple[int, str]]) -> None:
        """Remove units from the index; their words follow from their sources."""
        words = [(id, words_of(normalised(source))) for id, source in rows]
        self.connection.executemany(
            "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
            [(id, " ".join(token_of(pair, word) for word in own)) for id, own in words],
        )
        counts = Counter(word for _, own in words for word in own)
        self._count_words(pair, Counter({word: -count for word, count in counts.items()}))

    def _count_words(self, pair: int, counts: Counter[int]) -> None:
        self.connection.executemany(
            "INSERT INTO frequencies VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
            [(pair, word, count) for word, count in sorted(counts.items())],
        )

    def _count(self, pair: int, num_units: int, num_bytes: int) -> None:
        self.connection.execute(
            "UPDATE pairs SET num_units = num_units + ?, num_bytes = num_bytes + ? WHERE number = ?",
            (num_units, num_bytes, pair),
        )

    def _check_bounds(self, owner: str | None) -> None:
        """Raise an error, which undoes the transaction, if an owner has too much.

        Raises:
            MemoryStoreFull: It has.
        """
        condition, values = owned_by(owner)
        num_units, num_bytes = self.connection.execute(
            "SELECT coalesce(sum(num_units), 0), coalesce(sum(num_bytes), 0) FROM memories "
            f"JOIN pairs ON memory = memories.number WHERE {condition}",
            values,
        ).fetchone()
        for value, bound, what in (
            (num_units, self._bounds.units, "units"),
            (num_bytes, self._bounds.num_bytes, "bytes of texts"),
        ):
            if value > bound:
                raise MemoryStoreFull(f"there would be {value} {what}, and the limit is {bound}")
