"""How much may decode at once, and which of the queued sentences join what decodes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.engine.caller import Priority
from app.engine.fair_queue import BULK_SHARE, Choice
from app.engine.queued_sentence import BatchKey, QueuedSentence

REQUEST_SHARE = 0.75
"""Maximum share of the rows for one request; the rest stays free for other requests."""

CALLER_SHARE = 0.25
"""Maximum share of the rows for one caller while there are others: sentences decode faster beside fewer rows."""

CALLER_ROWS = 256
"""Maximum number of rows for one caller while there are others: as many as 64 callers with a beam of four have."""

OVERTAKE_S = 0.5
"""Seconds for which smaller sentences may overtake the first sentence of the queue."""


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


class Joining:
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
        self._is_overtaken = False  # whether smaller sentences may go before one that does not fit

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

    def decide(self, sentence: QueuedSentence, now: float) -> Choice:
        """Choose a sentence if it can join together with the chosen ones and the budget allows it.

        Args:
            sentence: The sentence; its request and its caller have less than their shares of the rows.
            now: Clock time.
        """
        if not self._may_join(sentence):
            return Choice.PASS_OVER
        batch = sentence.batch
        grown = {**self._loads, batch: self._loads.get(batch, Load()).with_one_more(sentence)}
        if not fits(grown.values(), self._budget):
            if not self._is_overtaken and now - sentence.arrived_at > OVERTAKE_S:
                return Choice.STOP
            self._is_overtaken = True
            return Choice.PASS_OVER
        self.chosen.append(sentence)
        self._loads = grown
        self._longest = max(self._longest, sentence.num_source_tokens)
        self._num_rows += sentence.width
        for owner in (sentence.owner, sentence.caller, sentence.caller.priority):
            self._rows_of[owner] = self._rows_of.get(owner, 0) + sentence.width
        return Choice.TAKE

    def _may_join(self, sentence: QueuedSentence) -> bool:
        """Whether it can be encoded together with the chosen sentences; if not, it joins in a later turn."""
        if not self.chosen:
            return True
        longest = max(self._longest, sentence.num_source_tokens)
        return sentence.batch == self.chosen[0].batch and (
            (len(self.chosen) + 1) * longest <= self._budget.max_join_tokens
        )
