"""Usage: each request counted once, whatever happens between reservation and answer."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.accounts.usage import REMEMBERED_S, Charge, Usage, UsageStore, month_of, seconds_to_next_month
from app.errors import InvalidIdempotencyKey, QuotaExceeded

NOW = 1_800_000_000.0
MONTH = month_of(NOW)
LEASE_S = 90.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.sqlite"


OpenUsage = Callable[[Path], UsageStore]


@pytest.fixture
def open_usage() -> Iterator[OpenUsage]:
    """Opens stores, and closes them after the test."""
    with contextlib.ExitStack() as stack:
        yield lambda path: stack.enter_context(contextlib.closing(UsageStore(path)))


@pytest.fixture
def store(open_usage: OpenUsage, path: Path) -> UsageStore:
    return open_usage(path)


def charge(id: str = "a", *, repeatable: bool = False, fingerprint: bytes = b"", month: str = MONTH) -> Charge:
    return Charge("key", id, fingerprint, month, repeatable)


def reserve(store: UsageStore, item: Charge, characters: int = 10, quota: int | None = None, now: float = NOW) -> None:
    store.reserve(item, characters, quota, now, LEASE_S)


def used(store: UsageStore, month: str = MONTH) -> tuple[int, int]:
    usage = store.of("key", month)
    return usage.characters, usage.requests


def test_a_reservation_counts_nothing_until_it_is_settled(store: UsageStore) -> None:
    reserve(store, charge())
    assert used(store) == (0, 0)
    store.settle(charge(), 7, NOW)
    assert used(store) == (7, 1)
    assert store.all() == [Usage("key", MONTH, 7, 1)]
    assert store.all("2000-01") == []


def test_a_released_reservation_counts_nothing(store: UsageStore) -> None:
    reserve(store, charge(), 10, quota=10)
    store.release(charge())
    assert used(store) == (0, 0)
    reserve(store, charge("b"), 10, quota=10)


def test_a_request_that_needed_no_reservation_is_counted(store: UsageStore) -> None:
    store.settle(charge(), 5, NOW)
    assert used(store) == (5, 1)


def test_running_requests_count_towards_the_quota(store: UsageStore) -> None:
    reserve(store, charge("a"), 60, quota=100)
    with pytest.raises(QuotaExceeded) as refused:
        reserve(store, charge("b"), 41, quota=100)
    assert refused.value.retry_after_s == seconds_to_next_month(NOW)
    reserve(store, charge("c"), 40, quota=100)
    store.settle(charge("a"), 60, NOW)
    with pytest.raises(QuotaExceeded):
        reserve(store, charge("d"), 1, quota=100)
    store.settle(charge("c"), 30, NOW)  # less was answered
    reserve(store, charge("e"), 10, quota=100)


def test_quotas_begin_anew_with_the_month(store: UsageStore) -> None:
    store.settle(charge(), 100, NOW)
    later = NOW + seconds_to_next_month(NOW)
    assert month_of(later - 1) == MONTH and month_of(later) == "2027-02"
    reserve(store, charge("b", month=month_of(later)), 100, quota=100, now=later)


def test_a_repetition_in_the_next_month_is_within_its_quota(store: UsageStore) -> None:
    """The first attempt was killed, so its reservation is still there when the month ends."""
    next_month = month_of(NOW + 40 * 86_400)
    reserve(store, charge(repeatable=True), 60, quota=100)
    store.settle(charge("b", month=next_month), 60, NOW)
    with pytest.raises(QuotaExceeded):
        reserve(store, charge(repeatable=True, month=next_month), 60, quota=100)
    reserve(store, charge(repeatable=True, month=next_month), 60, quota=120)
    with pytest.raises(QuotaExceeded):  # its reservation is in this month now
        reserve(store, charge("c", month=next_month), 1, quota=120)
    store.settle(charge(repeatable=True, month=next_month), 60, NOW)
    assert used(store) == (0, 0) and used(store, next_month) == (120, 2)


def test_the_months_of_a_year_follow_one_another() -> None:
    now, months = 1_767_225_600.0, []  # 2026-01-01
    for _ in range(13):
        months.append(month_of(now))
        now += seconds_to_next_month(now)
    assert months == [f"2026-{month:02}" for month in range(1, 13)] + ["2027-01"]


def test_a_repeated_request_is_counted_once(store: UsageStore) -> None:
    again = charge("client 1", repeatable=True, fingerprint=b"f")
    for _ in range(3):
        reserve(store, again, 10, quota=10)
        store.settle(again, 10, NOW)
    assert used(store) == (10, 1)


def test_a_request_and_its_repetition_at_the_same_time_are_counted_once(store: UsageStore) -> None:
    again = charge("client 1", repeatable=True, fingerprint=b"f")
    reserve(store, again, 10, quota=10)
    reserve(store, again, 10, quota=10)
    store.settle(again, 10, NOW)
    store.release(again)  # the client of one of them has left
    store.settle(again, 10, NOW)
    assert used(store) == (10, 1)


def test_a_repetition_is_counted_if_the_first_request_was_not_answered(store: UsageStore) -> None:
    again = charge("client 1", repeatable=True, fingerprint=b"f")
    reserve(store, again)
    reserve(store, again)
    store.release(again)
    store.settle(again, 10, NOW)
    assert used(store) == (10, 1)


def test_another_request_may_not_have_the_id_of_one_that_was_counted(store: UsageStore) -> None:
    store.settle(charge("client 1", repeatable=True, fingerprint=b"f"), 10, NOW)
    with pytest.raises(InvalidIdempotencyKey):
        reserve(store, charge("client 1", repeatable=True, fingerprint=b"g"))
    reserve(store, Charge("another key", "client 1", b"g", MONTH, True))


def test_ids_are_forgotten_after_a_day(store: UsageStore) -> None:
    again = charge("client 1", repeatable=True, fingerprint=b"f")
    store.settle(again, 10, NOW)
    for now, requests in ((NOW + REMEMBERED_S - 1, 1), (NOW + REMEMBERED_S, 2)):
        reserve(store, again, now=now)
        store.settle(again, 10, now)
        assert used(store)[1] == requests


def test_a_reservation_of_a_process_that_was_killed_lapses(open_usage: OpenUsage, path: Path) -> None:
    reserve(open_usage(path), charge("a"), 100, quota=100)
    restarted = open_usage(path)
    with pytest.raises(QuotaExceeded):
        reserve(restarted, charge("b"), 1, quota=100, now=NOW + LEASE_S - 1)
    reserve(restarted, charge("b"), 100, quota=100, now=NOW + LEASE_S)
    assert used(restarted) == (0, 0)


def test_a_request_that_outlives_its_reservation_is_counted_once(store: UsageStore) -> None:
    reserve(store, charge("a"), 100, quota=100)
    reserve(store, charge("b"), 100, quota=100, now=NOW + LEASE_S)
    store.settle(charge("a"), 100, NOW + LEASE_S)
    assert used(store) == (100, 1)


def test_counting_waits_for_the_disk_and_reserving_does_not(store: UsageStore) -> None:
    modes: list[str] = []
    store._connection.set_trace_callback(lambda text: modes.append(text) if "synchronous" in text else None)
    reserve(store, charge())
    store.settle(charge(), 10, NOW)
    assert modes == ["PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"]


def test_a_power_failure_that_tears_the_log_leaves_whole_requests(
    open_usage: OpenUsage, path: Path, tmp_path: Path
) -> None:
    store = open_usage(path)
    for number in range(12):
        again = charge(f"client {number}", repeatable=True, fingerprint=b"f")
        reserve(store, again, 10, quota=1_000)
        store.settle(again, 10, NOW)
    file, log = path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()
    results = []
    for cut in [*range(0, len(log), 1_500), len(log)]:
        after = tmp_path / str(cut) / path.name
        after.parent.mkdir()
        after.write_bytes(file)
        after.with_name(f"{path.name}-wal").write_bytes(log[:cut])
        torn = open_usage(after)
        characters, requests = used(torn)
        (remembered,) = torn._connection.execute("SELECT count(*) FROM charges WHERE settled").fetchone()
        assert (characters, remembered) == (10 * requests, requests)
        results.append(requests)
    assert results == sorted(results) and results[0] == 0 and results[-1] == 12 and len(set(results)) > 6


_WORKER = """
import sys
from pathlib import Path
from app.accounts.usage import Charge, UsageStore
path, name, count, quota = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
store = UsageStore(Path(path))
print("open", flush=True)
sys.stdin.readline()
for number in range(count):
    charge = Charge("key", f"client {name} {number}", b"f", "2027-01", True)
    store.reserve(charge, 10, quota, 1_800_000_000.0, 90.0)
    store.settle(charge, 10, 1_800_000_000.0)
    print(number, flush=True)
