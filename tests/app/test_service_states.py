"""Start, draining, stop and upkeep of a service."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import torch

from app.engine.capacity import MIN_ROWS
from app.engine.scheduler import Scheduler
from app.errors import NotReady
from app.settings import Settings
from model.errors import ArtifactError
from tests.app.fakes import BUDGET, SHAPED, FakeBundles, FakeTranslator, WordDetector, held_translator
from tests.app.observed import ObservedService, is_stopping, num_waiting_calls, service_threads
from tests.app.services import (
    PATIENCE_S,
    ask,
    begin,
    counted,
    look,
    service_of,
    service_with,
    texts_of,
)
from tests.waiting import Gate, eventually


async def test_the_engine_and_memory_are_looked_after_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[str] = []

    def fails(name: str) -> Callable[..., None]:
        def look(**_: object) -> None:
            looks.append(name)
            raise RuntimeError(name)

        return look

    for name in ("_WATCH_S", "_TIDY_S"):
        monkeypatch.setattr(f"app.serving.service.{name}", 0.001)
    monkeypatch.setattr("app.serving.service.give_back_freed_memory", fails("memory"))
    async with service_of(FakeTranslator()) as service:
        monkeypatch.setattr(service.engine, "watch", fails("engine"))
        await eventually(lambda: looks.count("memory") > 1 and looks.count("engine") > 1)
        assert service.state == "ready"
    assert "housekeeping failed; will retry" in caplog.text


async def test_a_failed_load_keeps_its_reason() -> None:
    error = ArtifactError("there is no bundle")

    def load() -> FakeTranslator:
        raise error

    service = ObservedService(Settings(**BUDGET), FakeBundles(load))
    await service.start()
    await service.wait_loaded()
    assert service.state == "failed"
    assert service.failure is error
    with pytest.raises(NotReady, match="could not be loaded"):
        await ask(service, "x")
    await service.stop()


async def test_draining_finishes_running_requests_and_refuses_new_ones() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        running = asyncio.create_task(ask(service, "running"))
        await eventually(lambda: translator.log.joins)
        draining = asyncio.create_task(service.drain(PATIENCE_S))
        await eventually(lambda: service.state == "draining")
        with pytest.raises(NotReady, match="shutting down"):
            await ask(service, "late")
        translator.step_gate.set()
        assert await draining
        assert texts_of(await running) == ["RUNNING"]


async def test_the_event_loop_is_free_while_the_model_works() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        working = asyncio.create_task(ask(service, "running"))
        await eventually(translator.stepping.is_set)
        # A step is running until the gate opens. If it ran on the event loop, these requests would not finish.
        for _ in range(10):
            assert texts_of(await ask(service, "")) == [""]
            await asyncio.sleep(0.001)
        assert not working.done()
        assert service.engine.num_waiting == 0
        translator.step_gate.set()
        assert texts_of(await working) == ["RUNNING"]


async def test_a_request_that_waits_is_translated_when_the_models_are_loaded() -> None:
    gate = Gate()

    def load() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator()

    service = ObservedService(Settings(**BUDGET), FakeBundles(load))
    await service.start()
    try:
        patient = asyncio.create_task(ask(service, "b", waits=True))
        await eventually(gate.reached.is_set)
        with pytest.raises(NotReady):
            await ask(service, "a")
        gate.open.set()
        assert texts_of(await patient) == ["B"]
    finally:
        await service.stop()


async def test_detection_leaves_out_texts_without_letters_and_is_refused_while_draining() -> None:
    async with service_with(FakeBundles(FakeTranslator()), WordDetector()) as service:
        languages = await service.detect(["der Hund", "42", "the cat", "le chat"])
        assert [None if language is None else language.language for language in languages] == ["de", None, "en", None]
        await service.drain(PATIENCE_S)
        with pytest.raises(NotReady):
            await service.detect(["the cat"])
        with pytest.raises(NotReady):
            await service.language_pairs()


async def test_refusals_while_loading_have_a_retry_after() -> None:
    gate = Gate()

    def load() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator()

    service = ObservedService(Settings(**BUDGET), FakeBundles(load))
    await service.start()
    assert service.not_ready().retry_after_s == 5.0
    with pytest.raises(NotReady) as refused:
        await look(service, "two words")
    assert refused.value.reason == "loading"
    assert service.models == []
    assert await service.drain(0.0), "nothing runs"
    gate.open.set()
    await service.wait_loaded()
    assert service.state == "draining", "a model that is loaded after the drain began changes nothing"
    assert [model.device for model in service.models] == ["cpu"]
    with pytest.raises(NotReady, match="shutting down"):
        await ask(service, "x")
    await service.stop()
    assert service.not_ready().reason == "stopped"


@pytest.mark.parametrize("fails", [False, True])
async def test_stopping_does_not_wait_for_a_model_that_still_loads(fails: bool) -> None:
    gate = Gate()

    def load() -> FakeTranslator:
        gate.pass_through()
        if fails:
            raise ArtifactError("there is no bundle")
        return FakeTranslator()

    existing = service_threads()
    service = ObservedService(Settings(**BUDGET), FakeBundles(load))
    await service.start()
    await eventually(gate.reached.is_set)
    await service.stop()
    await service.wait_loaded()
    assert service.state == "stopped"
    gate.open.set()
    assert not any(thread.name == "verso-engine" for thread in service_threads(existing))
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert service.state == "stopped"
    assert service.models == []
    assert (service.failure is not None) == fails


async def test_stopping_refuses_waiting_requests() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        waiting = [asyncio.create_task(ask(service, "text")), asyncio.create_task(ask(service, "other"))]
        await eventually(translator.stepping.is_set)
        waiting.append(asyncio.create_task(ask(service, "late")))
        looking = asyncio.create_task(look(service, "two words"))
        await eventually(lambda: num_waiting_calls(service.engine))
        stopping = asyncio.create_task(service.stop())
        await eventually(lambda: is_stopping(service.engine))
        translator.step_gate.set()
        await stopping
        for task in (*waiting, looking):
            with pytest.raises(NotReady, match="has stopped"):
                await task
        with pytest.raises(NotReady, match="has stopped"):
            await ask(service, "x")


async def test_a_stopped_service_leaves_no_thread_running() -> None:
    existing = service_threads()
    async with service_of(FakeTranslator()) as service:
        await ask(service, "Long text. " * 100)
        mine = service_threads(existing)
    assert len(mine) > 1
    await eventually(lambda: not any(thread.is_alive() for thread in mine))


async def test_draining_waits_for_attention_too() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        running = await begin(service, translator)
        looking = asyncio.create_task(look(service, "two words"))
        await eventually(lambda: num_waiting_calls(service.engine))
        draining = asyncio.create_task(service.drain(PATIENCE_S))
        await eventually(lambda: service.state == "draining")
        assert not draining.done()
        translator.step_gate.set()
        assert await draining
        assert (await looking).translation == "TWO WORDS"
        assert texts_of(await running) == ["RUNNING"]


async def test_draining_an_idle_service_ends_at_once() -> None:
    async with service_of(FakeTranslator()) as service:
        assert await service.drain(0.0)
        assert await service.drain(PATIENCE_S)
        assert service.sample("verso_ready") == 0


async def test_requests_cancelled_by_draining_leave_the_model() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(ask(service, "running"))]
        await eventually(translator.stepping.is_set)
        tasks.append(asyncio.create_task(look(service, "two words")))
        await eventually(lambda: num_waiting_calls(service.engine))
        assert not await service.drain(0.0)
        for task in tasks:
            with pytest.raises(NotReady, match="shutting down"):
                await task
        translator.step_gate.set()
        await eventually(lambda: service.engine.is_idle)
        assert counted(service, "cancelled") == 1
        assert await service.drain(0.0), "nothing runs any more"


async def test_a_dead_engine_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_of(FakeTranslator()) as service:

        def bug(*_: object) -> Any:
            raise AssertionError("a bug")

        monkeypatch.setattr(Scheduler, "take", bug)
        with pytest.raises(NotReady, match="no longer works"):
            await ask(service, "x")
        assert service.state == "failed"
        assert service.sample("verso_ready") == 0
        with pytest.raises(NotReady):
            await look(service, "two words")


async def test_the_model_is_warmed_up_for_the_widths_in_use() -> None:
    wide, narrow = FakeTranslator(), FakeTranslator()
    async with service_of(wide):
        assert wide.warmed_up == [1, 4]
    async with service_of(narrow, max_beam_size=2, max_hypotheses=2):
        assert narrow.warmed_up == [1]


async def test_the_budget_is_measured_at_start_and_exported() -> None:
    translator = FakeTranslator(manifest=SHAPED)
    async with service_of(translator, max_batch_rows=None, max_batch_tokens=None) as service:
        budget = service.engine.budget
        assert budget.max_rows >= MIN_ROWS
        assert budget.max_tokens > 1000
        assert service.sample("verso_max_batch_rows") == budget.max_rows
        assert service.sample("verso_max_batch_tokens") == budget.max_tokens
        assert max(translator.log.steps) >= MIN_ROWS
        assert texts_of(await ask(service, "one")) == ["ONE"]


async def test_more_threads_than_allowed_are_reduced_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr("model.process.threads.available_threads", lambda proc: 2)
    for threads in (1, None, 64):
        async with service_of(FakeTranslator(), threads=threads):
            pass
    assert used == [1, 2, 2]
    (warning,) = [record for record in caplog.records if "fewer threads" in record.message]
    assert warning.__dict__["fields"] == {"configured": 64, "used": 2}
