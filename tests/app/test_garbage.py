"""What requests leave behind for the garbage collector, while whose work every request waits."""

from __future__ import annotations

import asyncio
import gc

import pytest

from app.http.route_table import Application
from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.test_middleware import Wire, body_message, post_scope

pytestmark = pytest.mark.anyio

NUM_REQUESTS = 20


async def post(app: Application, accept: str, body: dict[str, object]) -> int:
    """The status of the answer to ``POST /translate``, from a client that stays connected."""
    scope, wire = post_scope(app, "/translate"), Wire(body_message(body))
    scope["headers"] += [(b"host", b"localhost"), (b"accept", accept.encode())]
    await app(scope, wire.receive, wire.send)
    await asyncio.sleep(0)  # a cancelled task ends
    status: int = wire.sent[0]["status"]
    return status


@pytest.mark.parametrize(
    ("text", "accept", "status"),
    [
        ("sentence {}", "application/json", 200),
        ("the same", "application/json", 200),
        ("sentence {}. Another one.", "application/x-ndjson", 200),
        ("sentence {}", "text/html", 406),
    ],
    ids=["decoded", "cached", "streamed", "refused"],
)
async def test_requests_leave_no_garbage_in_cycles(text: str, accept: str, status: int) -> None:
    app = create_app(Settings(**BUDGET), FakeBundles(FakeTranslator()))

    async def ask(number: int) -> None:
        body: dict[str, object] = {"text": text.format(number), "target": "de", "decoding": "greedy"}
        assert await post(app, accept, body) == status

    async with app.router.lifespan_context(app):
        await app.state.service.wait_loaded()
        await ask(0)
        gc.collect()
        gc.disable()
        try:
            for number in range(1, NUM_REQUESTS + 1):
                await ask(number)
            num_found = gc.collect()
        finally:
            gc.enable()
    assert num_found < NUM_REQUESTS, f"{num_found / NUM_REQUESTS} objects a request"
