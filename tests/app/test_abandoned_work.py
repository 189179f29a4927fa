"""Work whose client has left: on ``/v2/translate`` it goes on for a while, and a repeated request joins it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

from app.http.compat.abandoned_work import AbandonedWork
from app.http.compat.deepl import DeepLState
from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, held_translator
from tests.app.observed import ObservedService
from tests.app.test_middleware import Wire, body_message, post_scope
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0
BODY = {"text": ["one two", "three"], "target_lang": "DE", "source_lang": "EN"}


class Request:
    """A request on a connection of its own."""

    def __init__(self, app: FastAPI, body: dict[str, Any] = BODY, path: str = "/v2/translate") -> None:
        self.wire = Wire(body_message(body))
        scope = post_scope(app, path)
        scope["headers"] = [*scope["headers"], (b"authorization", b"DeepL-Auth-Key any")]
        self.answering = asyncio.create_task(app(scope, self.wire.receive, self.wire.send))

    async def leave(self) -> None:
        self.wire.hang_up()
        await self.ended()
        assert self.wire.sent == []

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.answering

    async def texts(self) -> list[str]:
        await self.ended()
        head, body = self.wire.sent
        assert head["status"] == 200, body
        return [found["text"] for found in json.loads(body["body"])["translations"]]


@asynccontextmanager
async def held(abandoned_s: float = 1000.0, **settings: Any) -> AsyncIterator[tuple[FastAPI, FakeTranslator]]:
    """The application around a translator that waits in its first step; nothing of it ends by time."""
    translator = held_translator()
    settings = {**BUDGET, "deadline_s": 1000.0, **settings}
    bundles = FakeBundles(translator)
    app = create_app(Settings(**settings), bundles)
    app.state.service = ObservedService(Settings(**settings), bundles)
    app.state.deepl = DeepLState(AbandonedWork(abandoned_s))
    await app.state.service.start()
    await app.state.service.wait_loaded()
    try:
        yield app, translator
    finally:
        translator.step_gate.set()
        await app.state.service.stop()


async def begun(app: FastAPI, translator: FakeTranslator, **arguments: Any) -> Request:
    request = Request(app, **arguments)
    await eventually(translator.stepping.is_set)
    return request


NOTHING_SHARED: dict[str, Any] = {"coalesce": "off", "cache_bytes": 0}


@pytest.mark.parametrize("settings", [{}, NOTHING_SHARED], ids=["shared", "coalesce off, no cache"])
async def test_a_repeated_request_joins_the_work_of_a_client_that_left(settings: dict[str, Any]) -> None:
    async with held(**settings) as (app, translator):
        await (await begun(app, translator)).leave()
        repeated = Request(app)
        await eventually(lambda: len(app.state.deepl.work) == 1 and repeated.wire.incoming.empty())
        translator.step_gate.set()
        assert await repeated.texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2
        assert len(app.state.deepl.work) == 0


async def test_work_that_ends_while_nobody_waits_answers_the_repeated_request() -> None:
    async with held(**NOTHING_SHARED) as (app, translator):
        await (await begun(app, translator)).leave()
        translator.step_gate.set()
        await eventually(lambda: app.state.service.engine.is_idle)
        assert await Request(app).texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2


async def test_a_repeated_request_that_overtakes_the_disconnect_shares_the_work() -> None:
    async with held(**NOTHING_SHARED) as (app, translator):
        first = await begun(app, translator)
        repeated = Request(app)
        await eventually(repeated.wire.incoming.empty)
        await first.leave()
        translator.step_gate.set()
        assert await repeated.texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2


async def test_a_request_that_differs_does_not_join() -> None:
    async with held(**NOTHING_SHARED) as (app, translator):
        await (await begun(app, translator)).leave()
        other = Request(app, {**BODY, "text": ["three"]})
        translator.step_gate.set()
        assert await other.texts() == ["THREE"]
        assert sum(translator.log.joins) == 3


async def test_abandoned_work_is_stopped_when_its_time_is_over() -> None:
    async with held(abandoned_s=0.0) as (app, translator):
        await (await begun(app, translator)).leave()
        await eventually(lambda: len(app.state.deepl.work) == 0)
        translator.step_gate.set()
        await eventually(lambda: app.state.service.engine.is_idle)
        labels = {"model": "fake", "outcome": "cancelled"}
        assert app.state.service.sample("verso_sentences_total", labels) == 2


async def test_on_other_paths_a_disconnect_stops_the_work() -> None:
    async with held() as (app, translator):
        body = {"text": "one two", "source": "en", "target": "de"}
        await (await begun(app, translator, body=body, path="/translate")).leave()
        translator.step_gate.set()
        await eventually(lambda: app.state.service.engine.is_idle)
        labels = {"model": "fake", "outcome": "cancelled"}
        assert app.state.service.sample("verso_sentences_total", labels) == 1


async def test_draining_waits_for_abandoned_work_and_then_stops_it() -> None:
    async with held() as (app, translator):
        await (await begun(app, translator)).leave()
        assert not await app.state.service.drain(timeout_s=0.0)
        translator.step_gate.set()
        assert await app.state.service.drain(timeout_s=PATIENCE_S)
        (work,) = app.state.deepl.work._works.values()
        await eventually(work.task.done)


async def test_work_that_failed_is_not_joined() -> None:
    shared: AbandonedWork[str] = AbandonedWork(1000.0)
    outcomes: list[str | Exception] = [RuntimeError("once"), "done"]

    async def work() -> str:
        outcome = outcomes.pop(0)
        await asyncio.sleep(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    first = asyncio.create_task(shared.run("key", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await eventually(lambda: len(outcomes) == 1)
    await eventually(lambda: shared._works["key"].task.done())
    assert await shared.run("key", work) == "done"
    assert len(shared) == 0


async def test_joined_work_is_no_longer_stopped() -> None:
    shared: AbandonedWork[str] = AbandonedWork(1000.0)
    ready = asyncio.Event()

    async def work() -> str:
        await ready.wait()
        return "done"

    first = asyncio.create_task(shared.run("key", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    expiry = shared._works["key"].expiry
    assert expiry is not None and not expiry.cancelled()
    second = asyncio.create_task(shared.run("key", work))
    await asyncio.sleep(0)
    assert expiry.cancelled()
    ready.set()
    assert await second == "done"


async def test_an_error_reaches_all_that_wait() -> None:
    shared: AbandonedWork[str] = AbandonedWork()

    async def work() -> str:
        await asyncio.sleep(0)
        raise RuntimeError("for both")

    async def wait(run: Awaitable[str]) -> None:
        with pytest.raises(RuntimeError, match="for both"):
            await run

    await asyncio.gather(wait(shared.run("key", work)), wait(shared.run("key", work)))
    assert len(shared) == 0
