"""Calls to be made on the engine's thread, between two steps: attention, alignments, probing."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from app.errors import InferenceFailed
from model.errors import ModelError

logger = logging.getLogger("app.engine")

MAX_CALLS = 256
"""Calls that may wait for the thread."""

_T = TypeVar("_T")


@dataclass(eq=False)
class Call:
    """Something to be done on the engine's thread.

    Args:
        key: Unique in the engine.
        perform: Does it, and returns what hands over the result.
        fail: Hands over an error instead.
    """

    key: int
    perform: Callable[[], Callable[[], None]]
    fail: Callable[[Exception], None]

    @classmethod
    def of(cls, key: int, run: Callable[[], _T], deliver: Callable[[_T | Exception], None]) -> Call:
        """A call whose result, or error as clients may see it, is handed to ``deliver``."""

        def perform() -> Callable[[], None]:
            outcome = _outcome_of(run)
            return lambda: deliver(outcome)

        return cls(key, perform, deliver)


def _outcome_of(run: Callable[[], _T]) -> _T | Exception:
    try:
        return run()
    except ModelError as error:
        return error
    except Exception:
        logger.exception("a call failed")
        return InferenceFailed()


class CallQueue:
    """Calls that wait, and the one that is being made. Not thread-safe: the engine holds its lock."""

    def __init__(self) -> None:
        """Empty."""
        self._waiting: deque[Call] = deque()
        self._running: Call | None = None  # only while its caller waits for it

    def __len__(self) -> int:
        """Calls that wait."""
        return len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether no caller waits for anything."""
        return not self._waiting and self._running is None

    @property
    def is_full(self) -> bool:
        """Whether no further call may wait."""
        return len(self._waiting) >= MAX_CALLS

    def add(self, call: Call) -> None:
        """Append a call."""
        self._waiting.append(call)

    def begin(self) -> Call | None:
        """Take the next call out, to be made now; None if none waits."""
        self._running = self._waiting.popleft() if self._waiting else None
        return self._running

    def end(self, call: Call) -> bool:
        """Note that a call was made.

        Returns:
            Whether its caller still waits for it.
        """
        wanted, self._running = self._running is call, None
        return wanted

    def withdraw(self, keys: Collection[int]) -> None:
        """Drop the calls with these keys; the result of the one that is being made is not delivered."""
        self._waiting = deque(call for call in self._waiting if call.key not in keys)
        if self._running is not None and self._running.key in keys:
            self._running = None

    def clear(self) -> list[Call]:
        """Drop all calls; returns those whose callers wait."""
        calls = [*self._waiting] if self._running is None else [self._running, *self._waiting]
        self._waiting, self._running = deque(), None
        return calls
