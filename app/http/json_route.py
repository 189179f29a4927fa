"""Routes whose request and answer are JSON.

Guards check the headers of a request. Then its JSON body, which is bounded and strictly parsed, is validated against
the model that the route declares. Then the route is called, and its result is written as JSON. FastAPI makes the
OpenAPI document from the same declarations. To add a route, write a module in :mod:`app.http.routes`, and
include its router in :mod:`app.main`::

    router = APIRouter(tags=["translation"], route_class=json_route(accepting("application/json")))

    @router.post("/translate", responses=answers(EXAMPLE, *ERRORS))
    async def translate(request: Request, body: Annotated[TranslateRequest, Body(...)]) -> TranslateResponse:
        ...

A route with other parameters, such as a part of its path, is called by FastAPI after the guards. The others are called
here, for these reasons:

- The size of a body is bounded while it is read. FastAPI's ``max_body_size`` (Starlette's RequestBodyLimitMiddleware)
  replaces the application's answer to a body that is too large with a text, so no problem could be sent.
- JSON is parsed by pydantic's parser. FastAPI uses ``json.loads``, which accepts NaN, Infinity and lone surrogates.
- Guards run before the body is read. FastAPI reads the body before it calls dependencies, so a client without
  permission could make the service read and parse megabytes.
- Routing and calling by FastAPI takes as long as everything else that an answer from the cache needs
  (docs/decisions/0033).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Security
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from app.errors import InvalidRequest
from app.http.negotiation import choose_media_type
from app.http.request_body import checked, field_problems, read_json
from app.http.state import settings_of

Guard = Callable[[Request], None]
"""Refuses a request by raising a ServiceError, from its headers: the body has not been read."""

Handler = Callable[[Request], Coroutine[Any, Any, Response]]
"""Answers a request."""


def accepting(*media_types: str) -> Guard:
    """A guard that refuses a client that accepts none of a route's media types.

    ``request.state.media_type`` is the chosen one.

    Args:
        media_types: The media types of the route's answers, the default first.
    """

    def choose(request: Request) -> None:
        request.state.media_type = choose_media_type(request.headers.get("accept"), media_types)

    return choose


def json_route(*guards: Guard) -> type[JsonRoute]:
    """The class of the routes of a router.

    Args:
        guards: Called in this order before the body is read.
    """
    return type("JsonRoute", (JsonRoute,), {"guards": guards})


class JsonRoute(APIRoute):
    """A route whose request is read as the module describes; routes without a body have only the guards."""

    guards: ClassVar[tuple[Guard, ...]] = ()

    @property
    def is_called_here(self) -> bool:
        """Whether the route takes nothing but the request and a JSON body."""
        return len(inspect.signature(self.endpoint).parameters) == 1 + (self.body_field is not None)

    def get_route_handler(self) -> Handler:
        """The function that answers a request.

        Raises:
            TypeError: The route has a body and declares something that would be ignored.
        """
        if self.body_field is not None and not (self.is_called_here and self._has_only_documentation):
            raise TypeError(
                f"{self.path} has a JSON body: declare only the request and the body; guards check the rest"
            )
        handle = self._called() if self.is_called_here else self._called_by_fastapi()
        guards = self.guards

        async def answer(request: Request) -> Response:
            for guard in guards:
                guard(request)
            return await handle(request)

        return answer

    @property
    def _has_only_documentation(self) -> bool:
        """Whether its dependencies only document the authentication."""
        return all(isinstance(dependency, Security) for dependency in self.dependencies)

    def _called_by_fastapi(self) -> Handler:
        """FastAPI's function, with the errors of this service."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                problems = field_problems(error.errors(), [])
            # Raised outside the except block: the cause would quote what was sent.
            raise InvalidRequest(problems)

        return answer

    def _called(self) -> Handler:
        """The function that reads the body, calls the route, and writes its result."""
        call, status = self.endpoint, self.status_code or 200
        write = TypeAdapter(self.response_model).dump_json
        schema = None if self.body_field is None else self.body_field.field_info.annotation
        if schema is None:

            async def answer(request: Request) -> Response:
                result = await call(request)
                return result if isinstance(result, Response) else _json(write(result), status)

            return answer

        assert isinstance(schema, type) and issubclass(schema, BaseModel), "a body is described by a model"
        field_names = list(schema.model_fields)

        async def answer_body(request: Request) -> Response:
            settings = settings_of(request)
            content = await read_json(request, settings.max_body_bytes)
            result = await call(request, checked(schema, content, field_names, settings.max_texts))
            return result if isinstance(result, Response) else _json(write(result), status)

        return answer_body


def _json(content: bytes, status: int) -> Response:
    return Response(content, status, media_type="application/json")
