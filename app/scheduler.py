"""Who waits, who is let in, and who joins a model next. No asyncio, no torch, and the clock is passed in.

Sentences are ordered by when they came, and each further sentence of the same request counts as having come a
little later, so that one long document does not keep everybody else waiting. The first of the line always goes
next; when it does not fit beside those that decode, smaller ones may overtake it for a short while, and after that
nobody does.
"""

from __future__ import annotations

import bisect
import math
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.errors import QueueFull
from model.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from model.translator import Translator

BatchKey = tuple[object, int]
"""What can decode together: sentences of one model and one beam width."""

TURN_S = 0.01
"""How much later each further sentence of one request counts as having come."""

OVERTAKE_S = 0.5
"""How long smaller sentences may overtake the first of the line."""


@dataclass(frozen=True)
class SourceSentence:
    """A sentence somebody wants to have translated.

    Args:
        model: The model it is for.
        token_ids: Its tokens.
        target_prefix: Tokens its answer is made to begin with.
    """

    model: Translator
    token_ids: list[int]
    target_prefix: tuple[int, ...] = ()


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
    """

    key: int
    source: SourceSentence
    options: DecodingOptions
    deliver: Callable[[object], None]
    arrived_at: float = 0.0
    started_at: float = math.nan
    max_target_tokens: int = sys.maxsize

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
    """How much may decode at once.

    Args:
        max_tokens: Bound of sentences times longest source, and of rows times longest target, in one batch.
        max_rows: Bound of rows, all models and widths together.
    """

    max_tokens: int
    max_rows: int


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

    def with_one_more(self, sentence: WaitingSentence) -> Load:
        """The load if this sentence joined."""
        return Load(
            self.num_sentences + 1,
            self.num_rows + sentence.width,
            max(self.longest_source, sentence.num_source_tokens),
            max(self.longest_target, sentence.longest_target),
        )

    def fits(self, budget: Budget) -> bool:
        """Whether the budget allows this load. One sentence alone is always allowed."""
        if self.num_sentences == 1:
            return True
        return (
            self.num_rows <= budget.max_rows
            and self.num_sentences * self.longest_source <= budget.max_tokens
            and self.num_rows * self.longest_target <= budget.max_tokens
        )


@dataclass
class Scheduler:
    """The line before the model. Not thread-safe: whoever shares it holds a lock.

    Args:
        budget: Of one batch.
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
        for turn, sentence in enumerate(sentences):
            sentence.arrived_at = now
            bisect.insort(self._line, (now + turn * TURN_S, sentence.key, sentence))

    def withdraw(self, keys: Collection[int]) -> list[WaitingSentence]:
        """Take sentences out of the line because nobody waits for them any more.

        Returns:
            Those that were still in it.
        """
        withdrawn = [sentence for _, key, sentence in self._line if key in keys]
        if withdrawn:
            self._line = [entry for entry in self._line if entry[1] not in keys]
        return withdrawn

    def take(self, loads: Mapping[BatchKey, Load]) -> list[WaitingSentence]:
        """The sentences that join now, all of one model and width; they leave the line.

        Args:
            loads: What decodes at present, by model and beam width.
        """
        chosen: list[WaitingSentence] = []
        now = self.clock()
        num_rows = sum(load.num_rows for load in loads.values())
        joined: Load | None = None  # the load of their batch once those chosen are in it
        passed_over = False
        for _, _, sentence in self._line:
            if num_rows >= self.budget.max_rows:
                break  # nobody fits any more; a long line is not searched in vain
            if chosen and sentence.batch != chosen[0].batch:
                continue
            grown = (joined or loads.get(sentence.batch, Load())).with_one_more(sentence)
            total = num_rows + sentence.width
            if grown.fits(self.budget) and (num_rows == 0 or total <= self.budget.max_rows):
                chosen.append(sentence)
                joined, num_rows = grown, total
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

    def clear(self) -> list[WaitingSentence]:
        """Empty the line; returns who stood in it."""
        left = [sentence for _, _, sentence in self._line]
        self._line = []
        return left
