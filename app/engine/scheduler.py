"""The queue: which sentences wait, which are admitted, and which join a model next.

No asyncio, no torch, and the clock is passed in.

A sentence's position in the queue is its arrival time plus a penalty: a multiple of the seconds it takes, so that short
sentences go first, but at most ``MAX_HANDICAP_S``, so that none starves. Each further sentence of one request has the
penalties of those before it added, and one request never has all rows, so that a long document does not keep others
waiting. The first of the queue always goes next; if it does not fit beside the sentences that decode, smaller ones may
overtake it until it has waited ``OVERTAKE_S``, and then none does.
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
"""A sentence to decode and the model it is for; the request's key means something to the caller alone."""

BatchKey = tuple[object, int]
"""What can decode together: sentences of one model and one beam width."""

TURN_S = 0.01
"""Least penalty of each further sentence of one request, in seconds."""

REQUEST_SHARE = 0.75
"""Share of the rows that one request may have: the others stay free for other requests."""

OVERTAKE_S = 0.5
"""How long smaller sentences may overtake the first of the queue."""

HANDICAP = 4.0
"""Penalty of a sentence, and of the next of its request, in multiples of the time it takes."""

MAX_HANDICAP_S = 0.5
"""Largest penalty: a sentence that arrives this long after another is always behind it."""


@dataclass(eq=False)
class QueuedSentence:
    """A sentence in the engine: in the queue, then in a cohort of its model.

    Args:
        request: What to decode; its key is unique in the engine.
        model: The model it is for.
        deliver: Takes the outcome, on the engine's thread.
        arrived_at: Clock time it was admitted.
        started_at: Clock time it joined the model; NaN while it waits.
        max_target_tokens: Tokens the model can produce at all, whatever the options allow.
        owner: The caller's request it is a part of; equal to no other.
    """

    request: DecodingRequest
    model: Translator
    deliver: Callable[[Outcome], None]
    arrived_at: float = 0.0
    started_at: float = math.nan
    max_target_tokens: int = sys.maxsize
    owner: object = field(default_factory=object)

    @property
    def key(self) -> int:
        """Its number."""
        return self.request.key

    @property
    def width(self) -> int:
        """Rows it takes."""
        return self.request.options.width

    @property
    def batch(self) -> BatchKey:
        """What it can decode together with."""
        return self.model, self.width

    @property
    def model_name(self) -> str:
        """Name of the model it is for."""
        return self.model.manifest.name

    @property
    def num_source_tokens(self) -> int:
        """Tokens the model reads."""
        return len(self.request.source_ids)

    @property
    def longest_target(self) -> int:
        """Tokens its answer may have."""
        return self.request.options.longest_answer(self.num_source_tokens, self.max_target_tokens)


@dataclass(frozen=True)
class Budget:
    """How much may decode at once, all models and widths together.

    Args:
        max_tokens: Bound of the source tokens held and of the target tokens there may be, each with its padding.
        max_rows: Bound of rows.
        max_join_tokens: Bound of the source tokens encoded in one turn, with their padding; decoding stands still
            meanwhile. One sentence may exceed it alone.
        token_s: Seconds the model needs for one token of one row when it is busy; 0 if unknown.
    """

    max_tokens: int
    max_rows: int
    max_join_tokens: int = sys.maxsize
    token_s: float = 0.0


