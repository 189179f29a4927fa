"""Estimates of when a request will be finished: from the queue, its measured throughput, and what is coming in.

Clock times are passed in. All averages are weighted exponentially, so that they follow changes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE, FairQueue

PACE_S = 10.0
"""Time constant of the measured throughput, in seconds."""

DEMAND_S = 10.0
"""Time constant of the measured demand, in seconds."""

PROMPT_SHARE = 0.1
"""A caller that waited for an answer less than this share of its time since its last request waits for each answer."""

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

    def decoded(self, num_tokens: int, decode_s: float) -> None:
        """A sentence was decoded.

        Args:
            num_tokens: Estimated number of target tokens.
            decode_s: Seconds from joining to its end.
        """
        self._decode_s = 0.99 * self._decode_s + decode_s
        self._decode_tokens = 0.99 * self._decode_tokens + num_tokens

    def rate(self, now: float) -> float | None:
        """Cost worked off per second; None if that is not known, or was measured too long ago.

        Args:
            now: Clock time.
        """
        if now - self._last > STALE_S:
            return None
        return self._cost / self._seconds if self._seconds >= EVIDENCE_S and self._cost else None

    @property
    def num_callers(self) -> float:
        """Mean number of interactive callers that wait, while any does."""
        return self._caller_s / self._seconds if self._seconds else 0.0

    @property
    def token_s(self) -> float:
        """Seconds for each target token of a sentence that decodes."""
        return self._decode_s / self._decode_tokens if self._decode_tokens else 0.0


@dataclass
class _Submitted:
    """What a caller submitted after its first request.

    Args:
        since: Clock time of that first request.
        last: Clock time of the latest one.
        cost: The cost, decayed until then.
        answered: Clock time when a sentence of it was finished last.
        waits: Whether it submitted the latest request as soon as the one before was answered.
    """

    since: float
    last: float
    cost: float = 0.0
    answered: float = math.inf
    waits: bool = False


class Demand:
    """The rate at which each caller submits work.

    The first request of a caller within ``DEMAND_S`` is not counted: it may be the only one.
    """

    def __init__(self) -> None:
        """No work."""
        self._tidied = -math.inf
        self._of_caller: dict[Caller, _Submitted] = {}

    def came(self, now: float, caller: Caller, cost: float) -> None:
        """A caller submitted sentences.

        Args:
            now: Clock time.
            caller: The caller.
            cost: Their cost.
        """
        if now - self._tidied > DEMAND_S:  # also if no caller comes twice
            self._tidied = now
            self._of_caller = {one: found for one, found in self._of_caller.items() if now - found.last < 4 * DEMAND_S}
        known = self._of_caller.get(caller)
        if known is None or now - known.last > DEMAND_S:
            self._of_caller[caller] = _Submitted(now, now)
            return
        known.waits = 0.0 <= now - known.answered < PROMPT_SHARE * (now - known.last)
        known.answered = math.inf
        known.cost = cost + known.cost * math.exp((known.last - now) / DEMAND_S)
        known.last = now

    @property
    def num_callers(self) -> int:
        """Number of callers that submitted something recently."""
        return len(self._of_caller)

    def answered(self, now: float, caller: Caller) -> None:
        """A sentence of a caller was finished.

        Args:
            now: Clock time.
            caller: The caller.
        """
        known = self._of_caller.get(caller)
        if known is not None:
            known.answered = now

    def waits(self, caller: Caller) -> bool:
        """Whether a caller sends a request as soon as the one before is answered: it slows down with the service."""
        known = self._of_caller.get(caller)
        return known is not None and known.waits

    def rates(self, now: float) -> dict[Caller, float]:
        """Cost per second that each caller submits.

        Args:
            now: Clock time.
        """
        # A constant demand of 1 sums up to the time constant; until then to less. One request is no rate: a second.
        return {
            caller: found.cost
            * math.exp((found.last - now) / DEMAND_S)
            / (DEMAND_S * -math.expm1(-max(1.0, now - found.since) / DEMAND_S))
            for caller, found in self._of_caller.items()
        }


@dataclass(frozen=True)
class Request:
    """A request, as far as estimates depend on it.

    Args:
        cost: The cost of its sentences.
        position: The position of its last sentence in its caller's queue.
        longest_target: Estimated number of tokens of its longest translation.
        row_tokens: Estimated number of tokens to decode in all rows together.
        rows: The rows that it may have.
        beside: The rows that decode or will at once, by caller; None if the queue does not fit beside them.
    """

    cost: float
    position: float
    longest_target: int
    row_tokens: int
    rows: int
    beside: Mapping[Caller, int] | None


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

    def estimate_s(self, now: float, caller: Caller, request: Request, enough_s: float) -> float | None:
        """Estimated seconds until a request that comes now is finished; None if the throughput is not known.

        It is the work done before its last sentence begins, divided by the throughput, plus the time this sentence
        decodes. If all that waits has room, the request shares the model with what decodes, row by row. Else the
        sentences of its caller that are ahead of it begin before, and those of other callers: while these wait they get
        as much done as this caller, and no more than what waits and what they submit meanwhile.

        Args:
            now: Clock time.
            caller: Its caller.
            request: The request.
            enough_s: Up to this, an upper bound is returned if that is quicker.
        """
        rate = self.pace.rate(now)
        if rate is None:
            return None
        decode_s = self.pace.token_s * request.longest_target
        if request.beside is not None:
            begun_s = self._seconds_beside_rows(now, caller, request, request.beside, rate, enough_s)
            return max(decode_s, begun_s + decode_s / 2)  # as if half of its rows were free at once
        own = request.cost
        own_queue = self._queue.queue_of(caller)
        if own_queue is not None:
            own += own_queue.cost * self._queue.num_ahead(caller, request.position) / len(own_queue.entries)
        by_turns = self._work_by_turns(caller, own)
        if by_turns / rate + decode_s <= enough_s:
            return by_turns / rate + decode_s  # the time to compute the other depends on the number of callers
        return min(by_turns, self._work_by_demand(now, caller, own, rate)) / rate + decode_s

    def _seconds_beside_rows(
        self, now: float, caller: Caller, request: Request, rows_of: Mapping[Caller, int], rate: float, enough_s: float
    ) -> float:
        """Seconds for a request beside sentences that decode, while there is room.

        Callers that wait for each answer keep as many rows as they have. The others submit what they did recently. Up
        to ``enough_s`` an upper bound is returned, as the time to look at each caller depends on their number.
        """
        # A step with more rows takes longer, but where it does not, it takes as long as now.
        at_least_s = self.pace.token_s * request.row_tokens / request.rows
        if caller.priority is Priority.INTERACTIVE:
            shared = request.cost * (1.0 + sum(rows_of.values()) / request.rows)
            at_most_s = max(at_least_s, shared * (1 + self.demand.num_callers) / rate)
            if at_most_s <= enough_s:
                return at_most_s
        patient = {one: rows for one, rows in rows_of.items() if one != caller and self.demand.waits(one)}
        shared = request.cost * (1.0 + sum(patient.values()) / request.rows)
        work = self._work_by_demand(now, caller, shared, rate, patient)
        if caller.priority is Priority.BULK:  # has a share, also while interactive callers submit all that can be done
            work = min(work, self._work_by_turns(caller, shared))
        return max(at_least_s, work / rate) if patient else work / rate

    def _work_by_turns(self, caller: Caller, own: float) -> float:
        """Work until ``own`` of it is done, if as many callers wait all the time as do now."""
        is_new = self._queue.queue_of(caller) is None
        if caller.priority is Priority.BULK:
            num_callers = float(len(self._queue.callers(Priority.BULK)) + is_new)
            return own * num_callers * (1.0 + 1.0 / BULK_SHARE)
        bulk = own * BULK_SHARE if self._queue.callers(Priority.BULK) else 0.0
        num_callers = max(self.pace.num_callers, len(self._queue.callers(Priority.INTERACTIVE)))
        return own * (num_callers + is_new) + bulk

    def _work_by_demand(
        self, now: float, caller: Caller, own: float, rate: float, without: Collection[Caller] = ()
    ) -> float:
        """Work until ``own`` of it is done, if other callers go on submitting as much as they did recently.

        Of each other caller that is what waits and what comes meanwhile, but no more than ``own``.
        """
        demands = {
            one: demand for one, demand in self.demand.rates(now).items() if one != caller and one not in without
        }
        waiting = {
            queue.caller: queue.cost
            for priority in Priority
            for queue in self._queue.callers(priority)
            if queue.caller != caller
        }
        work, demand, limits = own, 0.0, list[tuple[float, float, float]]()
        for one in demands.keys() | waiting.keys():
            most = own if one.priority is caller.priority else math.inf
            if one.priority > caller.priority:
                continue
            has, comes = waiting.get(one, 0.0), demands.get(one, 0.0)
            work += min(most, has)
            if has < most and comes:
                demand += comes
                limits.append(((most - has) / comes, most - has, comes))
        for when, left, comes in sorted(limits):
            if demand < rate and work / (rate - demand) <= when:
                break
            work += left  # this caller gets as much as it may before the request is done
            demand -= comes
        return work * rate / (rate - demand) if demand < rate else math.inf
