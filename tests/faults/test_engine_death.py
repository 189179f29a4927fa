"""The engine's thread dies of an error that is not a model's."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from app.engine.engine import MAX_DEATHS, Dropped
from app.engine.running import RunningCohort
from app.engine.scheduler import Scheduler
from app.errors import InferenceFailed
from app.telemetry.metrics import Metrics
from tests.app.engines import GREEDY, FakeEngine, Inbox, counted, engine_of, ids, text_of
from tests.app.fakes import FakeCohort, FakeTranslator, held_translator
from tests.waiting import until


def restarts(engine: FakeEngine) -> float | None:
    return engine.metrics.registry.get_sample_value("verso_engine_restarts_total", {"reason": "died"})


def fail_in_call(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    fails: Callable[[int], bool],
    error: type[BaseException] = AssertionError,
    after: bool = False,
) -> None:
    """Some calls of a method, by their number on the engine's thread, raise an error, before or after they act."""
    method, number = getattr(owner, name), 0

    def failing(*args: Any, **kwargs: Any) -> Any:
        nonlocal number
        if threading.current_thread().name != "verso-engine":
            return method(*args, **kwargs)
        number += 1
        fail = fails(number)
        if fail and not after:
            raise error("a bug")
        result = method(*args, **kwargs)
        if fail:
            raise error("a bug")
        return result

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Scheduler, "take"),
        (Scheduler, "finished"),
        (Metrics, "joined"),
        (Metrics, "stepped"),
        (Metrics, "load_changed"),
        (RunningCohort, "load"),
    ],
)
def test_every_sentence_is_answered_once_wherever_the_thread_dies(
    owner: type, name: str, after: bool, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox()
    texts = ["one", "three", "seven", "thirteen"]
    with engine_of(FakeTranslator(), max_rows=2) as engine:
        fail_in_call(monkeypatch, owner, name, lambda call: call == number, after=after)
        engine.ask([ids(text) for text in texts], GREEDY, inbox.deliver)
        outcomes = inbox.take(len(texts))
        assert [text_of(outcomes[index]) for index in range(len(texts))] == texts
        until(lambda: engine.is_idle and restarts(engine) == 1)
        assert counted(engine, "finished") == len(texts)
        monkeypatch.undo()
        engine.ask([ids("next")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "next"
    assert inbox.is_empty


def test_a_thread_that_cannot_start_again_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        for name in ("take", "interrupted"):
            fail_in_call(monkeypatch, Scheduler, name, lambda call: True)
        engine.ask([ids("one"), ids("two")], GREEDY, inbox.deliver)
        assert [type(outcome) for outcome in inbox.take(2).values()] == [Dropped, Dropped]
        assert engine.has_given_up
        with pytest.raises(Dropped):
            engine.ask([ids("three")], GREEDY, inbox.deliver)
    assert inbox.is_empty


def test_a_sentence_that_kills_the_thread_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    advance = FakeCohort._advance

    def deadly(cohort: FakeCohort, keys: list[int]) -> Any:
        if any("deadly" in cohort._translator.text_of(request) for request in cohort._requests.values()):
            raise SystemExit(3)  # no Exception: it is not taken for an error of the model
        return advance(cohort, keys)

    monkeypatch.setattr(FakeCohort, "_advance", deadly)
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("good"), ids("deadly"), ids("fine")], GREEDY, inbox.deliver)
        outcomes = inbox.take(3)
        assert (text_of(outcomes[0]), text_of(outcomes[2])) == ("good", "fine")
        assert isinstance(outcomes[1], InferenceFailed)
        until(lambda: engine.is_idle)
        assert (restarts(engine), counted(engine, "finished"), counted(engine, "failed")) == (2, 2, 1)
    assert inbox.is_empty


def test_a_call_that_kills_the_thread_fails_alone() -> None:
    translator, inbox = held_translator(), Inbox()

    def deadly() -> None:
        raise SystemExit(3)

    with engine_of(translator) as engine:
        engine.ask([ids("decoding")], GREEDY, inbox.deliver)
        until(translator.stepping.is_set)
        engine.call(deadly, lambda outcome: inbox.deliver(1, outcome))
        engine.call(lambda: "made", lambda outcome: inbox.deliver(2, outcome))
        translator.step_gate.set()
        outcomes = inbox.take(3)
        assert text_of(outcomes[0]) == "decoding"
        assert isinstance(outcomes[1], InferenceFailed)
        assert outcomes[2] == "made"
    assert inbox.is_empty


def test_sentences_that_wait_keep_their_places(monkeypatch: pytest.MonkeyPatch) -> None:
    translator, order = held_translator(), list[int]()

    def answered(number: int, *_: object) -> None:
        order.append(number)

    with engine_of(translator, max_rows=1) as engine:
        engine.ask([ids("decoding")], GREEDY, lambda index, outcome: order.append(0))
        until(translator.stepping.is_set)
        for number in range(1, 5):
            engine.ask([ids("waits")], GREEDY, partial(answered, number))
        fail_in_call(monkeypatch, Metrics, "stepped", lambda call: call == 1)
        translator.step_gate.set()
        until(lambda: len(order) == 5)
        assert restarts(engine) == 1
    assert order == [0, 1, 2, 3, 4]


def test_an_engine_that_dies_again_and_again_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        fail_in_call(monkeypatch, Scheduler, "take", lambda call: True)
        engine.ask([ids("waits")], GREEDY, inbox.deliver)
        assert isinstance(inbox.take(1)[0], Dropped)
        until(lambda: engine.has_given_up)
        assert restarts(engine) == MAX_DEATHS + 1
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)
    assert inbox.is_empty


