"""The engine and its thread, with a translator that needs no model."""

from __future__ import annotations

import gc
import queue
import random
import threading
import weakref
from typing import Any

import pytest

from app.engine.engine import Dropped
from app.engine.scheduler import Admission, Scheduler
from app.errors import InferenceFailed, QueueFull
from model.decoding.options import DecodingOptions
from model.errors import DecodingError, EmptySource
from tests.app.engines import GREEDY, PATIENCE_S, FakeEngine, Inbox, counted, engine_of, ids, text_of
from tests.app.fakes import FakeCohort, FakeTranslator, held_translator, manifest_of
from tests.app.observed import before_the_drop, is_stopping, withdrawn_keys
from tests.waiting import Gate, until


def test_sentences_of_several_callers_decode_together() -> None:
    translator = held_translator()
    inbox, other = Inbox(), Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("first")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        engine.ask([ids("second"), ids("third")], GREEDY, other.deliver)
        translator.step_gate.set()
        assert text_of(inbox.take(1)[0]) == "first"
        assert sorted(map(text_of, other.take(2).values())) == ["second", "third"]
    assert max(translator.log.steps) == 3


def test_a_short_sentence_does_not_wait_for_a_long_one() -> None:
    translator = FakeTranslator(step_s=0.001)
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("x" * 150), ids("y")], GREEDY, inbox.deliver)
        assert list(inbox.take(1)) == [1]
        assert list(inbox.take(1)) == [0]


def test_different_widths_decode_concurrently() -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("greedy" * 10)], GREEDY, inbox.deliver)
        assert translator.stepping.wait(PATIENCE_S)
        beam = DecodingOptions(beam_size=3, num_hypotheses=2)
        engine.ask([ids("beam")], beam, lambda _, outcome: inbox.deliver(1, outcome))
        translator.step_gate.set()
        first = inbox.take(1)[1]
        assert text_of(first) == "beam", "it arrived later, is shorter and waits for no other sentence"
        assert len(first.alternatives) == 1
        assert text_of(inbox.take(1)[0]) == "greedy" * 10


def test_two_models_decode_concurrently_each_its_own_sentences() -> None:
    first, second = held_translator(), FakeTranslator(manifest=manifest_of("second", "fr-en"))
    inbox, other = Inbox(), Inbox()
    with engine_of(first) as engine:
        engine.ask([ids("first" * 10)], GREEDY, inbox.deliver)
        assert first.stepping.wait(PATIENCE_S)
        engine.ask([ids("second")], GREEDY, other.deliver, second)
        first.step_gate.set()
        assert text_of(other.take(1)[0]) == "second", "it is shorter and waits for no other sentence"
        assert text_of(inbox.take(1)[0]) == "first" * 10
        until(lambda: engine.is_idle)
        assert (counted(engine, "finished"), counted(engine, "finished", "second")) == (1, 1)
    assert (first.log.joins, second.log.joins) == ([1], [1])
    assert max(first.log.steps + second.log.steps) == 1


def test_models_share_the_rows_that_decode_at_once() -> None:
    first, second = held_translator(), FakeTranslator(manifest=manifest_of("second", "fr-en"))
    inbox, other = Inbox(), Inbox()
    with engine_of(first, max_rows=2) as engine:
        engine.ask([ids("one"), ids("two")], GREEDY, inbox.deliver)
        until(lambda: first.log.joins == [2])
        engine.ask([ids("waits")], GREEDY, other.deliver, second)
        assert engine.num_waiting == 1
        assert second.log.joins == []
        first.step_gate.set()
        inbox.take(2)
        assert text_of(other.take(1)[0]) == "waits"


def test_a_model_that_fails_does_not_affect_the_others() -> None:
    good, bad = held_translator(), FakeTranslator(manifest=manifest_of("bad", "fr-en"))
    inbox, other = Inbox(), Inbox()
    with engine_of(good) as engine:
        engine.ask([ids("good"), ids("fine")], GREEDY, inbox.deliver)
        until(lambda: good.log.joins == [2])
        engine.ask([ids("boom"), ids("innocent")], GREEDY, other.deliver, bad)
        good.step_gate.set()
        outcomes = other.take(2)
        assert isinstance(outcomes[0], InferenceFailed)
        assert text_of(outcomes[1]) == "innocent", "it is decoded again, with its own model"
        inbox.take(2)
        until(lambda: engine.is_idle)
    assert (good.log.joins, bad.log.joins) == ([2], [2, 1, 1])


