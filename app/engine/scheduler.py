"""The queue: it admits sentences and decides which of them join a cohort next.

It uses neither asyncio nor torch, and the clock is passed in.

Callers take turns (:mod:`app.engine.fair_queue`). Within the queue of one caller, a sentence's position is its arrival
time plus a penalty. The penalty is a multiple of the time the model takes for the sentence at present, so that short
sentences go first, and at most ``MAX_HANDICAP_S``, so that no sentence starves. To avoid that a long document delays
other requests of the same caller, the penalties of the sentences of one request add up, and one request never gets all
rows. The first sentence in order goes next. If it does not fit beside the decoding sentences, smaller sentences may
overtake it until it has waited ``OVERTAKE_S``.

A request that has a deadline is refused if an estimate says that it would miss it. Requests that may wait for room are
let into the queue in the order of their arrival, before any request that comes later.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias

from app.engine.caller import UNKNOWN_CALLER, Caller, Priority
from app.engine.estimate import Estimator, Request
from app.engine.fair_queue import BULK_SHARE, FairQueue
from app.errors import DeadlineUnreachable, QueueFull
from model.decoding.options import Outcome

if TYPE_CHECKING:
    from model.decoding.sentence import DecodingRequest
    from model.translator import Translator

ModelRequest: TypeAlias = "tuple[Translator, DecodingRequest]"
"""A model and a sentence to decode with it; only the caller uses the key of the request."""

BatchKey = tuple[object, int]
"""Model and beam width; sentences with the same key can be decoded in one batch."""

TURN_S = 0.01
"""Minimum penalty of each further sentence of one request, in seconds."""

REQUEST_SHARE = 0.75
"""Maximum share of the rows for one request; the rest stays free for other requests."""

CALLER_SHARE = 0.25
"""Maximum share of the rows for one caller while there are others: sentences decode faster beside fewer rows."""

CALLER_ROWS = 256
"""Maximum number of rows for one caller while there are others: as many as 64 callers with a beam of four have."""

OTHERS_S = 1.0
"""Seconds for which an interactive caller counts as being there after it has submitted something."""

MAX_PASSED_OVER = 64
"""Maximum number of sentences, or requests, that are passed over in one turn. The search ends there, so that the time
of a turn does not grow with the queue."""

INTERACTIVE_S = 0.1
"""Seconds after a request of an interactive caller for which bulk callers leave room for the next one."""

OVERTAKE_S = 0.5
"""Seconds for which smaller sentences may overtake the first sentence of the queue."""

HANDICAP = 4.0
"""Penalty of a sentence, and of the next sentence of its request, as a multiple of its estimated time."""

MAX_HANDICAP_S = 0.5
"""Maximum penalty in seconds; a sentence that arrives this much later than another is always behind it."""


class Admission(Enum):
    """What becomes of a request that the queue has no room for, or that would probably miss its deadline."""

    REFUSE = auto()
    """It is refused."""

    WAIT = auto()
    """It waits for room, as long as its caller does."""

    ALWAYS = auto()
    """It is admitted: the first answers to the same sentences would have been decoded in vain."""


@dataclass(eq=False)
class QueuedSentence:
    """A sentence in the engine: in the queue, then in a cohort of its model.

    Args:
        request: The decoding request; its key is unique in the engine.
        model: The model to decode it with.
        deliver: Called with the outcome, on the engine's thread.
        arrived_at: Clock time of its admission.
        started_at: Clock time when it joined a cohort; NaN while it waits.
        encoded_at: Clock time when it had been encoded; NaN before.
        ended_at: Clock time of its outcome; NaN before.
        max_target_tokens: Maximum number of tokens the model can generate, whatever the options allow.
        owner: Identifies the caller's request that it belongs to.
        caller: Whose turn it takes.
        was_interrupted: Whether the engine's thread ended while it decoded; it is decoded a second time and no third.
    """

    request: DecodingRequest
    model: Translator
    deliver: Callable[[Outcome], None]
    arrived_at: float = 0.0
    started_at: float = math.nan
    encoded_at: float = math.nan
    ended_at: float = math.nan
    max_target_tokens: int = sys.maxsize
    owner: object = field(default_factory=object)
    caller: Caller = UNKNOWN_CALLER
    was_interrupted: bool = False

    @property
    def key(self) -> int:
        """Its key, unique in the engine."""
        return self.request.key

    @property
    def width(self) -> int:
        """Number of rows it needs."""
        return self.request.options.width

    @property
    def batch(self) -> BatchKey:
        """The key of the batches it can join."""
        return self.model, self.width

    @property
    def model_name(self) -> str:
        """Name of its model."""
        return self.model.manifest.name

    @property
    def num_source_tokens(self) -> int:
        """Number of source tokens."""
        return len(self.request.source_ids)

    @property
    def longest_target(self) -> int:
        """Maximum number of tokens of its translation, those of a prefix included."""
        num_prefix = len(self.request.prefix_ids)
        room = self.max_target_tokens - num_prefix
        return num_prefix + self.request.options.longest_answer(self.num_source_tokens, room)

    @cached_property
    def likely_target(self) -> int:
        """Estimated number of tokens of its translation: as many as of its source."""
        return min(self.num_source_tokens, self.longest_target)

    @cached_property
    def cost(self) -> float:
        """Its estimated work in tokens: those to encode, and those to decode in each of its rows."""
        return float(self.num_source_tokens + self.width * self.likely_target)


@dataclass(frozen=True)
class Budget:
    """Limits of what may be decoded at once, for all models and beam widths together.

    Args:
        max_tokens: Maximum number of source tokens, and of possible target tokens, including padding.
        max_rows: Maximum number of rows.
        max_join_tokens: Maximum number of source tokens encoded in one turn, including padding, because decoding waits
            for it. A single sentence may exceed it.
        token_s: Seconds the model needs for one token of one row under load; 0 if unknown.
    """

    max_tokens: int
    max_rows: int
    max_join_tokens: int = sys.maxsize
    token_s: float = 0.0

    @property
    def request_rows(self) -> int:
        """Maximum number of rows for one request."""
        return math.ceil(REQUEST_SHARE * self.max_rows)

    @property
    def caller_rows(self) -> int:
        """Maximum number of rows for one caller while there are others."""
        return min(math.ceil(CALLER_SHARE * self.max_rows), CALLER_ROWS)


@dataclass
class Load:
    """The size of a decoding batch.

    Args:
        num_sentences: Number of sentences.
        num_rows: Number of rows.
        longest_source: Number of tokens of the longest source.
        longest_target: Maximum number of tokens of the longest translation.
    """

    num_sentences: int = 0
    num_rows: int = 0
    longest_source: int = 0
    longest_target: int = 0

    @property
    def source_tokens(self) -> int:
        """Sentences times longest source."""
        return self.num_sentences * self.longest_source

    @property
    def target_tokens(self) -> int:
        """Rows times longest target."""
        return self.num_rows * self.longest_target

    def with_one_more(self, sentence: QueuedSentence) -> Load:
        """The load after a sentence joins."""
        return Load(
            self.num_sentences + 1,
            self.num_rows + sentence.width,
            max(self.longest_source, sentence.num_source_tokens),
            max(self.longest_target, sentence.longest_target),
        )


def fits(loads: Iterable[Load], budget: Budget) -> bool:
    """Whether the budget allows these batches at the same time. A single sentence is always allowed.

    Args:
        loads: The loads of the batches.
        budget: The budget they share.
    """
    used = [load for load in loads if load.num_sentences]
    return sum(load.num_sentences for load in used) == 1 or (
        sum(load.num_rows for load in used) <= budget.max_rows
        and sum(load.source_tokens for load in used) <= budget.max_tokens
        and sum(load.target_tokens for load in used) <= budget.max_tokens
    )


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
    _estimator: Estimator = field(init=False)
    _rate: float = 20.0  # moving average of finished sentences per second
    _last_finish: float | None = None
    _rows: Counter[Caller] = field(default_factory=Counter)  # rows of sentences that decoded after the last turn
    _latest: Caller | None = None  # the interactive caller that submitted last
    _latest_at: float = -math.inf
    _before_latest_at: float = -math.inf  # when another interactive caller submitted last

    def __post_init__(self) -> None:
        """Nothing is measured."""
        self._estimator = Estimator(self._queue)

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
        self._estimator.demand.came(now, sentences[0].caller, sum(sentence.cost for sentence in sentences))

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
            self._estimator.pace.emptied()
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
        joining = _Joining(self.budget, loads, rows_of_owners or {})
        is_overtaken = False
        num_passed_over = 0
        turn = self._queue.turn()
        while not joining.is_full and num_passed_over < MAX_PASSED_OVER and (sentence := turn.first()) is not None:
            if self._caller_has_share(sentence, joining, now):
                turn.pass_over_caller()
            elif joining.has_share(sentence):
                turn.pass_over_request()
            elif not joining.may_join_now(sentence):
                turn.pass_over()
            elif joining.add_if_it_fits(sentence):
                turn.take()
                continue
            elif not is_overtaken and now - sentence.arrived_at > OVERTAKE_S:
                break
            else:
                is_overtaken = True
                turn.pass_over()
            num_passed_over += 1
        turn.end()
        self._let_in()
        chosen = joining.chosen
        if chosen and not any(load.num_rows for load in loads.values()):
            self._last_finish = now  # idle time must not lower the measured rate
        rows_of_owners = rows_of_owners or {}
        self._rows = Counter({one: rows for one, rows in rows_of_owners.items() if isinstance(one, Caller)})
        for sentence in chosen:
            sentence.started_at = now
            self._rows[sentence.caller] += sentence.width
        cost = sum(sentence.cost for sentence in chosen)
        self._estimator.pace.joined(now, cost, len(self._queue), len(self._queue.callers(Priority.INTERACTIVE)))
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
            self._rows[sentence.caller] -= sentence.width
            self._estimator.pace.decoded(sentence.likely_target, now - sentence.started_at)
            self._estimator.demand.answered(now, sentence.caller)

    def interrupted(self, sentences: Sequence[QueuedSentence]) -> None:
        """The engine's thread was replaced: how long that took says nothing about the rate.

        Args:
            sentences: Sentences that were decoding, and begin anew.
        """
        now = self._last_finish = self.clock()
        self._estimator.pace.emptied()
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

    def estimate_s(self, sentences: Sequence[QueuedSentence], enough_s: float = 0.0) -> float | None:
        """Estimated seconds until a request that comes now is finished; None if the throughput is not known.

        Args:
            sentences: The request's sentences, at least one; all of one caller.
            enough_s: Up to this, an upper bound is returned if that is quicker.
        """
        caller, now = sentences[0].caller, self.clock()
        request = Request(
            cost=sum(sentence.cost for sentence in sentences),
            position=max(self._positions(sentences)),
            longest_target=max(sentence.likely_target for sentence in sentences),
            row_tokens=sum(sentence.width * sentence.likely_target for sentence in sentences),
            rows=max(1, self._rows_for(caller, sentences[0].width, now)),
            beside=self._rows_at_once(now, sentences[0].width),
        )
        return self._estimator.estimate_s(now, caller, request, enough_s)

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

    def _rows_at_once(self, now: float, width: int) -> Counter[Caller] | None:
        """The rows of sentences that decode, and of those that wait if there is room for all; None if there is not.

        Args:
            now: Clock time.
            width: Rows that a waiting sentence needs at least, as an estimate: a long queue is not looked at.
        """
        is_busy = self._last_finish is not None and now - self._last_finish <= OTHERS_S
        rows = Counter(self._rows) if is_busy else Counter[Caller]()
        if rows.total() + width * len(self._queue) > self.budget.max_rows:
            return None
        for sentence in self._queue:
            rows[sentence.caller] += sentence.width
        return rows if rows.total() <= self.budget.max_rows else None

    def _refuse_if_late(self, sentences: Sequence[QueuedSentence], within_s: float) -> None:
        estimate_s, rate = self.estimate_s(sentences, within_s), self._estimator.pace.rate(self.clock())
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

    def _has_company(self, caller: Caller, now: float) -> bool:
        """Whether another interactive caller is active."""
        return now - (self._before_latest_at if caller == self._latest else self._latest_at) <= OTHERS_S

    def _leaves_room(self, caller: Caller, interactive_rows: int, now: float) -> bool:
        """Whether a caller leaves all rows but a small share to interactive callers, because these are active now."""
        return caller.priority is Priority.BULK and (
            interactive_rows > 0
            or self._queue.num_waiting(Priority.INTERACTIVE) > 0
            or now - self._latest_at <= INTERACTIVE_S
        )

    def _caller_has_share(self, sentence: QueuedSentence, joining: _Joining, now: float) -> bool:
        """Whether a sentence's caller has as many rows as it may beside the others."""
        if self._leaves_room(sentence.caller, joining.interactive_rows, now):
            return joining.bulk_has_share
        return self._has_company(sentence.caller, now) and joining.caller_has_share(sentence)

    def _rows_for(self, caller: Caller, width: int, now: float) -> int:
        """Maximum number of rows for a request of a caller that comes now."""
        interactive_rows = sum(rows for one, rows in self._rows.items() if one.priority is Priority.INTERACTIVE)
        if self._leaves_room(caller, interactive_rows, now):
            return math.ceil(BULK_SHARE * interactive_rows / width) * width
        return self.budget.caller_rows if self._has_company(caller, now) else self.budget.request_rows

    def _positions(self, sentences: Sequence[QueuedSentence]) -> Iterator[float]:
        """Positions of a request's sentences that arrive now."""
        turn = self.clock()
        rate = self._estimator.pace.rate(turn)
        token_s = self.budget.token_s if rate is None else max(self.budget.token_s, 1.0 / rate)
        for sentence in sentences:
            busy_s = sentence.cost * token_s
            yield turn + min(MAX_HANDICAP_S, HANDICAP * busy_s)
            turn += max(TURN_S, HANDICAP * busy_s)


