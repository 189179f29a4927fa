"""What the routes declare for the OpenAPI document: they read their parameters themselves, in any form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from app.documents.formats.table import MEDIA_TYPES
from app.errors import problem_for
from app.http.compat.deepl.answers import DeepLError
from app.http.compat.deepl.examples import ERRORS
from app.http.compat.deepl.protocol import error_answer

Responses = dict[int | str, dict[str, Any]]
"""The ``responses`` of a route, by status."""

_FORMS = ("application/json", "application/x-www-form-urlencoded", "multipart/form-data")

_ID = {"name": "glossary_id", "in": "path", "required": True, "schema": {"type": "string"}}

_TRACE = {"X-Trace-ID": {"description": "Identifies the request in the log.", "schema": {"type": "string"}}}


def success(model: type[BaseModel], example: BaseModel, status: int = 200) -> Responses:
    """The answer of a route.

    Args:
        model: Its model.
        example: An example.
        status: Its status.
    """
    value = example.model_dump(mode="json", exclude_none=True)
    content = {"application/json": {"example": value}}
    return {status: {"model": model, "description": "The answer.", "content": content, "headers": _TRACE}}


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
    found = text(MEDIA_TYPES[0], example)
    found[200]["content"] |= dict.fromkeys(MEDIA_TYPES[1:], binary)
    return found


def no_content() -> Responses:
    """An answer without content."""
    return {204: {"description": "It is deleted.", "headers": _TRACE}}


def errors(*statuses: int) -> Responses:
    """The errors of a route, with an example of each.

    Args:
        statuses: Their statuses.
    """
    responses: Responses = {}
    for name, error in ERRORS.items():
        problem = problem_for(error)
        made = error_answer(problem)
        value = json.loads(bytes(made.body))
        if made.status_code in statuses:
            response = responses.setdefault(
                made.status_code,
                {"model": DeepLError, "description": "", "content": {"application/json": {"examples": {}}}},
            )
            response["content"]["application/json"]["examples"][name] = {"summary": problem.title, "value": value}
            response["description"] += f"{', ' if response['description'] else ''}{problem.title}"
    return responses


def body(model: type[BaseModel], examples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The body of a request, as JSON and as a form.

    Args:
        model: Its fields.
        examples: Bodies, by what they show.
    """
    schema = _schema(model)
    named = {name: {"summary": name, "value": value} for name, value in examples.items()}
    content = {form: {"schema": schema} for form in _FORMS}
    content["application/json"] = {"schema": schema, "examples": named}
    return {"requestBody": {"required": True, "content": content}}


def file_body(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a request with a file, ``file``.

    Args:
        model: Its other fields.
    """
    schema = _schema(model)
    file = {"type": "string", "format": "binary", "description": "The file."}
    schema["properties"] = {"file": file, **schema["properties"]}
    schema["required"] = ["file", *schema["required"]]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def id_parameter(name: str = "glossary_id") -> dict[str, Any]:
    """An id in the path.

    Args:
        name: Its name.
    """
    return {"parameters": [{**_ID, "name": name}]}


def parameters(model: type[BaseModel], *, with_id: bool = False) -> dict[str, Any]:
    """The parameters of a query.

    Args:
        model: Its fields.
        with_id: Whether the path has the id of a glossary.
    """
    schema = _schema(model)
    query = [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": field}
        for name, field in schema["properties"].items()
    ]
    return {"parameters": [_ID, *query] if with_id else query}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model, complete in itself: references would have to be among the document's components."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolved(definitions[node["$ref"].rpartition("/")[2]])
            return {name: resolved(value) for name, value in node.items()}
        return [resolved(one) for one in node] if isinstance(node, list) else node

    found: dict[str, Any] = resolved(schema)
    return found
