"""Deadlines, cancellation and the queue of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import pytest

from app.engine.caller import Caller, Priority
from app.engine.coalescing import SharedDecoding
from app.engine.estimate import Pace
from app.engine.queued_sentence import ModelRequest
from app.errors import DeadlineExceeded, DeadlineUnreachable, LimitExceeded, QueueFull
from app.serving.request import TranslationRequest
from app.settings import Settings
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from tests.app.fakes import BUDGET, MANIFEST, FakeBundles, FakeTranslator, WordDetector, held_translator
from tests.app.observed import ObservedService, num_waiting_calls
from tests.app.services import (
    DEADLINE_S,
    GREEDY,
    PATIENCE_S,
    advance_clock,
    ask,
    begin,
    counted,
    look,
    service_of,
    texts_of,
)
from tests.waiting import Gate, eventually


async def test_the_deadline_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(translator, deadline_s=DEADLINE_S) as service:
        task = asyncio.create_task(ask(service, "x" * 180))
        await eventually(translator.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S)
        with pytest.raises(DeadlineExceeded, match=r"within 20 s"):
            await task
        translator.step_gate.set()
        await eventually(lambda: service.engine.is_idle)
        assert len(translator.log.left) == len(translator.log.joins)
        assert counted(service, "expired") == 1
        assert counted(service, "finished") == 0


async def test_the_deadline_reaches_sentences_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(
        translator, deadline_s=DEADLINE_S, max_batch_rows=1, max_beam_size=1, max_hypotheses=1
    ) as service:
        task = asyncio.create_task(ask(service, "first", "second", "third"))
        await eventually(translator.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S)
        with pytest.raises(DeadlineExceeded):
            await task
        assert service.engine.num_waiting == 0
        translator.step_gate.set()
        await eventually(lambda: service.engine.is_idle)
        assert counted(service, "expired") == 3
        assert sum(translator.log.joins) <= 1


async def test_the_deadline_reaches_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    async with service_of(FakeTranslator(), deadline_s=DEADLINE_S) as service:
        service.engine.call(lambda: gate.pass_through(), lambda outcome: None)
        await eventually(gate.reached.is_set)
        looking = asyncio.create_task(look(service, "two words"))
        await eventually(lambda: num_waiting_calls(service.engine))
        advance_clock(monkeypatch, DEADLINE_S)
        with pytest.raises(DeadlineExceeded):
            await looking
        assert num_waiting_calls(service.engine) == 0
        gate.open.set()


async def test_a_decoded_answer_is_not_refused_because_many_calls_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.calls.MAX_CALLS", 0)

    async with service_of(FakeTranslator()) as service:
        (result,) = (await ask(service, "a word", return_alignment=True, return_confidence=True)).results
        assert not isinstance(result, Exception)
        assert result.alignment and result.confidence is not None
        with pytest.raises(QueueFull):
            await look(service, "a word")


async def test_cancelling_a_request_withdraws_its_sentences() -> None:
    translator = held_translator()
    async with service_of(translator, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as service:
        leaving = asyncio.create_task(ask(service, "running", "waiting"))
        await eventually(lambda: translator.log.joins)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        translator.step_gate.set()
        await eventually(lambda: translator.log.left)
        assert texts_of(await ask(service, "next")) == ["NEXT"]
        assert translator.log.joins == [1, 1]
        assert counted(service, "cancelled") == 2


async def test_more_sentences_than_the_queue_holds_are_refused_permanently() -> None:
    async with service_of(FakeTranslator(), queue_sentences=2) as service:
        with pytest.raises(LimitExceeded, match="3 exceeds the limit of 2"):
            await ask(service, "a", "b", "c")
        assert texts_of(await ask(service, "a", "b")) == ["A", "B"]


async def test_a_request_cancelled_before_decoding_never_reaches_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    gate = Gate()
    prepare = translator.prepare

    def slow(text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        gate.pass_through()
        return prepare(text, source, target, options)

    monkeypatch.setattr(translator, "prepare", slow)
    async with service_of(translator) as service:
        leaving = asyncio.create_task(ask(service, "x" * 2_000))
        await eventually(gate.reached.is_set)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        gate.open.set()
        assert await service.drain(PATIENCE_S)
    assert translator.log.joins == []


async def test_a_request_that_waits_is_translated_when_the_queue_has_room() -> None:
    translator = held_translator()
    async with service_of(
        translator, queue_sentences=3, max_batch_rows=1, max_beam_size=1, max_hypotheses=1
    ) as service:
        first = asyncio.create_task(ask(service, "ant", "ape", "asp"))
        await eventually(lambda: translator.log.joins)
        patient = asyncio.create_task(ask(service, "bat", "bee", waits=True))
        with pytest.raises(QueueFull):
            await ask(service, "cat", "cow")
        translator.step_gate.set()
        assert texts_of(await first) == ["ANT", "APE", "ASP"]
        assert texts_of(await patient) == ["BAT", "BEE"]


async def test_a_request_that_waits_for_a_full_queue_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(
        translator, queue_sentences=3, max_batch_rows=1, max_beam_size=1, max_hypotheses=1, deadline_s=10.0
    ) as service:
        first = asyncio.create_task(ask(service, "ant", "ape", "asp"))
        await eventually(lambda: translator.log.joins)
        patient = asyncio.create_task(ask(service, "bat", "bee", waits=True))
        await asyncio.sleep(0)  # until it has been refused once
        advance_clock(monkeypatch, 11.0)
        for request in (first, patient):
            with pytest.raises(DeadlineExceeded):
                await request


async def test_pairs_and_detection_wait_for_the_models_until_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()

    def load() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator()

    service = ObservedService(Settings(**BUDGET, deadline_s=10.0), FakeBundles(load), WordDetector())
    await service.start()
    try:
        late = [asyncio.create_task(service.language_pairs()), asyncio.create_task(service.detect(["the cat"]))]
        await eventually(gate.reached.is_set)
        advance_clock(monkeypatch, 11.0)
        for task in late:
            with pytest.raises(DeadlineExceeded):
                await task
        waiting = asyncio.create_task(service.language_pairs()), asyncio.create_task(service.detect(["the cat"]))
        gate.open.set()
        assert (await waiting[0]).pairs == MANIFEST.pairs
        (result,) = await waiting[1]
        assert result is not None
        assert result.language == "en"
    finally:
        gate.open.set()
        await service.stop()


async def test_interactive_callers_are_answered_before_bulk_callers() -> None:
    translator = held_translator()
    bounds = {"max_batch_rows": 1, "max_beam_size": 1, "max_hypotheses": 1}
    async with service_of(translator, **bounds) as service:
        answered: list[str] = []

        async def asks(text: str, caller: Caller) -> None:
            await ask(service, text, caller=caller)
            answered.append(text)

        async def streams(text: str, caller: Caller) -> None:
            stream = service.stream(TranslationRequest([text], None, "de", GREEDY, caller))
            async with aclosing(stream) as events:
                async for _ in events:
                    pass
            answered.append(text)

        running = await begin(service, translator)
        waiting = []
        for text, way, caller in (
            ("bulk 1", asks, Caller("a", Priority.BULK)),
            ("bulk 2", streams, Caller("a", Priority.BULK)),
            ("now 1", streams, Caller("a")),
            ("now 2", asks, Caller("b")),
        ):
            waiting.append(asyncio.create_task(way(text, caller)))
            await eventually(lambda: service.engine.num_waiting == len(waiting))
        translator.step_gate.set()
        await asyncio.gather(running, *waiting)
        assert {text.split()[0] for text in answered[:2]} == {"now"}
        assert len(answered) == 4


async def test_a_request_is_refused_for_its_deadline_unless_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_of(FakeTranslator()) as service:
        monkeypatch.setattr(Pace, "rate", lambda self, now: 0.001)
        with pytest.raises(DeadlineUnreachable):
            await ask(service, "a")
        with pytest.raises(DeadlineUnreachable):
            await anext(service.stream(TranslationRequest(["a"], None, "de", GREEDY)))
        assert texts_of(await ask(service, "a", waits=True)) == ["A"]


async def test_requests_that_wait_for_room_are_answered_in_order_and_without_trying_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = held_translator()
    async with service_of(
        translator, queue_sentences=2, max_batch_rows=1, max_beam_size=1, max_hypotheses=1
    ) as service:
        submissions: list[int] = []
        submit = SharedDecoding.submit

        def counting(self: SharedDecoding, requests: Sequence[ModelRequest], *rest: Any, **named: Any) -> Any:
            submissions.append(len(requests))
            return submit(self, requests, *rest, **named)

        monkeypatch.setattr(SharedDecoding, "submit", counting)
        first = asyncio.create_task(ask(service, "ant", "ape"))
        await eventually(lambda: translator.log.joins)
        finished: list[int] = []

        async def patient(number: int) -> None:
            assert texts_of(await ask(service, *(f"{word} {number}" for word in ("bat", "cat")), waits=True)) == [
                f"BAT {number}",
                f"CAT {number}",
            ]
            finished.append(number)

        waiting: list[asyncio.Task[None]] = []
        for number in range(5):
            waiting.append(asyncio.create_task(patient(number)))
            await asyncio.sleep(0.02)
        with pytest.raises(QueueFull):
            await ask(service, "late")
        waiting.pop(1).cancel()
        await asyncio.sleep(0.1)
        assert submissions == [2] * 6 + [1]
        translator.step_gate.set()
        await asyncio.gather(first, *waiting)
        assert finished == [0, 2, 3, 4]


async def test_cancelling_a_request_cancels_its_call() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        running = await begin(service, translator)
        leaving = asyncio.create_task(look(service, "two words"))
        await eventually(lambda: num_waiting_calls(service.engine))
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        assert num_waiting_calls(service.engine) == 0
        translator.step_gate.set()
        assert texts_of(await running) == ["RUNNING"]


async def test_each_caller_of_a_sentence_has_its_own_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(translator, deadline_s=DEADLINE_S) as service:
        early = asyncio.create_task(ask(service, "same"))
        await eventually(translator.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S / 2)
        late = asyncio.create_task(ask(service, "same"))
        await eventually(lambda: service.sample("verso_coalesced_sentences_total"))
        advance_clock(monkeypatch, DEADLINE_S / 2)
        with pytest.raises(DeadlineExceeded):
            await early
        translator.step_gate.set()
        assert texts_of(await late) == ["SAME"]
        assert translator.log.joins == [1]


async def test_a_cancelled_request_does_not_affect_others_with_the_same_sentence() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        leaving = asyncio.create_task(ask(service, "same"))
        staying = asyncio.create_task(ask(service, "same"))
        await eventually(translator.stepping.is_set)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        translator.step_gate.set()
        assert texts_of(await staying) == ["SAME"]
        assert translator.log.left == []
