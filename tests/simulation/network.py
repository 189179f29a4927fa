"""Connections between simulated processes: bytes arrive late, in pieces and in order, unless a connection is reset."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.kernel import Kernel

if TYPE_CHECKING:
    from tests.simulation.loop import SimulatedLoop

Factory = Callable[[], asyncio.Protocol]

DELAYS_S = (0.0002, 0.0002, 0.001, 0.02)
"""Seconds that a piece may be on its way."""

UNREACHABLE_S = 20.0
"""Seconds of silence after which a connection ends, as the service sets it for its sockets."""

_PIECES = (1, 1, 1, 2, 3)


class Socket:
    """A stand-in for a socket of which only the port matters.

    Args:
        port: Its port.
    """

    def __init__(self, port: int) -> None:
        self._port = port

    def getsockname(self) -> tuple[str, int]:
        """See :class:`socket.socket`."""
        return "127.0.0.1", self._port

    def setsockopt(self, *_: int) -> None:
        """See :class:`socket.socket`."""


@dataclass(eq=False)
class Server:
    """A server that listens.

    Args:
        loop: Its event loop.
        factory: Makes the protocol of a connection.
        port: Its port.
        is_open: Whether it accepts connections.
    """

    loop: SimulatedLoop
    factory: Factory
    port: int
    is_open: bool = True

    @property
    def sockets(self) -> list[Socket]:
        """See :class:`asyncio.Server`."""
        return [Socket(self.port)]

    def close(self) -> None:
        """See :class:`asyncio.Server`."""
        self.is_open = False


class Transport(asyncio.Transport):
    """One end of a connection.

    Args:
        network: Its network.
        loop: The event loop of its process.
    """

    other: Transport

    def __init__(self, network: Network, loop: SimulatedLoop) -> None:
        super().__init__({"socket": Socket(0)})
        self.loop = loop
        self.closed_at: float | None = None
        """When the process was told that the other end is closed."""
        self.is_dead = False
        """Whether its process has ended."""
        self._network = network
        self._kernel = network.kernel
        self._protocol: asyncio.Protocol | None = None
        self._is_closing = False
        self._is_lost = False
        self._is_paused = False
        self._num_flying = 0  # bytes that were written and have not arrived
        self._last_at = 0.0  # when the last piece arrives
        self._arriving: deque[bytes | Exception] = deque()  # no bytes: the end
        self._num_unread = 0  # bytes that have arrived, and that its process has not read

    def begin(self, protocol: asyncio.Protocol) -> None:
        """The connection is made."""
        self._protocol = protocol
        protocol.connection_made(self)

    def accept(self, server: Server) -> None:
        """As :meth:`begin`, at the server's end."""
        if self._kernel.is_over or self.is_dead:
            return
        if server.is_open:
            self.begin(server.factory())
        else:
            self.abort()

    def write(self, data: Any) -> None:
        """See :class:`asyncio.WriteTransport`."""
        if self._kernel.is_over or self._is_closing:
            return
        content, rng = bytes(data), self._kernel.rng
        num_pieces = min(rng.choice(_PIECES), len(content))
        cuts = sorted(rng.sample(range(1, len(content)), num_pieces - 1)) if num_pieces > 1 else []
        for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
            self.other.expect(content[begin:end])
        self._num_flying += len(content)
        if self._num_flying > self._network.max_flying_bytes and not self._is_paused:
            assert self._protocol is not None
            self._is_paused = True
            self._protocol.pause_writing()

    def is_closing(self) -> bool:
        """See :class:`asyncio.BaseTransport`; a writer that ends with its process is not left open."""
        return self._is_closing or self._kernel.is_over

    def close(self) -> None:
        """See :class:`asyncio.BaseTransport`; what was written arrives, unless something was not read."""
        if self._kernel.is_over or self._is_closing:
            return
        self._is_closing = True
        self._end(resets=False)
        self.loop.call_soon(self._lose, None)

    def abort(self) -> None:
        """See :class:`asyncio.WriteTransport`; what was written may not arrive."""
        if self._kernel.is_over or self._is_closing:
            return
        self._is_closing = True
        self.other.expect_reset()
        self.loop.call_soon(self._lose, None)

    def die(self, *, resets: bool) -> None:
        """Its process has ended."""
        self.is_dead = self._is_closing = self._is_lost = True
        self._end(resets=resets)

    def _end(self, *, resets: bool) -> None:
        """Its socket is closed. The system resets the connection if there are bytes that were not read."""
        if resets or self._num_unread:
            self.other.expect_reset()
        else:
            self.other.expect(b"")

    def expect(self, item: bytes | Exception) -> None:
        """Something is on its way to this end."""
        kernel = self._kernel
        self._last_at = max(self._last_at, kernel.now + kernel.rng.choice(DELAYS_S))
        self._arriving.append(item)
        self._network.later(self._last_at - kernel.now, self._arrive)

    def expect_reset(self) -> None:
        """A reset is on its way to this end; it overtakes bytes."""
        self._arriving.clear()
        self.expect(ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"))

    def receive(self, item: bytes | Exception) -> None:
        """Bytes, the end of the other side, or an error have arrived: called by the event loop."""
        if self._kernel.is_over:
            return
        if isinstance(item, Exception):
            self._is_closing = True
            self._note_closed()
            self._lose(item)
        elif self._is_closing:
            return
        elif item:
            self._num_unread -= len(item)
            assert self._protocol is not None
            self._protocol.data_received(item)
            self.other.taken(len(item))
        else:
            assert self._protocol is not None
            self._note_closed()
            self._protocol.eof_received()

    def taken(self, num_bytes: int) -> None:
        """Bytes that it has written have arrived."""
        self._num_flying -= num_bytes
        if self._is_paused and not self.is_dead:
            self.loop.call_soon_threadsafe(self._resume)

    def _resume(self) -> None:
        is_drained = self._num_flying <= self._network.max_flying_bytes // 2
        if self._is_paused and is_drained and not (self._kernel.is_over or self._is_lost):
            assert self._protocol is not None
            self._is_paused = False
            self._protocol.resume_writing()

    def _arrive(self) -> None:
        silent_s = max(self._network.silent_s(self.loop), self._network.silent_s(self.other.loop))
        if silent_s > 0:
            self._network.later(silent_s, self._arrive)
        elif self._arriving:
            item = self._arriving.popleft()
            if self._is_closing:
                self._refuse(item)
            else:
                self._num_unread += len(item) if isinstance(item, bytes) else 0
                self.loop.call_soon_threadsafe(self.receive, item)

    def _refuse(self, item: bytes | Exception) -> None:
        """Something has arrived at an end that is closed."""
        if isinstance(item, bytes) and item and not self.other.is_dead:
            self.other.expect_reset()

    def _note_closed(self) -> None:
        if self.closed_at is None:
            self.closed_at = self._kernel.now

    def _lose(self, error: Exception | None) -> None:
        if self._is_lost or self._kernel.is_over:
            return
        self._is_lost = True
        self._network.transports.pop(self, None)
        if self._protocol is not None:
            self._protocol.connection_lost(error)


class Network:
    """All connections of a simulation.

    Args:
        kernel: The clock and the random numbers.
        later: Does something after some seconds.
        max_flying_bytes: Bytes on their way from which a writer has to wait.
    """

    def __init__(
        self, kernel: Kernel, later: Callable[[float, Callable[[], None]], None], max_flying_bytes: int
    ) -> None:
        self.kernel = kernel
        self.later = later
        self.max_flying_bytes = max_flying_bytes
        self.transports: dict[Transport, None] = {}
        """The ends that are not closed."""
        self._servers: list[Server] = []
        self._silent_until: dict[SimulatedLoop, float] = {}

    def listen(self, loop: SimulatedLoop, factory: Factory) -> Server:
        """A server at a port of its own."""
        server = Server(loop, factory, len(self._servers) + 1)
        self._servers.append(server)
        return server

    async def connect(self, loop: SimulatedLoop, factory: Factory, port: int) -> tuple[Transport, asyncio.Protocol]:
        """A connection to a server.

        Raises:
            ConnectionRefusedError: It does not listen.
        """
        server = self._servers[port - 1]
        await asyncio.sleep(self.kernel.rng.choice(DELAYS_S))
        while (silent_s := self.silent_s(server.loop)) > 0:
            await asyncio.sleep(silent_s)
        if not server.is_open:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        near, far = Transport(self, loop), Transport(self, server.loop)
        near.other, far.other = far, near
        self.transports.update(dict.fromkeys((near, far)))
        protocol = factory()
        near.begin(protocol)
        server.loop.call_soon_threadsafe(far.accept, server)
        return near, protocol

    def of(self, loop: SimulatedLoop) -> list[Transport]:
        """The ends of a process that are not closed."""
        return [transport for transport in self.transports if transport.loop is loop]

    def cut(self, loop: SimulatedLoop) -> None:
        """The process of an event loop has ended."""
        for server in self._servers:
            if server.loop is loop:
                server.close()
        resets = self.kernel.rng.random() < 0.5
        for transport in self.of(loop):
            transport.die(resets=resets)
            del self.transports[transport]

    def silence(self, loop: SimulatedLoop, seconds: float) -> None:
        """The machine of an event loop is unreachable for some time; after a while, its connections end."""
        self._silent_until[loop] = self.kernel.now + seconds
        if seconds > UNREACHABLE_S:
            for transport in self.of(loop):
                self.later(UNREACHABLE_S, partial(self._time_out, transport))

    def reset(self, transport: Transport) -> None:
        """Reset a connection at both ends."""
        transport.expect_reset()
        transport.other.expect_reset()

    def silent_s(self, loop: SimulatedLoop) -> float:
        """Seconds for which a process is still unreachable."""
        return self._silent_until.get(loop, 0.0) - self.kernel.now

    def _time_out(self, transport: Transport) -> None:
        for end in (transport, transport.other):
            if not end.is_dead:
                end.loop.call_soon_threadsafe(end.receive, TimeoutError(errno.ETIMEDOUT, "Connection timed out"))
