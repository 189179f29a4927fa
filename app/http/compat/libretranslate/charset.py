"""Answers in JSON name their charset: OmegaT reads the text of an answer that names none as ISO-8859-1."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.http.compat.described import JSON, DescribedRoute

JSON_UTF8 = f"{JSON}; charset=utf-8"
"""The content type of answers."""


class CharsetRoute(DescribedRoute):
    """A route whose answers in JSON name their charset."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler of the route, with the content type of its answers completed."""
        answer = super().get_route_handler()

        async def handle(request: Request) -> Response:
            response = await answer(request)
            if response.headers.get("content-type") == JSON:
                response.headers["content-type"] = JSON_UTF8
            return response

        return handle
