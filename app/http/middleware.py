"""Middleware around every route: request ids, log lines, metrics, unexpected errors, disconnected clients.

It is plain ASGI: Starlette's BaseHTTPMiddleware would run every request in another task and interfere with its
cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import BodiesTooLarge, NotReady, problem_for
from app.http.problems import error_response
from app.telemetry.logs import log_fields, request_id_var
from app.telemetry.metrics import Metrics
from app.telemetry.tracing import RequestTrace, Tracing

logger = logging.getLogger("app.requests")

CLIENT_CLOSED_REQUEST = 499
"""Status in log and metrics of a request whose client disconnected before the answer, as in nginx."""

QUIET_ROUTES = frozenset({"/livez", "/readyz", "/metrics"})
"""Routes that monitoring requests every few seconds; logged at debug level unless they fail."""

KNOWN_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
"""Methods that metrics count by name; clients may send any number of others."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._~+/=:@-]{1,128}")

_RELEASE_BODY = "verso.release_body"

_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")


def new_request_id() -> str:
    """A unique id of 32 hexadecimal digits."""
    return f"{random.getrandbits(128):032x}"


def accepted_request_id(scope: Scope) -> str:
    """The client's request id if it is valid in logs and headers, else a new one.

    Args:
        scope: The request's ASGI scope.
    """
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            request_id: str = value.decode("latin-1")
            return request_id if _REQUEST_ID.fullmatch(request_id) else new_request_id()
    return new_request_id()


def route_of(scope: Scope) -> str:
    """The declared path of the route, or ``unmatched``: requests for unknown paths must not add labels to the metrics.

    Args:
        scope: The request's ASGI scope, after routing.
    """
    path = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) and path else "unmatched"


class RequestRecorder:
    """Gives each request an id, and writes one log line and the metrics when it has ended.

    An unexpected exception is handled here. The client gets a problem without detail; the log gets the type of the
    exception and where it was raised.

    Args:
        app: The application inside.
        metrics: Counts every finished request.
        is_draining: Returns whether the process is shutting down; connections are then closed after the answer.
        tracing: Traces every request except those of monitoring; None traces none.
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

        request_id = accepted_request_id(scope)
        token = request_id_var.set(request_id)
        trace = None if self.tracing is None else self.tracing.begin(Headers(scope=scope))
        if trace is not None:
            log_fields(scope)["trace_id"] = trace.trace_id
        start_time = time.perf_counter()
        status: int | None = None

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                # No route sets these headers itself.
                headers = [*message["headers"], (b"x-request-id", request_id.encode()), _NO_SNIFFING]
                if trace is not None:
                    headers.append((b"traceparent", trace.traceparent.encode()))
                if self.is_draining():
                    headers.append(_CLOSE)  # the next request of this client belongs to another process
                message["headers"] = headers
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except asyncio.CancelledError:
            if status is not None or not self.is_draining():
                raise
            # The drain timeout has passed and the server cancels this request; the client gets the reason.
            await error_response(scope, NotReady(1.0, "draining"))(scope, receive, send_with_id)
        except Exception as error:
            logger.error("unexpected error", exc_info=error)
            log_fields(scope)["code"] = problem_for(error).code
            if status is not None:
                raise  # too late for an error answer: the server closes the connection
            await error_response(scope, error)(scope, receive, send_with_id)
        finally:
            self._record(scope, status, time.perf_counter() - start_time)
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
    """End the trace of a request. It has the fields of the request's log line and nothing else."""
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
        root_path: The path, without a slash at its end.
    """

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self.app = app
        self.root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] == "http":
            scope["root_path"] = self.root_path
            if scope["path"] == self.root_path and scope["method"] in ("GET", "HEAD"):
                # The page links to its files relative to its own address, which must end with a slash.
                await RedirectResponse(f"{self.root_path}/")(scope, receive, send)
                return
            if not f"{scope['path']}/".startswith(f"{self.root_path}/"):
                # In ASGI, the path includes root_path, and mounts rely on that.
                scope["path"] = self.root_path + scope["path"]
        await self.app(scope, receive, send)


class BodyBudget:
    """Bounds the total bytes of the bodies of all requests, from their arrival until the answer.

    Args:
        app: The application inside.
        max_bytes: Maximum number of bytes.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app = app
        self.max_bytes = max_bytes
        self.num_bytes = 0
        """Bytes of the bodies in memory."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        received = 0

        async def receive_within() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            if size:
                # If it is the only body, it is accepted up to the limits of its own request.
                if self.num_bytes + size > self.max_bytes and self.num_bytes > received:
                    raise BodiesTooLarge(self.max_bytes)
                self.num_bytes += size
                received += size
            return message

        def release() -> None:
            nonlocal received
            self.num_bytes -= received
            received = 0

        scope[_RELEASE_BODY] = release
        try:
            await self.app(scope, receive_within, send)
        except BodiesTooLarge as error:  # raised outside a route, which would answer it itself
            await error_response(scope, error)(scope, receive, send)
        finally:
            release()


def release_body(scope: Scope) -> None:
    """Stop counting the body of a request that has been stored, because the request may wait for a long time.

    Args:
        scope: The request's ASGI scope.
    """
    scope[_RELEASE_BODY]()


class DisconnectWatcher:
    """Cancels the work for a client that has disconnected.

    The server lets the handler of a disconnected client run to its end. Once the body has been read, this waits for the
    disconnect and then cancels the handler; the service drops the request's sentences when the task that awaits them is
    cancelled. A request that is answered without waiting needs no watching task.

    Args:
        app: The application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        # Only requests with these methods start long work, and only after their body has been read.
        if scope["type"] != "http" or scope["method"] not in ("POST", "GET"):
            await self.app(scope, receive, send)
            return

        connection = _WatchedConnection(receive, send)
        try:
            await self.app(scope, connection.receive, connection.send)
        except asyncio.CancelledError:
            if not connection.has_cancelled or connection.handler.uncancel():
                raise  # the server has cancelled this request, not the watcher
            log_fields(scope)["client"] = "left"
        except ClientDisconnect:
            log_fields(scope)["client"] = "left before the end of its request"
        finally:
            connection.stop()


