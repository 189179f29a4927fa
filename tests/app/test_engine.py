"""The engine's thread around a translator that needs no model."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.engine import Dropped, Engine
from app.errors import InferenceFailed, QueueFull
from app.metrics import Metrics
from app.scheduler import Budget, Scheduler
from model.decoding.options import DecodingOptions, Hypothesis
from model.errors import DecodingError, EmptySource
from tests.app.fakes import FakeTranslator

PATIENCE_S = 30.0
GREEDY = DecodingOptions(decoding="greedy")


class Inbox:
    """Outcomes as they are delivered."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[int, object]] = queue.Queue()

    def deliver(self, place: int, outcome: object) -> None:
        self._queue.put((place, outcome))

    def take(self, number: int) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for _ in range(number):
            place, outcome = self._queue.get(timeout=PATIENCE_S)
            assert place not in found, "delivered twice"
            found[place] = outcome
        return found

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()


@contextmanager
def engine_of(translator: FakeTranslator, max_waiting: int = 100, max_rows: int = 64) -> Iterator[Engine]:
    loaded: queue.Queue[object] = queue.Queue()
    engine = Engine(
        lambda: translator,
        Scheduler(Budget(100_000, max_rows), max_waiting, time.monotonic),
        Metrics(),
        [1, 4],
        loaded.put,
    )
    engine.start()
    try:
        assert loaded.get(timeout=PATIENCE_S) is translator
        yield engine
    finally:
        translator.step_gate.set()
        engine.stop(PATIENCE_S)
        assert not engine._thread.is_alive()


def ids(text: str) -> list[int]:
    return [2, *map(ord, text), 3]


def text_of(outcome: Any) -> str:
    assert isinstance(outcome, Hypothesis), outcome
    return "".join(map(chr, outcome.token_ids))


