"""What is written to a connection, and requests that are unusual or wrong; tests/faults has slow clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.http.connections import MAX_HEAD_BYTES, JoinedWrites, bounded_protocol
from tests.app.wire import PATIENCE_S, exchange, fake_app, listening, request

pytestmark = pytest.mark.anyio


class Recorder(asyncio.Transport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def write(self, data: Any) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"closed")

    def is_closing(self) -> bool:
        return b"closed" in self.sent


async def test_head_and_body_are_sent_in_one_piece() -> None:
    recorder = Recorder()
    transport = JoinedWrites(recorder, asyncio.get_running_loop())
    transport.write(b"head ")
    transport.write(b"body")
    assert recorder.sent == []
    await asyncio.sleep(0)
    assert recorder.sent == [b"head body"]
    transport.write(b"next")
    await asyncio.sleep(0)
    assert recorder.sent == [b"head body", b"next"]


async def test_what_was_written_is_sent_before_the_connection_closes() -> None:
    recorder = Recorder()
    transport = JoinedWrites(recorder, asyncio.get_running_loop())
    transport.write(b"head")
    transport.close()
    assert transport.is_closing()
    await asyncio.sleep(0)
    assert recorder.sent == [b"head", b"closed"]


BODY = json.dumps({"text": "one two", "source": "en", "target": "de"}).encode()
JSON = "Content-Type: application/json"


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = fake_app()
    async with listening(app) as port:
        await app.state.service.wait_loaded()
        yield port


async def all_of(port: int, sent: bytes) -> bytes:
    """What a service answers until it closes the connection."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        try:
            return await reader.read()
        finally:
            writer.close()


def chunked(body: bytes, size: int) -> bytes:
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


CHUNKED_HEAD = request("PUT", "/translate", JSON, "Transfer-Encoding: chunked").replace(b"PUT", b"POST")


