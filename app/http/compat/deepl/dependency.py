"""The dependency of each route: it admits the caller, and reads the parameters in any form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import Depends, Request
from pydantic import BaseModel

from app.accounts.keys import Scope
from app.http.compat import described
from app.http.compat.deepl.parameters import NoParameters
from app.http.compat.deepl.protocol import read_parameters
from app.http.form_body import FORM_BYTES
from app.http.state import settings_of

_Schema = TypeVar("_Schema", bound=BaseModel)


@dataclass(eq=False)
class _ReadParameters(Generic[_Schema]):
    """Admits the caller and reads the parameters of a route; ``request.state.parameters`` has them unvalidated.

    Args: see :func:`reads`.
    """

    schema: type[_Schema]
    examples: Mapping[str, Mapping[str, Any]]
    scope: Scope
    has_file: bool

    async def __call__(self, request: Request) -> _Schema:
        """The parameters of a request.

        Raises:
            ServiceError: The key or the parameters are refused.
        """
        settings = settings_of(request)
        max_bytes = settings.max_document_bytes + FORM_BYTES if self.has_file else settings.max_body_bytes
        parameters = request.state.parameters = await read_parameters(request, max_bytes, self.scope)
        return parameters.as_model(self.schema, settings.max_texts)

    def described(self, method: str) -> dict[str, Any]:
        """See :class:`app.http.compat.described.ReadsParameters`."""
        return described.describe(self.schema, self.examples, method, has_file=self.has_file)


class AdmittedRoute(described.DescribedRoute):
    """A route of this protocol. It must declare the dependency that admits the caller.

    Raises:
        TypeError: It does not: any caller could use it.
    """

    def __init__(self, path: str, endpoint: Any, **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        if not any(isinstance(dependency.call, _ReadParameters) for dependency in self.dependant.dependencies):
            raise TypeError(f"{path} admits any caller: declare a parameter with reads(), or the dependencies ADMITTED")


def reads(
    schema: type[BaseModel],
    examples: Mapping[str, Mapping[str, Any]] | None = None,
    scope: Scope = "translate",
    *,
    has_file: bool = False,
) -> Any:
    """The dependency that admits the caller and reads the parameters of a route.

    Args:
        schema: The model of the parameters.
        examples: Bodies for the OpenAPI document, by title.
        scope: The scope that a key must have, if the service has keys.
        has_file: Whether the request has a file.
    """
    return Depends(_ReadParameters(schema, examples or {}, scope, has_file))


ADMITTED = [reads(NoParameters)]
"""The dependencies of a route without parameters of its own."""
