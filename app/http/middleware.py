"""Middleware around every route: request ids, log lines, metrics, unexpected errors, disconnected clients.

It is plain ASGI, and not Starlette's BaseHTTPMiddleware, which would run every request in one more task and interfere
with its cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import uuid
from collections.abc import Callable

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import NotReady, problem_for
from app.http.problems import error_response
from app.telemetry.logs import log_fields, request_id_var
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import RequestTrace, Tracing

logger = logging.getLogger("app.requests")

CLIENT_CLOSED_REQUEST = 499
"""Status in log and metrics if none was sent because the client had disconnected, as in nginx."""

QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})
"""Requested every few seconds by monitoring: logged at debug level unless they fail."""

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
"""Methods counted by name; a client may invent any number of others."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._~+/=:@-]{1,128}")


def new_request_id() -> str:
    """A unique id of 32 hexadecimal digits."""
    return uuid.uuid4().hex


def accepted_request_id(value: str | None) -> str:
    """The id a client sent, if it can stand in logs and headers, or a new one.

    Args:
        value: The header as sent, or None.
    """
    if value is not None and _REQUEST_ID.fullmatch(value):
        return value
    return new_request_id()


def route_of(scope: Scope) -> str:
    """The path of the route as declared, so that requests for unknown paths add no labels to the metrics.

    Args:
        scope: The request's ASGI scope, after routing.
    """
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else "unmatched"


class RequestRecorder:
    """Gives each request an id, and writes one log line and the metrics when it has ended.

    An unexpected exception is handled here: the client gets a problem without detail, the log the type of the
    exception and where it was raised.

    Args:
        app: The application inside.
        metrics: Counts every finished request.
        is_draining: Whether the process is shutting down; connections are then closed after the answer.
        tracing: Traces every request but those of monitoring; None to trace none.
    """

    def __init__(
        self, app: ASGIApp, metrics: Metrics, is_draining: Callable[[], bool], tracing: Tracing | None = None
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.is_draining = is_draining
        self.tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        request_id = accepted_request_id(Headers(scope=scope).get("x-request-id"))
        token = request_id_var.set(request_id)
        trace = None if self.tracing is None else self.tracing.begin(Headers(scope=scope))
        if trace is not None:
            log_fields(scope)["trace_id"] = trace.trace_id
        started = time.perf_counter()
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                headers["X-Content-Type-Options"] = "nosniff"
                if trace is not None:
                    headers["traceparent"] = trace.traceparent
                if self.is_draining():
                    headers["Connection"] = "close"  # the next request of this client belongs to another process
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            if status is not None or not self.is_draining():
                raise
            # The time to drain is over and the server cancels this request; the client gets the reason.
            await error_response(scope, NotReady(1.0, "draining"))(scope, receive, send_with_id)
        except Exception as error:
            logger.error("unexpected error", exc_info=error)
            log_fields(scope)["code"] = problem_for(error).code
            if status is not None:
                raise  # too late for another answer: the server closes the connection
            await error_response(scope, error)(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - started)
            if trace is not None:
                _finish(trace, scope, status)
            request_id_var.reset(token)

    def _record(self, scope: Scope, status: int | None, duration_s: float) -> None:
        route = route_of(scope)
        final_status = CLIENT_CLOSED_REQUEST if status is None else status
        method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
        self.metrics.request_finished(route, method, final_status, duration_s)
        if "code" in log_fields(scope):
            self.metrics.refused(log_fields(scope)["code"])
        if final_status == 500:
            level = logging.ERROR
        elif final_status > 500 or final_status == 429:
            level = logging.WARNING
        elif route in QUIET_ROUTES:
            level = logging.DEBUG
        else:
            level = logging.INFO
        if not logger.isEnabledFor(level):
            return
        fields = {
            "method": method,
            "route": route,
            "status": final_status,
            "duration_ms": round(duration_s * 1000, 3),
            **log_fields(scope),
        }
        logger.log(level, "request", extra={"fields": fields})


def _finish(trace: RequestTrace, scope: Scope, status: int | None) -> None:
    """End the trace of a request. It has what the request's log line has, and nothing else of the request."""
    route = route_of(scope)
    final_status = CLIENT_CLOSED_REQUEST if status is None else status
    if route in QUIET_ROUTES and final_status < 500:
        trace.leave()
        return
    method = scope["method"] if scope["method"] in KNOWN_METHODS else "other"
    logged = {name: value for name, value in log_fields(scope).items() if isinstance(value, str | int | float)}
    attributes: dict[str, str | int | float] = {f"verso.{name}": value for name, value in logged.items()}
    attributes |= {"http.request.method": method, "http.route": route, "http.response.status_code": final_status}
    if final_status >= 500 and "code" in logged:
        attributes["error.type"] = logged["code"]
    attributes["verso.request_id"] = request_id_var.get() or ""
    trace.finish(f"{method} {route}", attributes, failed=final_status >= 500)


class RootPath:
    """Sets the path under which a proxy serves the application, whether or not the proxy strips that path.

    Args:
        app: The application inside.
        root_path: The path, without a slash at its end; empty for none.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app = app
        self.root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if self.root_path and scope["type"] == "http":
            scope["root_path"] = self.root_path
            if scope["path"] == self.root_path and scope["method"] in ("GET", "HEAD"):
                # The page names its files relative to its address.
                await RedirectResponse(f"{self.root_path}/")(scope, receive, send)
                return
            if not f"{scope['path']}/".startswith(f"{self.root_path}/"):
                scope["path"] = (
                    self.root_path + scope["path"]
                )  # in ASGI the path includes root_path, and mounts rely on that
        await self.app(scope, receive, send)


class DisconnectWatcher:
    """Cancels the work for a client that has disconnected.

    The server lets the handler of a disconnected client run to its end. This waits for the disconnect, from the
    moment the body has been read, and then cancels the handler's task; the service drops the request's sentences
    when the task that awaits them is cancelled.

    Args:
        app: The application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection; only requests with a body start long work."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return

        answered = False
        body_read = asyncio.Event()
        client_left = asyncio.Event()

        async def receive_body() -> Message:
            if body_read.is_set():
                await client_left.wait()
                return {"type": "http.disconnect"}
            message = await receive()
            if message["type"] == "http.disconnect":
                client_left.set()
                body_read.set()
            elif not message.get("more_body", False):
                body_read.set()
            return message

        async def send_and_note(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                answered = True  # before the message goes out: the server reports a disconnect right after it
            await send(message)

        async def watch() -> None:
            await body_read.wait()
            while not client_left.is_set():
                if (await receive())["type"] == "http.disconnect":
                    client_left.set()
            if not answered:
                handler.cancel()

        async def handle() -> None:
            await self.app(scope, receive_body, send_and_note)

        handler = asyncio.create_task(handle())
        watcher = asyncio.create_task(watch())
        try:
            await handler
        except asyncio.CancelledError:
            this_task = asyncio.current_task()
            if this_task is not None and this_task.cancelling():
                raise  # not the client: the server cancels this request itself, and the handler with it
            log_fields(scope)["client"] = "left"
        except ClientDisconnect:
            log_fields(scope)["client"] = "left before the end of its request"
        finally:
            watcher.cancel()
