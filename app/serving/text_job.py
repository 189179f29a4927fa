"""The texts of a request while they are translated, and what became of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.errors import InferenceFailed
from app.serving.detection import Detection
from app.serving.model_choice import ModelChoice, Unchanged
from model.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from torch import Tensor

    from model.text_pipeline import TextPlan, Translation
    from model.translator import Attention, Translator

logger = logging.getLogger("app.jobs")


@dataclass(frozen=True)
class TextResult:
    """What became of one text.

    Args:
        result: Its translation, or why there is none.
        model: Name of the model that translated it; None where none was needed or none was found.
        detected: How its language was detected, where it was not given.
    """

    result: Translation | Exception
    model: str | None
    detected: Detection | None


@dataclass(frozen=True)
class TranslateResult:
    """The answer to a translation request.

    Args:
        texts: What became of each text.
        model: Name of the first text's model that was translated, else of the first model there is.
        num_source_tokens: Of all texts.
        num_target_tokens: Of all translations.
        queue_ms: How long its first sentence waited for the model, in milliseconds.
        decode_ms: From there to its last sentence's end.
        total_ms: The whole time.
    """

    texts: list[TextResult]
    model: str
    num_source_tokens: int
    num_target_tokens: int
    queue_ms: float
    decode_ms: float
    total_ms: float

    @classmethod
    def of(
        cls, texts: list[TextResult], some_model: str, *, queue_ms: float, decode_ms: float, total_ms: float
    ) -> TranslateResult:
        """The answer made of what became of its texts.

        Args:
            texts: What became of each text.
            some_model: The name to give if no text was translated.
            queue_ms: As above.
            decode_ms: As above.
            total_ms: As above.
        """
        translated = [(text.result, text.model) for text in texts if not isinstance(text.result, Exception)]
        return cls(
            texts,
            next((model for _, model in translated if model), some_model),
            sum(translation.num_source_tokens for translation, _ in translated),
            sum(translation.num_target_tokens for translation, _ in translated),
            queue_ms,
            decode_ms,
            total_ms,
        )

    @property
    def results(self) -> list[Translation | Exception]:
        """For each text its translation, or why there is none."""
        return [text.result for text in self.texts]


@dataclass(frozen=True)
class AttentionResult:
    """The answer to an attention request.

    Args:
        attention: The weights.
        model: Name of the model they are of.
        detected: How the sentence's language was detected, where it was not given.
    """

    attention: Attention
    model: str
    detected: Detection | None


@dataclass(eq=False)
class TextJob:
    """A text cut into sentences, and the model that translates it.

    Args:
        choice: Which model, from which language to which.
        plan: Its sentences and what became of them.
        attention: What :meth:`model.translator.Translator.align` gave, if links are wanted.
        failure: Why there is no such thing.
    """

    choice: ModelChoice
    plan: TextPlan
    attention: Sequence[Tensor] | None = None
    failure: Exception | None = None

    @classmethod
    def of(cls, text: str, choice: ModelChoice, options: DecodingOptions) -> TextJob:
        """Cut a text. Runs no model."""
        return cls(choice, choice.model.translator.prepare(text, choice.source, choice.target, options))

    @property
    def translator(self) -> Translator:
        """The model."""
        return self.choice.model.translator

    def complete(self) -> TextResult:
        """The text's translation, or the first failure among its sentences. Runs no model."""
        return TextResult(self._translation(), self.choice.model.name, self.choice.detected)

    def _translation(self) -> Translation | Exception:
        failure = self.plan.failure or self.failure
        if failure is not None:
            return failure
        try:
            return self.plan.complete(self.attention)
        except Exception:
            # The failure of one text must not fail the others of its request.
            logger.exception("a text could not be put together")
            return InferenceFailed()


def answer_without_model(text: str, choice: Unchanged | Exception, return_alignment: bool) -> TextResult:
    """The answer to a text that needs no translation, or has none.

    Args:
        text: The text.
        choice: Why.
        return_alignment: Whether translations carry their alignment.
    """
    if isinstance(choice, Exception):
        return TextResult(choice, None, None)
    return TextResult(choice.translation(text, return_alignment), None, choice.detected)