def test_the_engine_releases_a_model_that_is_no_longer_used() -> None:
    stored, removed = FakeTranslator(), held_translator()
    inbox = Inbox()
    with engine_of(stored) as engine:
        (remaining,) = engine.ask([ids("left" * 20)], GREEDY, inbox.deliver, removed)
        assert removed.stepping.wait(PATIENCE_S)
        observed = weakref.ref(removed)
        engine.withdraw({remaining.key})
        removed.step_gate.set()
        del removed, remaining
        engine.call(lambda: gc.collect(), lambda outcome: inbox.deliver(1, outcome))
        inbox.take(1)
        assert observed() is None


def test_a_cancelled_sentence_is_not_decoded() -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator, max_rows=1) as engine:
        running = engine.ask([ids("running")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        waiting = engine.ask([ids("waiting")], GREEDY, inbox.deliver)
        engine.withdraw({waiting[0].key})
        assert engine.num_waiting == 0
        engine.withdraw({running[0].key})
        translator.step_gate.set()
        after = Inbox()
        engine.ask([ids("after")], GREEDY, after.deliver)
        assert text_of(after.take(1)[0]) == "after"
        until(lambda: engine.is_idle)
    assert inbox.is_empty
    assert translator.log.joins == [1, 1]
    assert engine.is_idle


def test_withdrawing_a_finished_sentence_changes_nothing() -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        finished = engine.ask([ids("x")], GREEDY, inbox.deliver)
        inbox.take(1)
        until(lambda: engine.is_idle)
        engine.withdraw({finished[0].key, 12345})
        assert engine.is_idle


def test_a_sentence_without_a_hypothesis_fails_alone() -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("nan"), ids("fine")], GREEDY, inbox.deliver)
        outcomes = inbox.take(2)
        assert isinstance(outcomes[0], DecodingError)
        assert text_of(outcomes[1]) == "fine"


def test_calls_run_on_the_engine_thread_between_steps() -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("x" * 100)], GREEDY, inbox.deliver)
        assert translator.stepping.wait(PATIENCE_S)
        engine.call(lambda: threading.current_thread().name, lambda o: inbox.deliver(1, o))
        translator.step_gate.set()
        assert inbox.take(1) == {1: "verso-engine"}, "it does not wait for the sentence"
        assert text_of(inbox.take(1)[0]) == "x" * 100


def test_errors_of_calls_are_translated() -> None:
    calls = Inbox()

    def fail(error: Exception) -> Any:
        raise error

    with engine_of(FakeTranslator()) as engine:
        engine.call(lambda: fail(EmptySource()), lambda outcome: calls.deliver(0, outcome))
        engine.call(lambda: fail(RuntimeError("secret")), lambda outcome: calls.deliver(1, outcome))
        outcomes = calls.take(2)
    assert isinstance(outcomes[0], EmptySource)
    assert isinstance(outcomes[1], InferenceFailed)


def test_a_full_queue_refuses_requests() -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator, max_waiting=2, max_rows=1) as engine:
        engine.ask([ids("a")], GREEDY, inbox.deliver)
        engine.ask([ids("bb")], GREEDY, inbox.deliver)
        until(lambda: engine.num_waiting == 0)
        engine.ask([ids("c"), ids("d")], GREEDY, inbox.deliver)
        with pytest.raises(QueueFull):
            engine.ask([ids("e")], GREEDY, inbox.deliver)
        assert engine.retry_after_s() >= 1


