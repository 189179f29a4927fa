"""A sentence on its way through a cohort: what is asked for, how it decodes, and its result."""

from __future__ import annotations

from dataclasses import dataclass

from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import ScoringRule
from model.errors import ModelError

MAX_ONCE_IDS = 16
"""The most tokens that a sentence may require."""


@dataclass(frozen=True)
class DecodingRequest:
    """A sentence to decode.

    Args:
        key: Names the sentence to the caller; unique within a cohort.
        source_ids: Tokens of the source, language marker and end token included.
        options: How to decode it.
        forced_ids: Tokens every hypothesis begins with, behind the start token: a target language, for one. They
            cost nothing and are no part of the answer. All sentences of one cohort have equally many.
        once_ids: Tokens that every hypothesis holds exactly once each, at most :data:`MAX_ONCE_IDS`
            (:mod:`model.decoding.eager.filters`). They may be among those that are never generated otherwise.
        prefix_ids: Tokens every hypothesis begins with, behind the forced ones. They are the beginning of the answer,
            and cost nothing either. Sentences of one cohort may have different numbers of them.

    Raises:
        ValueError: ``once_ids`` are too many, or not all different.
    """

    key: int
    source_ids: list[int]
    options: DecodingOptions
    forced_ids: tuple[int, ...] = ()
    once_ids: tuple[int, ...] = ()
    prefix_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.once_ids) > MAX_ONCE_IDS:
            raise ValueError(f"once_ids are {len(self.once_ids)} tokens; there may be {MAX_ONCE_IDS}.")
        if len(set(self.once_ids)) < len(self.once_ids):
            raise ValueError(f"once_ids are {self.once_ids}; they must be all different.")

    @property
    def given_ids(self) -> tuple[int, ...]:
        """Tokens between the start token and the first one that is chosen: the forced ones, then the prefix."""
        return (*self.forced_ids, *self.prefix_ids)


@dataclass(frozen=True)
class Sentence:
    """A request whose options are resolved with the model's policy: what every back-end decodes by.

    Args:
        request: What was asked for.
        rule: How its hypotheses are compared and what ends its search.
        max_new_tokens: The number of chosen tokens after which it is cut; at least 1.
    """

    request: DecodingRequest
    rule: ScoringRule
    max_new_tokens: int

    @classmethod
    def of(cls, request: DecodingRequest, policy: DecodingPolicy, longest_target: int) -> Sentence:
        """A sentence that is about to decode.

        Args:
            request: What is asked for.
            policy: The model's way of decoding.
            longest_target: Tokens the model can produce at all, forced ones and a prefix included.

        Raises:
            ValueError: Forced tokens and prefix leave no room for another token.
        """
        room = longest_target - len(request.given_ids)
        if room < 1:
            raise ValueError(
                f"forced_ids and prefix_ids are {len(request.given_ids)} tokens; there may be {longest_target - 1}."
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
        """Length of its source."""
        return len(self.request.source_ids)

    @property
    def num_forced(self) -> int:
        """Tokens between its start token and its answer."""
        return len(self.request.forced_ids)

    @property
    def num_prefix(self) -> int:
        """Tokens of its answer that are not chosen."""
        return len(self.request.prefix_ids)

    @property
    def num_given(self) -> int:
        """Tokens between its start token and the first one that is chosen."""
        return self.num_forced + self.num_prefix


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
