"""The dependency of each route with parameters: it admits the caller, and reads the parameters in any form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import Depends, Request
from pydantic import BaseModel

from app.accounts.keys import Scope
from app.http.access import bearer_token
from app.http.compat import described
from app.http.compat.parameters import Parameters, read_admitted_parameters, read_parameters
from app.http.form_body import FORM_BYTES
from app.http.state import settings_of


class _Read:
    """Reads the parameters of a route. The key is the parameter ``api_key``, or is in ``Authorization: Bearer KEY``.

    Args:
        schema: The model that describes them.
        examples: Bodies for the OpenAPI document, by what they show.
        scope: What a key must have, where there are keys; None if the route needs none.
    """

    def __init__(self, schema: type[BaseModel], examples: Mapping[str, Any], scope: Scope | None) -> None:
        self._schema = schema
        self._examples = examples
        self._scope = scope

    async def __call__(self, request: Request) -> Parameters:
        """The parameters of a request.

        Raises:
            ServiceError: The caller is refused, or the parameters cannot be read.
        """
        settings = settings_of(request)
        takes_documents = self._scope == "documents" and bool(settings.max_documents)
        if self._scope is None or (self._scope == "documents" and not takes_documents):
            return await read_parameters(request, settings.max_body_bytes)
        bound = settings.max_document_bytes + FORM_BYTES if takes_documents else settings.max_body_bytes
        return (await read_admitted_parameters(request, bound, self._scope, bearer_token(request), "api_key"))[1]

    def described(self, method: str) -> dict[str, Any]:
        """See :class:`app.http.compat.described.ReadsParameters`."""
        if self._scope == "documents":
            return described.file_body(self._schema)
        return described.body(self._schema, self._examples)


def reads(schema: type[BaseModel], examples: Mapping[str, Any] | None = None, scope: Scope | None = "translate") -> Any:
    """The dependency that reads the parameters of a route.

    Args:
        schema: The model that describes them.
        examples: Bodies for the OpenAPI document, by what they show.
        scope: What a key must have, where there are keys; None if the route needs none.
    """
    return Depends(_Read(schema, examples or {}, scope))
