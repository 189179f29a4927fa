"""How fast the queue is worked off, and how much work is coming in: what estimates are made of.

The clock's times are passed in. All averages are weighted exponentially, so that they follow changes.
"""

from __future__ import annotations

import math

from app.engine.caller import Caller, Priority

PACE_S = 10.0
"""Time constant of the measured throughput, in seconds."""

DEMAND_S = 10.0
"""Time constant of the measured demand, in seconds."""

EVIDENCE_S = 1.0
"""Seconds that must have been measured before there is a throughput."""


class Pace:
    """The throughput while the queue is never empty.

    With fewer sentences than rows, the model does less than it could. Such times say nothing about how long a queue
    takes, and are left out.
    """

    def __init__(self) -> None:
        """Nothing is measured."""
        self._is_saturated = False
        self._last = 0.0
        self._seconds = 0.0
        self._cost = 0.0
        self._caller_s = 0.0
        self._num_callers = 0
        self._decode_s = 0.0
        self._decode_tokens = 0.0

    def joined(self, now: float, cost: float, num_waiting: int, num_callers: int) -> None:
        """Sentences joined a cohort.

        Args:
            now: Clock time.
            cost: Their cost.
            num_waiting: Sentences that still wait.
            num_callers: Interactive callers that still wait.
        """
        if self._is_saturated and now > self._last:
            passed_s = now - self._last
            kept = math.exp(-passed_s / PACE_S)
            self._seconds = kept * self._seconds + passed_s
            self._caller_s = kept * self._caller_s + passed_s * self._num_callers
            self._cost *= kept
        if self._is_saturated:
            self._cost += cost
        self._last, self._is_saturated, self._num_callers = now, num_waiting > 0, num_callers

    def emptied(self) -> None:
        """The queue was emptied otherwise."""
        self._is_saturated = False

    def decoded(self, num_tokens: int, decode_s: float) -> None:
        """A sentence was decoded.

        Args:
            num_tokens: Estimated number of target tokens.
            decode_s: Seconds from joining to its end.
        """
        self._decode_s = 0.99 * self._decode_s + decode_s
        self._decode_tokens = 0.99 * self._decode_tokens + num_tokens

    @property
    def rate(self) -> float | None:
        """Cost worked off per second; None if that is not known."""
        return self._cost / self._seconds if self._seconds >= EVIDENCE_S and self._cost else None

    @property
    def num_callers(self) -> float:
        """Mean number of interactive callers that wait, while any does."""
        return self._caller_s / self._seconds if self._seconds else 0.0

    @property
    def token_s(self) -> float:
        """Seconds for each target token of a sentence that decodes."""
        return self._decode_s / self._decode_tokens if self._decode_tokens else 0.0


class Demand:
    """Work that callers submit again and again, in total and by caller.

    The first request of a caller within ``DEMAND_S`` is not counted: it may be the only one.
    """

    def __init__(self) -> None:
        """No work."""
        self._began: float | None = None
        self._tidied = 0.0
        self._of_caller: dict[Caller, tuple[float, float]] = {}  # work, decayed until the time beside it
        self._of_priority: dict[Priority, tuple[float, float]] = {}

    def came(self, now: float, caller: Caller, cost: float) -> None:
        """A caller submitted sentences.

        Args:
            now: Clock time.
            caller: The caller.
            cost: Their cost.
        """
        if self._began is None:
            self._began = self._tidied = now
        known = self._of_caller.get(caller)
        if known is None or now - known[1] > DEMAND_S:
            self._of_caller[caller] = (0.0, now)
            return
        self._of_caller[caller] = (_decayed(known, now) + cost, now)
        total = _decayed(self._of_priority.get(caller.priority), now) + cost
        self._of_priority[caller.priority] = (total, now)
        if now - self._tidied > DEMAND_S:
            self._tidied = now
            self._of_caller = {one: entry for one, entry in self._of_caller.items() if now - entry[1] < 4 * DEMAND_S}

    def of_others(self, now: float, caller: Caller, priority: Priority) -> float:
        """Cost per second that other callers of a priority submit.

        Args:
            now: Clock time.
            caller: The caller who asks.
            priority: The priority of the others.
        """
        if self._began is None:
            return 0.0
        total = _decayed(self._of_priority.get(priority), now)
        own = _decayed(self._of_caller.get(caller), now) if caller.priority is priority else 0.0
        # The sum of a constant demand of 1 since the beginning; at least a second, as one request is no rate.
        window_s = DEMAND_S * -math.expm1(-max(1.0, now - self._began) / DEMAND_S)
        return max(0.0, total - own) / window_s


def _decayed(entry: tuple[float, float] | None, now: float) -> float:
    return 0.0 if entry is None else entry[0] * math.exp((entry[1] - now) / DEMAND_S)
