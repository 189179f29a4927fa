"""A step of the model, or a function call on its thread, does not end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.engine.engine import STEP_TIMEOUT_S, Dropped
from app.engine.watchdog import LONGEST_LOOK_S, Watchdog
from app.main import create_app
from app.settings import Settings
from tests.app.engines import GREEDY, PATIENCE_S, FakeEngine, Inbox, counted, engine_of, ids
from tests.app.fakes import BUDGET, FakeBundles, FakeCohort, FakeTranslator
from tests.app.serving import client_of
from tests.waiting import Clock, until


class HangingTranslator(FakeTranslator):
    """Every step with a text that contains ``hang`` waits until ``release`` is set."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.release = threading.Event()
        self.num_hanging = 0

    def cohort(self, width: int) -> Any:
        return HangingCohort(width, self)


class HangingCohort(FakeCohort):
    def step(self) -> Any:
        translator: Any = self._translator
        if any("hang" in translator.text_of(request) for request in self._requests.values()):
            translator.num_hanging += 1
            assert translator.release.wait(PATIENCE_S)
        return super().step()


@contextmanager
def hanging_engine() -> Iterator[tuple[FakeEngine, HangingTranslator, Clock]]:
    translator, clock = HangingTranslator(), Clock()
    with engine_of(translator, max_rows=2, clock=clock) as engine:
        try:
            yield engine, translator, clock
        finally:
            translator.release.set()


def look_for(engine: FakeEngine, clock: Clock, seconds: float) -> None:
    """The watchdog looks every second while this time passes."""
    engine.watch()
    for _ in range(int(seconds)):
        clock.now += 1.0
        engine.watch()


def test_an_engine_that_hangs_gives_up_and_nobody_waits() -> None:
    inbox, other = Inbox(), Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang"), ids("beside it")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        engine.ask([ids("waits"), ids("too")], GREEDY, other.deliver)
        engine.call(lambda: "a call", lambda outcome: other.deliver(2, outcome))
        look_for(engine, clock, STEP_TIMEOUT_S)
        assert inbox.is_empty and other.is_empty and not engine.has_given_up, "it may take that long"
        look_for(engine, clock, 2)
        assert engine.has_given_up
        assert [type(first) for first in inbox.take(2).values()] == [Dropped] * 2
        assert [type(first) for first in other.take(3).values()] == [Dropped] * 3
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)
    assert inbox.is_empty and other.is_empty


def test_a_step_that_ends_after_all_delivers_nothing_twice_and_its_thread_ends() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        assert isinstance(inbox.take(1)[0], Dropped)
        translator.release.set()
        assert engine._thread is not None
        engine._thread.join(PATIENCE_S)
        assert not engine._thread.is_alive()
        assert (counted(engine, "cancelled"), counted(engine, "finished")) == (1, 0)
    assert inbox.is_empty


def test_a_call_that_hangs_counts_as_a_step() -> None:
    inbox, release, reached = Inbox(), threading.Event(), threading.Event()

    def hang() -> None:
        reached.set()
        assert release.wait(PATIENCE_S)

    with hanging_engine() as (engine, _, clock):
        engine.call(hang, lambda outcome: inbox.deliver(0, outcome))
        assert reached.wait(PATIENCE_S)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        assert isinstance(inbox.take(1)[0], Dropped)
        release.set()
    assert inbox.is_empty


def test_a_sentence_that_is_cancelled_while_it_hangs_gets_nothing() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        (sentence,) = engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        engine.withdraw({sentence.key}, expired=True)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        translator.release.set()
        assert (counted(engine, "expired"), counted(engine, "failed"), counted(engine, "finished")) == (1, 0, 0)
    assert inbox.is_empty


def test_an_engine_that_has_finished_its_work_does_not_hang() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, _, clock):
        engine.ask([ids("word")], GREEDY, inbox.deliver)
        inbox.take(1)
        until(lambda: engine._state.is_asleep)
        look_for(engine, clock, 10 * STEP_TIMEOUT_S)
        assert not engine.has_given_up


def test_steps_that_end_never_hang_however_many_there_are() -> None:
    clock = Clock()
    watchdog = Watchdog(30.0, clock)
    for step in range(100):
        for _ in range(29):
            clock.now += 1.0
            assert not watchdog.hangs(step)


def test_an_idle_engine_does_not_hang() -> None:
    clock = Clock()
    watchdog = Watchdog(30.0, clock)
    for _ in range(1000):
        clock.now += 1.0
        assert not watchdog.hangs(None)


def test_a_machine_that_was_suspended_for_an_hour_does_not_hang() -> None:
    clock = Clock()
    watchdog = Watchdog(30.0, clock)
    assert not watchdog.hangs(7)
    clock.now += 3600.0
    assert not watchdog.hangs(7)
    clock.now += 30.0 - LONGEST_LOOK_S
    assert not watchdog.hangs(7)


def test_a_step_may_take_as_long_as_a_request_and_thirty_seconds_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr("app.engine.engine.Watchdog", lambda limit_s, clock: limits.append(limit_s))
    for settings in ({"deadline_s": 5}, {"deadline_s": 300}, {"deadline_s": 300, "step_timeout_s": 2}):
        create_app(Settings(**settings), FakeBundles())  # type: ignore[arg-type]
    assert limits == [30.0, 300.0, 2.0]


async def test_clients_get_503_livez_says_so_and_the_process_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    impatient = threading.Event()
    monkeypatch.setattr(Watchdog, "hangs", lambda self, number: impatient.is_set() and number is not None)
    monkeypatch.setattr("app.serving.service._WATCH_S", 0.01)
    translator = HangingTranslator()

    app = create_app(Settings(**BUDGET), FakeBundles(translator))
    async with app.router.lifespan_context(app), client_of(app) as client:
        service = app.state.service
        await service.wait_loaded()
        requests = [
            asyncio.create_task(client.post("/translate", json={"text": text, "source": "en", "target": "de"}))
            for text in ("hang", "waits")
        ]
        while translator.num_hanging == 0:
            await asyncio.sleep(0.002)
        assert (await client.get("/livez")).status_code == 200
        impatient.set()
        for request in requests:
            refused = await request
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
            assert "no longer works" in refused.json()["detail"] and refused.headers["retry-after"] == "1"
        await service.engine_given_up()
        assert service.state == "failed"
        assert (await client.get("/readyz")).status_code == (await client.get("/livez")).status_code == 503
        assert "verso_ready 0.0" in (await client.get("/metrics")).text
        translator.release.set()