class _Joining:
    """The sentences chosen to join, and whether others may join with them.

    Args:
        budget: The budget.
        loads: The current loads by model and beam width.
        rows_of_owners: The number of decoding rows by owner, and by caller.
    """

    def __init__(self, budget: Budget, loads: Mapping[BatchKey, Load], rows_of_owners: Mapping[object, int]) -> None:
        self.chosen: list[QueuedSentence] = []
        self._budget = budget
        self._loads = dict(loads)  # including the chosen sentences
        self._rows_of = dict(rows_of_owners)
        self._num_rows = sum(load.num_rows for load in loads.values())
        self._longest = 0

    @property
    def is_full(self) -> bool:
        """Whether no further sentence fits; the rest of a long queue is not searched."""
        return self._num_rows >= self._budget.max_rows or (
            bool(self.chosen) and (len(self.chosen) + 1) * self._longest > self._budget.max_join_tokens
        )

    def caller_has_share(self, sentence: QueuedSentence) -> bool:
        """Whether its caller has as many rows as it may while there are others."""
        bound = max(self._budget.caller_rows, sentence.width)
        return self._rows_of.get(sentence.caller, 0) + sentence.width > bound

    @property
    def bulk_has_share(self) -> bool:
        """Whether the bulk callers together have their share of the rows beside active interactive callers."""
        return 0 < self._rows_of.get(Priority.BULK, 0) >= BULK_SHARE * self.interactive_rows

    @property
    def interactive_rows(self) -> int:
        """Rows of interactive callers."""
        return self._rows_of.get(Priority.INTERACTIVE, 0)

    def has_share(self, sentence: QueuedSentence) -> bool:
        """Whether its request has as many rows as it may, until other sentences of it finish."""
        bound = max(self._budget.request_rows, sentence.width)
        return self._rows_of.get(sentence.owner, 0) + sentence.width > bound

    def may_join_now(self, sentence: QueuedSentence) -> bool:
        """Whether it can join together with the chosen sentences; if not, it joins in a later turn."""
        if not self.chosen:
            return True
        longest = max(self._longest, sentence.num_source_tokens)
        return sentence.batch == self.chosen[0].batch and (
            (len(self.chosen) + 1) * longest <= self._budget.max_join_tokens
        )

    def add_if_it_fits(self, sentence: QueuedSentence) -> bool:
        """Choose a sentence if the budget allows it."""
        batch = sentence.batch
        grown = {**self._loads, batch: self._loads.get(batch, Load()).with_one_more(sentence)}
        if not fits(grown.values(), self._budget):
            return False
        self.chosen.append(sentence)
        self._loads = grown
        self._longest = max(self._longest, sentence.num_source_tokens)
        self._num_rows += sentence.width
        for one in (sentence.owner, sentence.caller, sentence.caller.priority):
            self._rows_of[one] = self._rows_of.get(one, 0) + sentence.width
        return True


def _retry_after(seconds: float) -> float:
    """Whole seconds, 1 to 60."""
    return min(60.0, max(1.0, math.ceil(seconds)))
