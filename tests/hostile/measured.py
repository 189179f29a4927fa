"""Processor time and memory that a call costs, measured in a process of its own, and how they grow with its input."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import resource
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

PATIENCE_S = 120
ATTEMPTS = 6
SMALL_BYTES = 100

GROWTH = 2.6**2
"""How many times as much four times the size may cost. Linear time costs 4 times as much, quadratic time 16 times."""

NOISE_S = 0.03
NOISE_BYTES = 16 * 2**20
"""Differences in cost that say nothing: of the clock, and of memory that was free before.

A process that has run many tests has megabytes of free blocks between used ones. The first that a call takes are not
counted, so that what grows with the size seems to begin late and then to grow too fast.
"""


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

    def is_bounded_by(self, quarter: Cost) -> bool:
        """Whether it is not too much for four times the size.

        Args:
            quarter: The cost of a quarter of the size.
        """
        return (
            self.processor_s <= GROWTH * quarter.processor_s + NOISE_S
            and self.memory_bytes <= GROWTH * quarter.memory_bytes + NOISE_BYTES
        )

    def least(self, other: Cost) -> Cost:
        """The lesser of two costs of one call.

        Args:
            other: What it has cost another time.
        """
        return Cost(min(self.processor_s, other.processor_s), min(self.memory_bytes, other.memory_bytes), self.outcome)


def cost_of(run: Callable[[], str], warm_up: Callable[[], object] = lambda: None) -> Cost:
    """The cost of a call, in a fork of this process that ends afterwards.

    Args:
        run: The call; it returns a short text.
        warm_up: A small call of the same kind, which is not measured: it loads the code into the fork's memory.

    Raises:
        AssertionError: The process has ended without a result.
    """
    _trim()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            os.write(writing, pickle.dumps(_measured(run, warm_up)))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, f"the process has ended, after {PATIENCE_S} s at most"
    return Cost(*pickle.loads(answer))


def check_growth(make: Callable[[int], Callable[[], str]], size: int, longest: int, enough_s: float) -> None:
    """Check that the cost of a call grows as its input does, from a size to four times as much.

    The size is raised until the call takes a time that can be compared. Before it fails, both sizes are measured five
    more times, and the least that each has cost is compared: others use the machine.

    Args:
        make: Makes the call for a size.
        size: The first size.
        longest: A size that is large enough, however little it costs.
        enough_s: Seconds of processor time to compare.

    Raises:
        AssertionError: It grew too much.
    """
    warm_up = make(SMALL_BYTES)
    smaller = cost_of(make(size), warm_up)
    while size < longest and smaller.processor_s < enough_s:
        size *= 8 if 8 * size <= longest and smaller.processor_s < enough_s / 10 else 2
        smaller = cost_of(make(size), warm_up)
    larger = cost_of(make(4 * size), warm_up)
    for attempt in range(ATTEMPTS):
        if attempt:
            smaller = smaller.least(cost_of(make(size), warm_up))
            larger = larger.least(cost_of(make(4 * size), warm_up))
        if larger.is_bounded_by(smaller):
            return
    raise AssertionError(f"size {size} costs {smaller}, size {4 * size} costs {larger}")


def _measured(run: Callable[[], str], warm_up: Callable[[], object]) -> tuple[float, int, str]:
    gc.disable()  # as in the process that reads documents
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(PATIENCE_S)
    warm_up()
    before = _resident_bytes()
    began = time.process_time()
    outcome = run()
    duration_s = time.process_time() - began
    return duration_s, max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before), outcome


def _trim() -> None:
    """Return free memory to the system: a call would use what its input was made in, which is not charged to it."""
    with contextlib.suppress(AttributeError):  # only glibc has the function, and keeps much
        ctypes.CDLL(None).malloc_trim(0)


def _resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
