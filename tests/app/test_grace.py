"""Work whose client has left: on ``/v2/translate`` it continues for a while, and a repeated request joins it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fastapi import FastAPI

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
        return [translation["text"] for translation in json.loads(body["body"])["translations"]]


@asynccontextmanager
async def held(**settings: Any) -> AsyncIterator[tuple[FastAPI, FakeTranslator]]:
    """The application around a translator that waits in its first step; nothing of it ends by time."""
    translator = held_translator()
    settings = {**BUDGET, "deadline_s": 1000.0, **settings}
    bundles = FakeBundles(translator)
    app = create_app(Settings(**settings), bundles)
    app.state.service = ObservedService(Settings(**settings), bundles)
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


async def test_a_repeated_request_joins_the_work_of_a_client_that_left() -> None:
    async with held() as (app, translator):
        await (await begun(app, translator)).leave()
        repeated = Request(app)
        await eventually(repeated.wire.incoming.empty)
        translator.step_gate.set()
        assert await repeated.texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2


async def test_work_that_ends_while_nobody_waits_answers_the_repeated_request() -> None:
    async with held() as (app, translator):
        await (await begun(app, translator)).leave()
        translator.step_gate.set()
        await eventually(lambda: app.state.service.engine.is_idle)
        assert await Request(app).texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2


async def test_a_repeated_request_that_overtakes_the_disconnect_shares_the_work() -> None:
    async with held() as (app, translator):
        first = await begun(app, translator)
        repeated = Request(app)
        await eventually(repeated.wire.incoming.empty)
        await first.leave()
        translator.step_gate.set()
        assert await repeated.texts() == ["ONE TWO", "THREE"]
        assert sum(translator.log.joins) == 2


async def test_abandoned_work_is_stopped_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.http.compat.grace.GRACE_S", 0.0)
    async with held() as (app, translator):
        await (await begun(app, translator)).leave()
        await eventually(lambda: len(app.state.service._requests) == 0)
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
