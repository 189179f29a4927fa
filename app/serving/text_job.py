"""The texts of a request during translation, and their results."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from app.errors import InferenceFailed
from app.models.registry import Leg, LoadedModel
from app.serving.detection import Detection
from app.serving.model_choice import ModelChoice, Remembered, Unchanged
from app.serving.prepared_texts import PreparedTexts
from model.errors import InputError, ModelError
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from torch import Tensor

    from model.attention import Attention
    from model.translation.confidence import Evidence
    from model.translation.plan import Plan
    from model.translation.results import AnswerKey, TranslatedSentence, Translation
    from model.translator import Translator

logger = logging.getLogger("app.jobs")

_T = TypeVar("_T")


class Times(NamedTuple):
    """How long a request's texts took.

    Args:
        queue_s: Seconds until the first sentence joined a cohort.
        decode_s: Seconds from then until the last sentence finished.
    """

    queue_s: float
    decode_s: float


@dataclass(frozen=True)
class Via:
    """The first of two legs of a translation.

    Args:
        language: The pivot language.
        model: Name of the model that translated into it.
    """

    language: str
    model: str


@dataclass(frozen=True)
class TextResult:
    """The result of a text.

    Args:
        result: Its translation or its error.
        model: Name of the model that wrote the translation, or None if no model was needed or found.
        detected: The result of language detection, or None if the language was given.
        via: The first leg of a translation in two legs; None if a single model translated it.
    """

    result: Translation | Exception
    model: str | None
    detected: Detection | None
    via: Via | None = None


@dataclass(frozen=True)
class TranslateResult:
    """The result of a translation request.

    Args:
        texts: The result of each text.
        model: Name of the model of the first translated text; if none was translated, of the first loaded model.
        num_source_tokens: Number of source tokens of all texts.
        num_target_tokens: Number of target tokens of all translations.
        queue_ms: Milliseconds until its first sentence joined a cohort.
        decode_ms: Milliseconds from then until its last sentence finished.
        total_ms: Milliseconds of the whole request.
    """

    texts: list[TextResult]
    model: str
    num_source_tokens: int
    num_target_tokens: int
    queue_ms: float
    decode_ms: float
    total_ms: float

    @classmethod
    def of(cls, texts: list[TextResult], default_model: str, times: Times, total_ms: float) -> TranslateResult:
        """Combine the results of a request's texts.

        Args:
            texts: The result of each text.
            default_model: The value of ``model`` if no text was translated.
            times: How long the texts took.
            total_ms: As above.
        """
        translated = [(text.result, text.model) for text in texts if not isinstance(text.result, Exception)]
        return cls(
            texts,
            next((model for _, model in translated if model), default_model),
            sum(translation.num_source_tokens for translation, _ in translated),
            sum(translation.num_target_tokens for translation, _ in translated),
            times.queue_s * 1000,
            times.decode_s * 1000,
            total_ms,
        )

    @property
    def results(self) -> list[Translation | Exception]:
        """For each text its translation or its error."""
        return [text.result for text in self.texts]


@dataclass(frozen=True)
class AttentionResult:
    """The result of an attention request.

    Args:
        attention: The weights.
        model: Name of the model.
        detected: The result of language detection, or None if the language was given.
    """

    attention: Attention
    model: str
    detected: Detection | None


@dataclass(eq=False)
class TextJob:
    """A text split into sentences, and the model that translates them.

    Args:
        choice: The model and the language pair, or those of two legs.
        leg: The leg that ``plan`` is of.
        plan: Its sentences and their outcomes.
        attention: Attention weights, by answer.
        evidence: The result of :meth:`model.translator.Translator.confidence`, if a confidence is requested.
        failure: Why attention or evidence could not be computed.
    """

    choice: ModelChoice[LoadedModel]
    leg: Leg[LoadedModel]
    plan: Plan
    attention: dict[AnswerKey, Tensor] = field(default_factory=dict)
    evidence: Sequence[Evidence] | None = None
    failure: Exception | None = None

    @classmethod
    def of(
        cls, text: str, choice: ModelChoice[LoadedModel], options: TranslationOptions, prepared: PreparedTexts
    ) -> TextJob:
        """Split a text into sentences. Runs no model.

        Args:
            text: The text.
            choice: The model and the language pair.
            options: How to translate it.
            prepared: Prepares texts for one model.

        Raises:
            UnsupportedFormality: The model does not support the form of address in the target language.
            InvalidMarkup: The text is not a valid document of the format.
        """
        leg = choice.legs[0]
        if len(choice.legs) == 1:
            return cls(choice, leg, prepared.plan(leg.model.translator, text, leg.source, leg.target, options))
        # Imported here: most texts have a model for their pair.
        from model.translation.pivot import prepare_first

        second = choice.model.translator.pipeline
        languages = leg.source, leg.target, choice.target
        return cls(choice, leg, prepare_first(leg.model.translator.pipeline, second, text, languages, options))

    @property
    def translator(self) -> Translator:
        """The model of the leg."""
        return self.leg.model.translator

    @property
    def has_next_leg(self) -> bool:
        """Whether another model translates the result."""
        return self.leg is not self.choice.legs[-1]

    def next_leg(self, options: TranslationOptions) -> TextJob:
        """The text for the second leg, after the first one; this job if it failed. Runs no model.

        Args:
            options: The options of the request.
        """
        from model.translation.pivot import SecondLeg

        if self.plan.failure or self.failure:
            return self
        leg = self.choice.legs[-1]
        pipeline, pair = leg.model.translator.pipeline, (leg.source, leg.target)

        def begin() -> TextJob:
            try:
                plan = SecondLeg(self.plan, self.attention, self.evidence, pipeline, pair, options)
            except InputError as error:
                self.failure = error
                return self
            return TextJob(self.choice, leg, plan)

        return self._guarded(begin) or self

    def sentence(self, index: int) -> TranslatedSentence | None:
        """The translation of a sentence that has a hypothesis; None if it fails, which fails the text."""
        return self._guarded(lambda: self.plan.sentence(index, self.attention))

    def complete(self) -> TextResult:
        """The text's translation, or the first failure among its sentences. Runs no model."""
        first = self.choice.legs[0]
        via = None if len(self.choice.legs) == 1 else Via(first.target, first.model.name)
        return TextResult(self._translation(), self.choice.model.name, self.choice.detected, via)

    def _translation(self) -> Translation | Exception:
        failure = self.plan.failure or self.failure
        if failure is not None:
            return failure
        translation = self._guarded(lambda: self.plan.complete(self.attention, self.evidence))
        return translation if translation is not None else self.failure or InferenceFailed()

    def _guarded(self, write: Callable[[], _T]) -> _T | None:
        """The result of a function; None if it fails, which must not affect the other texts of the request."""
        try:
            return write()
        except Exception as error:
            logger.exception("a text could not be assembled")
            self.failure = error if isinstance(error, ModelError) else InferenceFailed()
            return None


def answer_without_model(
    text: str, choice: Unchanged | Remembered | Exception, options: TranslationOptions
) -> TextResult:
    """The result of a text that needs no model.

    Args:
        text: The text.
        choice: Why: the text is unchanged, its translation is stored, or it cannot be translated.
        options: The options of the request.
    """
    if isinstance(choice, Exception):
        return TextResult(choice, None, None)
    return TextResult(choice.translation(text, options), None, choice.detected)
