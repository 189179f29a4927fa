"""The dependency of each route: it admits the caller, and reads the parameters in any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel

from app.accounts.keys import Scope
from app.http.compat import described
from app.http.compat.deepl.parameters import NoParameters
from app.http.compat.deepl.protocol import read_sent
from app.http.form_body import FORM_BYTES
from app.http.state import settings_of

_Schema = TypeVar("_Schema", bound=BaseModel)


class _Read(Generic[_Schema]):
    """Reads the parameters of a route; they are also in ``request.state.sent``, as they were sent.

    Args:
        schema: Their model.
        examples: Bodies for the OpenAPI document, by what they show.
        scope: What a key must have, where there are keys.
        has_file: Whether the request has a file.
    """

    def __init__(
        self, schema: type[_Schema], examples: Mapping[str, Mapping[str, Any]], scope: Scope, *, has_file: bool
    ) -> None:
        self._schema = schema
        self._examples = examples
        self._scope = scope
        self._has_file = has_file

    async def __call__(self, request: Request) -> _Schema:
        """The parameters of a request.

        Raises:
            ServiceError: The key or the parameters are refused.
        """
        settings = settings_of(request)
        max_bytes = settings.max_document_bytes + FORM_BYTES if self._has_file else settings.max_body_bytes
        sent = request.state.sent = await read_sent(request, max_bytes, self._scope)
        return sent.parameters.as_model(self._schema, settings.max_texts)

    def described(self, method: str) -> dict[str, Any]:
        """See :class:`app.http.compat.described.ReadsParameters`."""
        if not self._schema.model_fields:
            return {}
        if method in ("GET", "DELETE"):
            return described.query(self._schema)
        return described.file_body(self._schema) if self._has_file else described.body(self._schema, self._examples)


def reads(
    schema: type[BaseModel],
    examples: Mapping[str, Mapping[str, Any]] | None = None,
    scope: Scope = "translate",
    *,
    has_file: bool = False,
) -> Any:
    """The dependency that reads the parameters of a route.

    Args:
        schema: Their model.
        examples: Bodies for the OpenAPI document, by what they show.
        scope: What a key must have, where there are keys.
        has_file: Whether the request has a file.
    """
    return Depends(_Read(schema, examples or {}, scope, has_file=has_file))


ADMITTED = [reads(NoParameters)]
"""The dependencies of a route without parameters of its own."""
