"""Who waits, who is let in, and who joins a model next. No asyncio, no torch, and the clock is passed in.

Sentences are ordered by when they came. What takes the model long counts as having come later, by a multiple of the
seconds it takes, so that short sentences go first; but never by more than ``MAX_HANDICAP_S``: waiting outweighs size,
and nobody starves. Each further sentence of one request counts as having come later by a multiple of what those before
it take, and one request never has all rows, so that a long document does not keep everybody else waiting. The first of
the line always goes next; when it does not fit beside those that decode, smaller ones may overtake it until it has
waited ``OVERTAKE_S``, and after that nobody does.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.errors import QueueFull
from model.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from model.translator import Translator

BatchKey = tuple[object, int]
"""What can decode together: sentences of one model and one beam width."""

TURN_S = 0.01
"""How much later each further sentence of one request counts as having come, at least."""

REQUEST_SHARE = 0.75
"""Share of the rows that one request may have: whoever comes finds some free, and the rest are enough to be fast."""

OVERTAKE_S = 0.5
"""How long smaller sentences may overtake the first of the line."""

HANDICAP = 4.0
"""How much later a sentence, and the next of its request, count as having come, in multiples of the time it takes."""

MAX_HANDICAP_S = 0.5
"""How much later it counts as having come at most: whoever comes that long after another stands behind it."""


@dataclass(frozen=True)
class SourceSentence:
    """A sentence somebody wants to have translated.

    Args:
        model: The model it is for.
        token_ids: Its tokens.
        forced_ids: Tokens its answer is made to begin with.
    """

    model: Translator
    token_ids: list[int]
    forced_ids: tuple[int, ...] = ()


@dataclass(eq=False)
class WaitingSentence:
    """A sentence on its way to the model.

    Args:
        key: Unique number.
        source: What it is.
        options: How to decode it.
        deliver: Takes the outcome, on the engine's thread.
        arrived_at: Clock time it was admitted.
        started_at: Clock time it joined the model; NaN while it waits.
        max_target_tokens: Tokens the model can produce at all, whatever the options allow.
        request: What it is a part of; equal to no other request.
    """

    key: int
    source: SourceSentence
    options: DecodingOptions
    deliver: Callable[[object], None]
    arrived_at: float = 0.0
    started_at: float = math.nan
    max_target_tokens: int = sys.maxsize
    request: object = field(default_factory=object)

    @property
    def width(self) -> int:
        """Rows it takes."""
        return self.options.width

    @property
    def batch(self) -> BatchKey:
        """What it can decode together with."""
        return self.source.model, self.width

    @property
    def model_name(self) -> str:
        """Name of the model it is for."""
        return self.source.model.manifest.name

    @property
    def num_source_tokens(self) -> int:
        """Tokens the model reads."""
        return len(self.source.token_ids)

    @property
    def longest_target(self) -> int:
        """Tokens its answer may have."""
        return self.options.longest_answer(self.num_source_tokens, self.max_target_tokens)


@dataclass(frozen=True)
class Budget:
    """How much may decode at once, all models and widths together.

    Args:
        max_tokens: Bound of the source tokens held and of the target tokens there may be, each with its padding.
        max_rows: Bound of rows.
        max_join_tokens: Bound of the source tokens encoded in one turn, with their padding; decoding stands still
            meanwhile. One sentence may exceed it alone.
        token_s: Seconds the model needs for one token of one row when it is busy; 0 where nobody knows.
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

    def with_one_more(self, sentence: WaitingSentence) -> Load:
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
    """The line before the model. Not thread-safe: whoever shares it holds a lock.

    Args:
        budget: Of all that decodes; may be replaced.
        max_waiting: Sentences that may wait.
        clock: Seconds that only go forward.
    """

    budget: Budget
    max_waiting: int
    clock: Callable[[], float]
    _line: list[tuple[float, int, WaitingSentence]] = field(default_factory=list)
    _rate: float = 20.0  # sentences finished a second, lately
    _last_finish: float | None = None

    @property
    def num_waiting(self) -> int:
        """Sentences in the line."""
        return len(self._line)

    def admit(self, sentences: Sequence[WaitingSentence]) -> None:
        """Let a request's sentences into the line, all or none.

        Raises:
            QueueFull: They do not fit beside those that wait.
        """
        if len(self._line) + len(sentences) > self.max_waiting:
            raise QueueFull(self.retry_after_s(), len(sentences), len(self._line), self.max_waiting)
        now = self.clock()
        for place, sentence in zip(self._places(sentences), sentences, strict=True):
            sentence.arrived_at = now
            bisect.insort(self._line, (place, sentence.key, sentence))

    def hasten(self, sentences: Sequence[WaitingSentence]) -> None:
        """Let sentences stand where they would if they came now, if that is further ahead; others are left alone."""
        places = dict(zip((sentence.key for sentence in sentences), self._places(sentences), strict=True))
        if any(places.get(key, place) < place for place, key, _ in self._line):
            self._line = sorted((min(place, places.get(key, place)), key, one) for place, key, one in self._line)

    def withdraw(self, keys: Collection[int]) -> list[WaitingSentence]:
        """Take sentences out of the line because nobody waits for them any more.

        Returns:
            Those that were still in it.
        """
        withdrawn = [sentence for _, key, sentence in self._line if key in keys]
        if withdrawn:
            self._line = [entry for entry in self._line if entry[1] not in keys]
        return withdrawn

    def take(
        self, loads: Mapping[BatchKey, Load], rows_of_requests: Mapping[object, int] | None = None
    ) -> list[WaitingSentence]:
        """The sentences that join now, all of one model and width; they leave the line.

        Args:
            loads: What decodes at present, by model and beam width.
            rows_of_requests: The rows each request has of that.
        """
        chosen: list[WaitingSentence] = []
        share = math.ceil(REQUEST_SHARE * self.budget.max_rows)
        rows_of = dict(rows_of_requests or {})
        now = self.clock()
        after = dict(loads)  # the loads once those chosen are in them
        num_rows = sum(load.num_rows for load in loads.values())
        longest_joining = 0
        passed_over = False
        for _, _, sentence in self._line:
            if num_rows >= self.budget.max_rows:
                break  # nobody fits any more; a long line is not searched in vain
            if chosen and (len(chosen) + 1) * longest_joining > self.budget.max_join_tokens:
                break
            if chosen and sentence.batch != chosen[0].batch:
                continue
            own_rows = rows_of.get(sentence.request, 0) + sentence.width
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
                rows_of[sentence.request] = own_rows
            elif not passed_over and now - sentence.arrived_at > OVERTAKE_S:
                break
            else:
                passed_over = True
        if chosen:
            if not any(load.num_rows for load in loads.values()):
                self._last_finish = now  # the model was idle, which does not make it slow
            taken = {sentence.key for sentence in chosen}
            self._line = [entry for entry in self._line if entry[1] not in taken]
            for sentence in chosen:
                sentence.started_at = now
        return chosen

    def finished(self, num_sentences: int) -> None:
        """Sentences were finished: what the advice of :meth:`retry_after_s` rests on."""
        now = self.clock()
        if self._last_finish is not None and now > self._last_finish:
            seconds = now - self._last_finish
            weight = 1.0 - math.exp(-seconds / 10.0)
            self._rate += weight * (num_sentences / seconds - self._rate)
        self._last_finish = now

    def retry_after_s(self) -> float:
        """Seconds in which half of the line is likely done, 1 to 60."""
        return min(60.0, max(1.0, math.ceil(len(self._line) / 2 / max(self._rate, 1e-3))))

    def _places(self, sentences: Sequence[WaitingSentence]) -> Iterator[float]:
        """Where a request's sentences stand if they come now; answers are taken to be as long as their source."""
        turn = self.clock()
        for sentence in sentences:
            num_target_tokens = min(sentence.num_source_tokens, sentence.longest_target)
            busy_s = (sentence.num_source_tokens + sentence.width * num_target_tokens) * self.budget.token_s
            yield turn + min(MAX_HANDICAP_S, HANDICAP * busy_s)
            turn += max(TURN_S, HANDICAP * busy_s)

    def clear(self) -> list[WaitingSentence]:
        """Empty the line; returns who stood in it."""
        left = [sentence for _, _, sentence in self._line]
        self._line = []
        return left
