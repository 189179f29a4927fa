"""What the service answers with, before it is JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.detection import Detection

if TYPE_CHECKING:
    from model.translator import Attention, Translation


@dataclass(frozen=True)
class TextOutcome:
    """What became of one text.

    Args:
        result: Its translation, or why there is none.
        model: Name of the model that translated it; None where none was needed or none was found.
        detected: How its language was told, where it was not given.
    """

    result: Translation | Exception
    model: str | None
    detected: Detection | None


@dataclass(frozen=True)
class TranslateOutcome:
    """The answer to a translation request.

    Args:
        texts: What became of each text.
        model: Name of the first text's model that was translated, else of the first model there is.
        num_source_tokens: Of all texts.
        num_target_tokens: Of all translations.
        queue_ms: How long its first sentence waited for the model, in milliseconds.
        decode_ms: From there to its last sentence's end.
        total_ms: All told.
    """

    texts: list[TextOutcome]
    model: str
    num_source_tokens: int
    num_target_tokens: int
    queue_ms: float
    decode_ms: float
    total_ms: float

    @property
    def results(self) -> list[Translation | Exception]:
        """For each text its translation, or why there is none."""
        return [text.result for text in self.texts]


@dataclass(frozen=True)
class AttentionOutcome:
    """The answer to an attention request.

    Args:
        attention: The weights.
        model: Name of the model they are of.
        detected: How the sentence's language was told, where it was not given.
    """

    attention: Attention
    model: str
    detected: Detection | None
