"""The middleware of every route: request ids, unexpected errors, and disconnects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter, Depends, Request
from starlette.types import Message, Scope

from app.http.json_route import json_route
from app.http.middleware import DisconnectWatcher
from app.http.schemas.models import LoadRequest
from tests.app.serving import RoteService, client_of, rote_app

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(rote_app(RoteService())) as client:
        yield client


def test_middleware_that_would_never_be_called_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Cannot add middleware"):
        rote_app(RoteService()).add_middleware(DisconnectWatcher)


def post_scope(app: Any, path: str) -> Scope:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "server": ("verso.test", 80),
        "client": ("127.0.0.1", 5),
        "app": app,
    }


class Wire:
    """The server's side of one connection: received and sent messages."""

    def __init__(self, *messages: Message) -> None:
        self.incoming: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []
        for message in messages:
            self.incoming.put_nowait(message)

    async def receive(self) -> Message:
        return await self.incoming.get()

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def hang_up(self) -> None:
        self.incoming.put_nowait({"type": "http.disconnect"})


def body_message(body: Any, more_body: bool = False) -> Message:
    return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": more_body}


@pytest.mark.parametrize("path", ["/livez", "/nowhere", "/docs", "/static/docs.js"])
async def test_every_answer_carries_a_new_request_id(client: httpx.AsyncClient, path: str) -> None:
    first, second = (await client.get(path)).headers, (await client.get(path)).headers
    assert re.fullmatch(r"[0-9a-f]{32}", first["x-request-id"])
    assert first["x-request-id"] != second["x-request-id"]


async def test_the_request_id_of_the_client_is_returned(client: httpx.AsyncClient) -> None:
    response = await client.get("/livez", headers={"X-Request-ID": "order-17:b/3"})
    assert response.headers["x-request-id"] == "order-17:b/3"


@pytest.mark.parametrize("request_id", [b"", b"a b", b"x" * 129, b'a"b', b"a\tb", b"\xff"])
async def test_an_invalid_request_id_is_replaced(client: httpx.AsyncClient, request_id: bytes) -> None:
    response = await client.get("/livez", headers=[(b"x-request-id", request_id)])
    assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])


async def test_answers_of_a_draining_process_close_their_connection() -> None:
    service = RoteService(state="draining")
    async with client_of(rote_app(service)) as client:
        assert (await client.get("/livez")).headers["connection"] == "close"
        service.state = "ready"
        assert "connection" not in (await client.get("/livez")).headers


async def test_a_disconnect_cancels_the_request() -> None:
    service = RoteService()
    app = rote_app(service)
    wire = Wire(body_message({"text": "forever"}))
    answering = asyncio.create_task(app(post_scope(app, "/translate"), wire.receive, wire.send))
    await asyncio.wait_for(service.started.wait(), PATIENCE_S)
    assert not service.cancelled.is_set()
    wire.hang_up()
    await asyncio.wait_for(answering, PATIENCE_S)
    assert service.cancelled.is_set()
    assert wire.sent == []


async def test_a_disconnect_within_the_body_starts_no_work() -> None:
    service = RoteService()
    app = rote_app(service)
    wire = Wire(body_message({"text": "a"}, more_body=True))
    wire.hang_up()
    await asyncio.wait_for(app(post_scope(app, "/translate"), wire.receive, wire.send), PATIENCE_S)
    assert (service.calls, wire.sent) == ([], [])


async def test_a_connected_client_is_answered_after_its_last_message() -> None:
    service = RoteService()
    app = rote_app(service)
    wire = Wire(body_message({"text": "a"}))
    await asyncio.wait_for(app(post_scope(app, "/translate"), wire.receive, wire.send), PATIENCE_S)
    assert [message["type"] for message in wire.sent] == ["http.response.start", "http.response.body"]


