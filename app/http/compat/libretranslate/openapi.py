"""The routes in the OpenAPI document: FastAPI sees neither their bodies nor their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from app.http.compat.libretranslate.paths import PREFIX, SHARED
from app.http.compat.libretranslate.schemas import ErrorBody
from app.http.openapi import Responses

_ERRORS = {
    400: "Invalid request: missing q parameter",
    413: "The body is larger than 2000000 bytes; send fewer or shorter texts in one request.",
    500: "Cannot translate text: The service's log has the reason, under the request id.",
    504: (
        "The request was not finished within 30 s and was stopped; send less text at once, use greedy decoding or a "
        "smaller beam, or try again when there is less load."
    ),
}
"""An example of the error of each status."""

BODY_ERRORS = {status: _ERRORS[status] for status in (400, 413)}
"""Errors of every route with parameters in its body."""


def answers(
    example: BaseModel | list[Any] | dict[str, Any] | str,
    also: Mapping[int, str] | None = None,
    media_types: Sequence[str] = ("application/json",),
) -> Responses:
    """The ``responses`` of a route: its answer with an example, and its errors.

    Args:
        example: An answer.
        also: Further errors: an example of the message, by status.
        media_types: Forms of the answer: that of the example, and binary ones.
    """
    value = to_jsonable_python(example, exclude_none=True)
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {media_types[0]: {"example": value}, **dict.fromkeys(media_types[1:], binary)}
    success: Responses = {200: {"description": "The answer.", "content": content}}
    return success | refusals({**_ERRORS, **(also or {})})


def refusals(messages: Mapping[int, str]) -> Responses:
    """The ``responses`` of errors.

    Args:
        messages: An example of the message, by status.
    """
    return {
        status: {
            "model": ErrorBody,
            "description": "The error.",
            "content": {"application/json": {"example": {"error": message}}},
        }
        for status, message in messages.items()
    }


def describe_shared_paths(document: dict[str, Any]) -> None:
    """Add the bodies and answers of this protocol to the native routes of the same paths.

    Args:
        document: The application's OpenAPI document, which is changed.
    """
    for path in SHARED:
        native, compatible = document["paths"][path]["post"], document["paths"][PREFIX + path]["post"]
        bodies = native["requestBody"], compatible["requestBody"]
        native["requestBody"]["content"] = _either(*(body["content"] for body in bodies))
        for status, response in compatible["responses"].items():
            own = native["responses"].get(status, {**response, "content": {}})
            native["responses"][status] = {**own, "content": _either(own["content"], response["content"])}


def _either(forms: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The content of a body of either protocol, by media type."""
    content = {**others, **forms}
    for media_type in forms.keys() & others.keys():
        schemas = [forms[media_type]["schema"], others[media_type]["schema"]]
        if schemas[0] != schemas[1]:
            content[media_type] = {**forms[media_type], "schema": {"anyOf": schemas}}
    return content


def spec_of(document: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The part of an OpenAPI document for the paths below a prefix; the prefix is removed from them.

    Args:
        document: The document of the application.
        prefix: The prefix.
    """
    paths = {path.removeprefix(prefix): item for path, item in document["paths"].items() if path.startswith(prefix)}
    schemas = document["components"]["schemas"]
    used: dict[str, Any] = {}
    references = list(_references(paths))
    while references:
        name = references.pop()
        if name not in used:
            used[name] = schemas[name]
            references += _references(schemas[name])
    return {
        **{name: part for name, part in document.items() if name not in ("paths", "components", "tags")},
        "paths": paths,
        "components": {"schemas": used},
    }


def _references(node: Any) -> Iterator[str]:
    """Names of the schemas that a part of the document refers to."""
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)
