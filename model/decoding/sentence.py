"""One sentence while it decodes, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from model.decoding.options import DecodingOptions, FinishReason, Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import ScoringRule
from model.errors import ModelError


@dataclass(frozen=True)
class DecodingRequest:
    """A sentence to decode.

    Args:
        key: Names the sentence to the caller; unique within a cohort.
        source_ids: Tokens of the source, language marker and end token included.
        options: How to decode it.
        forced_ids: Tokens every hypothesis begins with, behind the start token: a target language, for one. They
            cost nothing and are no part of the answer. All sentences of one cohort have equally many.
    """

    key: int
    source_ids: list[int]
    options: DecodingOptions
    forced_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finished:
    """A sentence that left its cohort by itself.

    Args:
        key: The sentence's.
        hypothesis: The answer; None where ``error`` says why there is none.
        error: Why this sentence, and no other, failed.
    """

    key: int
    hypothesis: Hypothesis | None
    error: ModelError | None = None


@dataclass(frozen=True)
class Ended:
    """A hypothesis of a beam that runs no more.

    Args:
        score: What it is worth.
        tokens: Its tokens, without the closing one.
        finish_reason: Whether the model closed it or it was cut.
    """

    score: float
    tokens: list[int]
    finish_reason: FinishReason


@dataclass
class Sentence:
    """What the choosing of tokens needs to know about a sentence.

    Args:
        key: The sentence's.
        options: How to decode it.
        rule: How its hypotheses are compared.
        num_source_tokens: Length of its source.
        max_new_tokens: Where it is cut.
        num_forced: Tokens between its start token and the first one chosen.
        start: Column of its start token.
        pool: Hypotheses of a beam that ended, best first.
        leader_ended: Whether the best candidate of some step was one that ended.
    """

    key: int
    options: DecodingOptions
    rule: ScoringRule
    num_source_tokens: int
    max_new_tokens: int
    num_forced: int = 0
    start: int = 0
    pool: list[Ended] = field(default_factory=list)
    leader_ended: bool = False

    @classmethod
    def of(cls, request: DecodingRequest, policy: DecodingPolicy, longest_target: int) -> Sentence:
        """A sentence that is about to decode.

        Args:
            request: What was asked for.
            policy: The model's way of decoding.
            longest_target: Tokens the model can produce at all, forced ones included.
        """
        num_source_tokens, num_forced = len(request.source_ids), len(request.forced_ids)
        return cls(
            request.key,
            request.options,
            policy.rule(request.options),
            num_source_tokens,
            request.options.longest_answer(num_source_tokens, longest_target - num_forced),
            num_forced,
        )


@dataclass(frozen=True)
class Past:
    """The tokens that led to a step's logits.

    Args:
        sentences: Those whose next tokens are chosen, N.
        history: Input tokens by column, (N, rows, columns); the start token stands at ``sentence.start``.
        columns: Columns in use.
    """

    sentences: list[Sentence]
    history: Tensor
    columns: int

    def num_generated(self, index: int) -> int:
        """Tokens generated so far by sentence ``index``, before the choice."""
        return self.columns - self._first(index)

    def tokens(self, index: int, row: int) -> list[int]:
        """Tokens generated so far by one row of sentence ``index``."""
        return list(self.history[index, row, self._first(index) : self.columns].tolist())

    def _first(self, index: int) -> int:
        """Column of the first token that was chosen."""
        return self.sentences[index].start + 1 + self.sentences[index].num_forced


@dataclass(frozen=True)
class Choice:
    """What a step chose.

    Args:
        tokens: The next input token of every row, (N, K).
        parents: The row, within its sentence, each row goes on from, (N, K); None where each goes on from itself.
        finished: Sentences that are done, by their index.
    """

    tokens: Tensor
    parents: Tensor | None
    finished: dict[int, Finished]
