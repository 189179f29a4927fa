"""Stores with much history: an operation takes as many steps of SQLite as in a store with little of it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.accounts.database import connect
from app.accounts.keys import Token
from app.accounts.store import KeyStore
from app.accounts.usage import MAX_REMOVED, REMEMBERED_S, Charge, UsageStore
from app.documents.document import KEPT_S, Document
from app.documents.store import DocumentStore
from app.memories.lookup import Lookup
from app.memories.store import CORRECTIONS, MemoryBounds, MemoryStore
from app.memories.unit import Unit

NOW = 1_800_000_000.0
MONTH = "2027-01"
FEW, MANY = 10, 1_000

Operation = Callable[[], object]
Operations = dict[str, Operation]


def num_steps(connection: sqlite3.Connection, operation: Operation) -> int:
    """Instructions of SQLite's virtual machine; each row that is read takes several."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection.set_progress_handler(count, 1)
    try:
        operation()
    finally:
        connection.set_progress_handler(None, 1)
    return steps


@contextlib.contextmanager
def usage(folder: Path, number: int) -> Iterator[tuple[sqlite3.Connection, Operations]]:
    """A key with so many remembered requests, among as many keys."""
    with contextlib.closing(UsageStore(folder / "keys.sqlite")) as store:
        charges = [Charge("key", f"client {index}", b"", MONTH, True) for index in range(number)]
        store.settle_all([(charge, 10) for charge in charges], NOW)
        store.settle_all([(Charge(f"key {index}", "a", b"", MONTH, False), 10) for index in range(number)], NOW)
        new = Charge("key", "client new", b"", MONTH, True)
        yield (
            store._connection,
            {
                "reserve": lambda: store.reserve(new, 10, 10**9, NOW, 90.0),
                "settle": lambda: store.settle(new, 10, NOW),
                "of": lambda: store.of("key", MONTH),
            },
        )


@contextlib.contextmanager
def keys(folder: Path, number: int) -> Iterator[tuple[sqlite3.Connection, Operations]]:
    """So many keys."""
    with contextlib.closing(KeyStore(folder / "keys.sqlite")) as store:
        store._connection.execute("PRAGMA synchronous = OFF")
        tokens: list[Token] = [store.create("name", ("translate",), NOW)[1] for _ in range(number)]
        yield store._connection, {"find": lambda: store.find(tokens[number // 2])}


@contextlib.contextmanager
def memories(folder: Path, number: int) -> Iterator[tuple[sqlite3.Connection, Operations]]:
    """A memory of so many units, and memories of as many other owners."""
    with contextlib.closing(MemoryStore(folder, MemoryBounds(10, 10**6, 10**9))) as store:
        store.connection.execute("PRAGMA synchronous = OFF")
        large = store.create("owner", "Sentences", "en", NOW).id
        units = [Unit(f"Sentence {index}.", f"Satz {index}.", "de") for index in range(number)]
        store.add("owner", large, units, NOW)
        for index in range(number):
            store.add(f"owner {index}", store.corrections(f"owner {index}", "en", NOW).id, units[:1], NOW)
        lookup = Lookup(store.connection)
        yield (
            store.connection,
            {
                "all": lambda: store.all("owner"),
                "corrections": lambda: store.corrections("owner 5", "en", NOW),
                "page": lambda: store.units("owner", large, after=number // 2, limit=5),
                "add": lambda: store.add("owner 5", store.corrections("owner 5", "en", NOW).id, units[1:2], NOW),
                "pairs": lambda: lookup.pairs("owner 5", (CORRECTIONS,), "en", "de"),
                "exact": lambda: lookup.exact(lookup.pairs("owner", (), "en", "de"), ["Sentence 5."]),
            },
        )


@contextlib.contextmanager
def documents(folder: Path, number: int) -> Iterator[tuple[sqlite3.Connection, Operations]]:
    """So many finished documents of other owners, and an active one."""

    def document(id: str, owner: str, request: str = "") -> Document:
        return Document(id, "a.txt", "en", "de", "{}", "queued", 10, NOW, NOW + KEPT_S, owner=owner, request=request)

    with contextlib.closing(DocumentStore(folder)) as store:
        store._database.execute("PRAGMA synchronous = OFF")
        for index in range(number):
            store.add(document(f"{index:032x}", f"owner {index}", f"request {index}"), b"a")
            store.end(f"{index:032x}", "done", NOW + KEPT_S)
        active = document("f" * 32, "owner", "request")
        store.add(active, b"a")
        yield (
            store._database,
            {
                "of_request": lambda: store.of_request("request"),
                "newest": lambda: store.newest("owner", NOW, 50),
                "next_active": store.next_active,
                "others_wait": lambda: store.others_wait(active),
                "end_turn": lambda: store.end_turn("owner", NOW),
                "count": lambda: store.count("owner"),
                "first_expiry": lambda: store.first_expiry("owner"),
                "require_space": lambda: store._require_space(1, 1),
                "remove_expired": lambda: store.remove_expired(NOW),
            },
        )


@pytest.mark.parametrize("history", [usage, keys, memories, documents])
def test_no_operation_reads_what_others_have_stored(
    tmp_path: Path,
    history: Callable[[Path, int], contextlib.AbstractContextManager[tuple[sqlite3.Connection, Operations]]],
) -> None:
    steps: dict[int, dict[str, int]] = {}
    for number in (FEW, MANY):
        with history(tmp_path / str(number), number) as (connection, operations):
            steps[number] = {name: num_steps(connection, operation) for name, operation in operations.items()}
    assert steps[MANY] == steps[FEW]
    assert all(steps[FEW].values())


def test_a_request_removes_few_of_many_lapsed_ones(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    quota, later = 20, NOW + REMEMBERED_S + 1.0
    with contextlib.closing(UsageStore(path)) as store:
        charges = [Charge("key", f"client {index:04}", b"", MONTH, True) for index in range(3 * MAX_REMOVED)]
        for charge in charges:
            store.reserve(charge, 10, None, NOW, 90.0)

        def num_rows() -> int:
            (number,) = store._connection.execute("SELECT count(*) FROM charges").fetchone()
            return int(number)

        last = charges[-1]
        assert store.reserve(last, 10, quota, later, 90.0), "its first reservation has lapsed, as all have"
        assert num_rows() == 2 * MAX_REMOVED
        assert not store.reserve(last, 10, quota, later, 90.0), "this one has not"
        for index in range(3):
            store.settle(Charge("key", f"process {index}", b"", MONTH, False), 0, later)
        store.reserve(Charge("key", "client new", b"", MONTH, True), 10, quota, later, 90.0)
        assert num_rows() == 2, "those that have not lapsed"


def test_a_request_may_be_repeated_and_counts_again_once_it_is_forgotten(tmp_path: Path) -> None:
    with contextlib.closing(UsageStore(tmp_path / "keys.sqlite")) as store:
        charge = Charge("key", "client a", b"", MONTH, True)
        store.settle(charge, 10, NOW)
        store.settle(charge, 10, NOW + 1.0)
        assert store.of("key", MONTH).requests == 1
        store.settle(charge, 10, NOW + REMEMBERED_S + 1.0)
        assert store.of("key", MONTH).requests == 2


def test_a_file_of_an_earlier_release_gets_the_index_of_reservations(tmp_path: Path) -> None:
    path = tmp_path / "keys.sqlite"
    with contextlib.closing(connect(path)) as connection:
        connection.execute("DROP INDEX charges_reserved")
    with contextlib.closing(connect(path)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'charges_reserved'").fetchone()
