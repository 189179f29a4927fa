"""The queue: it admits sentences and decides which of them join a cohort next.

It uses neither asyncio nor torch, and the clock is passed in.

Callers take turns (:mod:`app.engine.fair_queue`). Within the queue of one caller, a sentence's position is its arrival
time plus a penalty for its size. The penalty is a multiple of the time the model takes for the sentence at present, so
that short sentences go first, and at most ``MAX_SIZE_PENALTY_S``, so that no sentence starves. To avoid that a long
document delays other requests of the same caller, the penalties of the sentences of one request add up, and one request
never gets all rows. The first sentence in order goes next. If it does not fit beside the decoding sentences, smaller
sentences may overtake it until it has waited ``OVERTAKE_S``.

A request that has a deadline is refused if an estimate says that it would miss it. Requests that may wait for room
enter the queue in the order of their arrival, before any request that comes later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby, islice
from operator import attrgetter

from app.engine.caller import Caller, Priority
from app.engine.estimate import Pace, work_before_end
from app.engine.fair_queue import Choice, FairQueue
from app.engine.joining import Budget, Joining, Load
from app.engine.queued_sentence import BatchKey, QueuedSentence
from app.errors import DeadlineUnreachable, QueueFull

MAX_PASSED_OVER = 64
"""Maximum number of sentences, or requests, that are passed over in one turn. The search ends there, so that the time
of a turn does not grow with the queue."""

TURN_S = 0.01
"""Minimum penalty of each further sentence of one request, in seconds."""

OTHERS_S = 1.0
"""Seconds for which an interactive caller counts as active after it has submitted something."""

INTERACTIVE_S = 0.1
"""Seconds after a request of an interactive caller for which bulk callers leave room for the next one."""

SIZE_PENALTY = 4.0
"""Penalty of a sentence, and of the next sentence of its request, as a multiple of its estimated time."""

MAX_SIZE_PENALTY_S = 0.5
"""Maximum penalty in seconds; a sentence that arrives this much later than another is always behind it."""


class Admission(Enum):
    """What happens to a request that the queue has no room for, or that would probably miss its deadline."""

    REFUSE = auto()
    """It is refused."""

    WAIT = auto()
    """It waits for room, as long as its caller does."""

    ALWAYS = auto()
    """It is admitted: the first answers to the same sentences would have been decoded in vain."""


@dataclass
class Scheduler:
    """The queue of sentences. Not thread-safe: callers must hold a lock.

    Args:
        budget: The current budget; may be replaced.
        max_waiting: Maximum number of sentences in the queue.
        clock: A monotonic clock, in seconds.
    """

    budget: Budget
    max_waiting: int
    clock: Callable[[], float]
    _queue: FairQueue[QueuedSentence] = field(default_factory=FairQueue)
    _for_room: dict[int, QueuedSentence] = field(default_factory=dict)  # by key, in the order of their arrival
    _pace: Pace = field(default_factory=Pace)
    _rate: float = 20.0  # moving average of finished sentences per second
    _last_finish: float | None = None
    _latest: Caller | None = None  # the interactive caller that submitted last
    _latest_at: float = -math.inf
    _before_latest_at: float = -math.inf  # when another interactive caller submitted last

    @property
    def num_waiting(self) -> int:
        """Sentences in the queue, without those that wait for room in it."""
        return len(self._queue)

    @property
    def num_for_room(self) -> int:
        """Sentences that wait for room in the queue; if there are some, others wait in the queue."""
        return len(self._for_room)

    def num_waiting_of(self, priority: Priority) -> int:
        """Sentences in the queue, of the callers of a priority."""
        return self._queue.num_waiting(priority)

    def admit(
        self,
        sentences: Sequence[QueuedSentence],
        within_s: float | None = None,
        admission: Admission = Admission.REFUSE,
    ) -> None:
        """Admit a request's sentences to the queue, or let them wait for room: all or none.

        Args:
            sentences: The sentences; all of one caller.
            within_s: Seconds until its deadline; None if it is not refused for it.
            admission: Whether it may be refused.

        Raises:
            QueueFull: The queue has no room for all of them.
            DeadlineUnreachable: They would probably not be finished in time.
        """
        if not sentences:
            return
        if admission is Admission.REFUSE:
            num_waiting = len(self._queue) + len(self._for_room)
            if num_waiting + len(sentences) > self.max_waiting:
                raise QueueFull(self.retry_after_s(), len(sentences), num_waiting, self.max_waiting)
            if within_s is not None:
                self._refuse_if_late(sentences, within_s)
        now = self.clock()
        if admission is Admission.WAIT:
            self._for_room.update((sentence.key, sentence) for sentence in sentences)
            self._let_in()
        else:
            self._add(sentences, now)
        self._note_caller(sentences[0].caller, now)

    def hasten(self, sentences: Sequence[QueuedSentence], caller: Caller) -> None:
        """Another request of a caller waits for these sentences, too: they go when the first of both would go.

        Args:
            sentences: The sentences; those that are not in the queue are ignored.
            caller: The caller.
        """
        places = self._queue.places_of({sentence.key for sentence in sentences})
        earlier: list[tuple[float, QueuedSentence]] = []
        for sentence, position in zip(sentences, self._positions(sentences), strict=True):
            num_ahead = self._queue.num_ahead(caller, position) + len(earlier)
            if sentence.key in places and (caller.priority, num_ahead) < (
                sentence.caller.priority,
                places[sentence.key],
            ):
                earlier.append((position, sentence))
        self._queue.remove({sentence.key for _, sentence in earlier})
        owner = object()
        for position, sentence in earlier:
            if sentence.caller != caller:  # it now belongs to a request of this caller, which has a share of the rows
                sentence.caller, sentence.owner = caller, owner
            self._queue.add(position, sentence)

    def withdraw(self, keys: Collection[int]) -> list[QueuedSentence]:
        """Remove cancelled sentences from the queue, and from those that wait for room.

        Returns:
            The removed sentences.
        """
        removed = [sentence for key in keys if (sentence := self._for_room.pop(key, None)) is not None]
        removed += self._queue.remove(keys)
        self._let_in()
        if not self._queue:
            self._pace.emptied()
        return removed

    def take(
        self, loads: Mapping[BatchKey, Load], rows_of_owners: Mapping[object, int] | None = None
    ) -> list[QueuedSentence]:
        """Remove the sentences from the queue that join now, all with the same model and beam width.

        Args:
            loads: The current loads by model and beam width.
            rows_of_owners: The number of decoding rows by owner, and by caller.
        """
        now = self.clock()
        joining = Joining(self.budget, loads, rows_of_owners or {})
        num_passed_over = 0

        def decide(sentence: QueuedSentence) -> Choice:
            nonlocal num_passed_over
            if self._caller_has_share(sentence, joining, now):
                choice = Choice.PASS_OVER_CALLER
            elif joining.has_share(sentence):
                choice = Choice.PASS_OVER_REQUEST
            else:
                choice = joining.decide(sentence, now)
            num_passed_over += choice is not Choice.TAKE
            return choice

        chosen = self._queue.choose(decide, lambda: joining.is_full or num_passed_over == MAX_PASSED_OVER)
        self._let_in()
        if chosen and not any(load.num_rows for load in loads.values()):
            self._last_finish = now  # idle time must not lower the measured rate
        for sentence in chosen:
            sentence.started_at = now
        cost = sum(sentence.cost for sentence in chosen)
        self._pace.joined(now, cost, len(self._queue), len(self._queue.callers(Priority.INTERACTIVE)))
        return chosen

    def finished(self, sentences: Sequence[QueuedSentence]) -> None:
        """Count finished sentences; :meth:`retry_after_s` and the estimates follow from their rate."""
        now = self.clock()
        if self._last_finish is not None and now > self._last_finish:
            seconds = now - self._last_finish
            weight = 1.0 - math.exp(-seconds / 10.0)
            self._rate += weight * (len(sentences) / seconds - self._rate)
        self._last_finish = now
        for sentence in sentences:
            self._pace.decoded(sentence.likely_target, now - sentence.started_at)

    def interrupted(self, sentences: Sequence[QueuedSentence]) -> None:
        """The engine's thread died and started again: how long that took says nothing about the rate.

        Args:
            sentences: Sentences that were decoding, and are decoded again.
        """
        now = self._last_finish = self.clock()
        self._pace.emptied()
        for sentence in sentences:
            sentence.started_at = now

    def waiting(self) -> set[int]:
        """The keys of the sentences that wait, in the queue or for room in it."""
        return {sentence.key for sentence in self._queue} | self._for_room.keys()

    def retry_after_s(self) -> float:
        """Estimated seconds until half of what waits is done, 1 to 60."""
        return _retry_after((len(self._queue) + len(self._for_room)) / 2 / max(self._rate, 1e-3))

    def clear(self) -> list[QueuedSentence]:
        """Empty the queue; returns the sentences that waited."""
        left = [*self._queue, *self._for_room.values()]
        self.withdraw({sentence.key for sentence in left})
        return left

    def estimate_s(self, sentences: Sequence[QueuedSentence]) -> float | None:
        """Estimated seconds until a request that comes now is finished; None if the throughput is not known.

        Args:
            sentences: The request's sentences, at least one; all of one caller.
        """
        now = self.clock()
        rate = self._pace.rate(now)
        if rate is None:
            return None
        work = work_before_end(
            self._queue,
            sentences[0].caller,
            sum(sentence.cost for sentence in sentences),
            max(self._positions(sentences)),
            self._pace.num_callers(now),
        )
        decode_s = self._pace.token_s * max(sentence.likely_target for sentence in sentences)
        return max(decode_s, work / rate + decode_s / 2)  # as if half of its rows were free at once

    def _let_in(self) -> None:
        """Admit what waits for room, as far as there is some."""
        while self._for_room and (room := self.max_waiting - len(self._queue)) > 0:
            _, first = next(groupby(islice(self._for_room.values(), room), attrgetter("owner")))
            of_one_request = list(first)
            for sentence in of_one_request:
                del self._for_room[sentence.key]
            self._add(of_one_request, self.clock())

    def _add(self, sentences: Sequence[QueuedSentence], now: float) -> None:
        for position, sentence in zip(list(self._positions(sentences)), sentences, strict=True):
            sentence.arrived_at = now
            self._queue.add(position, sentence)

    def _refuse_if_late(self, sentences: Sequence[QueuedSentence], within_s: float) -> None:
        estimate_s, rate = self.estimate_s(sentences), self._pace.rate(self.clock())
        if estimate_s is None or rate is None or estimate_s <= within_s:
            return
        may_succeed_later = sum(sentence.cost for sentence in sentences) / rate <= within_s
        raise DeadlineUnreachable(
            estimate_s, within_s, len(sentences), _retry_after(estimate_s - within_s) if may_succeed_later else None
        )

    def _note_caller(self, caller: Caller, now: float) -> None:
        if caller.priority is Priority.INTERACTIVE:
            if caller != self._latest:
                self._latest, self._before_latest_at = caller, self._latest_at
            self._latest_at = now

    def _others_active(self, caller: Caller, now: float) -> bool:
        """Whether another interactive caller is active."""
        return now - (self._before_latest_at if caller == self._latest else self._latest_at) <= OTHERS_S

    def _leaves_room(self, caller: Caller, interactive_rows: int, now: float) -> bool:
        """Whether a caller leaves all rows but a small share to interactive callers, because these are active now."""
        return caller.priority is Priority.BULK and (
            interactive_rows > 0
            or self._queue.num_waiting(Priority.INTERACTIVE) > 0
            or now - self._latest_at <= INTERACTIVE_S
        )

    def _caller_has_share(self, sentence: QueuedSentence, joining: Joining, now: float) -> bool:
        """Whether a sentence's caller has as many rows as it may beside the others."""
        if self._leaves_room(sentence.caller, joining.interactive_rows, now):
            return joining.bulk_has_share
        return self._others_active(sentence.caller, now) and joining.caller_has_share(sentence)

    def _positions(self, sentences: Sequence[QueuedSentence]) -> Iterator[float]:
        """Positions of a request's sentences that arrive now."""
        turn = self.clock()
        rate = self._pace.rate(turn)
        token_s = self.budget.token_s if rate is None else max(self.budget.token_s, 1.0 / rate)
        for sentence in sentences:
            busy_s = sentence.cost * token_s
            yield turn + min(MAX_SIZE_PENALTY_S, SIZE_PENALTY * busy_s)
            turn += max(TURN_S, SIZE_PENALTY * busy_s)


def _retry_after(seconds: float) -> float:
    """Whole seconds, 1 to 60."""
    return min(60.0, max(1.0, math.ceil(seconds)))
