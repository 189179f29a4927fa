"""Waiting until something holds, and a clock that stands still."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 120.0

Found = TypeVar("Found")


class Clock:
    """A clock that stands still unless it is moved.

    Args:
        now: What it shows, in seconds; to be changed by tests.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def until(found: Callable[[], Found | None], missing: Callable[[], str] = lambda: "what was expected") -> Found:
    """Wait until a function returns a true value; returns that value.

    Args:
        found: The function.
        missing: Says what did not come, for the message of the error.
    """
    end = time.monotonic() + PATIENCE_S
    while not (result := found()):
        assert time.monotonic() < end, f"waited {PATIENCE_S:.0f} s for {missing()}"
        time.sleep(0.005)
    return result


async def eventually(condition: Callable[[], object]) -> None:
    """Wait until a condition holds, while the event loop runs."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)
