"""Estimates of when a request will be finished: from the queue, its measured throughput, and what is coming in.

Clock times are passed in. All averages are weighted exponentially, so that they follow changes.
"""

from __future__ import annotations

import math
from typing import Any

from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE, FairQueue

PACE_S = 10.0
"""Time constant of the measured throughput, in seconds."""

DEMAND_S = 10.0
"""Time constant of the measured demand, in seconds."""

EVIDENCE_S = 1.0
"""Seconds that must have been measured before there is a throughput."""

STALE_S = 60.0
"""Seconds after which a measured throughput is forgotten. A wrong one, of a machine that was suspended for example,
would otherwise refuse the very requests that could correct it."""

_STEADY_SHARE = 0.85
"""Share of the throughput from which on demand says nothing about how much is left: it would be divided by zero."""


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
        if now - self._last > PACE_S:
            self._is_saturated = False  # the process was stopped, or a step hung: not what the model can do
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

    def is_stale(self, now: float) -> bool:
        """Whether the throughput was measured too long ago.

        Args:
            now: Clock time.
        """
        return now - self._last > STALE_S

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


class Estimator:
    """Estimates when requests will be finished.

    Args:
        queue: The queue.

    Attributes:
        pace: The throughput; to be told what joins and what is decoded.
        demand: The work submitted; to be told what comes.
    """

    def __init__(self, queue: FairQueue[Any]) -> None:
        self._queue = queue
        self.pace = Pace()
        self.demand = Demand()

    def estimate_s(
        self, now: float, caller: Caller, position: float, cost: float, longest_target: int, enough_s: float
    ) -> float | None:
        """Estimated seconds until a request that comes now is finished; None if the throughput is not known.

        It is the work done before its last sentence begins, divided by the throughput, plus the time this sentence
        decodes. Before it begin the sentences of its caller that are ahead of it, and those of other callers. While
        these wait they get as much done as this caller, and no more than what waits and what they submit meanwhile.

        Args:
            now: Clock time.
            caller: Its caller.
            position: The position of its last sentence.
            cost: The cost of its sentences.
            longest_target: Estimated number of tokens of its longest translation.
            enough_s: Up to this, an upper bound is returned if that is quicker.
        """
        rate = self.pace.rate
        if rate is None or self.pace.is_stale(now):
            return None
        own = cost
        own_queue = self._queue.queue_of(caller)
        if own_queue is not None:
            own += own_queue.cost * self._queue.num_ahead(caller, position) / len(own_queue.entries)
        decode_s = self.pace.token_s * longest_target
        by_turns = self._work_by_turns(caller, own)
        if self._queue and by_turns / rate + decode_s <= enough_s:
            return by_turns / rate + decode_s  # the time to compute the other depends on the number of callers
        by_demand = self._work_by_demand(now, caller, own, rate)
        if self._queue:
            return min(by_turns, by_demand) / rate + decode_s
        # It is not known how many rows are free: as if half of them were.
        return max(decode_s, (by_demand if math.isfinite(by_demand) else by_turns) / rate + decode_s / 2)

    def _work_by_turns(self, caller: Caller, own: float) -> float:
        """Work until ``own`` of it is done, if as many callers wait all the time as do now."""
        is_new = self._queue.queue_of(caller) is None
        if caller.priority is Priority.BULK:
            num_callers = float(len(self._queue.callers(Priority.BULK)) + is_new)
            return own * num_callers * (1.0 + 1.0 / BULK_SHARE)
        bulk = own * BULK_SHARE if self._queue.callers(Priority.BULK) else 0.0
        num_callers = max(self.pace.num_callers, len(self._queue.callers(Priority.INTERACTIVE)))
        return own * (num_callers + is_new) + bulk

    def _work_by_demand(self, now: float, caller: Caller, own: float, rate: float) -> float:
        """Work until ``own`` of it is done, if other callers submit as much as they did recently."""
        work, demand = own, 0.0
        for priority in Priority:
            if priority > caller.priority:
                break
            costs = [queue.cost for queue in self._queue.callers(priority) if queue.caller != caller]
            work += sum(costs) if priority < caller.priority else sum(min(cost, own) for cost in costs)
            demand += self.demand.of_others(now, caller, priority)
        return work / (1.0 - demand / rate) if demand < _STEADY_SHARE * rate else math.inf
