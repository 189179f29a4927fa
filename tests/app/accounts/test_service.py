"""The accounts of one process: clocks, commits, and what happens when the disk is slow or full."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from app.accounts.database import READ_BUSY_S
from app.accounts.keys import Key
from app.accounts.service import Accounts
from app.accounts.usage import Charge, UsageStore
from app.errors import AccountsUnavailable, InvalidIdempotencyKey, InvalidKey, QuotaExceeded
from tests.app.accounts.keyed import NOW, make_key, used
from tests.waiting import Clock

pytestmark = pytest.mark.anyio

MONTH_S = 31 * 86_400.0


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def accounts(path: Path, clock: Clock) -> Iterator[Accounts]:
    with contextlib.closing(Accounts(path, clock=clock, steady_clock=clock)) as accounts:
        yield accounts


def key_of(accounts: Accounts, token: str) -> Key:
    key = accounts.identify(token)
    assert key is not None
    return key


async def send(accounts: Accounts, key: Key, characters: int, id: str | None = None) -> None:
    async with accounts.charge(key, id, b"f") as charge:
        await charge.reserve(characters)


async def test_a_key_expires_while_the_process_runs(accounts: Accounts, path: Path, clock: Clock) -> None:
    token = make_key(path, expires_at=NOW + 10)
    assert key_of(accounts, token).id == token.split("_")[1]
    clock.now += 10
    with pytest.raises(InvalidKey, match="expired"):
        accounts.identify(token)


@pytest.mark.parametrize("repeated", [b"f", b"something else"])
async def test_a_request_keeps_its_reservation_when_another_one_with_its_id_fails(
    accounts: Accounts, path: Path, repeated: bytes
) -> None:
    key = key_of(accounts, make_key(path, characters_per_month=10))
    async with accounts.charge(key, "1", b"f") as charge:
        await charge.reserve(10)
        with contextlib.suppress(InvalidIdempotencyKey, TimeoutError):
            async with accounts.charge(key, "1", repeated) as other:
                await other.reserve(10)
                raise TimeoutError
        with pytest.raises(QuotaExceeded):
            await send(accounts, key, 1)
    assert used(path) == (10, 1)


async def test_characters_that_are_reserved_twice_are_given_back(accounts: Accounts, path: Path) -> None:
    key = key_of(accounts, make_key(path, characters_per_month=10))
    with contextlib.suppress(TimeoutError):
        async with accounts.charge(key, "1", b"f") as charge:
            await charge.reserve(10)
            await charge.reserve(10)
            raise TimeoutError
    await send(accounts, key, 10)
    assert used(path) == (10, 1)


async def test_a_request_counts_for_the_month_in_which_it_began(accounts: Accounts, path: Path, clock: Clock) -> None:
    key = key_of(accounts, make_key(path, characters_per_month=10))
    began = (await accounts.usage_of(key)).month
    async with accounts.charge(key, None, b"") as charge:
        await charge.reserve(10)
        clock.now += MONTH_S
    assert (await accounts.usage_of(key)).characters == 0
    with contextlib.closing(UsageStore(path)) as store:
        assert store.of(key.id, began).characters == 10


async def test_an_hour_that_is_set_back_neither_loses_nor_doubles_anything(
    accounts: Accounts, path: Path, clock: Clock
) -> None:
    key = key_of(accounts, make_key(path, characters_per_month=100, requests_per_minute=1))
    await send(accounts, key, 10, "1")
    clock.now -= 3_600
    await send(accounts, key, 10, "1")
    await send(accounts, key, 10, "2")
    assert used(path) == (20, 2)


async def test_requests_that_are_answered_while_the_disk_is_slow_share_a_commit(
    accounts: Accounts, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(accounts, make_key(path))
    began, gate, sizes = threading.Event(), threading.Event(), []
    settle_all = UsageStore.settle_all

    def slow(store: UsageStore, answered: Sequence[tuple[Charge, int]], now: float) -> None:
        sizes.append(len(answered))
        began.set()
        assert gate.wait(30)
        settle_all(store, answered, now)

    monkeypatch.setattr(UsageStore, "settle_all", slow)
    first = asyncio.create_task(send(accounts, key, 1))
    await asyncio.to_thread(began.wait, 30)
    others = [asyncio.create_task(send(accounts, key, 1)) for _ in range(20)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(task.done() for task in (first, *others))  # no answer before its commit
    others[0].cancel()  # a client leaves when its request is being counted: its answer was ready
    gate.set()
    await asyncio.gather(first, *others, return_exceptions=True)
    assert sizes == [1, 20]
    assert used(path) == (21, 21)


async def test_all_requests_of_a_commit_that_fails_are_refused_and_later_ones_are_not(
    accounts: Accounts, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(accounts, make_key(path))

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(UsageStore, "settle_all", full)
        errors = await asyncio.gather(*(send(accounts, key, 1) for _ in range(5)), return_exceptions=True)
    assert [type(error) for error in errors] == [AccountsUnavailable] * 5
    assert used(path) == (0, 0)
    await send(accounts, key, 1)
    assert used(path) == (1, 1)


async def test_a_commit_fails_after_everyone_who_waited_for_it_has_left(
    accounts: Accounts, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = key_of(accounts, make_key(path))
    began, gate = threading.Event(), threading.Event()
    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))

    def full(*_: object) -> None:
        began.set()
        assert gate.wait(30)
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(UsageStore, "settle_all", full)
        sending = asyncio.create_task(send(accounts, key, 1))
        await asyncio.to_thread(began.wait, 30)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        gate.set()
        with pytest.raises(AccountsUnavailable):
            await send(accounts, key, 1)  # the next commit, after the one that nobody waits for
    gc.collect()  # an exception that nobody has taken is reported when its task is deleted
    assert reported == []


async def test_the_event_loop_does_not_wait_for_other_processes(accounts: Accounts, path: Path) -> None:
    keys = accounts._keys  # what is read on the loop; readers are kept waiting only by rare events, so a write is tried
    assert keys is not None
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            keys.revoke("none", NOW)
    assert keys._connection.execute("PRAGMA busy_timeout").fetchone()[0] == READ_BUSY_S * 1000


async def test_another_process_that_writes_is_waited_for(accounts: Accounts, path: Path) -> None:
    token = make_key(path, characters_per_month=100)
    key = key_of(accounts, token)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        sending = asyncio.create_task(send(accounts, key, 1))
        await asyncio.sleep(0.05)
        assert not sending.done()
        assert key_of(accounts, token) == key  # reading does not wait
        other.execute("COMMIT")
    await sending
    assert used(path) == (1, 1)
