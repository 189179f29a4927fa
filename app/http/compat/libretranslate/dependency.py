"""The dependency of each route with parameters: it admits the caller and reads JSON, a form or the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Depends, Request
from pydantic import BaseModel

from app.accounts.keys import Scope
from app.http.access import bearer_token
from app.http.compat import described
from app.http.compat.parameters import Parameters, read_admitted_parameters, read_parameters
from app.http.form_body import FORM_BYTES
from app.http.state import settings_of
from app.settings import Settings


@dataclass(eq=False)
class _ReadParameters:
    """Reads the parameters of a route. The key is in the parameter ``api_key`` or in ``Authorization: Bearer KEY``.

    Args: see :func:`reads`.
    """

    schema: type[BaseModel]
    examples: Mapping[str, Any]
    scope: Scope | None
    is_on: Callable[[Settings], bool]

    async def __call__(self, request: Request) -> Parameters:
        """The parameters of a request.

        Raises:
            ServiceError: The caller is refused, or the parameters cannot be read.
        """
        settings = settings_of(request)
        if self.scope is None or not self.is_on(settings):
            return await read_parameters(request, settings.max_body_bytes)
        has_file = self.scope == "documents"
        bound = settings.max_document_bytes + FORM_BYTES if has_file else settings.max_body_bytes
        return (await read_admitted_parameters(request, bound, self.scope, bearer_token(request), "api_key"))[1]

    def described(self, method: str) -> dict[str, Any]:
        """See :class:`app.http.compat.described.ReadsParameters`."""
        return described.describe(self.schema, self.examples, method, has_file=self.scope == "documents")


def reads(
    schema: type[BaseModel],
    examples: Mapping[str, Any] | None = None,
    scope: Scope | None = "translate",
    is_on: Callable[[Settings], bool] = lambda settings: True,
) -> Any:
    """The dependency that reads the parameters of a route.

    Args:
        schema: The model that describes them.
        examples: Bodies for the OpenAPI document, by title.
        scope: The scope that a key must have, if the service has keys; None if the route needs no key.
        is_on: Whether the route does anything; one that only refuses needs no key.
    """
    return Depends(_ReadParameters(schema, examples or {}, scope, is_on))