def until(condition: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_the_model_is_warmed_up_before_it_is_called_loaded() -> None:
    translator = FakeTranslator()
    with engine_of(translator):
        assert translator.warmed_up == [1, 4]


def test_sentences_of_several_callers_decode_together() -> None:
    translator = FakeTranslator()
    translator.step_gate.clear()
    inbox, other = Inbox(), Inbox()
    with engine_of(translator) as engine:
        engine.submit([ids("first")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        engine.submit([ids("second"), ids("third")], GREEDY, other.deliver)
        translator.step_gate.set()
        assert text_of(inbox.take(1)[0]) == "first"
        assert sorted(map(text_of, other.take(2).values())) == ["second", "third"]
    assert max(translator.log.steps) == 3


def test_a_short_sentence_does_not_wait_for_a_long_one() -> None:
    translator = FakeTranslator(step_s=0.001)
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.submit([ids("x" * 150), ids("y")], GREEDY, inbox.deliver)
        assert list(inbox.take(1)) == [1]
        assert list(inbox.take(1)) == [0]


def test_different_widths_run_side_by_side() -> None:
    translator = FakeTranslator()
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.submit([ids("greedy")], GREEDY, inbox.deliver)
        beams = Inbox()
        engine.submit([ids("beam")], DecodingOptions(beam_size=3, num_hypotheses=2), beams.deliver)
        assert text_of(inbox.take(1)[0]) == "greedy"
        found = beams.take(1)[0]
        assert text_of(found) == "beam"
        assert len(found.alternatives) == 1


def test_a_sentence_whose_client_left_is_not_decoded() -> None:
    translator = FakeTranslator()
    translator.step_gate.clear()
    inbox = Inbox()
    with engine_of(translator, max_rows=1) as engine:
        running = engine.submit([ids("running")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        waiting = engine.submit([ids("waiting")], GREEDY, inbox.deliver)
        engine.withdraw({waiting[0].key})
        assert engine.num_waiting == 0
        engine.withdraw({running[0].key})
        translator.step_gate.set()
        after = Inbox()
        engine.submit([ids("after")], GREEDY, after.deliver)
        assert text_of(after.take(1)[0]) == "after"
        until(lambda: not engine._running)
    assert inbox.is_empty
    assert translator.log.joins == [1, 1]
    assert engine._withdrawn == set()


def test_withdrawing_what_is_done_changes_nothing() -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        done = engine.submit([ids("x")], GREEDY, inbox.deliver)
        inbox.take(1)
        until(lambda: not engine._running)
        engine.withdraw({done[0].key, 12345})
        assert engine._withdrawn == set()


def test_a_sentence_that_breaks_the_model_fails_alone() -> None:
    translator = FakeTranslator()
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.submit([ids("good"), ids("boom"), ids("fine")], GREEDY, inbox.deliver)
        found = inbox.take(3)
        assert text_of(found[0]) == "good"
        assert isinstance(found[1], InferenceFailed)
        assert text_of(found[2]) == "fine"
        until(lambda: not engine._running)
        engine.submit([ids("again")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "again"


def test_a_sentence_without_a_hypothesis_fails_alone() -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.submit([ids("nan"), ids("fine")], GREEDY, inbox.deliver)
        found = inbox.take(2)
        assert isinstance(found[0], DecodingError)
        assert text_of(found[1]) == "fine"


def test_calls_run_on_the_engine_thread_between_steps() -> None:
    translator = FakeTranslator(step_s=0.001)
    inbox, calls = Inbox(), Inbox()
    with engine_of(translator) as engine:
        engine.submit([ids("x" * 100)], GREEDY, inbox.deliver)
        engine.call(lambda owned: (owned is translator, threading.current_thread().name), lambda o: calls.deliver(0, o))
        assert calls.take(1)[0] == (True, "verso-engine")
        assert inbox.is_empty
        inbox.take(1)


def test_errors_of_calls_are_translated() -> None:
    calls = Inbox()

    def fail(error: Exception) -> Any:
        raise error

    with engine_of(FakeTranslator()) as engine:
        engine.call(lambda _: fail(EmptySource()), lambda outcome: calls.deliver(0, outcome))
        engine.call(lambda _: fail(RuntimeError("secret")), lambda outcome: calls.deliver(1, outcome))
        found = calls.take(2)
    assert isinstance(found[0], EmptySource)
    assert isinstance(found[1], InferenceFailed)


def test_a_full_line_refuses() -> None:
    translator = FakeTranslator()
    translator.step_gate.clear()
    inbox = Inbox()
    with engine_of(translator, max_waiting=2, max_rows=1) as engine:
        engine.submit([ids("a")], GREEDY, inbox.deliver)
        engine.submit([ids("bb")], GREEDY, inbox.deliver)
        until(lambda: engine.num_waiting == 0)
        engine.submit([ids("c"), ids("d")], GREEDY, inbox.deliver)
        with pytest.raises(QueueFull):
            engine.submit([ids("e")], GREEDY, inbox.deliver)
        assert engine.retry_after_s() >= 1


def test_stopping_drops_whoever_still_waits() -> None:
    translator = FakeTranslator()
    translator.step_gate.clear()
    inbox = Inbox()
    with engine_of(translator, max_rows=1) as engine:
        engine.submit([ids("running"), ids("waiting")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        stopper = threading.Thread(target=engine.stop, args=(PATIENCE_S,))
        stopper.start()
        until(lambda: engine._stopping)
        translator.step_gate.set()
        stopper.join(PATIENCE_S)
        assert all(isinstance(outcome, Dropped) for outcome in inbox.take(2).values())
        with pytest.raises(Dropped):
            engine.submit([ids("late")], GREEDY, inbox.deliver)


def test_a_model_that_does_not_load_is_reported() -> None:
    loaded: queue.Queue[object] = queue.Queue()
    error = EmptySource()

    def load() -> Any:
        raise error

    engine = Engine(load, Scheduler(Budget(10, 10), 10, time.monotonic), Metrics(), [1], loaded.put)
    engine.start()
    assert loaded.get(timeout=PATIENCE_S) is error
    engine.stop(PATIENCE_S)


def test_a_cohort_that_cannot_be_made_costs_its_sentences_only(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    inbox = Inbox()

    def no_memory(width: int) -> Any:
        raise RuntimeError("out of memory")

    with engine_of(translator) as engine:
        monkeypatch.setattr(translator, "cohort", no_memory)
        engine.submit([ids("a"), ids("b")], GREEDY, inbox.deliver)
        assert all(isinstance(outcome, InferenceFailed) for outcome in inbox.take(2).values())
        monkeypatch.undo()
        engine.submit([ids("c")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "c"
