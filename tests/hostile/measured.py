"""Processor time and memory that a call costs, measured in a process of its own, and how they grow with its input."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

PATIENCE_S = 120

GROWTH = 2.6
"""How many times as much twice the size may cost."""

NOISE_S = 0.03
NOISE_BYTES = 16 * 2**20
"""Differences in cost that say nothing: of the clock, and of the memory that Python takes at once."""


class Cost(NamedTuple):
    """What a call costs.

    Args:
        processor_s: Seconds of processor time.
        memory_bytes: Memory at its peak, above that at its beginning.
        outcome: What it returned: a short text.
    """

    processor_s: float
    memory_bytes: int
    outcome: str

    def is_bounded_by(self, half: Cost) -> bool:
        """Whether it is not too much for twice the size.

        Args:
            half: The cost of half the size.
        """
        return (
            self.processor_s <= GROWTH * half.processor_s + NOISE_S
            and self.memory_bytes <= GROWTH * half.memory_bytes + NOISE_BYTES
        )


def cost_of(run: Callable[[], str]) -> Cost:
    """The cost of a call, in a fork of this process that ends afterwards.

    Args:
        run: The call; it returns a short text.

    Raises:
        AssertionError: The process has ended without a result.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            os.write(writing, pickle.dumps(_measured(run)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, f"the process has ended, after {PATIENCE_S} s at most"
    return Cost(*pickle.loads(answer))


def check_growth(make: Callable[[int], Callable[[], str]], size: int, longest: int, enough_s: float) -> None:
    """Check that the cost of a call grows as its input does, from a size to twice and four times as much.

    The size is doubled until the call takes a time that can be compared. A failure is measured again, twice.

    Args:
        make: Makes the call for a size.
        size: The first size.
        longest: A size that is large enough, however little it costs.
        enough_s: Seconds of processor time to compare.

    Raises:
        AssertionError: Three times it grew too much.
    """
    while size < longest and cost_of(make(size)).processor_s < enough_s:
        size *= 2
    for _ in range(3):
        costs = [cost_of(make(size * factor)) for factor in (1, 2, 4)]
        if all(larger.is_bounded_by(smaller) for smaller, larger in pairwise(costs)):
            return
    raise AssertionError(f"sizes {size}, {2 * size}, {4 * size} cost {costs}")


def _measured(run: Callable[[], str]) -> tuple[float, int, str]:
    gc.disable()  # as in the process that reads documents
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PATIENCE_S)
    before = _resident_bytes()
    began = time.process_time()
    outcome = run()
    duration_s = time.process_time() - began
    return duration_s, max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before), outcome


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