@dataclass
class Load:
    """What decodes in one batch.

    Args:
        num_sentences: Sentences.
        num_rows: Rows.
        longest_source: Tokens of the longest source.
        longest_target: Tokens the longest answer may have.
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
        """The load if this sentence joined."""
        return Load(
            self.num_sentences + 1,
            self.num_rows + sentence.width,
            max(self.longest_source, sentence.num_source_tokens),
            max(self.longest_target, sentence.longest_target),
        )


def fits(loads: Iterable[Load], budget: Budget) -> bool:
    """Whether the budget allows all these batches beside each other. One sentence alone is always allowed.

    Args:
        loads: The batches.
        budget: What they share.
    """
    held = [load for load in loads if load.num_sentences]
    return sum(load.num_sentences for load in held) == 1 or (
        sum(load.num_rows for load in held) <= budget.max_rows
        and sum(load.source_tokens for load in held) <= budget.max_tokens
        and sum(load.target_tokens for load in held) <= budget.max_tokens
    )


@dataclass
class Scheduler:
    """The queue before the models. Not thread-safe: callers that share it hold a lock.

    Args:
        budget: Of all that decodes; may be replaced.
        max_waiting: Sentences that may wait.
        clock: Seconds that only go forward.
    """

    budget: Budget
    max_waiting: int
    clock: Callable[[], float]
    _queue: list[tuple[float, int, QueuedSentence]] = field(default_factory=list)
    _rate: float = 20.0  # sentences finished a second, lately
    _last_finish: float | None = None

    @property
    def num_waiting(self) -> int:
        """Sentences in the queue."""
        return len(self._queue)

    def admit(self, sentences: Sequence[QueuedSentence]) -> None:
        """Admit a request's sentences to the queue, all or none.

        Raises:
            QueueFull: They do not fit beside those that wait.
        """
        if len(self._queue) + len(sentences) > self.max_waiting:
            raise QueueFull(self.retry_after_s(), len(sentences), len(self._queue), self.max_waiting)
        now = self.clock()
        for position, sentence in zip(self._positions(sentences), sentences, strict=True):
            sentence.arrived_at = now
            bisect.insort(self._queue, (position, sentence.key, sentence))

    def hasten(self, sentences: Sequence[QueuedSentence]) -> None:
        """Move sentences to where they would be if they arrived now, if that is further ahead."""
        positions = dict(zip((sentence.key for sentence in sentences), self._positions(sentences), strict=True))
        if any(positions.get(key, position) < position for position, key, _ in self._queue):
            self._queue = sorted(
                (min(position, positions.get(key, position)), key, one) for position, key, one in self._queue
            )

    def withdraw(self, keys: Collection[int]) -> list[QueuedSentence]:
        """Take cancelled sentences out of the queue.

        Returns:
            Those that were still in it.
        """
        withdrawn = [sentence for _, key, sentence in self._queue if key in keys]
        if withdrawn:
            self._queue = [entry for entry in self._queue if entry[1] not in keys]
        return withdrawn

    def take(
        self, loads: Mapping[BatchKey, Load], rows_of_owners: Mapping[object, int] | None = None
    ) -> list[QueuedSentence]:
        """The sentences that join now, all of one model and width; they leave the queue.

        Args:
            loads: What decodes at present, by model and beam width.
            rows_of_owners: The rows each caller's request has of that.
        """
        chosen: list[QueuedSentence] = []
        share = math.ceil(REQUEST_SHARE * self.budget.max_rows)
        rows_of = dict(rows_of_owners or {})
        now = self.clock()
        after = dict(loads)  # the loads once those chosen are in them
        num_rows = sum(load.num_rows for load in loads.values())
        longest_joining = 0
        passed_over = False
        for _, _, sentence in self._queue:
            if num_rows >= self.budget.max_rows:
                break  # nothing fits any more; the rest of a long queue is not searched
            if chosen and (len(chosen) + 1) * longest_joining > self.budget.max_join_tokens:
                break
            if chosen and sentence.batch != chosen[0].batch:
                continue
            own_rows = rows_of.get(sentence.owner, 0) + sentence.width
            if own_rows > max(share, sentence.width):
                continue  # when others of its request are done
            longest = max(longest_joining, sentence.num_source_tokens)
            if chosen and (len(chosen) + 1) * longest > self.budget.max_join_tokens:
                continue  # in one of the next turns
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
                self._last_finish = now  # the model was idle, which does not make it slow
            taken = {sentence.key for sentence in chosen}
            self._queue = [entry for entry in self._queue if entry[1] not in taken]
            for sentence in chosen:
                sentence.started_at = now
        return chosen

    def finished(self, num_sentences: int) -> None:
        """Count finished sentences, which :meth:`retry_after_s` is computed from."""
        now = self.clock()
        if self._last_finish is not None and now > self._last_finish:
            seconds = now - self._last_finish
            weight = 1.0 - math.exp(-seconds / 10.0)
            self._rate += weight * (num_sentences / seconds - self._rate)
        self._last_finish = now

    def retry_after_s(self) -> float:
        """Seconds in which half of the queue is probably done, 1 to 60."""
        return min(60.0, max(1.0, math.ceil(len(self._queue) / 2 / max(self._rate, 1e-3))))

    def _positions(self, sentences: Sequence[QueuedSentence]) -> Iterator[float]:
        """Positions of a request's sentences that arrive now; answers are assumed to be as long as their source."""
        turn = self.clock()
        for sentence in sentences:
            num_target_tokens = min(sentence.num_source_tokens, sentence.longest_target)
            busy_s = (sentence.num_source_tokens + sentence.width * num_target_tokens) * self.budget.token_s
            yield turn + min(MAX_HANDICAP_S, HANDICAP * busy_s)
            turn += max(TURN_S, HANDICAP * busy_s)

    def clear(self) -> list[QueuedSentence]:
        """Empty the queue; returns what was in it."""
        left = [sentence for _, _, sentence in self._queue]
        self._queue = []
        return left
