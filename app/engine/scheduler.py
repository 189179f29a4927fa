"""The queue: it admits sentences and decides which of them join a cohort next.

It uses neither asyncio nor torch, and the clock is passed in.

A sentence's position in the queue is its arrival time plus a penalty. The penalty is a multiple of the estimated time
to decode the sentence, so that short sentences go first, and at most ``MAX_HANDICAP_S``, so that no sentence starves.
To avoid that a long document delays other requests, the penalties of the sentences of one request add up, and one
request never gets all rows. The first sentence of the queue goes next. If it does not fit beside the decoding
sentences, smaller sentences may overtake it until it has waited ``OVERTAKE_S``.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from app.errors import QueueFull
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

OVERTAKE_S = 0.5
"""Seconds for which smaller sentences may overtake the first sentence of the queue."""

HANDICAP = 4.0
"""Penalty of a sentence, and of the next sentence of its request, as a multiple of its estimated time."""

MAX_HANDICAP_S = 0.5
"""Maximum penalty in seconds; a sentence that arrives this much later than another is always behind it."""


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
    _queue: list[tuple[float, int, QueuedSentence]] = field(default_factory=list)
    _rate: float = 20.0  # moving average of finished sentences per second
    _last_finish: float | None = None

    @property
    def num_waiting(self) -> int:
        """Sentences in the queue."""
        return len(self._queue)

    def admit(self, sentences: Sequence[QueuedSentence]) -> None:
        """Admit a request's sentences to the queue, all or none.

        Raises:
            QueueFull: The queue has no room for all of them.
        """
        if len(self._queue) + len(sentences) > self.max_waiting:
            raise QueueFull(self.retry_after_s(), len(sentences), len(self._queue), self.max_waiting)
        now = self.clock()
        for position, sentence in zip(self._positions(sentences), sentences, strict=True):
            sentence.arrived_at = now
            bisect.insort(self._queue, (position, sentence.key, sentence))

    def hasten(self, sentences: Sequence[QueuedSentence]) -> None:
        """Move sentences to the position they would have if they arrived now, if that is further ahead."""
        positions = dict(zip((sentence.key for sentence in sentences), self._positions(sentences), strict=True))
        if any(positions.get(key, position) < position for position, key, _ in self._queue):
            self._queue = sorted(
                (min(position, positions.get(key, position)), key, one) for position, key, one in self._queue
            )

    def withdraw(self, keys: Collection[int]) -> list[QueuedSentence]:
        """Remove cancelled sentences from the queue.

        Returns:
            The removed sentences.
        """
        withdrawn = [sentence for _, key, sentence in self._queue if key in keys]
        if withdrawn:
            self._queue = [entry for entry in self._queue if entry[1] not in keys]
        return withdrawn

    def take(
        self, loads: Mapping[BatchKey, Load], rows_of_owners: Mapping[object, int] | None = None
    ) -> list[QueuedSentence]:
        """Remove the sentences from the queue that join now, all with the same model and beam width.

        Args:
            loads: The current loads by model and beam width.
            rows_of_owners: The number of decoding rows by owner.
        """
        chosen: list[QueuedSentence] = []
        share = math.ceil(REQUEST_SHARE * self.budget.max_rows)
        rows_of = dict(rows_of_owners or {})
        now = self.clock()
        after = dict(loads)  # the loads including the chosen sentences
        num_rows = sum(load.num_rows for load in loads.values())
        longest_joining = 0
        passed_over = False
        for _, _, sentence in self._queue:
            if num_rows >= self.budget.max_rows:
                break  # no further sentence fits; the rest of a long queue is not searched
            if chosen and (len(chosen) + 1) * longest_joining > self.budget.max_join_tokens:
                break
            if chosen and sentence.batch != chosen[0].batch:
                continue
            own_rows = rows_of.get(sentence.owner, 0) + sentence.width
            if own_rows > max(share, sentence.width):
                continue  # its request has no free rows until other sentences of it finish
            longest = max(longest_joining, sentence.num_source_tokens)
            if chosen and (len(chosen) + 1) * longest > self.budget.max_join_tokens:
                continue  # it joins in a later turn
            grown = {**after, sentence.batch: after.get(sentence.batch, Load()).with_one_more(sentence)}
            if fits(grown.values(), self.budget):
                chosen.append(sentence)
                after, longest_joining = grown, longest
                num_rows += sentence.width
                rows_of[sentence.owner] = own_rows
            elif not passed_over and now - sentence.arrived_at > OVERTAKE_S:
                break
            else:
                passed_over = True
        if chosen:
            if not any(load.num_rows for load in loads.values()):
                self._last_finish = now  # idle time must not lower the measured rate
            taken = {sentence.key for sentence in chosen}
            self._queue = [entry for entry in self._queue if entry[1] not in taken]
            for sentence in chosen:
                sentence.started_at = now
        return chosen

    def finished(self, num_sentences: int) -> None:
        """Count finished sentences; :meth:`retry_after_s` is computed from their rate."""
        now = self.clock()
        if self._last_finish is not None and now > self._last_finish:
            seconds = now - self._last_finish
            weight = 1.0 - math.exp(-seconds / 10.0)
            self._rate += weight * (num_sentences / seconds - self._rate)
        self._last_finish = now

    def retry_after_s(self) -> float:
        """Estimated seconds until half of the queue is done, 1 to 60."""
        return min(60.0, max(1.0, math.ceil(len(self._queue) / 2 / max(self._rate, 1e-3))))

    def _positions(self, sentences: Sequence[QueuedSentence]) -> Iterator[float]:
        """Positions of a request's sentences that arrive now, assuming translations as long as their sources."""
        turn = self.clock()
        for sentence in sentences:
            num_target_tokens = min(sentence.num_source_tokens, sentence.longest_target)
            busy_s = (sentence.num_source_tokens + sentence.width * num_target_tokens) * self.budget.token_s
            yield turn + min(MAX_HANDICAP_S, HANDICAP * busy_s)
            turn += max(TURN_S, HANDICAP * busy_s)

    def clear(self) -> list[QueuedSentence]:
        """Empty the queue; returns the sentences that were in it."""
        left = [sentence for _, _, sentence in self._queue]
        self._queue = []
        return left
