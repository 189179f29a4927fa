from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.errors import DeadlineExceeded, InferenceFailed, NotReady, QueueFull
from app.metrics import Metrics
from app.service import TranslateOutcome, TranslationService
from app.settings import Settings
from model.decoding.options import DecodingOptions
from model.errors import ArtifactError, DecodingError, SeveralSentences, UnsupportedPair
from tests.app.fakes import FakeTranslator

PATIENCE_S = 30.0
GREEDY = DecodingOptions(decoding="greedy")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def service_of(translator: FakeTranslator, **settings: Any) -> AsyncIterator[TranslationService]:
    service = TranslationService(Settings(**settings), Metrics(), lambda: translator)
    await service.start()
    try:
        await service.wait_loaded()
        yield service
    finally:
        translator.step_gate.set()
        await service.stop()


async def ask(
    service: TranslationService, *texts: str, options: DecodingOptions = GREEDY, **fields: Any
) -> TranslateOutcome:
    told = {"source": None, "target": "de", "return_alignment": False, **fields}
    return await service.translate(texts, options=options, **told)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.002)


def texts_of(outcome: TranslateOutcome) -> list[str]:
    return [result if isinstance(result, Exception) else result.text for result in outcome.results]  # type: ignore[misc]


def test_texts_are_split_translated_and_joined() -> None:
    async def test() -> None:
        async with service_of(FakeTranslator()) as service:
            outcome = await ask(service, "One. Two.\n\n  Three!", "", " \n", "four", "x" * 900)
            assert texts_of(outcome) == ["ONE. TWO.\n\n  THREE!", "", " \n", "FOUR", "X" * 900]
            assert outcome.total_ms >= outcome.decode_ms >= 0
            assert outcome.queue_ms >= 0
            assert outcome.num_target_tokens > 0

    run(test)


def test_one_text_that_fails_leaves_the_others_alone() -> None:
    async def test() -> None:
        async with service_of(FakeTranslator()) as service:
            outcome = await ask(service, "good", "boom", "Fine. So nan. Yes.", "last")
            assert isinstance(outcome.results[1], InferenceFailed)
            assert isinstance(outcome.results[2], DecodingError)
            assert [texts_of(outcome)[place] for place in (0, 3)] == ["GOOD", "LAST"]

    run(test)


def test_a_pair_that_is_not_loaded_is_refused() -> None:
    async def test() -> None:
        async with service_of(FakeTranslator()) as service:
            with pytest.raises(UnsupportedPair):
                await ask(service, "x", target="fr")
            assert (await ask(service, "x", source="EN", target=None)).results

    run(test)


def test_the_deadline_stops_the_work() -> None:
    async def test() -> None:
        translator = FakeTranslator(step_s=0.01)
        async with service_of(translator, deadline_s=0.15) as service:
            with pytest.raises(DeadlineExceeded, match=r"within 0\.15 s"):
                await ask(service, "x" * 180)
            await until(lambda: translator.log.left)
            assert b'verso_sentences_total{outcome="expired"} 1.0' in service._metrics.render()
            assert texts_of(await ask(service, "y")) == ["Y"]

    run(test)


def test_a_client_that_leaves_takes_its_sentences_along() -> None:
    async def test() -> None:
        translator = FakeTranslator()
        translator.step_gate.clear()
        async with service_of(translator, max_batch_rows=1, max_beam_size=1, max_hypotheses=1) as service:
            leaving = asyncio.create_task(ask(service, "running", "waiting"))
            await until(lambda: translator.log.joins)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
            translator.step_gate.set()
            await until(lambda: translator.log.left)
            assert texts_of(await ask(service, "next")) == ["NEXT"]
            assert translator.log.joins == [1, 1]
            assert b'verso_sentences_total{outcome="cancelled"} 2.0' in service._metrics.render()

    run(test)


def test_more_than_the_queue_holds_is_refused_at_once() -> None:
    async def test() -> None:
        async with service_of(FakeTranslator(), queue_sentences=2) as service:
            with pytest.raises(QueueFull):
                await ask(service, "a", "b", "c")
            assert texts_of(await ask(service, "a", "b")) == ["A", "B"]

    run(test)


