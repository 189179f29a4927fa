"""Bodies of errors, as RFC 9457 defines them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class FieldProblemBody(BaseModel):
    """One field that was refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    field: str
    """Its path: `beam_size`, or `text[2]` for the third text."""

    message: str
    """What is wrong and what would be right."""

    value: Any = None
    """The value sent, if it is short enough to repeat."""

    bound: Any = None
    """The bound it exceeds, if there is one."""


class ProblemBody(BaseModel):
    """An error, as RFC 9457 defines it."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str = "about:blank"
    """URI of the kind of problem; always `about:blank`, the kind is `code`."""

    title: str
    """The kind of problem, for people."""

    status: int
    """The HTTP status."""

    code: str
    """The kind of problem, for programs: it does not change between versions."""

    detail: str | None = None
    """What happened this time, with the value given, the bound and what to do about it."""


class InvalidRequestBody(ProblemBody):
    """A request with fields that cannot be served, each of them listed."""

    errors: list[FieldProblemBody] = []
    """The fields refused."""
