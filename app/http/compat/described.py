"""Describes parameters that a dependency reads in any form: FastAPI describes only bodies that it reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from fastapi.routing import APIRoute
from pydantic import BaseModel

JSON = "application/json"
MULTIPART = "multipart/form-data"
_FORMS = (JSON, "application/x-www-form-urlencoded", MULTIPART)


@runtime_checkable
class ReadsParameters(Protocol):
    """A dependency that reads the parameters of a request."""

    def described(self, method: str) -> dict[str, Any]:
        """The parameters in the OpenAPI document.

        Args:
            method: The method of the route.
        """
        ...


class DescribedRoute(APIRoute):
    """A route whose parameters are read and described by a dependency."""

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        for dependency in self.dependant.dependencies:
            if isinstance(dependency.call, ReadsParameters):
                for method in self.methods or ():  # a route has one
                    self.openapi_extra = dependency.call.described(method)


def describe(
    model: type[BaseModel], examples: Mapping[str, Mapping[str, Any]], method: str, *, has_file: bool
) -> dict[str, Any]:
    """The parameters of a route in the OpenAPI document.

    Args:
        model: The parameters.
        examples: Bodies, by title.
        method: The method of the route: a GET or DELETE has its parameters in the query.
        has_file: Whether the request has a file, ``file``.
    """
    if not model.model_fields:
        return {}
    if method in ("GET", "DELETE"):
        return _query(model)
    return _file_body(model) if has_file else _body(model, examples)


def _query(model: type[BaseModel]) -> dict[str, Any]:
    """The parameters of a query."""
    schema = _schema(model)
    required = schema.get("required", ())
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in schema["properties"].items()
        ]
    }


def _body(model: type[BaseModel], examples: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The body of a request, as JSON and as a form."""
    schema = _schema(model)
    named = {name: {"summary": name, "value": value} for name, value in examples.items()}
    content: dict[str, Any] = {form: {"schema": schema} for form in _FORMS}
    content[JSON] = {"schema": schema, "examples": named}
    return {"requestBody": {"required": True, "content": content}}


def _file_body(model: type[BaseModel]) -> dict[str, Any]:
    """The body of a request with a file; the field ``file`` is added unless the model has one."""
    schema = _schema(model)
    if "file" not in schema["properties"]:
        file = {"type": "string", "format": "binary", "description": "The file."}
        schema["properties"] = {"file": file, **schema["properties"]}
        schema["required"] = ["file", *schema["required"]]
    return {"requestBody": {"required": True, "content": {MULTIPART: {"schema": schema}}}}


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model without references: they would have to be among the document's components."""
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})

    def resolved(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return resolved(definitions[node["$ref"].rpartition("/")[2]])
            return {name: resolved(value) for name, value in node.items()}
        return [resolved(element) for element in node] if isinstance(node, list) else node

    complete: dict[str, Any] = resolved(schema)
    return complete