def test_nothing_is_taken_while_the_model_loads() -> None:
    async def test() -> None:
        gate = threading.Event()
        translator = FakeTranslator()

        def load() -> FakeTranslator:
            gate.wait(PATIENCE_S)
            return translator

        service = TranslationService(Settings(), Metrics(), load)
        await service.start()
        assert (service.state, service.manifests) == ("loading", [])
        with pytest.raises(NotReady, match="still loading"):
            await ask(service, "x")
        gate.set()
        await service.wait_loaded()
        assert service.state == "ready"
        assert [manifest.name for manifest in service.manifests] == ["fake"]
        assert texts_of(await ask(service, "x")) == ["X"]
        await service.stop()

    run(test)


def test_a_model_that_does_not_load_leaves_its_reason() -> None:
    async def test() -> None:
        error = ArtifactError("there is no bundle")

        def load() -> FakeTranslator:
            raise error

        service = TranslationService(Settings(), Metrics(), load)
        await service.start()
        await service.wait_loaded()
        assert service.state == "failed"
        assert service.failure is error
        with pytest.raises(NotReady, match="could not be loaded"):
            await ask(service, "x")
        await service.stop()

    run(test)


def test_draining_finishes_what_runs_and_refuses_what_comes() -> None:
    async def test() -> None:
        translator = FakeTranslator()
        translator.step_gate.clear()
        async with service_of(translator) as service:
            running = asyncio.create_task(ask(service, "running"))
            await until(lambda: translator.log.joins)
            draining = asyncio.create_task(service.drain(PATIENCE_S))
            await until(lambda: service.state == "draining")
            with pytest.raises(NotReady, match="shutting down"):
                await ask(service, "late")
            translator.step_gate.set()
            assert await draining
            assert texts_of(await running) == ["RUNNING"]

    run(test)


def test_draining_is_bounded_and_those_given_up_are_told() -> None:
    async def test() -> None:
        translator = FakeTranslator()
        translator.step_gate.clear()
        async with service_of(translator) as service:
            running = asyncio.create_task(ask(service, "running"))
            await until(lambda: translator.log.joins)
            assert not await service.drain(0.05)
            with pytest.raises(NotReady, match="shutting down"):
                await running

    run(test)


def test_the_event_loop_is_free_while_the_model_works() -> None:
    async def test() -> None:
        translator = FakeTranslator(step_s=0.05)
        async with service_of(translator) as service:
            working = asyncio.create_task(ask(service, "x" * 20))
            delays: list[float] = []
            while not working.done():
                began = time.perf_counter()
                await asyncio.sleep(0.001)
                delays.append(time.perf_counter() - began)
            # Had a step run on the loop, the delay would be a step's.
            assert sorted(delays)[len(delays) // 2] < 0.04

    run(test)


def test_attention_runs_on_the_engine_and_its_errors_come_back() -> None:
    async def test() -> None:
        async with service_of(FakeTranslator()) as service:
            told: dict[str, Any] = {"source": None, "target": "de", "options": GREEDY, "target_text": None}
            found = await service.attention("two words", **told)
            assert found.translation == "TWO WORDS"
            with pytest.raises(InferenceFailed):
                await service.attention("boom", **told)
            with pytest.raises(UnsupportedPair):
                await service.attention("x", **{**told, "target": "fr"})

    run(test)


def test_an_alignment_that_fails_costs_its_text_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        translator = FakeTranslator()

        def align(prepared: Any, hypotheses: Any) -> Any:
            if "bad" in prepared.text:
                raise RuntimeError("secret")
            return None

        monkeypatch.setattr(translator, "align", align)
        async with service_of(translator) as service:
            outcome = await ask(service, "bad", "good", return_alignment=True)
            assert isinstance(outcome.results[0], InferenceFailed)
            assert texts_of(outcome)[1] == "GOOD"

    run(test)


def test_input_errors_of_attention_keep_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        translator = FakeTranslator()

        def refuse(*args: Any) -> Any:
            raise SeveralSentences(3)

        monkeypatch.setattr(translator, "attention", refuse)
        async with service_of(translator) as service:
            with pytest.raises(SeveralSentences):
                await service.attention("a", source=None, target="de", options=GREEDY, target_text=None)

    run(test)
