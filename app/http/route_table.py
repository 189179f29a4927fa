"""The application, and the lookup of its routes."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, FastAPI, Request
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from app.errors import ServiceError
from app.http.json_route import Handler, JsonRoute
from app.http.problems import error_response
from model.errors import ModelError


class Application(FastAPI):
    """FastAPI's router inside this service's middleware, without FastAPI's layers for telemetry and server errors.

    :func:`app.main.create_app` sets the stack, so ``add_middleware`` raises a ``RuntimeError``: middleware added there
    would never be called. docs/decisions/0033 has the cost of FastAPI's layers.
    """

    middleware_stack: ASGIApp
    """The middleware, the outermost first, and the routes."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        scope["app"] = self
        await self.middleware_stack(scope, receive, send)

    def routed(self) -> ASGIApp:
        """The application without middleware."""
        return ExceptionMiddleware(AsyncExitStackMiddleware(self.router), self.exception_handlers)


class RouteTable:
    """Looks up a route by method and path. FastAPI would try the routes one after another, and each twice.

    The table has the routes that :class:`app.http.json_route.JsonRoute` calls itself. FastAPI answers everything else:
    other routes, other methods, and unknown paths.

    Args:
        app: Answers the other requests.
        routers: The routers of the routes.
    """

    def __init__(self, app: ASGIApp, routers: Iterable[APIRouter]) -> None:
        self.app = app
        self._routes: dict[tuple[str, str], tuple[JsonRoute, Handler]] = {
            (method, route.path): (route, route.get_route_handler())
            for router in routers
            for route in router.routes
            if isinstance(route, JsonRoute) and route.is_called_here
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        match = None
        if scope["type"] == "http":
            match = self._routes.get((scope["method"], scope["path"].removeprefix(scope.get("root_path", ""))))
        if match is None:
            await self.app(scope, receive, send)
            return
        scope["route"], handler = match
        try:
            response = await handler(Request(scope, receive, send))
        except (ServiceError, ModelError) as error:
            response = error_response(scope, error)
        await response(scope, receive, send)