async def test_a_disconnect_reported_after_the_answer_cancels_nothing() -> None:
    finished = False

    async def inner(scope: Scope, receive: Any, send: Any) -> None:
        nonlocal finished
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        wire.hang_up()
        await asyncio.sleep(0.01)  # time in which a wrong cancellation would happen; none is awaited
        finished = True

    wire = Wire(body_message({}))
    await asyncio.wait_for(DisconnectWatcher(inner)(post_scope(None, "/"), wire.receive, wire.send), PATIENCE_S)
    assert finished


async def test_cancelling_a_request_cancels_its_work() -> None:
    service = RoteService()
    app = rote_app(service)
    wire = Wire(body_message({"text": "forever"}))
    answering = asyncio.create_task(app(post_scope(app, "/translate"), wire.receive, wire.send))
    await asyncio.wait_for(service.started.wait(), PATIENCE_S)
    answering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await answering
    assert service.cancelled.is_set()


@pytest.mark.parametrize("also", [{"dependencies": [Depends(lambda: None)]}, {}])
def test_a_json_route_with_what_would_not_be_done_cannot_be_declared(also: dict[str, Any]) -> None:
    router = APIRouter(route_class=json_route())

    async def route(request: Request, query: LoadRequest, number: int = 1) -> None: ...

    async def with_dependency(request: Request, query: LoadRequest) -> None: ...

    with pytest.raises(TypeError, match="guards"):
        router.post("/somewhere", **also)(with_dependency if also else route)


def pieces(size: int, number: int) -> list[Message]:
    return [{"type": "http.request", "body": b"x" * size, "more_body": True} for _ in range(number)]


@pytest.mark.parametrize("compat", [None, "libretranslate"])
async def test_the_bodies_of_all_requests_together_are_bounded(compat: str | None) -> None:
    app = rote_app(RoteService(), max_received_bytes=10_000, compat=compat)
    first, second = Wire(*pieces(1_000, 6)), Wire(*pieces(1_000, 6))
    receiving = asyncio.create_task(app(post_scope(app, "/translate"), first.receive, first.send))
    while not first.incoming.empty():
        await asyncio.sleep(0)
    await asyncio.wait_for(app(post_scope(app, "/translate"), second.receive, second.send), PATIENCE_S)
    headers = dict(second.sent[0]["headers"])
    assert second.sent[0]["status"] == 503 and headers[b"retry-after"] == b"2"
    assert json.loads(second.sent[1]["body"])["code"] == "bodies_too_large"
    assert second.incoming.qsize() == 1, "nothing is read beyond the bound"
    assert first.sent == []
    first.hang_up()
    await asyncio.wait_for(receiving, PATIENCE_S)
    third = Wire(*pieces(1_000, 6), body_message({}))
    await asyncio.wait_for(app(post_scope(app, "/translate"), third.receive, third.send), PATIENCE_S)
    assert third.sent[0]["status"] == 400, "what a request had is free when it is over"


@pytest.mark.parametrize("path", ["/translate", "/documents", "/libretranslate/translate", "/v2/translate"])
async def test_a_body_that_is_larger_than_the_bound_is_read_where_it_is_the_only_one(path: str) -> None:
    async with client_of(rote_app(RoteService(), max_received_bytes=1_000)) as client:
        for _ in range(2):
            response = await client.post(path, json={"text": "a" * 5_000, "q": "a", "source": "en", "target": "de"})
            assert response.status_code != 503


async def test_a_body_counts_until_its_request_is_answered() -> None:
    service = RoteService()
    app = rote_app(service, max_received_bytes=1_000)
    wire = Wire(body_message({"text": ["forever", "a" * 800]}))
    answering = asyncio.create_task(app(post_scope(app, "/translate"), wire.receive, wire.send))
    await asyncio.wait_for(service.started.wait(), PATIENCE_S)
    async with client_of(app) as client:
        assert (await client.post("/translate", json={"text": "a" * 800})).status_code == 503
        assert (await client.post("/translate", json={"text": "a"})).status_code == 200
        wire.hang_up()
        await asyncio.wait_for(answering, PATIENCE_S)
        assert (await client.post("/translate", json={"text": "a" * 800})).status_code == 200
