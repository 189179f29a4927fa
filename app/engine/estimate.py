"""Estimates of when a request will be finished: the work that is done before its end, divided by the throughput.

Clock times are passed in. All averages are weighted exponentially, so that they follow changes.
"""

from __future__ import annotations

import math
from typing import Any

from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE, FairQueue

PACE_S = 10.0
"""Time constant of the measured throughput, in seconds."""

EVIDENCE_S = 1.0
"""Seconds that must have been measured before there is a throughput."""

STALE_S = 60.0
"""Seconds after which a measured throughput is forgotten. A wrong one, of a machine that was suspended for example,
would otherwise refuse the very requests that could correct it."""


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
        self._num_callers = 0
        self._mean_callers = 0.0
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
        self._mean_callers, self._num_callers = self.num_callers(now), num_callers
        passed_s = max(0.0, now - self._last)
        if passed_s > PACE_S:
            self._is_saturated = False  # the process was stopped: not what the model can do
        if self._is_saturated:
            decay = math.exp(-passed_s / PACE_S)
            self._seconds = decay * self._seconds + passed_s
            self._cost = decay * self._cost + cost
        self._last, self._is_saturated = now, num_waiting > 0

    def emptied(self) -> None:
        """The queue was emptied otherwise."""
        self._is_saturated = False
        self._num_callers = 0

    def decoded(self, num_tokens: int, decode_s: float) -> None:
        """A sentence was decoded.

        Args:
            num_tokens: Estimated number of target tokens.
            decode_s: Seconds from joining to its end.
        """
        self._decode_s = 0.99 * self._decode_s + decode_s
        self._decode_tokens = 0.99 * self._decode_tokens + num_tokens

    def rate(self, now: float) -> float | None:
        """Cost processed per second; None if it is unknown, or was measured too long ago.

        Args:
            now: Clock time.
        """
        if now - self._last > STALE_S:
            return None
        return self._cost / self._seconds if self._seconds >= EVIDENCE_S and self._cost else None

    def num_callers(self, now: float) -> float:
        """Mean number of interactive callers that wait.

        Args:
            now: Clock time.
        """
        decay = math.exp(-max(0.0, now - self._last) / PACE_S)
        return decay * self._mean_callers + (1.0 - decay) * self._num_callers

    @property
    def token_s(self) -> float:
        """Seconds for each target token of a sentence that decodes."""
        return self._decode_s / self._decode_tokens if self._decode_tokens else 0.0


def work_before_end(queue: FairQueue[Any], caller: Caller, cost: float, position: float, mean_callers: float) -> float:
    """Work that is done before the last sentence of a request begins, in the unit of costs.

    That is the request, the sentences of its caller that are ahead of it, and the turns of the other callers. Each of
    these gets as much work done as this caller, but not more than it has queued. Callers that leave are replaced by new
    ones, so the turns are at least those of the mean number of waiting callers.

    Args:
        queue: The queue, without the request.
        caller: The caller of the request.
        cost: The cost of its sentences.
        position: The position of its last sentence in its caller's queue.
        mean_callers: Mean number of interactive callers that wait.
    """
    mine = queue.queue_of(caller)
    own = cost if mine is None else cost + mine.cost * queue.num_ahead(caller, position) / len(mine.entries)
    work = own + sum(min(own, other.cost) for other in queue.callers(caller.priority) if other is not mine)
    if caller.priority is Priority.BULK:
        interactive = sum(other.cost for other in queue.callers(Priority.INTERACTIVE))
        return work + min(interactive, work / BULK_SHARE)
    bulk = min(own * BULK_SHARE, sum(other.cost for other in queue.callers(Priority.BULK)))
    return max(work, own * (mean_callers + (mine is None))) + bulk
