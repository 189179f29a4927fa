"""Translation memories: units are added, replaced and deleted, and a memory is deleted and erased."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.errors import MemoryNotFound, StorageFull, StorageUnavailable
from app.memories.database import FILE_NAME
from app.memories.lookup import Lookup
from app.memories.store import MemoryBounds, MemoryStore
from app.memories.unit import Unit
from app.storage import storage_errors
from tests.faults.injection.scenario import (
    History,
    Refused,
    Scenario,
    Trial,
    Value,
    check_databases,
    check_names,
    refused_as,
)

NUM_UNITS = 20
BOUNDS = MemoryBounds(memories=10, units=1_000, num_bytes=1_000_000)


def units(word: str) -> list[Unit]:
    """Units whose translations have a word of their own."""
    return [Unit(f"The sentence with number {number}.", f"{word} {number}", "de") for number in range(NUM_UNITS)]


class Memories(Scenario):
    """Two memories: one is deleted and erased, the other one is changed and kept."""

    name = "memories"
    store = "translation memories (SQLite, write-ahead log)"

    def run(self, folder: Path, trial: Trial) -> None:
        """Create, fill, change, delete and erase memories."""

        def attempt(step: str, act: Callable[[], Value]) -> Value | None:
            return trial.attempt(step, lambda: as_documented(act))

        try:
            store = as_documented(lambda: MemoryStore(folder, BOUNDS))
        except Refused:
            trial.heal()
            store = MemoryStore(folder, BOUNDS)
        with closing(store):
            first = attempt("create 1", lambda: store.create("key", "1", "en", 1.0).id)
            second = attempt("create 2", lambda: store.create("key", "2", "en", 1.0).id)
            if first is not None:
                attempt("add 1", lambda: store.add("key", first, units("first"), 2.0).new)
                attempt("delete 1", lambda: store.delete("key", first).id)
                attempt("purge", store.purge)
            if second is not None:
                attempt("add 2", lambda: store.add("key", second, units("old"), 2.0).new)
                attempt("replace 2", lambda: store.add("key", second, units("new"), 3.0).replaced)
            trial.heal()
            third = attempt("create 3", lambda: store.create("key", "3", "en", 4.0).id)
            if third is not None:
                assert attempt("read 3", lambda: store.get("key", third).name) in ("3", None)

    def check(self, folder: Path, history: History) -> None:
        """Every change that was answered is there, whole, and can be looked up."""
        with closing(MemoryStore(folder, BOUNDS)) as store:
            if "create 1" in history.accepted:
                self._check_first(store, history, history.accepted["create 1"])
            if "create 2" in history.accepted:
                self._check_second(store, history, history.accepted["create 2"])
            if "create 3" in history.accepted:
                assert store.get("key", history.accepted["create 3"]).name == "3", "memory 3 is lost"
            while store.purge():
                pass
            later = store.create("key", "later", "en", 5.0)
            assert store.add("key", later.id, units("later"), 5.0).new == NUM_UNITS
            (match,) = found(store, later.id, [units("later")[0].source])
            assert match == "later 0"
            with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
                connection.execute("INSERT INTO words (words) VALUES ('integrity-check')")
        check_databases(folder)
        check_names(folder, {FILE_NAME})

    def _check_first(self, store: MemoryStore, history: History, id: str) -> None:
        try:
            info = store.get("key", id)
        except MemoryNotFound:
            assert "delete 1" in history.tried, "memory 1 is lost"
            return
        assert "delete 1" not in history.accepted, "memory 1 is not deleted"
        assert info.num_units in (0, NUM_UNITS), "half of the units"
        assert info.num_units or "add 1" not in history.accepted, "the units are lost"

    def _check_second(self, store: MemoryStore, history: History, id: str) -> None:
        translations = found(store, id, [unit.source for unit in units("")])
        words = {None if text is None else text.partition(" ")[0] for text in translations}
        assert len(words) == 1, "half of a change"
        (word,) = words
        assert store.get("key", id).num_units == (0 if word is None else NUM_UNITS)
        if "replace 2" in history.accepted:
            assert word == "new", "the replaced translations are lost"
        elif "add 2" in history.accepted:
            assert word == "old" or (word == "new" and "replace 2" in history.tried), "the units are lost"


def as_documented(act: Callable[[], Value]) -> Value:
    """What the store does, with the errors that the service makes of its own."""

    def stored() -> Value:
        with storage_errors():
            return act()

    return refused_as((StorageFull, StorageUnavailable), stored)


def found(store: MemoryStore, id: str, sentences: list[str]) -> list[str | None]:
    """The stored translations of sentences."""
    lookup = Lookup(store.connection)
    pairs = lookup.pairs("key", [id], "en", "de")
    return [None if match is None else match.target for match in lookup.exact(pairs, sentences)]
