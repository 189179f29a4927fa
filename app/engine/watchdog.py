"""Detects that a piece of work of the engine's thread hangs."""

from __future__ import annotations

from collections.abc import Callable

LONGEST_LOOK_S = 5.0
"""Maximum of the seconds that count between two looks. If more have passed, the whole process was stopped: the machine
was suspended or busy."""


class Watchdog:
    """Measures how long the same piece of work is being done, by looking about once a second.

    Args:
        limit_s: Seconds after which it hangs.
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._looked_at = clock()
        self._number: int | None = None
        self._age_s = 0.0

    def hangs(self, number: int | None) -> bool:
        """Whether a piece of work has been seen for too long.

        Args:
            number: The number of the piece that is being done; None for nothing.
        """
        now = self._clock()
        passed_s = min(LONGEST_LOOK_S, now - self._looked_at)
        self._looked_at = now
        if number is None or number != self._number:
            self._number, self._age_s = number, 0.0
        else:
            self._age_s += passed_s
        return self._age_s > self._limit_s
