"""The options that a model supports by its training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from model.errors import UnsupportedFormality
from model.languages import plain_code

_FORMS_OF_ADDRESS = ("de",)
"""Target languages whose forms of address training can teach (:mod:`model.training.controlled_pairs`)."""


@dataclass(frozen=True)
class Capabilities:
    """The options that a model supports by its training; none by default.

    Args:
        placeholders: Number of placeholder symbols that it copies to their positions in the translation.
        formality: Target languages in which it supports the option ``formality``.
        glossary: Whether it supports glossary terms in the source, and inflects them.
    """

    placeholders: int = 0
    formality: tuple[str, ...] = ()
    glossary: bool = False

    @classmethod
    def learned(cls, controls: Mapping[str, float], targets: Sequence[str], num_placeholders: int) -> Capabilities:
        """The capabilities that a model learned.

        Args:
            controls: The shares of the training pairs that taught them, by name
                (:class:`model.training.controls.Controls`).
            targets: Its target languages.
            num_placeholders: Number of placeholder symbols in its vocabulary.
        """
        return cls(
            placeholders=num_placeholders if controls.get("placeholders") else 0,
            formality=tuple(
                language for language in _FORMS_OF_ADDRESS if controls.get("formality") and language in targets
            ),
            glossary=bool(controls.get("glossary")),
        )

    def check_formality(self, formality: str | None, target: str) -> None:
        """Refuse a form of address that the model does not support.

        Args:
            formality: The requested form, or None.
            target: The target language.

        Raises:
            UnsupportedFormality: The model does not support it in this language.
        """
        if formality is not None and plain_code(target) not in self.formality:
            raise UnsupportedFormality(formality, target, self.formality)