"""


def worker(path: Path, name: str, count: int, quota: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _WORKER, str(path), name, str(count), str(quota)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    return process


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.readline() == "open\n"
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.thorough
def test_two_processes_count_into_one_file(open_usage: OpenUsage, path: Path) -> None:
    workers = [worker(path, name, 50, 1_000_000) for name in "ab"]  # both make the file at the same time
    for process in workers:
        begin(process)
    for process in workers:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    assert used(open_usage(path)) == (1_000, 100)


@pytest.mark.thorough
def test_two_processes_share_a_quota(open_usage: OpenUsage, path: Path) -> None:
    workers = [worker(path, name, 50, 305) for name in "ab"]
    for process in workers:
        begin(process)
    errors = [process.communicate(timeout=120)[1] for process in workers]
    assert all("QuotaExceeded" in error for error in errors)
    assert used(open_usage(path)) == (300, 30)


@pytest.mark.thorough
@pytest.mark.parametrize("answers", [0, 1, 7])
def test_nothing_is_lost_or_doubled_when_a_process_is_killed(open_usage: OpenUsage, path: Path, answers: int) -> None:
    process = worker(path, "a", 100_000, 1_000_000_000)
    begin(process)
    assert process.stdout is not None
    for _ in range(answers):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    # communicate() would not return lines that readline() has buffered.
    answered = answers + process.stdout.read().count("\n")
    process.communicate(timeout=60)

    store = open_usage(path)
    # At most one request was counted and not answered: the one between its commit and its answer.
    assert used(store)[1] in (answered, answered + 1)
    # The client repeats the unanswered requests and continues; each is counted once.
    for number in range(answered + 5):
        again = Charge("key", f"client a {number}", b"f", MONTH, True)
        reserve(store, again, 10, 1_000_000_000)
        store.settle(again, 10, NOW)
    assert used(store) == (10 * (answered + 5), answered + 5)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "release", "killed"]),
        st.integers(0, 3),  # which request
        st.integers(0, 2 * int(LEASE_S)),  # seconds that pass before
    ),
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(steps=_STEPS)
def test_in_any_order_of_events_each_request_counts_at_most_once_and_never_beyond_the_quota(
    steps: list[tuple[str, int, int]],
) -> None:
    quota, now, settled = 25, NOW, set()
    reserved: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        store = UsageStore(Path(folder) / "keys.sqlite")
        for event, number, passed_s in steps:
            now += passed_s
            reserved = {item: end for item, end in reserved.items() if end > now}
            item = charge(f"client {number}", repeatable=True, fingerprint=b"f")
            if event == "killed":
                store.close()
                store = UsageStore(Path(folder) / "keys.sqlite")
            elif event == "release":
                store.release(item)
                reserved.pop(number, None)
            elif event == "settle" and number in reserved:  # a request is answered only after its reservation
                store.settle(item, 10, now)
                settled.add(number)
                del reserved[number]
            elif event == "reserve":
                fits = 10 * len(settled | set(reserved) | {number}) <= quota
                try:
                    reserve(store, item, 10, quota, now)
                except QuotaExceeded:
                    assert not fits
                else:
                    assert fits or number in settled | set(reserved)
                    reserved.setdefault(number, now + LEASE_S)
            assert used(store) == (10 * len(settled), len(settled))
        assert used(store)[0] <= quota
        store.close()
