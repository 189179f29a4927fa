"""Function calls on the engine's thread, between two steps: attention, alignment, measuring capacity."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from app.errors import InferenceFailed
from model.errors import ModelError
from model.process.gpus import is_lost

logger = logging.getLogger("app.engine")

MAX_CALLS = 256
"""Number of waiting calls from which on those that may be refused are."""

_T = TypeVar("_T")


class DeviceLost(BaseException):
    """A GPU has failed for good: this process cannot run its models. No ``Exception``: only the engine catches it."""


def raise_if_lost(error: Exception) -> None:
    """Look at an error of a model before it is handled as one.

    Raises:
        DeviceLost: A GPU has failed for good.
    """
    if is_lost(error):
        raise DeviceLost from error


@dataclass(eq=False)
class Call:
    """A function call to be made on the engine's thread.

    Args:
        key: Unique in the engine.
        perform: Makes the call; returns a function that delivers its result.
        fail: Delivers an error instead.
    """

    key: int
    perform: Callable[[], Callable[[], None]]
    fail: Callable[[Exception], None]

    @classmethod
    def of(cls, key: int, run: Callable[[], _T], deliver: Callable[[_T | Exception], None]) -> Call:
        """A call of ``run``, whose result, or error as shown to clients, is passed to ``deliver``."""

        def perform() -> Callable[[], None]:
            outcome = _outcome_of(run)
            return lambda: deliver(outcome)

        return cls(key, perform, deliver)


def _outcome_of(run: Callable[[], _T]) -> _T | Exception:
    try:
        return run()
    except ModelError as error:
        return error
    except Exception as error:
        raise_if_lost(error)
        logger.exception("a call failed")
        return InferenceFailed()


class CallQueue:
    """The waiting calls and the current call. Not thread-safe: the engine holds its lock."""

    def __init__(self) -> None:
        """Empty."""
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None  # None again when its caller has withdrawn it

    def __len__(self) -> int:
        """Number of waiting calls."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no caller waits for a call."""
        return not self._waiting and self._running is None

    @property
    def is_full(self) -> bool:
        """Whether no further call is accepted, of those that may be refused."""
        return len(self._waiting) >= MAX_CALLS

    def add(self, call: Call) -> None:
        """Append a call."""
        self._waiting.append(call)

    def begin(self) -> Call | None:
        """Remove and return the next call, which becomes the current call; None if no call waits."""
        self._running = self._waiting.popleft() if self._waiting else None
        return self._running

    def end(self, call: Call) -> bool:
        """Mark a call as made.

        Returns:
            Whether its caller still waits for it.
        """
        is_awaited, self._running = self._running is call, None
        return is_awaited

    def withdraw(self, keys: Collection[int]) -> None:
        """Drop the calls with these keys; the result of the current call is not delivered if it is among them."""
        self._waiting = deque(call for call in self._waiting if call.key not in keys)
        if self._running is not None and self._running.key in keys:
            self._running = None

    def interrupt(self) -> list[Call]:
        """Drop the current call, which does not end; returns it if its caller still waits."""
        calls = [] if self._running is None else [self._running]
        self._running = None
        return calls

    def clear(self) -> list[Call]:
        """Drop all calls; returns those whose callers still wait."""
        calls = [*self.interrupt(), *self._waiting]
        self._waiting = deque()
        return calls
