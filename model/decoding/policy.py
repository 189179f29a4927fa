"""How a model is decoded by default: stored with its weights, and overridden by a caller's options."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, get_args

from model.decoding.options import DEFAULT_SCORING, DecodingOptions, Scoring
from model.decoding.scoring import RULES, ScoringRule
from model.errors import ArtifactError


@dataclass(frozen=True)
class DecodingPolicy:
    """A family's way of decoding.

    Args:
        scoring: Rule for comparing hypotheses, unless a caller names another.
        length_penalty: Exponent, unless a caller gives another.
        early_stopping: Whether K ended hypotheses end a search, unless a caller says otherwise.
        beam_size: The width its authors recommend; for information only, callers choose theirs.
        forbidden: Tokens that are never generated; None leaves it to the tokenizer.
        renormalise: Whether the probability of forbidden tokens is distributed over the others.
        force_end: Whether a hypothesis that is cut gives up its last position to a closing token that costs nothing
            (``forced_eos_token_id``), under a rule that can do so (:attr:`model.decoding.scoring.RULES`).
    """

    scoring: Scoring = DEFAULT_SCORING
    length_penalty: float = 1.0
    early_stopping: bool = False
    beam_size: int = 4
    forbidden: tuple[int, ...] | None = None
    renormalise: bool = False
    force_end: bool = False

    def never_generated(self, tokenizers: tuple[int, ...]) -> tuple[int, ...]:
        """Tokens that may not come: the model's own list, else what its tokenizer says."""
        return tokenizers if self.forbidden is None else self.forbidden

    def rule(self, options: DecodingOptions) -> ScoringRule:
        """The rule for one sentence: what its caller chose, else the model's own."""
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
        """Read what :meth:`to_dict` gave; absent fields have their defaults.

        Raises:
            ArtifactError: A field is unknown or out of bounds.
        """
        known = {item.name for item in fields(cls)}
        for name in values:
            if name not in known:
                raise ArtifactError(f"The manifest's decoding has the unknown field {name!r}; upgrade Verso.")
        values = dict(values)
        if values.get("forbidden") is not None:
            values["forbidden"] = tuple(int(token_id) for token_id in values["forbidden"])
        policy = cls(**values)
        if policy.scoring not in get_args(Scoring):
            raise ArtifactError(
                f"The manifest's scoring is {policy.scoring!r}; it must be one of {', '.join(get_args(Scoring))}."
            )
        penalty = policy.length_penalty
        if not isinstance(penalty, int | float) or not 0.0 <= penalty <= 10.0:  # as of DecodingOptions; NaN is outside
            raise ArtifactError(f"The manifest is wrong: length_penalty is {penalty!r}; it must be 0 to 10.")
        return policy
