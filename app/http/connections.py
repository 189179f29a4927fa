"""Connections of the HTTP server: uvicorn's, with bounds on the time and the number of those that do not get on.

uvicorn waits for a request without end. Here a request has to arrive in time, and a client has to take its answer, so
that connections are not used up by clients that are slow, or no longer there. When as many are open as this process
may have, a new one takes the place of the one that has been idle longest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
from typing import Any, Literal

import uvicorn
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from app.errors import RequestTooSlow, problem_for
from app.http.problems import response_to
from app.settings import Settings

logger = logging.getLogger("app.connections")

MAX_HEAD_BYTES = 16_384
"""Most bytes of a request's head that arrive without completing it, and of what stands between and behind the pieces of
a body: the parser has no bound of its own."""

MIN_BYTES_PER_S = 10_000
"""Each of these bytes lets a request take one more second; what it has in hand is never more than the time-out, so that
one that stops or gets slow is ended, however much of it has come."""

RESERVED_FILES = 64
"""Files that may be open beside connections: databases, documents, and what is being accepted."""


def expect_progress(listener: socket.socket, client_timeout_s: float) -> None:
    """Let the kernel end connections whose client acknowledges nothing, or reads nothing, of what was sent to it.

    Args:
        listener: The listening socket; connections inherit the option.
        client_timeout_s: Seconds without any progress.
    """
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(client_timeout_s * 1000))


def server_config(
    app: ASGIApp, settings: Settings, lifespan: Literal["on", "off"], last_bytes_s: int
) -> uvicorn.Config:
    """How uvicorn serves the application.

    Args:
        app: The application.
        settings: The times of connections.
        lifespan: Whether the server starts and stops the application.
        last_bytes_s: Seconds clients have to read their answers when the server ends.
    """
    return uvicorn.Config(
        app,
        loop="asyncio",  # whatever else is installed
        http=bounded_protocol(settings.client_timeout_s, max_connections()),
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the application reads them itself (VERSO_TRUSTED_PROXIES)
        timeout_keep_alive=settings.keep_alive_s,
        timeout_graceful_shutdown=last_bytes_s,
    )


def max_connections() -> int:
    """How many connections this process may have; the limit of open files is first raised as far as it may be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return sys.maxsize
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS allows fewer than it says
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        limit = hard
    return sys.maxsize if limit == resource.RLIM_INFINITY else max(1, limit - RESERVED_FILES)


def bounded_protocol(client_timeout_s: float, bound: int) -> type[BoundedProtocol]:
    """The class of the connections of a server.

    Args:
        client_timeout_s: Seconds a client has to send a request, beside those for its length.
        bound: Most connections.
    """
    return type("BoundedProtocol", (BoundedProtocol,), {"client_timeout_s": client_timeout_s, "bound": bound})