def test_deaths_that_are_long_ago_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, inbox = [0.0], Inbox()
    with engine_of(FakeTranslator(), clock=lambda: now[0]) as engine:
        for _ in range(2 * MAX_DEATHS):
            now[0] += 60.0
            fail_in_call(monkeypatch, Metrics, "stepped", lambda call: call == 1)
            engine.ask([ids("lives")], GREEDY, inbox.deliver)
            assert text_of(inbox.take(1)[0]) == "lives"
            monkeypatch.undo()
        assert restarts(engine) == 2 * MAX_DEATHS


@pytest.mark.parametrize("seed", range(4))
def test_with_deaths_at_random_every_sentence_has_exactly_one_outcome(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    now = [0.0]
    monkeypatch.setattr("app.engine.engine.MAX_DEATHS", 100)
    translator = FakeTranslator()
    texts = ["x" * rng.randrange(1, 30) for _ in range(120)]
    inbox = Inbox()

    def answered(number: int, _: int, outcome: object) -> None:
        inbox.deliver(number, outcome)

    with engine_of(translator, max_waiting=1000, max_rows=8, clock=lambda: now[0]) as engine:
        for owner, name in ((Scheduler, "take"), (Scheduler, "finished"), (Metrics, "stepped"), (Metrics, "joined")):
            deadly = frozenset(rng.sample(range(1, 60), 2))
            fail_in_call(monkeypatch, owner, name, deadly.__contains__, rng.choice([MemoryError, SystemExit]))
        keys = []
        for index, text in enumerate(texts):
            now[0] += 10.0
            (sentence,) = engine.ask([ids(text)], GREEDY, partial(answered, index))
            keys.append(sentence.key)
            if rng.random() < 0.1:
                engine.withdraw({rng.choice(keys)})
        endings = ("finished", "failed", "cancelled")
        until(lambda: sum(counted(engine, ending) for ending in endings) == len(texts))
        until(lambda: engine.is_idle)
        num_answers = int(counted(engine, "finished") + counted(engine, "failed"))
        for index, outcome in inbox.take(num_answers).items():
            assert isinstance(outcome, InferenceFailed) or text_of(outcome) == texts[index]
        assert restarts(engine)
    assert inbox.is_empty
