"""Calls over TCP from an ingress to an engine replica.

A connection begins with the secret of the replica. Then it has one call at a time: a frame with the method and its
arguments goes to the replica, and a frame with the result comes back, or one for each element and an empty one.
Closing the connection cancels its call. A frame is its length, in four bytes, and a pickled object.

A call through a handle of Ray Serve does the same for many times the CPU time (docs/decisions/0063).
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import pickle
import secrets
import socket
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any

from app.cluster.calls import Address, ReplicaLost
from app.errors import NotReady, ServiceError
from model.errors import ModelError

logger = logging.getLogger("app.cluster")

Method = Callable[..., Awaitable[Any] | AsyncGenerator[Any, None]]

_SECRET_BYTES = 32
_LENGTH = struct.Struct("!I")
_END = _LENGTH.pack(0)

_CONNECT_S = 5.0
"""Seconds within which a machine accepts a connection, and within which an ingress sends the secret."""

_LAST_ANSWERS_S = 5.0
"""Seconds for which a server that stops waits until its answers are sent."""

_SILENCE_S = 5
_NUM_PROBES = 3
"""A machine that has been silent for the first, and then does not answer this many probes, is unreachable."""


@dataclass(frozen=True)
class _Refusal:
    """The error of a call."""

    error: Exception


class CallServer:
    """Answers the calls to a replica. Its methods belong to the event loop.

    Args:
        methods: What can be called.
    """

    def __init__(self, methods: Mapping[str, Method]) -> None:
        self._methods = methods
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._server: asyncio.Server | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._connections: dict[asyncio.StreamWriter, None] = {}  # in their order, in which they are closed

    async def start(self, host: str) -> Address:
        """Listen on any free port.

        Args:
            host: The address to listen on.

        Raises:
            OSError: The host has no such address.
        """
        self._server = await asyncio.start_server(self._serve, host, 0)
        return Address(host, self._server.sockets[0].getsockname()[1], self._secret)

    async def stop(self) -> None:
        """Close all connections, after the answers to calls that have ended."""
        if self._server is not None:
            self._server.close()
        if self._calls:
            await asyncio.wait(self._calls, timeout=_LAST_ANSWERS_S)
        for writer in list(self._connections):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        _detect_silence(writer)
        self._connections[writer] = None
        call: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(_CONNECT_S):
                secret = await reader.readexactly(_SECRET_BYTES)
            if not hmac.compare_digest(secret, self._secret):
                logger.warning("a connection without the secret was refused")
                return
            while True:
                method, arguments = await _receive(reader)
                call = asyncio.create_task(self._answer(writer, method, arguments))
                self._calls.add(call)
                call.add_done_callback(self._calls.discard)
        except (asyncio.IncompleteReadError, OSError, TimeoutError):
            logger.debug("an ingress has closed its connection")
        finally:
            del self._connections[writer]
            if call is not None:
                call.cancel()
            writer.close()

    async def _answer(self, writer: asyncio.StreamWriter, method: str, arguments: tuple[Any, ...]) -> None:
        """Answer one call."""
        try:
            try:
                await self._run(writer, method, arguments)
            except (ServiceError, ModelError) as error:
                await _send(writer, _Refusal(error))
        except ConnectionError:
            logger.debug("an ingress has closed its connection during a call")
            writer.close()
        except Exception as error:
            logger.exception("a call failed")
            with suppress(ConnectionError):
                await _send(writer, _Refusal(RuntimeError(f"{method} failed in the engine replica: {error!r}")))

    async def _run(self, writer: asyncio.StreamWriter, method: str, arguments: tuple[Any, ...]) -> None:
        result = self._methods[method](*arguments)
        if not isinstance(result, AsyncGenerator):
            await _send(writer, await result)
            return
        async with aclosing(result) as elements:
            async for element in elements:
                await _send(writer, element)
        writer.write(_END)


class Connection:
    """A connection to a replica; for one call at a time. Made by :meth:`open`.

    Args:
        reader: Its incoming side.
        writer: Its outgoing side.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._has_call = False

    @classmethod
    async def open(cls, address: Address) -> Connection:
        """Connect to a replica.

        Args:
            address: Where it takes calls.

        Raises:
            NotReady: It takes no calls any more.
        """
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(address.host, address.port)
        except (OSError, TimeoutError) as error:
            raise NotReady(1.0, "stopped") from error
        _detect_silence(writer)
        writer.write(address.secret)
        return cls(reader, writer)

    @property
    def is_reusable(self) -> bool:
        """Whether it is open and has no call."""
        return not (self._has_call or self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        """Close it; its call is cancelled."""
        self._writer.close()

    async def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """The result of a method of the replica.

        Args:
            method: Its name.
            arguments: Its arguments.

        Raises:
            ReplicaLost: The replica has ended.
            Exception: The method raised this error of the service or the model.
        """
        try:
            await self._start(method, arguments)
            result = await _receive(self._reader)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ReplicaLost from error
        self._has_call = False
        return _checked(result)

    async def stream(self, method: str, arguments: tuple[Any, ...]) -> AsyncGenerator[Any, None]:
        """As :meth:`call`, for a method that yields."""
        try:
            await self._start(method, arguments)
            while (element := await _receive(self._reader)) is not None and not isinstance(element, _Refusal):
                yield element
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ReplicaLost from error
        self._has_call = False
        _checked(element)

    async def _start(self, method: str, arguments: tuple[Any, ...]) -> None:
        assert not self._has_call, "a connection has one call at a time"
        self._has_call = True
        await _send(self._writer, (method, arguments))


def _checked(result: Any) -> Any:
    if isinstance(result, _Refusal):
        raise result.error
    return result


async def _send(writer: asyncio.StreamWriter, value: Any) -> None:
    """Send a frame; waits while the other side is slow.

    Raises:
        ConnectionError: The connection has ended.
    """
    payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    writer.write(_LENGTH.pack(len(payload)) + payload)
    try:
        await writer.drain()
    except OSError as error:  # also a timeout of TCP or an unreachable machine
        raise ConnectionError(str(error)) from error


async def _receive(reader: asyncio.StreamReader) -> Any:
    """The object of the next frame; None for an empty frame."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length)) if length else None


def _detect_silence(writer: asyncio.StreamWriter) -> None:
    """End the connection when the other machine is unreachable. One whose process ends says so itself."""
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _SILENCE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _NUM_PROBES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENCE_S * (_NUM_PROBES + 1) * 1000)
