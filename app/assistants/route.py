"""``/mcp``: the tools for assistants over HTTP ("Streamable HTTP" of the Model Context Protocol), without sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.assistants.caller import ServiceCaller
from app.assistants.tools import AnyContext, tool_server
from app.http.access import admit, bearer_token
from app.settings import Settings

PATH = "/mcp"

_LONGEST_CALL_S = 86_400.0
"""Documents may wait for a day; other routes have deadlines of their own."""


class AssistantRoute:
    """Answers ``/mcp``. A tool calls the application, with the key and the address of the assistant.

    Args:
        app: The application.
        settings: The bounds of bodies.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        server = tool_server(self._connect, on_this_machine=False)
        server.streamable_http_app(
            streamable_http_path=PATH,
            stateless_http=True,
            max_request_body_size=settings.max_body_bytes + 4 * settings.max_document_bytes // 3,  # it is in base64
            # The application checks hosts and origins itself.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )
        self._sessions = server.session_manager

    @property
    def route(self) -> Route:
        """The route, for the application's router."""
        return Route(PATH, self, methods=["GET", "POST", "DELETE"], include_in_schema=False)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Calls are answered inside this context."""
        async with self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection; nothing of its body is read before its key is checked."""
        request = Request(scope, receive)
        admit(request, bearer_token(request), None)
        await self._sessions.handle_request(scope, receive, send)

    def _connect(self, ctx: AnyContext) -> ServiceCaller:
        request = ctx.request_context.request
        assert isinstance(request, Request), "the tools are called over HTTP"
        client = (request.client.host, request.client.port) if request.client else ("", 0)
        http = httpx.AsyncClient(
            transport=httpx.ASGITransport(self._app, raise_app_exceptions=False, client=client),
            base_url=f"http://{request.headers['host']}{request.scope.get('root_path', '')}",
            timeout=_LONGEST_CALL_S,
        )
        return ServiceCaller(http, bearer_token(request))
