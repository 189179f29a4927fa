"""How many training pairs carry controls: settings of :mod:`model.training.controlled_pairs`."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from model.configuration import configuration
from model.training.augmentation import Share


@configuration("controls")
class Controls:
    """How many of the sentence pairs of an epoch carry controls; drawn again in every epoch.

    Args:
        placeholders: Share of the pairs in which words, or the tags around them, are replaced by placeholders.
        glossary: Share of the pairs whose source names the translation of some of its words.
        formality: Share of the pairs whose source names the form of address, of those where it is known.

    Raises:
        ConfigError: A share is not a number from 0 to 1, or ``placeholders`` and ``glossary`` come to more than 1.
    """

    placeholders: Share = 0.0
    glossary: Share = 0.0
    formality: Share = 0.0

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        if self.placeholders + self.glossary > 1:
            raise ValueError(
                f"The shares placeholders and glossary of controls come to {self.placeholders + self.glossary:g}; a "
                "pair shows one of them, so they can come to 1 at most."
            )
        return self

    @property
    def changes_pairs(self) -> bool:
        """Whether a pair is ever changed."""
        return bool(self.placeholders or self.glossary or self.formality)
