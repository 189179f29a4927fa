"""Processor time and memory that a file costs, measured in a process of its own."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

PATIENCE_S = 60


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
    cost: Cost = Cost(*pickle.loads(answer))
    return cost


def _measured(run: Callable[[], str]) -> tuple[float, int, str]:
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
