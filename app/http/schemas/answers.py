"""Bodies that several answers share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from model.translation.search_trace import WrittenSearch


def is_none(value: object) -> bool:
    """Whether a field is absent from the answer."""
    return value is None


def is_empty(value: Sequence[object]) -> bool:
    """Whether a list is absent from the answer."""
    return not value


def shown_time(seconds: float) -> datetime:
    """A time in seconds since 1970, to the second."""
    return datetime.fromtimestamp(round(seconds), UTC)


class AnswerBody(BaseModel):
    """The base of answers. Bodies inside an answer are made from the attributes of the objects that they describe."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True, use_attribute_docstrings=True)


class DetectedBody(AnswerBody):
    """The detected language of a text."""

    language: str
    """Its code, as in `source`."""

    confidence: float
    """The confidence among the loaded languages, 0 to 1."""


class CandidateBody(AnswerBody):
    """A token that a step of the search considered as the continuation of a hypothesis."""

    id: int
    """Its number, counted from 1 over all steps."""

    parent: int
    """The `id` of the candidate that it continues; 0 for the beginning (`target_prefix`)."""

    token: str
    """The token, as `target_tokens` of `/attention` has it."""

    text: str
    """The text that it adds to the sentence, with a space before a word that is not the first. `target_prefix`, the
    texts of the candidates that it continues, and its own are the translation so far. Empty for the end of the
    sentence, and for a token that is a part of a character."""

    log_prob: float
    """Sum of the log-probabilities of its hypothesis up to this token; `target_prefix` counts 0."""

    kept: bool
    """Whether the search continued it, or it ended among the best; false if it was dropped."""

    finished: bool
    """Whether the translation ends with it."""


class SearchStepBody(AnswerBody):
    """The candidates of one step of the search."""

    step: int
    """Its number, from 0."""

    hypotheses: list[CandidateBody]
    """The candidates, best first; greedy search considers one."""


def search_body(search: WrittenSearch | None) -> list[SearchStepBody] | None:
    """The candidates of a search in the form of the JSON answer."""
    if search is None:
        return None
    return [
        SearchStepBody.model_validate({"step": number, "hypotheses": candidates})
        for number, candidates in enumerate(search)
    ]