def test_stopping_drops_waiting_sentences() -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator, max_rows=1) as engine:
        engine.ask([ids("running"), ids("waiting")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        stopper = threading.Thread(target=engine.stop, args=(PATIENCE_S,))
        stopper.start()
        until(lambda: is_stopping(engine))
        translator.step_gate.set()
        stopper.join(PATIENCE_S)
        assert all(isinstance(outcome, Dropped) for outcome in inbox.take(2).values())
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)


def test_nothing_is_left_of_a_sentence_that_is_withdrawn_while_a_stopping_engine_drops_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = held_translator()
    inbox = Inbox()
    with engine_of(translator, max_rows=1) as engine:
        running, waiting = engine.ask([ids("running"), ids("waiting")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [1])
        left: list[set[int]] = []

        def withdraw() -> None:
            engine.withdraw({running.key, waiting.key})
            left.append(set(withdrawn_keys(engine)))

        before_the_drop(engine, monkeypatch, withdraw)
        stopper = threading.Thread(target=engine.stop, args=(PATIENCE_S,))
        stopper.start()
        until(lambda: is_stopping(engine))
        translator.step_gate.set()
        stopper.join(PATIENCE_S)
    assert inbox.is_empty
    assert left and not any(left)


def test_a_cohort_that_cannot_be_created_fails_only_its_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    inbox = Inbox()

    def no_memory(width: int) -> Any:
        raise RuntimeError("out of memory")

    with engine_of(translator) as engine:
        monkeypatch.setattr(translator, "cohort", no_memory)
        engine.ask([ids("a"), ids("b")], GREEDY, inbox.deliver)
        assert all(isinstance(outcome, InferenceFailed) for outcome in inbox.take(2).values())
        monkeypatch.undo()
        engine.ask([ids("c")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "c"


def test_a_sentence_starts_at_once_when_the_model_is_idle() -> None:
    translator = FakeTranslator()
    inbox = Inbox()
    with engine_of(translator) as engine:
        for turn in range(3):
            until(lambda: engine.is_idle)
            engine.ask([ids("alone")], GREEDY, inbox.deliver)
            assert text_of(inbox.take(1)[0]) == "alone"
            assert translator.log.joins == [1] * (turn + 1)


def test_a_sentence_cancelled_while_its_cohort_is_created_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    inbox, gate = Inbox(), Gate()

    def slow_cohort(width: int) -> FakeCohort:
        gate.pass_through()
        return FakeCohort(width, translator)

    monkeypatch.setattr(translator, "cohort", slow_cohort)
    with engine_of(translator) as engine:
        (leaving,) = engine.ask([ids("leaving")], GREEDY, inbox.deliver)
        assert gate.reached.wait(PATIENCE_S)
        engine.withdraw({leaving.key})
        gate.open.set()
        until(lambda: engine.is_idle)
        assert (counted(engine, "cancelled"), counted(engine, "finished")) == (1, 0)
    assert translator.log.joins == []
    assert inbox.is_empty


def test_a_cancelled_sentence_gets_no_failure_of_its_cohort(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    inbox, gate = Inbox(), Gate()
    step = FakeCohort.step

    def fail_once(cohort: FakeCohort) -> Any:
        if gate.reached.is_set():
            return step(cohort)
        gate.pass_through()
        raise RuntimeError("out of memory")

    monkeypatch.setattr(FakeCohort, "step", fail_once)
    with engine_of(translator) as engine:
        remaining, _ = engine.ask([ids("left"), ids("stays")], GREEDY, inbox.deliver)
        assert gate.reached.wait(PATIENCE_S)
        engine.withdraw({remaining.key})
        gate.open.set()
        assert text_of(inbox.take(1)[1]) == "stays"
        until(lambda: engine.is_idle)
        assert [counted(engine, outcome) for outcome in ("cancelled", "failed", "finished")] == [1, 0, 1]
    assert inbox.is_empty
    assert translator.log.joins == [2, 1], "only the sentence that was not cancelled is decoded again"


def test_a_cohort_that_fails_to_remove_a_sentence_still_answers_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    inbox = Inbox()

    def no_memory(cohort: FakeCohort, keys: Any) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(FakeCohort, "leave", no_memory)
    with engine_of(translator) as engine:
        remaining, _ = engine.ask([ids("left"), ids("stays")], GREEDY, inbox.deliver)
        until(lambda: translator.log.joins == [2])
        engine.withdraw({remaining.key})
        translator.step_gate.set()
        assert text_of(inbox.take(1)[1]) == "stays"
        engine.ask([ids("next")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "next"
        until(lambda: engine.is_idle)
    assert inbox.is_empty


def test_a_callback_that_raises_does_not_affect_others() -> None:
    inbox = Inbox()

    def broken(*outcome: object) -> None:
        raise ValueError("a bug of the caller")

    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("lost")], GREEDY, broken)
        engine.call(lambda: 1, broken)
        engine.ask([ids("fine")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "fine"
        until(lambda: engine.is_idle)


def test_the_message_of_an_unexpected_error_is_not_shown() -> None:
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("boom")], GREEDY, inbox.deliver)
        failure = inbox.take(1)[0]
        assert isinstance(failure, InferenceFailed)
        assert "secret" not in str(failure)
        assert failure.__cause__ is None
        assert failure.__context__ is None
        assert counted(engine, "failed") == 1


def test_a_sentence_that_breaks_the_model_does_not_fail_the_running_ones() -> None:
    translator = held_translator()
    early, late = Inbox(), Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("early"), ids("bird")], GREEDY, early.deliver)
        until(lambda: translator.log.joins == [2])
        engine.ask([ids("boom")], GREEDY, late.deliver)
        translator.step_gate.set()
        assert isinstance(late.take(1)[0], InferenceFailed)
        assert {index: text_of(outcome) for index, outcome in early.take(2).items()} == {0: "early", 1: "bird"}
        until(lambda: engine.is_idle)
        assert (counted(engine, "failed"), counted(engine, "finished")) == (1, 2)


def test_after_a_failure_sentences_are_retried_one_at_a_time_beside_new_ones() -> None:
    translator = FakeTranslator()
    inbox, other = Inbox(), Inbox()
    with engine_of(translator, max_rows=3) as engine:
        translator.step_gate.clear()
        engine.ask([ids("boom"), ids("first"), ids("second")], GREEDY, inbox.deliver)
        assert isinstance(inbox.take(1)[0], InferenceFailed)
        engine.ask([ids("a"), ids("b")], GREEDY, other.deliver)
        translator.step_gate.set()
        inbox.take(2)
        other.take(2)
    # One sentence decodes alone, which leaves two of the three rows for new ones; then the last one is retried.
    assert translator.log.joins == [3, 1, 1, 2, 1]


def test_a_target_length_beyond_the_model_does_not_block_others() -> None:
    translator = held_translator()
    inbox, other = Inbox(), Inbox()
    with engine_of(translator) as engine:
        engine.ask([ids("greedy")], DecodingOptions(decoding="greedy", max_new_tokens=99_999), inbox.deliver)
        until(lambda: translator.log.joins == [1])
        engine.ask([ids("beside")], GREEDY, other.deliver)
        translator.step_gate.set()
        inbox.take(1)
        other.take(1)
    assert max(translator.log.steps) == 2


def test_a_call_cancelled_while_it_waits_is_not_made() -> None:
    calls, gate = Inbox(), Gate()
    outputs: list[str] = []
    with engine_of(FakeTranslator()) as engine:
        engine.call(lambda: gate.pass_through(), lambda outcome: calls.deliver(0, outcome))
        assert gate.reached.wait(PATIENCE_S)
        given_up = engine.call(lambda: outputs.append("x"), lambda outcome: calls.deliver(1, outcome))
        engine.call(lambda: outputs.append("y"), lambda outcome: calls.deliver(2, outcome))
        engine.withdraw({given_up})
        gate.open.set()
        assert set(calls.take(2)) == {0, 2}
        until(lambda: engine.is_idle)
    assert outputs == ["y"]
    assert calls.is_empty


def test_nothing_is_delivered_for_a_call_cancelled_while_it_runs() -> None:
    calls, gate = Inbox(), Gate()
    with engine_of(FakeTranslator()) as engine:
        key = engine.call(lambda: gate.pass_through(), lambda outcome: calls.deliver(0, outcome))
        assert gate.reached.wait(PATIENCE_S)
        engine.withdraw({key})
        gate.open.set()
        engine.call(lambda: "next", lambda outcome: calls.deliver(1, outcome))
        assert calls.take(1) == {1: "next"}
        until(lambda: engine.is_idle)
    assert calls.is_empty


def test_more_calls_than_may_wait_are_refused_if_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.engine.calls.MAX_CALLS", 2)
    calls, gate = Inbox(), Gate()
    with engine_of(FakeTranslator()) as engine:
        engine.call(lambda: gate.pass_through(), lambda outcome: calls.deliver(0, outcome))
        assert gate.reached.wait(PATIENCE_S)
        engine.call(lambda: 1, lambda outcome: calls.deliver(1, outcome))
        engine.call(lambda: 2, lambda outcome: calls.deliver(2, outcome))
        with pytest.raises(QueueFull, match="2 of 256 sentences are waiting"):
            engine.call(lambda: 3, lambda outcome: calls.deliver(3, outcome), Admission.REFUSE)
        engine.call(lambda: 4, lambda outcome: calls.deliver(4, outcome))
        gate.open.set()
        assert set(calls.take(4)) == {0, 1, 2, 4}


def test_if_the_thread_dies_waiting_callers_get_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox, gate = Inbox(), Gate()

    def bug(*_: object) -> Any:
        raise AssertionError("a bug")

    monkeypatch.setattr("app.engine.runner._CALLS_S", 0.0)  # one call a turn: the second one waits
    with engine_of(FakeTranslator()) as engine:
        engine.call(lambda: gate.pass_through(), lambda outcome: None)
        assert gate.reached.wait(PATIENCE_S)
        monkeypatch.setattr(Scheduler, "take", bug)
        engine.ask([ids("waits")], GREEDY, inbox.deliver)
        engine.call(lambda: 1, lambda outcome: inbox.deliver(1, outcome))
        gate.open.set()
        assert all(isinstance(outcome, Dropped) for outcome in inbox.take(2).values())
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)


def test_every_sentence_gets_one_outcome_while_requests_arrive_fail_and_are_cancelled() -> None:
    translator = FakeTranslator()
    num_clients, num_requests = 4, 25
    delivered: list[queue.Queue[tuple[int, int]]] = [queue.Queue() for _ in range(num_clients)]
    submitted: list[dict[tuple[int, int], int]] = [{} for _ in range(num_clients)]
    remaining: list[set[int]] = [set() for _ in range(num_clients)]

    def client(number: int, engine: FakeEngine) -> None:
        rng = random.Random(number)
        for request in range(num_requests):
            texts = [rng.choice(["a", "bcd", "efghij", "nan", "boom"]) for _ in range(rng.randint(1, 4))]
            options = rng.choice([GREEDY, DecodingOptions(beam_size=2)])

            def deliver(index: int, outcome: object, request: int = request) -> None:
                delivered[number].put((request, index))

            sentences = engine.ask([ids(text) for text in texts], options, deliver)
            submitted[number].update({(request, index): item.key for index, item in enumerate(sentences)})
            if rng.random() < 0.4:
                keys = {sentence.key for sentence in sentences}
                engine.withdraw(keys)
                remaining[number] |= keys

    with engine_of(translator, max_waiting=10_000, max_rows=6) as engine:
        clients = [threading.Thread(target=client, args=(number, engine)) for number in range(num_clients)]
        for item in clients:
            item.start()
        for item in clients:
            item.join(PATIENCE_S)
            assert not item.is_alive()
        until(lambda: engine.num_waiting == 0 and engine.is_idle)
        outcomes = {kind: counted(engine, kind) for kind in ("finished", "failed", "cancelled", "expired")}
    num_delivered = 0
    for number in range(num_clients):
        answers = [delivered[number].get_nowait() for _ in range(delivered[number].qsize())]
        assert len(set(answers)) == len(answers), "delivered twice"
        unanswered = submitted[number].keys() - set(answers)
        assert {submitted[number][index] for index in unanswered} <= remaining[number], "lost"
        num_delivered += len(answers)
    assert sum(outcomes.values()) == sum(map(len, submitted))
    assert outcomes["finished"] + outcomes["failed"] == num_delivered
    assert outcomes["expired"] == 0
