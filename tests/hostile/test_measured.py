"""The measurement itself: it sees what grows too fast, and all the memory that a call takes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile.measured import check_growth, cost_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")

BLOCK_BYTES = 100_000  # below those for which malloc asks the system for memory of their own


def blocks(number: int) -> list[bytes]:
    return [b"a" * BLOCK_BYTES for _ in range(number)]


def spend(number: int) -> Callable[[], str]:
    def run() -> str:
        for _ in range(number):
            pass
        return ""

    return run


def take(num_bytes: int) -> Callable[[], str]:
    return lambda: (b"a" * num_bytes)[:1].decode()


def test_memory_that_was_free_before_a_call_counts_for_it() -> None:
    last = blocks(400)[-1]  # what is before it is free and stays with the process
    cost = cost_of(lambda: str(len(blocks(200))))
    assert last and 0.9 * 200 * BLOCK_BYTES < cost.memory_bytes < 1.2 * 200 * BLOCK_BYTES


def test_memory_that_grows_with_the_square_of_the_size_is_seen() -> None:
    with pytest.raises(AssertionError, match="size 8000 costs"):
        check_growth(lambda size: take(size * size), 2_000, longest=2_000, enough_s=0.0)
    check_growth(lambda size: take(1_000 * size), 2_000, longest=2_000, enough_s=0.0)


@pytest.mark.hostile
def test_time_that_grows_with_the_square_of_the_size_is_seen() -> None:
    with pytest.raises(AssertionError, match="costs"):
        check_growth(lambda size: spend(size * size), 500, longest=2_000, enough_s=0.03)
    check_growth(lambda size: spend(1_000 * size), 500, longest=20_000, enough_s=0.03)
