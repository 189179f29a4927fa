"""Waiting for a condition, a gate for another thread, and a clock that tests move."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0

Result = TypeVar("Result")


class Clock:
    """A clock that only tests move.

    Args:
        now: Its time, in seconds; tests change it.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Gate:
    """A point that another thread reaches, and passes once the gate is open."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.open.wait(PATIENCE_S)


def until(read: Callable[[], Result | None], missing: Callable[[], str] = lambda: "what was expected") -> Result:
    """Wait until a function returns a true value, and return that value.

    Args:
        read: The function.
        missing: Describes what is missing, for the message of the error.
    """
    end = time.monotonic() + PATIENCE_S
    while not (result := read()):
        assert time.monotonic() < end, f"waited {PATIENCE_S:.0f} s for {missing()}"
        time.sleep(0.005)
    return result


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition is true, while the event loop runs."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)
