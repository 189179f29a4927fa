"""What the OpenAPI document says about the routes: FastAPI sees neither the bodies they read nor their errors."""

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
"""Those of every route with parameters in its body."""


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


def describe_shared_path(document: dict[str, Any]) -> None:
    """Describe the bodies and answers of this protocol beside those of the native route of the same path.

    Args:
        document: The application's OpenAPI document, which is changed.
    """
    native, theirs = document["paths"][SHARED]["post"], document["paths"][PREFIX + SHARED]["post"]
    native["requestBody"]["content"] = _either(native["requestBody"]["content"], theirs["requestBody"]["content"])
    for status, response in theirs["responses"].items():
        known = native["responses"].get(status, {**response, "content": {}})
        native["responses"][status] = {**known, "content": _either(known["content"], response["content"])}


def _either(forms: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The forms of a body that may be that of one protocol or of another, by media type."""
    found = {**others, **forms}
    for media_type in forms.keys() & others.keys():
        schemas = [forms[media_type]["schema"], others[media_type]["schema"]]
        if schemas[0] != schemas[1]:
            found[media_type] = {**forms[media_type], "schema": {"anyOf": schemas}}
    return found


def spec_of(document: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The part of an OpenAPI document that describes the paths below a prefix, which they lose.

    Args:
        document: The document of the application; its server is its own address.
        prefix: The prefix.
    """
    paths = {path.removeprefix(prefix): item for path, item in document["paths"].items() if path.startswith(prefix)}
    schemas = document["components"]["schemas"]
    used: dict[str, Any] = {}
    found = list(_references(paths))
    while found:
        name = found.pop()
        if name not in used:
            used[name] = schemas[name]
            found += _references(schemas[name])
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