@pytest.mark.parametrize(
    "pieces",
    [
        (b"GET /livez HTTP/1.1\r\nX-Long: " + b"x" * 2 * MAX_HEAD_BYTES,),
        (b"GET /" + b"x" * 2 * MAX_HEAD_BYTES,),
        (b"GET /livez HTTP/1.1\r\n", b"X-Many: x\r\n" * 2000),
        (CHUNKED_HEAD + chunked(BODY, 10), b"0\r\n" + b"X-Behind: x\r\n" * 2000),
        (CHUNKED_HEAD, b"1;" + b"x" * 2 * MAX_HEAD_BYTES),
        (b"GET livez HTTP/1.1\r\n\r\n",),
        (b"CONNECT verso:80 HTTP/1.1\r\n\r\n",),
        (request("POST", "/translate", JSON, "Transfer-Encoding: chunked", body=BODY),),
    ],
    ids=["header", "path", "headers", "trailers", "chunk extension", "path without slash", "CONNECT", "two lengths"],
)
async def test_a_request_that_is_malformed_or_does_not_end_is_refused(pieces: tuple[bytes, ...]) -> None:
    async def never_answers(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    recorder, state = Recorder(), ServerState()
    config = uvicorn.Config(never_answers, ws="none", log_config=None)
    protocol = bounded_protocol(PATIENCE_S, bound=1000)(config, state, {})
    protocol.connection_made(recorder)
    for piece in pieces[:-1]:
        protocol.data_received(piece)
        assert not recorder.is_closing()
    protocol.data_received(pieces[-1])
    assert recorder.sent[0].startswith(b"HTTP/1.1 400 Bad Request\r\n") and recorder.is_closing()
    protocol.connection_lost(None)
    for task in state.tasks:
        task.cancel()


async def test_a_body_in_thousands_of_small_chunks_is_read(port: int) -> None:
    body = json.dumps({"text": "word " * 5000, "source": "en", "target": "de"}).encode()
    (answer,) = await exchange(port, CHUNKED_HEAD + chunked(body, 5) + b"0\r\nX-Behind: x\r\n\r\n")
    assert answer.json["translations"][0]["text"] == "WORD " * 5000


async def test_an_offer_to_change_the_protocol_is_not_taken_up(port: int) -> None:
    upgrade = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    translated, alive, again = await exchange(
        port,
        request("POST", "/translate", JSON, *upgrade, body=BODY),
        request("GET", "/livez", *upgrade),
        request("POST", "/translate", JSON, body=BODY),
    )
    assert (translated.status, alive.status) == (200, 200)
    assert translated.json["translations"] == again.json["translations"]


async def test_requests_that_are_sent_together_are_answered_in_their_order(port: int) -> None:
    last = request("GET", "/readyz", "Connection: close", "X-Request-ID: last")
    received = await all_of(port, request("POST", "/translate", JSON, body=BODY) + request("GET", "/livez") + last)
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert received.index(b"ONE TWO") < received.index(b"alive") < received.index(b"x-request-id: last")


async def test_the_answer_to_head_has_the_length_and_no_body(port: int) -> None:
    received = await all_of(port, request("HEAD", "/livez", "Connection: close"))
    assert b"content-length: 18" in received and received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("second", ["Host: localhost", "Host: other", "hOST: other"])
async def test_a_request_with_two_hosts_is_refused(port: int, second: str) -> None:
    received = await all_of(port, request("GET", "/livez", "Host: localhost", second))
    assert received.startswith(b"HTTP/1.1 400 Bad Request")


async def test_the_hosts_of_each_request_are_counted(port: int) -> None:
    last = request("GET", "/livez", "Host: localhost", "Connection: close")
    received = await all_of(port, request("GET", "/livez", "Host: localhost") * 3 + last)
    assert received.count(b"HTTP/1.1 200 OK") == 4


class Clock:
    """A loop's clock that a test sets, and the timers that were set by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[tuple[float, Callable[[], object]]] = []

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Any, *args: Any, **kwargs: Any) -> Any:
        callback(*args)

    def call_later(self, delay: float, callback: Any, *args: Any, **kwargs: Any) -> Any:
        self.timers.append((self.now + delay, callback))
        return self

    def cancel(self) -> None:
        self.timers.clear()

    def create_task(self, coro: Any, **kwargs: Any) -> Any:
        coro.close()
        return self

    def add_done_callback(self, callback: object) -> None:
        pass

    def pass_to(self, until: float) -> None:
        while due := [timer for timer in self.timers if timer[0] <= until]:
            at, callback = min(due, key=lambda timer: timer[0])
            self.timers.remove((at, callback))
            self.now = max(self.now, at)
            callback()
        self.now = until


def arriving(body_bytes: int) -> tuple[Clock, Recorder, Any]:
    """A connection on which a request of many bytes begins to arrive."""

    async def reads(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()

    clock, recorder = Clock(), Recorder()
    config = uvicorn.Config(reads, ws="none", log_config=None)
    protocol: Any = bounded_protocol(30.0, bound=1000)(config, ServerState(), {}, _loop=clock)
    protocol.connection_made(recorder)
    protocol.flow.pause_reading = lambda: None
    protocol.data_received(b"POST /translate HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % body_bytes)
    return clock, recorder, protocol


def test_a_body_that_stops_is_refused_after_the_timeout_however_much_of_it_has_come() -> None:
    clock, recorder, protocol = arriving(100_000_000)
    for _ in range(99):
        protocol.data_received(b"x" * 100_000)
    clock.pass_to(29.0)
    assert recorder.sent == []
    clock.pass_to(31.0)
    assert b"".join(recorder.sent).startswith(b"HTTP/1.1 408") and recorder.is_closing()


def test_a_body_of_single_bytes_behind_a_fast_beginning_is_refused() -> None:
    clock, recorder, protocol = arriving(100_000_000)
    protocol.data_received(b"x" * 9_000_000)
    for second in range(1, 40):
        if not recorder.is_closing():
            protocol.data_received(b"x")
        clock.pass_to(float(second))
    assert recorder.is_closing()


def test_a_body_at_the_required_speed_is_received_however_long_it_takes() -> None:
    clock, recorder, protocol = arriving(100_000_000)
    for second in range(1, 200):
        protocol.data_received(b"x" * 10_500)
        clock.pass_to(float(second))
    assert not recorder.is_closing()


def test_a_client_is_not_blamed_while_the_service_does_not_read() -> None:
    clock, recorder, protocol = arriving(100_000_000)
    protocol.data_received(b"x" * 100_000)
    protocol.flow.read_paused = True
    clock.pass_to(300.0)
    assert not recorder.is_closing()
    protocol.flow.read_paused = False
    clock.pass_to(400.0)
    assert recorder.is_closing()
