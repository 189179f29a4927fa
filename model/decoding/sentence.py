"""A sentence on its way through a cohort: its request, its resolved options, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import ScoringRule
from model.errors import ModelError

MAX_REQUIRED_IDS = 16
"""Maximum number of tokens that a sentence may require."""


@dataclass(frozen=True)
class DecodingRequest:
    """A sentence to decode.

    Args:
        key: Identifies the sentence for the caller; unique within a cohort.
        source_ids: Tokens of the source, language marker and end token included.
        options: How to decode it.
        forced_ids: Tokens that follow the start token in every hypothesis, such as that of the target language. They
            add no log-probability and are not part of the answer. All sentences of a cohort have the same number.
        required_ids: Tokens that every hypothesis contains exactly once each, at most :data:`MAX_REQUIRED_IDS`
            (:mod:`model.decoding.eager.filters`). They may be tokens that are never generated otherwise.
        prefix_ids: Tokens that follow the forced ones in every hypothesis: the given beginning of the answer. They add
            no log-probability either. Sentences of a cohort may have different numbers of them.

    Raises:
        ValueError: ``required_ids`` has too many tokens, or one of them twice.
    """

    key: int
    source_ids: list[int]
    options: DecodingOptions
    forced_ids: tuple[int, ...] = ()
    required_ids: tuple[int, ...] = ()
    prefix_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.required_ids) > MAX_REQUIRED_IDS:
            raise ValueError(f"required_ids are {len(self.required_ids)} tokens; the limit is {MAX_REQUIRED_IDS}.")
        if len(set(self.required_ids)) < len(self.required_ids):
            raise ValueError(f"required_ids are {self.required_ids}; they must all be different.")

    @property
    def given_ids(self) -> tuple[int, ...]:
        """Tokens between the start token and the first chosen token: the forced ones, then the prefix."""
        return (*self.forced_ids, *self.prefix_ids)


@dataclass(frozen=True)
class Sentence:
    """A request with its options resolved by the model's policy, as every back-end decodes it.

    Args:
        request: The request.
        rule: Compares the hypotheses and decides when the search ends.
        max_new_tokens: Number of chosen tokens after which the answer is cut; at least 1.
    """

    request: DecodingRequest
    rule: ScoringRule
    max_new_tokens: int

    @classmethod
    def of(cls, request: DecodingRequest, policy: DecodingPolicy, longest_target: int) -> Sentence:
        """Resolve a request.

        Args:
            request: The request.
            policy: The model's decoding policy.
            longest_target: Maximum number of tokens that the model can produce, including forced ones and a prefix.

        Raises:
            ValueError: Forced tokens and prefix leave no room for another token.
        """
        room = longest_target - len(request.given_ids)
        if room < 1:
            raise ValueError(
                f"forced_ids and prefix_ids are {len(request.given_ids)} tokens; the limit is {longest_target - 1}."
            )
        longest_answer = request.options.longest_answer(len(request.source_ids), room)
        return cls(request, policy.rule(request.options), longest_answer)

    @property
    def key(self) -> int:
        """The request's key."""
        return self.request.key

    @property
    def options(self) -> DecodingOptions:
        """The request's options."""
        return self.request.options

    @property
    def num_source_tokens(self) -> int:
        """Number of tokens of the source."""
        return len(self.request.source_ids)

    @property
    def num_forced(self) -> int:
        """Number of tokens between the start token and the answer."""
        return len(self.request.forced_ids)

    @property
    def num_prefix(self) -> int:
        """Number of tokens at the beginning of the answer that are given, not chosen."""
        return len(self.request.prefix_ids)

    @property
    def num_given(self) -> int:
        """Number of tokens between the start token and the first chosen token."""
        return self.num_forced + self.num_prefix


@dataclass(frozen=True)
class Finished:
    """The outcome of a sentence that has left its cohort.

    Args:
        key: The key of its request.
        hypothesis: The answer; None if there is an error.
        error: The reason why this sentence failed.
    """

    key: int
    hypothesis: Hypothesis | None
    error: ModelError | None = None
