"""The decoding policy of a model: stored with its weights, and overridden by a caller's options."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from pydantic import Field

from model.configuration import Count, Flag, NonNegative, Requirement, configuration, from_mapping
from model.decoding.options import DEFAULT_SCORING, DecodingOptions, Scoring
from model.decoding.scoring import RULES, ScoringRule
from model.errors import ArtifactError, ConfigError


@configuration("The model's decoding policy")
class DecodingPolicy:
    """How a model decodes.

    Args:
        scoring: The rule that compares hypotheses, unless a caller sets another.
        length_penalty: Its exponent, unless a caller sets another.
        early_stopping: Whether K hypotheses that ended end a search, unless a caller decides.
        beam_size: The beam size that its authors recommend; for information only.
        forbidden: Tokens that are never generated; None leaves it to the tokenizer.
        renormalise: Whether the probability of forbidden tokens is distributed over the others.
        force_end: Whether a hypothesis that is cut gives up its last position to a closing token that costs nothing
            (``forced_eos_token_id``), under a rule that can do so (:attr:`model.decoding.scoring.RULES`).
        alignment_head: The head of the last layer's cross-attention that was trained to align translations with their
            sources (guided alignment, Chen et al. 2016, arXiv:1607.01628); None: the mean of all heads aligns.
    """

    scoring: Scoring = DEFAULT_SCORING
    length_penalty: Annotated[float, Field(strict=True, ge=0, le=10)] = 1.0
    early_stopping: Flag = False
    beam_size: Count = 4
    forbidden: Annotated[tuple[int, ...], Requirement("a list of token ids")] | None = None
    renormalise: Flag = False
    force_end: Flag = False
    alignment_head: NonNegative | None = None

    def suppressed_ids(self, tokenizer_default: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens that are never generated: the model's own list, or else its tokenizer's."""
        return tokenizer_default if self.forbidden is None else self.forbidden

    def rule(self, options: DecodingOptions) -> ScoringRule:
        """The rule for one sentence: that of its caller, else the model's own."""
        return RULES[options.scoring or self.scoring].rule(
            self.length_penalty if options.length_penalty is None else options.length_penalty,
            early_stopping=self.early_stopping if options.early_stopping is None else options.early_stopping,
            force_end=self.force_end,
        )

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> DecodingPolicy:
        """Read the result of :meth:`to_dict`; absent fields have their defaults.

        Raises:
            ArtifactError: A field is unknown or out of bounds.
        """
        try:
            return from_mapping(cls, values)
        except ConfigError as error:
            raise ArtifactError(f"The manifest is wrong: {error} Upgrade Verso, or make the bundle again.") from error
