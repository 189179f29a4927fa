"""One text on its way through a model: cut into sentences, and put together again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.errors import InferenceFailed
from app.outcomes import TextOutcome
from app.routing import Route, Unchanged
from model.decoding.options import Hypothesis

if TYPE_CHECKING:
    from model.translator import PreparedText, Translation, Translator

logger = logging.getLogger("app.jobs")


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
