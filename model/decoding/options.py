"""The options of decoding, and its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from model.errors import InvalidOptions

Decoding = Literal["greedy", "beam"]
FinishReason = Literal["stop", "length"]
Scoring = Literal["hf", "ct2", "marian", "wu"]
DEFAULT_SCORING: Scoring = "hf"
"""The rule of models whose policy names none."""

MAX_BEAM_SIZE = 64
"""The largest beam size of the decoder; a service may set a lower bound."""


@dataclass(frozen=True)
class DecodingOptions:
    """How one sentence is decoded. Contradictions are refused here and nowhere else.

    Args:
        decoding: ``greedy`` takes the most probable token at every step, ``beam`` keeps ``beam_size`` hypotheses.
        beam_size: Hypotheses kept per sentence; greedy ignores it.
        length_penalty: Exponent ``a`` of the length: 0 compares sums of log-probabilities and favours short answers, 1
            compares means. The formula is that of :attr:`scoring`. None: the model's own.
        num_hypotheses: Best hypotheses returned, at most ``beam_size`` (1 for greedy).
        min_new_tokens: The fewest tokens before the closing token, without those of a prefix.
        max_new_tokens: The number of tokens at which the sentence is cut, with its closing token and without those of a
            prefix; None: it depends on the length of the source (:func:`default_max_new_tokens`).
        return_scores: Whether hypotheses have their score; without it, greedy search skips the softmax.
        early_stopping: Whether to stop as soon as ``beam_size`` hypotheses ended, although a running one might beat
            them. None: the model's own.
        scoring: The rule that compares hypotheses and ends a search (:mod:`model.decoding.scoring`). None: the model's
            own.
        no_repeat_ngram_size: A guard against loops: no sequence of this many tokens may occur twice in one
            hypothesis. 0 switches it off.
        return_search: Whether the hypothesis has the candidates of every step (:attr:`Hypothesis.search`).

    Raises:
        InvalidOptions: A value is out of bounds or two contradict each other.
    """

    decoding: Decoding = "beam"
    beam_size: int = 4
    length_penalty: float | None = None
    num_hypotheses: int = 1
    min_new_tokens: int = 0
    max_new_tokens: int | None = None
    return_scores: bool = False
    early_stopping: bool | None = None
    scoring: Scoring | None = None
    no_repeat_ngram_size: int = 0
    return_search: bool = False

    def __post_init__(self) -> None:
        if self.decoding not in ("greedy", "beam"):
            raise InvalidOptions(f"decoding is {self.decoding!r}; it must be 'greedy' or 'beam'.")
        if not 1 <= self.beam_size <= MAX_BEAM_SIZE:
            raise InvalidOptions(f"beam_size is {self.beam_size}; it must be 1 to {MAX_BEAM_SIZE}.")
        if self.length_penalty is not None and not 0.0 <= self.length_penalty <= 10.0:
            raise InvalidOptions(f"length_penalty is {self.length_penalty}; it must be 0 to 10.")
        if self.scoring is not None and self.scoring not in get_args(Scoring):
            raise InvalidOptions(f"scoring is {self.scoring!r}; it must be one of {', '.join(get_args(Scoring))}.")
        if not 1 <= self.num_hypotheses <= self.width:
            raise InvalidOptions(
                f"num_hypotheses is {self.num_hypotheses}; it must be 1 to the beam size, which is {self.width}"
                + (" for greedy decoding." if self.decoding == "greedy" else ".")
            )
        if self.min_new_tokens < 0:
            raise InvalidOptions(f"min_new_tokens is {self.min_new_tokens}; it must be 0 or more.")
        if self.max_new_tokens is not None and self.max_new_tokens < max(1, self.min_new_tokens):
            raise InvalidOptions(
                f"max_new_tokens is {self.max_new_tokens}; it must be at least 1 and at least min_new_tokens, "
                f"which is {self.min_new_tokens}."
            )
        if self.no_repeat_ngram_size < 0:
            raise InvalidOptions(f"no_repeat_ngram_size is {self.no_repeat_ngram_size}; it must be 0 or more.")

    def __hash__(self) -> int:
        """From a few fields only: caches compute it several times for each sentence, and know few different options."""
        return hash((self.decoding, self.beam_size, self.num_hypotheses, self.max_new_tokens))

    def longest_answer(self, num_source_tokens: int, longest_target: int) -> int:
        """The most tokens of an answer: the requested or the default number, bounded by the model.

        Args:
            num_source_tokens: Tokens of the source sentence, markers included.
            longest_target: The most tokens that the model can produce after forced ones and a prefix.
        """
        requested = self.max_new_tokens or default_max_new_tokens(num_source_tokens, longest_target)
        return min(requested, longest_target)

    @property
    def width(self) -> int:
        """Rows of a sentence while it decodes: the beam size, or 1 for greedy search."""
        return self.beam_size if self.decoding == "beam" else 1


def default_max_new_tokens(num_source_tokens: int, longest_target: int) -> int:
    """The most tokens of an answer if the caller sets no limit: twice the source plus 20.

    A translation is rarely twice as long as its source. A longer one is most likely a loop, which ends here with
    ``finish_reason: length`` instead of at the model's limit.

    Args:
        num_source_tokens: Tokens of the source sentence, markers included.
        longest_target: The most tokens that the model can produce.
    """
    return min(2 * num_source_tokens + 20, longest_target)


@dataclass(frozen=True)
class Candidate:
    """One more token for a hypothesis, which a step of a search considered.

    Args:
        id: Its number, counted from 1 over all steps of the sentence.
        parent: The number of the candidate it continues; 0 for the beginning: the forced tokens and the prefix.
        token_id: The token.
        log_prob: Sum of the log-probabilities of its tokens, this one included; those of the beginning count 0.
        kept: Whether the search continued with it, or it ended among the best; False if it was dropped.
        finished: Whether it ended here: by the closing token, or because it was cut.
    """

    id: int
    parent: int
    token_id: int
    log_prob: float
    kept: bool
    finished: bool


SearchTrace = tuple[tuple[Candidate, ...], ...]
"""The candidates of each step, those of a step best first. Greedy search considers one in each step."""


@dataclass(frozen=True)
class Hypothesis:
    """One answer of the decoder.

    Args:
        token_ids: Target tokens, those of a prefix included, without start and closing token.
        score: The sum of log-probabilities, closing token included, normalised by length
            (:mod:`model.decoding.scoring`); None unless scores were requested.
        finish_reason: ``stop`` if the model ended the sentence, ``length`` if it was cut.
        alternatives: The other hypotheses, best first, without alternatives.
        search: The search for it and its alternatives; empty unless requested, and in alternatives.
    """

    token_ids: list[int]
    score: float | None
    finish_reason: FinishReason
    alternatives: tuple[Hypothesis, ...] = ()
    search: SearchTrace = ()

    @classmethod
    def ranked(cls, answers: Sequence[Hypothesis], search: SearchTrace = ()) -> Hypothesis:
        """The best of several hypotheses, with the others as its alternatives.

        Args:
            answers: At least one, best first, without alternatives of their own.
            search: The search for them, if requested.
        """
        best, *others = answers
        return cls(best.token_ids, best.score, best.finish_reason, tuple(others), search)


Outcome = Hypothesis | Exception
"""The result of a sentence: its best hypothesis, or the error that it failed with."""
