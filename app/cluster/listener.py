"""A port of the ingress's own, which answers HTTP as ``verso serve`` does.

A request through the proxy of Ray Serve costs as much CPU time as a few sentences (docs/decisions/0063).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

from app.http.connections import expect_progress, server_config
from app.settings import Settings


class _Server(uvicorn.Server):
    """uvicorn in a process that Ray ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to Ray."""
        yield


@contextlib.asynccontextmanager
async def listening(app: ASGIApp, settings: Settings, port: int) -> AsyncIterator[None]:
    """Answer HTTP; at the end, running requests have the drain timeout to finish.

    The ingresses of a machine share the port, and so do the old and the new one during an update.

    Args:
        app: The application, which has started.
        settings: The host, and the times of connections.
        port: The port.

    Raises:
        OSError: The port is taken by another program, or the host is not an address of this machine.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        settings.host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    with socket.socket(family, kind, protocol) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind(address)
        expect_progress(listener, settings.client_timeout_s)
        server = _Server(server_config(app, settings, "off", round(settings.drain_timeout_s)))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield
        finally:
            server.should_exit = True
            await serving
