"""Items made ahead: unchanged and in order, by a thread or a process, with failures raised where the item is used."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator

import pytest

from model.errors import DataError, WorkersFailed
from model.training.prefetch import prefetch, prefetch_in_process


def count(number: int) -> Generator[int]:
    yield from range(number)


def fail_after_one() -> Generator[int]:
    yield 1
    raise DataError("no second")


def send_own_id_and_signals() -> Generator[int]:
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    yield os.getpid()


def die() -> Generator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)


Start = Callable[..., contextlib.AbstractContextManager[Iterator[int]]]

in_both = pytest.mark.parametrize(
    "start", [lambda make, *args: prefetch(make(*args)), prefetch_in_process], ids=["thread", "process"]
)


@in_both
def test_items_made_ahead_are_unchanged_and_in_order(start: Start) -> None:
    with start(count, 100) as numbers:
        assert list(numbers) == list(range(100))


@in_both
def test_a_failure_ahead_is_raised_when_its_item_is_used(start: Start) -> None:
    with start(fail_after_one) as numbers:
        assert next(numbers) == 1
        with pytest.raises(DataError, match="no second"):
            next(numbers)


@in_both
def test_nothing_is_left_after_the_consumer_stops(
    start: Start,
) -> None:
    before = threading.active_count()
    with contextlib.suppress(KeyError), start(count, 10**9) as numbers:
        assert [next(numbers) for _ in range(10)] == list(range(10))
        raise KeyError
    assert threading.active_count() == before
    assert not multiprocessing.active_children()


def test_a_generator_of_a_thread_is_closed_after_the_consumer_stops() -> None:
    closed = threading.Event()

    def items() -> Generator[int]:
        try:
            while True:
                yield 0
        finally:
            closed.set()

    with prefetch(items()) as numbers:
        next(numbers)
    assert closed.is_set()


def test_a_process_that_makes_items_ignores_the_signals_of_its_group() -> None:
    with prefetch_in_process(send_own_id_and_signals) as ids:
        assert next(ids) != os.getpid()
        with pytest.raises(StopIteration):
            next(ids)


def test_the_death_of_a_process_that_makes_items_is_an_error() -> None:
    with prefetch_in_process(die) as numbers, pytest.raises(WorkersFailed, match="ended with code -9"):
        list(numbers)
