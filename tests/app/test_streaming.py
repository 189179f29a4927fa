"""``POST /translate`` as a stream: sentences one by one, whole texts, errors in their midst, clients that leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Message

from app.main import create_app
from app.settings import Settings
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, held_translator
from tests.app.serving import client_of
from tests.app.test_middleware import Wire, post_scope

pytestmark = pytest.mark.anyio

PATIENCE_S = 30.0
NDJSON = {"accept": "application/x-ndjson"}


@asynccontextmanager
async def serving(translator: FakeTranslator, **settings: Any) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    app = create_app(Settings(**{**BUDGET, **settings}), FakeBundles(translator))
    async with asyncio.timeout(PATIENCE_S), app.router.lifespan_context(app), client_of(app) as client:
        while (await client.get("/readyz")).status_code != 200:
            await asyncio.sleep(0.01)
        try:
            yield app, client
        finally:
            translator.step_gate.set()


def body_of(*texts: str, **fields: Any) -> dict[str, Any]:
    return {"text": list(texts), "source": "en", "target": "de", "decoding": "greedy", "beam_size": 1, **fields}


async def events_of(client: httpx.AsyncClient, *texts: str, **fields: Any) -> list[dict[str, Any]]:
    response = await client.post("/translate", json=body_of(*texts, **fields), headers=NDJSON)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in response.text.splitlines()]


async def test_each_sentence_comes_with_its_place_then_its_text_and_the_end() -> None:
    text = "One two. Three!\n\n  Four?"
    async with serving(FakeTranslator()) as (_, client):
        events = await events_of(client, text, "", "five", return_alignment=True)
        body = (await client.post("/translate", json=body_of(text, "", "five", return_alignment=True))).json()
    sentences = [event for event in events if event["event"] == "sentence"]
    assert [
        (sentence["sentence"], text[slice(*sentence["source"])], sentence["translation"])
        for sentence in sentences
        if sentence["text"] == 0
    ] == [
        (0, "One two.", "ONE TWO."),
        (1, "Three!", "THREE!"),
        (2, "Four?", "FOUR?"),
    ]
    translations = {event["text"]: event["translation"] for event in events if event["event"] == "translation"}
    assert [translations[number] for number in range(3)] == body["translations"]
    assert events[-1]["event"] == "done"
    assert (events[-1]["usage"], events[-1]["model"]) == (body["usage"], body["model"])
    places = [(event["event"], event.get("text")) for event in events]
    assert places.index(("translation", 0)) > places.index(("sentence", 0)), "a text is finished after its sentences"


async def test_sentences_joined_with_what_stands_between_them_are_the_translation() -> None:
    text = "One {x} two.\n- Three %s!  Four?\n"
    async with serving(FakeTranslator()) as (_, client):
        events = await events_of(client, text)
    merged, finished = "", 0
    for event in events:
        if event["event"] == "sentence":
            merged += text[finished : event["source"][0]] + event["translation"]
            finished = event["source"][1]
    (translation,) = [event["translation"] for event in events if event["event"] == "translation"]
    assert merged + text[finished:] == translation["text"] and "{x}" in merged


async def test_server_sent_events_have_names_and_data() -> None:
    async with serving(FakeTranslator()) as (_, client):
        response = await client.post("/translate", json=body_of("a"), headers={"accept": "text/event-stream"})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["x-accel-buffering"] == "no"
    parts = [dict(line.split(": ", 1) for line in part.splitlines()) for part in response.text.strip().split("\n\n")]
    assert [part["event"] for part in parts] == ["sentence", "translation", "done"]
    assert json.loads(parts[0]["data"])["translation"] == "A"


async def test_a_text_that_fails_has_an_error_and_the_others_are_translated() -> None:
    async with serving(FakeTranslator()) as (_, client):
        events = await events_of(client, "good. nan. late.", "fine")
    assert [(event["event"], event.get("text")) for event in events if event["event"] != "sentence"].count(
        ("error", 0)
    ) == 1
    (error,) = [event for event in events if event["event"] == "error"]
    assert (error["code"], error["status"]) == ("decoding_failed", 500)
    assert [event["translation"] for event in events if event["event"] == "sentence" and event["text"] == 0] == [
        "GOOD."
    ]
    assert [event["translation"]["text"] for event in events if event["event"] == "translation"] == ["FINE"]
    assert events[-1]["event"] == "done"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"target": "fr"}, "unsupported_pair"),
        ({"beam_size": 0}, "invalid_request"),
        ({"text": ["a"] * 200}, "limit_exceeded"),
    ],
)
async def test_a_request_that_is_refused_has_a_status_of_its_own(fields: dict[str, Any], code: str) -> None:
    async with serving(FakeTranslator()) as (_, client):
        response = await client.post("/translate", json={**body_of("a"), **fields}, headers=NDJSON)
    assert response.status_code == 422 and response.json()["code"] == code


async def test_a_full_queue_refuses_a_stream_before_it_begins() -> None:
    translator = held_translator()
    bounds = {"queue_sentences": 1, "max_batch_rows": 1, "max_beam_size": 1, "max_hypotheses": 1}
    async with serving(translator, **bounds) as (app, client):
        running = asyncio.create_task(client.post("/translate", json=body_of("first")))
        while not translator.log.joins:
            await asyncio.sleep(0.002)
        waiting = asyncio.create_task(client.post("/translate", json=body_of("second")))
        while not app.state.service._engine.num_waiting:
            await asyncio.sleep(0.002)
        refused = await client.post("/translate", json=body_of("third"), headers=NDJSON)
        assert (refused.status_code, refused.json()["code"]) == (429, "queue_full")
        translator.step_gate.set()
        assert (await running).status_code == (await waiting).status_code == 200


class _HoldingWire(Wire):
    """Stops the model after the first sentence."""

    def __init__(self, translator: FakeTranslator, *messages: Message) -> None:
        super().__init__(*messages)
        self.translator = translator
        self.has_sentence = asyncio.Event()

    async def send(self, message: Message) -> None:
        await super().send(message)
        if b'"sentence"' in message.get("body", b""):
            self.translator.step_gate.clear()
            self.has_sentence.set()


async def test_sentences_are_sent_while_others_are_decoded_and_a_client_that_leaves_stops_them() -> None:
    translator = FakeTranslator()
    async with serving(translator, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as (app, _):
        text = "One. " + "More " * 2_000
        wire = _HoldingWire(translator, {"type": "http.request", "body": json.dumps(body_of(text)).encode()})
        scope = post_scope(app, "/translate")
        scope["headers"] += [(b"accept", b"application/x-ndjson")]
        answering = asyncio.create_task(app(scope, wire.receive, wire.send))
        await wire.has_sentence.wait()
        assert wire.sent[0]["status"] == 200 and not answering.done()
        wire.incoming.put_nowait({"type": "http.disconnect"})
        await answering
        translator.step_gate.set()
        while not app.state.service._engine.is_idle:
            await asyncio.sleep(0.002)
        assert wire.sent[-1].get("more_body"), "the answer has no end"
        labels = {"model": "fake", "outcome": "cancelled"}
        assert app.state.metrics.registry.get_sample_value("verso_sentences_total", labels)


async def test_an_error_in_the_midst_ends_the_stream_with_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    async with serving(translator, deadline_s=10.0, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as (
        _,
        client,
    ):
        translator.step_gate.clear()
        task = asyncio.create_task(events_of(client, "", "One."))
        while not translator.log.joins:
            await asyncio.sleep(0.002)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 11.0)
        with pytest.raises(AssertionError, match="504"):
            await task


async def test_a_document_is_streamed_by_sentence_and_comes_as_a_whole() -> None:
    document = "<p>One <b>two</b>. Three &amp; four.</p><p>Five.</p>"
    async with serving(FakeTranslator()) as (_, client):
        events = await events_of(client, document, format="html")
    sentences = [
        (document[slice(*item["source"])], item["translation"]) for item in events if item["event"] == "sentence"
    ]
    assert sentences == [("One <b>two</b>.", "ONE TWO."), ("Three &amp; four.", "THREE & FOUR."), ("Five.", "FIVE.")]
    (full,) = [event["translation"]["text"] for event in events if event["event"] == "translation"]
    assert full == "<p>ONE <b>TWO</b>. THREE &amp; FOUR.</p><p>FIVE.</p>"


class _SlowWire(Wire):
    """A client that reads the first sentence only once ``reads`` is set."""

    def __init__(self, *messages: Message) -> None:
        super().__init__(*messages)
        self.has_sentence = asyncio.Event()
        self.reads = asyncio.Event()

    async def send(self, message: Message) -> None:
        if b'"sentence"' in message.get("body", b""):
            self.has_sentence.set()
            await self.reads.wait()
        await super().send(message)

    @property
    def events(self) -> list[dict[str, Any]]:
        body = b"".join(message.get("body", b"") for message in self.sent)
        return [json.loads(line) for line in body.splitlines()]


async def test_a_stream_whose_deadline_passes_while_its_client_reads_slowly_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="app.requests")
    translator = FakeTranslator()
    bounds = {"max_batch_rows": 1, "max_beam_size": 1, "max_hypotheses": 1, "deadline_s": 10.0}
    async with serving(translator, **bounds) as (app, _):
        body = body_of("One. " + "More " * 30)
        wire = _SlowWire({"type": "http.request", "body": json.dumps(body).encode()})
        scope = post_scope(app, "/translate")
        scope["headers"] += [(b"accept", b"application/x-ndjson")]
        # The second sentence waits until the deadline.
        merged = len(translator.log.joins)
        answering = asyncio.create_task(app(scope, wire.receive, wire.send))
        while len(translator.log.joins) < merged + 1:
            await asyncio.sleep(0.001)
        await wire.has_sentence.wait()
        translator.step_gate.clear()
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 11.0)
        for _ in range(50):
            await asyncio.sleep(0.001)
        assert not answering.done(), "the deadline does not interrupt what is being sent"
        wire.reads.set()
        await answering
        assert wire.sent[-1] == {"type": "http.response.body", "body": b""}
        assert [event["event"] for event in wire.events] == ["sentence", "error"]
        assert (wire.events[-1]["code"], wire.events[-1]["status"]) == ("deadline_exceeded", 504)
        (line,) = [record for record in caplog.records if getattr(record, "fields", {}).get("route") == "/translate"]
        assert getattr(line, "fields", {})["code"] == "deadline_exceeded"
        translator.step_gate.set()


async def test_a_slow_client_gets_the_whole_stream_that_was_translated_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(FakeTranslator(), deadline_s=10.0) as (app, _):
        wire = _SlowWire({"type": "http.request", "body": json.dumps(body_of("One. Two.", "Three.")).encode()})
        scope = post_scope(app, "/translate")
        scope["headers"] += [(b"accept", b"application/x-ndjson")]
        answering = asyncio.create_task(app(scope, wire.receive, wire.send))
        await wire.has_sentence.wait()
        while not app.state.service._engine.is_idle:
            await asyncio.sleep(0.002)
        for _ in range(20):
            await asyncio.sleep(0.001)
        loop = asyncio.get_running_loop()
        now = loop.time
        monkeypatch.setattr(loop, "time", lambda: now() + 11.0)
        await asyncio.sleep(0.01)
        wire.reads.set()
        await answering
        assert [event["event"] for event in wire.events].count("translation") == 2
        assert wire.events[-1]["event"] == "done"


async def test_a_stream_that_is_given_up_by_draining_while_its_client_reads_slowly_ends_with_an_error() -> None:
    translator = FakeTranslator()
    async with serving(translator, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as (app, _):
        wire = _SlowWire({"type": "http.request", "body": json.dumps(body_of("One. " + "More " * 30)).encode()})
        scope = post_scope(app, "/translate")
        scope["headers"] += [(b"accept", b"application/x-ndjson")]
        answering = asyncio.create_task(app(scope, wire.receive, wire.send))
        await wire.has_sentence.wait()
        translator.step_gate.clear()
        assert not await app.state.service.drain(0.01)
        wire.reads.set()
        await answering
        assert [(event["event"], event.get("code")) for event in wire.events] == [
            ("sentence", None),
            ("error", "not_ready"),
        ]
        translator.step_gate.set()