class JoinedWrites:
    """A transport that sends in one piece what is written in one turn of the event loop.

    uvicorn writes the head of an answer, then its body. If the process is killed in between, the client is left with a
    head whose body never comes, and a proxy before it can no longer ask another replica.

    Args:
        transport: Sends.
        loop: Its event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """Everything else is the transport's."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send some bytes soon.

        Args:
            data: The bytes.
        """
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            written, self._written = self._written, []
            self._transport.write(b"".join(written))


class BoundedProtocol(HttpToolsProtocol):
    """One connection; :func:`bounded_protocol` sets its bounds.

    A request that arrives in one piece costs one comparison. One timer for each connection looks after the others.
    """

    client_timeout_s: float
    bound: int

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._began: float | None = None
        """When the request that is arriving began, or None if none is."""
        self._late_at = 0.0
        """When it is late, unless more of it arrives before."""
        self._num_bytes = 0
        self._num_other_bytes = 0
        """Bytes since the beginning of the request, the end of its head, or the last piece of its body."""
        self._has_head = False
        """Whether the head of the request that is arriving, or was the last to arrive, is complete."""
        self._has_arrived = False
        self._num_hosts = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect a request."""
        super().connection_made(transport)
        self.transport: Any = JoinedWrites(transport, self.loop)
        if len(self.connections) > self.bound:
            self._make_room()
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Take some bytes of a request, and note whether it has arrived."""
        self._has_arrived = False
        self._num_other_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except HttpParserError:
            self._refuse_invalid()
            return
        if self._has_arrived:
            self._began = None
            return
        if self._began is None:
            self._begin()
        self._num_bytes += len(data)
        now = self.loop.time()
        self._late_at = min(self._late_at + len(data) / MIN_BYTES_PER_S, now + self.client_timeout_s)
        if self._num_other_bytes > MAX_HEAD_BYTES:
            self._refuse_invalid()

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offer:
            # Java's client, among others, offers HTTP/2 with its first request. The parser then ignores the body.
            method = self.parser.get_method()
            if method == b"CONNECT":
                raise HttpParserError("CONNECT is not served") from offer
            lines = [b"%b: %b\r\n" % (name, value) for name, value in self.headers if name != b"upgrade"]
            version = self.parser.get_http_version().encode()
            head = b"%b %b HTTP/%b\r\n%b\r\n" % (method, self.url, version, b"".join(lines))
            self.parser = HttpRequestParser(self)
            self._parse(head + data[offer.args[0] :])

    def _refuse_invalid(self) -> None:
        message = "Invalid HTTP request received."
        self.logger.warning(message)
        self.send_400_response(message)

    def on_message_begin(self) -> None:
        """Called by the parser at the first byte of a request."""
        super().on_message_begin()
        self._has_head = self._has_arrived = False
        self._num_hosts = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser for each header, and for each field behind a chunked body, which is not read."""
        if not self._has_head:
            if name.lower() == b"host":
                self._num_hosts += 1
                if self._num_hosts > 1:
                    raise HttpParserError("several headers Host")
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Called by the parser behind the head of a request."""
        self._has_head = True
        self._num_other_bytes = 0
        if not self.parser.should_upgrade():  # else it is parsed once more
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser for each piece of a body."""
        self._num_other_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called by the parser at the last byte of a request."""
        self._num_other_bytes = 0
        self._has_arrived = True
        if not self.parser.should_upgrade():
            super().on_message_complete()

    @property
    def idle_since(self) -> float | None:
        """Since when there is no request, or only the beginning of one; None while one is answered."""
        if self.timeout_keep_alive_task is not None:
            return self.timeout_keep_alive_task.when() - self.timeout_keep_alive
        return None if self._is_answering else self._began

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _begin(self) -> None:
        self._began = self.loop.time()
        self._late_at = self._began + self.client_timeout_s
        self._num_bytes = 0
        if self._timer is None:
            self._timer = self.loop.call_later(self.client_timeout_s, self._look)

    def _look(self) -> None:
        """End the connection if its request is late, else look again when it would be."""
        self._timer = None
        if self._began is None or self.transport.is_closing():
            return
        if self._is_answering and not self._has_head:
            self._begin()  # it waits behind one that is being answered
            return
        if self.flow.read_paused:
            self._late_at = self.loop.time() + self.client_timeout_s  # the service has not taken what came
        left_s = self._late_at - self.loop.time()
        if left_s > 0:
            self._timer = self.loop.call_later(left_s, self._look)
            return
        if self._num_bytes:
            logger.info("a request came too slowly", extra={"fields": {"bytes": self._num_bytes}})
            self._refuse()
        self.transport.close()

    def _refuse(self) -> None:
        """Say why the connection is closed, unless an answer has begun."""
        if self.pipeline or (self._has_head and self.cycle.response_started):
            return
        answer = response_to(problem_for(RequestTooSlow(self.client_timeout_s, MIN_BYTES_PER_S)))
        head = [b"%b: %b\r\n" % header for header in (*answer.raw_headers, (b"connection", b"close"))]
        self.transport.write(b"".join((STATUS_LINE[answer.status_code], *head, b"\r\n", answer.body)))

    def _make_room(self) -> None:
        """Close a tenth of the connections, those that have been idle longest; this one if none is idle."""
        others = [other for other in self.connections if isinstance(other, BoundedProtocol) and other is not self]
        idle = sorted((since, id(other), other) for other in others if (since := other.idle_since) is not None)
        chosen = [connection for _, _, connection in idle[: 1 + self.bound // 10]] or [self]
        logger.warning("too many connections: some are closed", extra={"fields": {"closed": len(chosen)}})
        for connection in chosen:
            self.connections.discard(connection)  # which connection_lost does, too, but later
            connection.transport.abort()
