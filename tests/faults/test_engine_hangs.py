"""A step of the model, or a function call on its thread, does not end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from app.engine.engine import MAX_LEFT_BEHIND, STEP_TIMEOUT_S, Dropped
from app.engine.watchdog import LONGEST_LOOK_S, Watchdog
from app.errors import NotReady
from app.main import create_app
from app.settings import Settings
from tests.app.engines import GREEDY, PATIENCE_S, FakeEngine, Inbox, counted, engine_of, ids, text_of
from tests.app.fakes import BUDGET, FakeBundles, FakeCohort, FakeTranslator, manifest_of
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


def look_for(engine: FakeEngine, clock: Clock, seconds: float, **options: Any) -> None:
    """The watchdog looks every second while this time passes."""
    engine.watch(**options)
    for _ in range(int(seconds)):
        clock.now += 1.0
        engine.watch(**options)


def hung(engine: FakeEngine) -> float | None:
    return engine.metrics.registry.get_sample_value("verso_engine_restarts_total", {"reason": "hung"})


def test_what_hangs_is_refused_and_what_waits_is_translated() -> None:
    inbox, other = Inbox(), Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang"), ids("beside it")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        engine.ask([ids("waits"), ids("too")], GREEDY, other.deliver)
        look_for(engine, clock, STEP_TIMEOUT_S)
        assert inbox.is_empty and hung(engine) == 0, "it may take that long"
        look_for(engine, clock, 2)
        found = inbox.take(2)
        assert all(isinstance(one, NotReady) and one.retry_after_s == 1 for one in found.values())
        assert sorted(map(text_of, other.take(2).values())) == ["too", "waits"]
        until(lambda: engine.is_idle)
        assert (hung(engine), counted(engine, "failed"), counted(engine, "finished")) == (1, 2, 2)
    assert inbox.is_empty and other.is_empty


def test_a_step_that_ends_after_all_delivers_nothing_twice_and_its_thread_ends() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        assert isinstance(inbox.take(1)[0], NotReady)
        (left_behind,) = engine._left_behind
        translator.release.set()
        left_behind.join(PATIENCE_S)
        assert not left_behind.is_alive()
        engine.ask([ids("next")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "next"
        assert (counted(engine, "failed"), counted(engine, "finished")) == (1, 1)
    assert inbox.is_empty


def test_sentences_of_other_cohorts_are_decoded_once_more() -> None:
    inbox, other = Inbox(), Inbox()
    second = FakeTranslator(manifest=manifest_of("second", "fr-en"))
    second.step_gate.clear()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("other cohort")], GREEDY, other.deliver, second)
        until(second.stepping.is_set)
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        second.step_gate.set()
        until(lambda: translator.num_hanging == 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        assert isinstance(inbox.take(1)[0], NotReady)
        assert text_of(other.take(1)[0]) == "other cohort"
        assert second.log.joins == [1, 1]
        until(lambda: engine.is_idle)
    assert inbox.is_empty and other.is_empty


def test_a_call_that_hangs_is_refused_and_others_are_made() -> None:
    inbox, release = Inbox(), threading.Event()
    reached = threading.Event()

    def hang() -> None:
        reached.set()
        assert release.wait(PATIENCE_S)

    with hanging_engine() as (engine, _, clock):
        engine.call(hang, lambda outcome: inbox.deliver(0, outcome))
        assert reached.wait(PATIENCE_S)
        engine.call(lambda: "made", lambda outcome: inbox.deliver(1, outcome))
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        found = inbox.take(2)
        assert isinstance(found[0], NotReady)
        assert found[1] == "made"
        release.set()
    assert inbox.is_empty


def test_a_sentence_that_is_cancelled_while_it_hangs_gets_nothing() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        (sentence,) = engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        engine.withdraw({sentence.key}, expired=True)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        until(lambda: engine.is_idle)
        translator.release.set()
        assert (counted(engine, "expired"), counted(engine, "failed"), counted(engine, "finished")) == (1, 0, 0)
    assert inbox.is_empty


def test_a_thread_that_takes_over_is_prepared() -> None:
    prepared: list[threading.Thread] = []
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.prepare_thread = lambda: prepared.append(threading.current_thread())
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        inbox.take(1)
        done = Inbox()
        engine.call(threading.current_thread, lambda thread: done.deliver(0, thread))
        assert prepared == [done.take(1)[0]]


def test_with_too_many_threads_that_hang_the_engine_gives_up() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        for number in range(MAX_LEFT_BEHIND):
            engine.ask([ids("hang")], GREEDY, inbox.deliver)
            until(partial(lambda wanted: translator.num_hanging == wanted, number + 1))
            look_for(engine, clock, STEP_TIMEOUT_S + 2)
            assert isinstance(inbox.take(1)[0], NotReady)
            assert not engine.has_given_up
        engine.ask([ids("hang"), ids("waits")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == MAX_LEFT_BEHIND + 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2)
        assert engine.has_given_up
        assert all(isinstance(one, Dropped) for one in inbox.take(2).values())
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)
    assert inbox.is_empty


def test_where_no_other_thread_may_run_the_models_the_engine_gives_up() -> None:
    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        look_for(engine, clock, STEP_TIMEOUT_S + 2, may_replace=False)
        assert isinstance(inbox.take(1)[0], Dropped)
        assert engine.has_given_up


def test_while_no_thread_can_be_started_the_watchdog_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    inbox = Inbox()
    with hanging_engine() as (engine, translator, clock):
        engine.ask([ids("hang")], GREEDY, inbox.deliver)
        until(lambda: translator.num_hanging == 1)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", no_thread)
            look_for(engine, clock, STEP_TIMEOUT_S + 5)
            assert inbox.is_empty and hung(engine) == 0
        engine.watch()
        assert isinstance(inbox.take(1)[0], NotReady)
        engine.ask([ids("next")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "next"


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


def test_a_step_that_ended_after_all_raises_the_bound_for_the_next_ones() -> None:
    clock = Clock()
    watchdog = Watchdog(30.0, clock)
    watchdog.hangs(1)
    watchdog.was_mistaken()
    for _ in range(60):
        clock.now += 1.0
        assert not watchdog.hangs(1)
    clock.now += 1.0
    assert watchdog.hangs(1)


def test_a_step_may_take_as_long_as_a_request_and_thirty_seconds_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float] = []
    monkeypatch.setattr("app.engine.engine.Watchdog", lambda limit_s, clock: limits.append(limit_s))
    for settings in ({"deadline_s": 5}, {"deadline_s": 300}, {"deadline_s": 300, "step_timeout_s": 2}):
        create_app(Settings(**settings), FakeBundles())  # type: ignore[arg-type]
    assert limits == [30.0, 300.0, 2.0]


def test_clients_get_503_for_what_hangs_and_answers_for_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way, with a watchdog that finds a step too long as soon as it is told to."""
    impatient = threading.Event()
    monkeypatch.setattr(Watchdog, "hangs", lambda self, number: impatient.is_set() and number is not None)
    monkeypatch.setattr("app.serving.service._WATCH_S", 0.01)
    translator = HangingTranslator()
    request = {"source": "en", "target": "de"}

    async def hang(client: Any, number: int) -> Any:
        asking = asyncio.create_task(client.post("/translate", json={"text": f"hang {number}", **request}))
        while translator.num_hanging < number:
            await asyncio.sleep(0.002)
        impatient.set()
        answer = await asking
        impatient.clear()
        return answer

    async def test() -> None:
        app = create_app(Settings(**BUDGET), FakeBundles(translator))
        async with app.router.lifespan_context(app), client_of(app) as client:
            await app.state.service.wait_loaded()
            for number in range(1, MAX_LEFT_BEHIND + 1):
                refused = await hang(client, number)
                assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
                assert "was restarted" in refused.json()["detail"] and refused.headers["retry-after"] == "1"
                answer = await client.post("/translate", json={"text": "next", **request})
                assert answer.json()["translations"][0]["text"] == "NEXT"
                assert (await client.get("/readyz")).status_code == (await client.get("/livez")).status_code == 200
            refused = await hang(client, MAX_LEFT_BEHIND + 1)
            assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
            assert (await client.get("/readyz")).status_code == (await client.get("/livez")).status_code == 503
            metrics = (await client.get("/metrics")).text
            assert f'verso_engine_restarts_total{{reason="hung"}} {MAX_LEFT_BEHIND}.0' in metrics
            assert "verso_ready 0.0" in metrics
            translator.release.set()

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())
