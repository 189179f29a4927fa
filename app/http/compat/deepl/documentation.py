"""Answers and errors of the routes in the OpenAPI document."""

from __future__ import annotations

import json

from pydantic import BaseModel

from app.documents.formats.table import MEDIA_TYPES
from app.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    DocumentNotDone,
    DocumentNotFound,
    GlossaryNotFound,
    GlossaryStoreFull,
    InferenceFailed,
    InvalidGlossary,
    InvalidParameter,
    KeyMissing,
    MemoryNotFound,
    problem_for,
)
from app.http.compat.deepl.answers import DOCUMENT, GLOSSARY_ID, DeepLError
from app.http.compat.deepl.protocol import error_answer
from app.http.openapi import Responses
from app.http.schemas.memories import MEMORY_ID

ERRORS: dict[str, Exception] = {
    "unsupported value": InvalidParameter("Value for 'target_lang' not supported."),
    "wrong terms": InvalidGlossary("Line 2 of the entries must have a source and a target."),
    "no key": KeyMissing(),
    "no glossary": GlossaryNotFound(GLOSSARY_ID),
    "no memory": MemoryNotFound(MEMORY_ID),
    "no document": DocumentNotFound(DOCUMENT.document_id),
    "not done": DocumentNotDone("running"),
    "too large": BodyTooLarge(2_000_000),
    "full": GlossaryStoreFull("there may be 1000 glossaries"),
    "failed": InferenceFailed(),
    "too slow": DeadlineExceeded(30.0),
}
"""An error of each kind that a route documents."""

_TRACE = {"X-Trace-ID": {"description": "Identifies the request in the log.", "schema": {"type": "string"}}}


def success(example: BaseModel, status: int = 200) -> Responses:
    """The answer of a route.

    Args:
        example: An example; its class is the model of the answer.
        status: Its status.
    """
    value = example.model_dump(mode="json", exclude_none=True)
    content = {"application/json": {"example": value}}
    return {status: {"model": type(example), "description": "The answer.", "content": content, "headers": _TRACE}}


def text(media_type: str, example: str) -> Responses:
    """An answer that is text.

    Args:
        media_type: Its media type.
        example: An example.
    """
    content = {media_type: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": "The answer.", "content": content, "headers": _TRACE}}


def files(example: str) -> Responses:
    """An answer that is a document of any format.

    Args:
        example: A plain text.
    """
    binary = {"schema": {"type": "string", "format": "binary"}}
    responses = text(MEDIA_TYPES[0], example)
    responses[200]["content"] |= dict.fromkeys(MEDIA_TYPES[1:], binary)
    return responses


def no_content() -> Responses:
    """An answer without content."""
    return {204: {"description": "Deleted.", "headers": _TRACE}}


def errors(*statuses: int) -> Responses:
    """The errors of a route, with an example of each.

    Args:
        statuses: Their statuses.
    """
    responses: Responses = {}
    for name, error in ERRORS.items():
        problem = problem_for(error)
        error_response = error_answer(problem)
        value = json.loads(bytes(error_response.body))
        if error_response.status_code in statuses:
            response = responses.setdefault(
                error_response.status_code,
                {"model": DeepLError, "description": "", "content": {"application/json": {"examples": {}}}},
            )
            response["content"]["application/json"]["examples"][name] = {"summary": problem.title, "value": value}
            response["description"] += f"{', ' if response['description'] else ''}{problem.title}"
    return responses
