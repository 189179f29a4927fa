"""How a route reads its request: guards on the headers, then a bounded and strictly parsed JSON body.

FastAPI then checks the body against the model declared in the route's signature, and documents that model. To add a
route, write a module in :mod:`app.http.routes`, and include its router in :mod:`app.main`::

    router = APIRouter(tags=["translation"], route_class=json_route(accepting("application/json")))

    @router.post("/translate", responses=answers(EXAMPLE, *ERRORS))
    async def translate(asked: Annotated[TranslateRequest, Body(openapi_examples=...)]) -> TranslateResponse:
        ...

Three things are done here and not by FastAPI:

- The size of a body is bounded while it is read. FastAPI's ``max_body_size`` (Starlette's RequestBodyLimitMiddleware)
  replaces whatever the application answers to a body that is too large with a text, so no problem could be sent.
- JSON is parsed by pydantic's parser. FastAPI uses ``json.loads``, which accepts NaN, Infinity and lone surrogates.
- Guards run before the body is read. FastAPI reads the body before it calls dependencies, so a client without
  permission could make the service read and parse megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from app.errors import InvalidRequest
from app.http.negotiation import choose_media_type
from app.http.request_body import field_problems, read_json
from app.http.state import settings_of

Guard = Callable[[Request], None]
"""Refuses a request by raising a ServiceError; it sees the headers, the body has not been read."""


def accepting(*media_types: str) -> Guard:
    """A guard that refuses a client that accepts none of a route's media types.

    The route finds the one chosen in ``request.state.media_type``.

    Args:
        media_types: Those the route can answer with, the default first.
    """

    def choose(request: Request) -> None:
        request.state.media_type = choose_media_type(request.headers.get("accept"), media_types)

    return choose


def json_route(*guards: Guard) -> type[JsonRoute]:
    """The class of the routes of one router.

    Args:
        guards: Called in this order before the body is read.
    """
    return type("JsonRoute", (JsonRoute,), {"guards": guards})


class JsonRoute(APIRoute):
    """A route whose request is read as the module describes; routes without a body have only the guards."""

    guards: ClassVar[tuple[Guard, ...]] = ()

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The function that answers a request, around FastAPI's own."""
        handle = super().get_route_handler()
        guards = self.guards
        schema = None if self.body_field is None else self.body_field.field_info.annotation
        known_fields = list(schema.model_fields) if isinstance(schema, type) and issubclass(schema, BaseModel) else []

        async def answer(request: Request) -> Response:
            for guard in guards:
                guard(request)
            if schema is not None:
                body, content = await read_json(request, settings_of(request).max_body_bytes)
                request = _JsonRequest(request, body, content)
            try:
                return await handle(request)
            except RequestValidationError as error:
                problems = field_problems(error.errors(), known_fields)
            # Raised outside the except block: the cause would quote the text that was sent.
            raise InvalidRequest(problems)

        return answer


class _JsonRequest(Request):
    """A request whose body has been read and parsed; FastAPI asks it for both.

    Args:
        request: The request that was read.
        body: Its bytes.
        content: The JSON value they stand for.
    """

    def __init__(self, request: Request, body: bytes, content: dict[str, Any]) -> None:
        super().__init__(request.scope, request.receive)
        self._bytes_read = body
        self._content = content

    async def body(self) -> bytes:
        """The bytes of the body."""
        return self._bytes_read

    async def json(self) -> Any:
        """The parsed body."""
        return self._content
