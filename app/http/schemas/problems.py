"""Bodies of errors, as RFC 9457 defines them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class FieldProblemBody(BaseModel):
    """A refused field."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    field: str
    """Its path: `beam_size`, or `text[2]` for the third text."""

    message: str
    """What is wrong, and what is valid."""

    value: Any = None
    """The value sent, if it is short."""

    bound: Any = None
    """The bound that it exceeds, if any."""


class ProblemBody(BaseModel):
    """An error, as RFC 9457 defines it."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str = "about:blank"
    """Always `about:blank`; `code` identifies the kind of problem."""

    title: str
    """The kind of problem, for humans."""

    status: int
    """The HTTP status."""

    code: str
    """The kind of problem, for programs; stable across versions."""

    detail: str | None = None
    """What happened, with the value, the bound and what to do about it."""


class InvalidRequestBody(ProblemBody):
    """A request with invalid fields, which are listed."""

    errors: list[FieldProblemBody] = []
    """The refused fields."""
