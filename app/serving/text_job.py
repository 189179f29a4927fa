"""One text on its way through a model: cut into sentences, and put together again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.errors import InferenceFailed
from app.serving.detection import Detection
from app.serving.routing import Route, Unchanged
from model.decoding.options import Hypothesis

if TYPE_CHECKING:
    from model.translator import Attention, PreparedText, Translation, Translator

logger = logging.getLogger("app.jobs")


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


@dataclass(frozen=True)
class Job:
    """A text cut into sentences, and who translates it.

    Args:
        route: Which model, from which language to which.
        text: The text.
    """

    route: Route
    text: PreparedText

    @classmethod
    def of(cls, text: str, route: Route) -> Job:
        """Cut a text. Runs no model."""
        return cls(route, route.model.translator.prepare(text, route.source, route.target))

    @property
    def translator(self) -> Translator:
        """The model."""
        return self.route.model.translator


def complete(job: Job, outcomes: Sequence[Hypothesis | Exception], weights: Any) -> TextOutcome:
    """A text's translation, or the first failure among its sentences.

    Args:
        job: The text.
        outcomes: Of its sentences.
        weights: From :meth:`model.translator.Translator.align`, where links are wanted, or why there are none.
    """
    return TextOutcome(_joined(job, outcomes, weights), job.route.model.name, job.route.detected)


def _joined(job: Job, outcomes: Sequence[Hypothesis | Exception], weights: Any) -> Translation | Exception:
    for outcome in (*outcomes, weights):
        if isinstance(outcome, Exception):
            return outcome
    hypotheses = [outcome for outcome in outcomes if isinstance(outcome, Hypothesis)]
    try:
        return job.translator.complete(job.text, hypotheses, weights)
    except Exception:
        # One text must not take the others of its request along.
        logger.exception("a text could not be put together")
        return InferenceFailed()


def answer_without_model(text: str, route: Unchanged | Exception, return_alignment: bool) -> TextOutcome:
    """The answer to a text that needs no translation, or has none.

    Args:
        text: The text.
        route: Why.
        return_alignment: Whether translations carry their alignment.
    """
    if isinstance(route, Exception):
        return TextOutcome(route, None, None)
    return TextOutcome(route.translation(text, return_alignment), None, route.detected)
