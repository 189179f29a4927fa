"""Bodies of the routes for documents."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.http.schemas.problems import ProblemBody
from app.http.schemas.requests import DecodingFields


class DocumentRequest(DecodingFields):
    """How to translate a document; the fields of the form beside the file."""


class SentencesBody(BaseModel):
    """How far a document is translated."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    done: int
    """Sentences that are translated."""

    total: int | None
    """All its sentences; null before they are counted, when its translation begins."""


class DocumentBody(BaseModel):
    """A document, and how far it is translated."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    id: str
    """Its id, with which everybody can get and delete it."""

    status: Literal["queued", "running", "done", "failed", "cancelled"]
    """`queued` until documents before it are done; `failed` with a `problem`."""

    filename: str
    """The name of the file."""

    sentences: SentencesBody
    """How far it is translated."""

    seconds_left: float | None
    """Seconds until it is done, from its speed so far; null if that is not known."""

    expires_at: datetime
    """When it will be deleted, result included."""

    untranslated: int = Field(default=0, exclude_if=lambda number: number == 0)
    """Sentences done that could not be translated, for example because a model failed on them, and that stay as in the
    source; absent if there are none."""

    problem: ProblemBody | None = Field(default=None, exclude_if=lambda problem: problem is None)
    """Why it failed; absent unless it has."""