class _WatchedConnection:
    """The server's side of a request's connection; created by the task that handles the request.

    Args:
        receive: ``receive`` of the server.
        send: ``send`` of the server.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        handler = asyncio.current_task()
        assert handler is not None, "an ASGI application runs in a task"
        self.handler = handler
        self.has_cancelled = False
        """Whether the handler was cancelled because the client disconnected."""
        self._receive = receive
        self._send = send
        self._answered = False
        self._body_read = False
        self._disconnected = asyncio.Event()
        self._scheduled_start: asyncio.Handle | None = None
        self._watcher: asyncio.Task[None] | None = None

    async def receive(self) -> Message:
        """The next part of the body. After its end, wait for the client to disconnect."""
        if self._body_read:
            await self._disconnected.wait()
            return {"type": "http.disconnect"}
        message = await self._receive()
        if not message.get("more_body", False):  # the last part, or a disconnect
            self._body_read = True
            if message["type"] == "http.disconnect":
                self._disconnected.set()
            # The watcher starts only if the handler waits: creating a task costs as much as all other middleware.
            self._scheduled_start = self.handler.get_loop().call_soon(self._start)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._answered = True  # before the message is sent: the server reports a disconnect right after it
        await self._send(message)

    def stop(self) -> None:
        """Stop watching, because the request has been handled."""
        if self._scheduled_start is not None:
            self._scheduled_start.cancel()
        # Without the reference: a cancelled task keeps its frames, which refer to this object.
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()

    def _start(self) -> None:
        self._watcher = self.handler.get_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while not self._disconnected.is_set():
            if (await self._receive())["type"] == "http.disconnect":
                self._disconnected.set()
        if not self._answered:
            self.has_cancelled = True
            self.handler.cancel()
