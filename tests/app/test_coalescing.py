"""Cached and coalesced sentences, around an engine with a fake translator."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from app.engine.caller import UNKNOWN_CALLER, Caller, Priority
from app.engine.coalescing import PendingRequest, SharedDecoding
from app.engine.engine import Engine
from app.engine.joining import Budget
from app.engine.scheduler import Scheduler
from app.engine.translation_cache import TranslationCache
from app.errors import InferenceFailed, QueueFull
from app.telemetry.metrics import Metrics
from model.decoding.options import DecodingOptions, Hypothesis, Outcome
from model.decoding.sentence import DecodingRequest
from model.errors import DecodingError
from tests.app.fakes import FakeTranslator, held_translator, manifest_of
from tests.waiting import until

PATIENCE_S = 30.0
GREEDY = DecodingOptions(decoding="greedy")


class Desk(SharedDecoding):
    """Shared decoding of texts with one model."""

    def __init__(self, translator: FakeTranslator, cache_bytes: int, coalesce: bool, max_rows: int) -> None:
        self.metrics = Metrics()
        self.engine = Engine(Scheduler(Budget(100_000, max_rows), 50, time.monotonic), self.metrics)
        self.cache = TranslationCache(cache_bytes)
        self.translator = translator
        super().__init__(self.engine, self.cache, coalesce, self.metrics)

    def ask(
        self,
        *texts: str,
        options: DecodingOptions = GREEDY,
        translator: FakeTranslator | None = None,
        caller: Caller = UNKNOWN_CALLER,
    ) -> tuple[PendingRequest, threading.Event]:
        event = threading.Event()
        model = translator or self.translator
        requests = [(model, DecodingRequest(0, [2, *map(ord, text), 3], options, (9,))) for text in texts]
        waiting = self.submit(requests, event.set, caller=caller)
        if waiting.is_done:
            event.set()
        return waiting, event

    def texts(self, *texts: str, **arguments: Any) -> list[str]:
        waiting, finished = self.ask(*texts, **arguments)
        assert finished.wait(PATIENCE_S)
        return texts_of(waiting)

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"verso_{name}", labels) or 0.0

    @property
    def num_held(self) -> tuple[int, int]:
        """Sentences in the engine, and requests that wait for some. Private: nothing public shows a leak here."""
        return len(self._in_engine), len(self._of_request)

    @property
    def holds_nothing(self) -> bool:
        return self.num_held == (0, 0)


def texts_of(waiting: PendingRequest) -> list[str]:
    return [
        "".join(map(chr, outcome.token_ids)) if isinstance(outcome, Hypothesis) else type(outcome).__name__
        for outcome in waiting.outcomes
    ]


@contextmanager
def desk_of(
    translator: FakeTranslator, cache_bytes: int = 100_000, coalesce: bool = True, max_rows: int = 64
) -> Iterator[Desk]:
    desk = Desk(translator, cache_bytes, coalesce, max_rows)
    desk.engine.start()
    try:
        yield desk
    finally:
        translator.step_gate.set()
        desk.engine.stop(PATIENCE_S)


def test_a_cached_sentence_does_not_enter_the_queue() -> None:
    translator = FakeTranslator()
    with desk_of(translator) as desk:
        assert desk.texts("one", "two") == ["one", "two"]
        translator.step_gate.clear()
        waiting, finished = desk.ask("two", "one")
        assert finished.is_set() and texts_of(waiting) == ["two", "one"]
        assert waiting.waited_s == 0.0
        assert sum(translator.log.joins) == 2
        assert [desk.counted(f"cache_{what}") for what in ("hits_total", "misses_total", "entries")] == [2, 2, 2]
        assert desk.counted("cache_bytes") == desk.cache.num_bytes > 0
        assert desk.holds_nothing


def test_cached_and_new_sentences_of_a_request_keep_their_order() -> None:
    with desk_of(FakeTranslator()) as desk:
        desk.texts("b", "d")
        assert desk.texts("a", "b", "c", "d", "a") == ["a", "b", "c", "d", "a"]
        assert sum(desk.translator.log.joins) == 4


def test_equal_sentences_of_one_request_are_translated_once() -> None:
    translator = FakeTranslator()
    with desk_of(translator, cache_bytes=0) as desk:
        assert desk.texts("same", "other", "same", "same") == ["same", "other", "same", "same"]
        assert sum(translator.log.joins) == 2
        assert desk.counted("coalesced_sentences_total") == 2


def test_sentences_with_different_prefixes_are_translated_separately() -> None:
    translator = FakeTranslator()
    with desk_of(translator) as desk:
        for _ in range(2):
            event = threading.Event()
            sentences = [
                (translator, DecodingRequest(0, [2, 97, 3], GREEDY, (9,), prefix_ids=prefix))
                for prefix in ((), (98,), (99,), (98,))
            ]
            assert desk.submit(sentences, event.set).is_done or event.wait(PATIENCE_S)
        assert sum(translator.log.joins) == 3


def test_equal_sentences_of_several_requests_are_translated_once() -> None:
    translator = held_translator()
    with desk_of(translator, cache_bytes=0) as desk:
        first, first_done = desk.ask("same")
        assert translator.stepping.wait(PATIENCE_S)
        second, second_done = desk.ask("same", "other")
        assert not second_done.is_set()
        translator.step_gate.set()
        assert first_done.wait(PATIENCE_S) and second_done.wait(PATIENCE_S)
        assert (texts_of(first), texts_of(second)) == (["same"], ["same", "other"])
        assert sum(translator.log.joins) == 2
        assert second.waited_s == 0.0, "it was decoding already"
        until(lambda: desk.holds_nothing)


def test_each_outcome_is_reported_once_when_it_is_there() -> None:
    translator = held_translator()
    with desk_of(translator) as desk:
        reported: list[tuple[int, str]] = []
        event = threading.Event()
        translator.step_gate.set()
        desk.texts("known")
        translator.step_gate.clear()
        requests = [
            (translator, DecodingRequest(0, [2, *map(ord, text), 3], GREEDY, (9,))) for text in ("a", "known", "a")
        ]

        def note(index: int, outcome: Outcome) -> None:
            assert isinstance(outcome, Hypothesis)
            reported.append((index, "".join(map(chr, outcome.token_ids))))

        desk.submit(requests, event.set, note)
        assert reported == [(1, "known")], "what is cached is there at once"
        translator.step_gate.set()
        assert event.wait(PATIENCE_S)
        assert sorted(reported) == [(0, "a"), (1, "known"), (2, "a")]


def test_without_coalescing_every_request_decodes_its_own_sentences() -> None:
    translator = held_translator()
    with desk_of(translator, cache_bytes=0, coalesce=False) as desk:
        _, first_done = desk.ask("same", "same")
        _, second_done = desk.ask("same")
        translator.step_gate.set()
        assert first_done.wait(PATIENCE_S) and second_done.wait(PATIENCE_S)
        assert sum(translator.log.joins) == 3
        assert desk.counted("coalesced_sentences_total") == desk.counted("cache_misses_total") == 0


def test_the_cache_works_without_coalescing() -> None:
    translator = FakeTranslator()
    with desk_of(translator, coalesce=False) as desk:
        assert desk.texts("x") == desk.texts("x") == ["x"]
        assert translator.log.joins == [1]


def test_the_first_request_may_be_cancelled_and_the_others_still_get_their_result() -> None:
    translator = held_translator()
    with desk_of(translator) as desk:
        first, first_done = desk.ask("same", "alone")
        second, second_done = desk.ask("same")
        desk.leave(first, expired=False)
        translator.step_gate.set()
        assert second_done.wait(PATIENCE_S)
        assert texts_of(second) == ["same"]
        assert not first_done.is_set()
        assert (desk.counted("sentences_total", model="fake", outcome="cancelled"), len(desk.cache)) == (1, 1)
        until(lambda: desk.holds_nothing)


def test_a_sentence_without_requests_is_withdrawn_and_can_be_requested_again() -> None:
    translator = held_translator()
    with desk_of(translator) as desk:
        both = [desk.ask("same")[0], desk.ask("same")[0]]
        assert translator.stepping.wait(PATIENCE_S)
        desk.leave(both[0], expired=True)
        desk.leave(both[1], expired=True)
        desk.leave(both[1], expired=True)
        assert desk.holds_nothing
        assert desk.counted("sentences_total", model="fake", outcome="expired") == 1
        again, finished = desk.ask("same")
        translator.step_gate.set()
        assert finished.wait(PATIENCE_S) and texts_of(again) == ["same"]


def test_a_failure_reaches_all_requests_and_is_not_cached() -> None:
    translator = held_translator()
    with desk_of(translator) as desk:
        calls = [desk.ask("nan"), desk.ask("nan", "boom")]
        translator.step_gate.set()
        for _, finished in calls:
            assert finished.wait(PATIENCE_S)
        (first, _), (second, _) = calls
        assert isinstance(first.outcomes[0], DecodingError)
        assert isinstance(second.outcomes[0], (DecodingError, InferenceFailed))
        assert isinstance(second.outcomes[1], InferenceFailed)
        assert len(desk.cache) == 0
        num_joins = sum(translator.log.joins)
        assert desk.texts("nan") == ["DecodingError"]
        assert sum(translator.log.joins) == num_joins + 1


def test_sentences_that_differ_in_options_or_model_are_not_shared() -> None:
    translator = held_translator()
    other = FakeTranslator(manifest=manifest_of("other", "fr-en"), sha256="1" * 64)
    with desk_of(translator) as desk:
        calls = [
            desk.ask("x"),
            desk.ask("x", options=DecodingOptions(decoding="greedy", return_scores=True)),
            desk.ask("x", options=DecodingOptions(beam_size=2, num_hypotheses=2)),
            desk.ask("x", translator=other),
        ]
        translator.step_gate.set()
        for _, finished in calls:
            assert finished.wait(PATIENCE_S)
        plain, scored, several, _ = (waiting.outcomes[0] for waiting, _ in calls)
        assert isinstance(plain, Hypothesis) and isinstance(scored, Hypothesis) and isinstance(several, Hypothesis)
        assert (plain.score, scored.score, len(several.alternatives)) == (None, -0.5, 1)
        assert sum(translator.log.joins) + sum(other.log.joins) == 4


def test_a_refused_request_leaves_nothing_behind() -> None:
    translator = held_translator()
    with desk_of(translator, max_rows=1) as desk:
        stored, finished = desk.ask("kept")
        assert translator.stepping.wait(PATIENCE_S)
        with pytest.raises(QueueFull):
            desk.ask("kept", *(f"new {number}" for number in range(51)))
        assert desk.num_held == (1, 1)
        waiting, both_done = desk.ask("kept", "new 1")
        translator.step_gate.set()
        assert finished.wait(PATIENCE_S) and both_done.wait(PATIENCE_S)
        assert (texts_of(stored), texts_of(waiting)) == (["kept"], ["kept", "new 1"])


def test_a_short_request_does_not_wait_for_the_position_of_an_equal_sentence_in_a_document() -> None:
    translator = held_translator()
    with desk_of(translator, max_rows=1) as desk:
        _, running_done = desk.ask("running")
        assert translator.stepping.wait(PATIENCE_S)
        document, document_done = desk.ask(*(f"sentence {number}" for number in range(40)))
        short, short_done = desk.ask("sentence 35")
        translator.step_gate.set()
        assert document_done.wait(PATIENCE_S) and short_done.is_set() and running_done.is_set()
        assert list(document.settled).index(35) < 20, "a dictionary keeps the order in which they were settled"
        assert texts_of(short) == ["sentence 35"]


def test_a_sentence_of_a_bulk_caller_becomes_that_of_an_interactive_one_who_asks_for_it() -> None:
    translator = held_translator()
    with desk_of(translator, max_rows=1) as desk:
        _, running_done = desk.ask("running")
        assert translator.stepping.wait(PATIENCE_S)
        texts = [f"sentence {number}" for number in range(40)]
        document, document_done = desk.ask(*texts, caller=Caller("documents", Priority.BULK))
        assert desk.engine.num_waiting == 40
        item, one_done = desk.ask("sentence 39", caller=Caller("a"))
        translator.step_gate.set()
        assert document_done.wait(PATIENCE_S) and one_done.is_set() and running_done.is_set()
        assert next(iter(document.settled)) == 39, "a dictionary keeps the order in which they were settled"
        assert texts_of(document) == texts and texts_of(item) == ["sentence 39"]


def test_unloading_a_bundle_removes_its_cached_results() -> None:
    with desk_of(FakeTranslator()) as desk:
        desk.texts("x")
        desk.forget("0" * 64)
        assert (len(desk.cache), desk.counted("cache_entries")) == (0, 0)
        desk.texts("x")
        assert desk.translator.log.joins == [1, 1]


def test_many_concurrent_callers_each_get_their_own_results() -> None:
    translator = FakeTranslator(step_s=0.0005)
    failures: list[object] = []
    with desk_of(translator, cache_bytes=3_000) as desk:

        def caller(number: int) -> None:
            for turn in range(30):
                texts = [f"t{(number * turn + index) % 11}" for index in range(3)]
                waiting, finished = desk.ask(*texts)
                if turn % 5 == 4:
                    desk.leave(waiting, expired=False)
                elif not finished.wait(PATIENCE_S) or texts_of(waiting) != texts:
                    failures.append((texts, waiting.outcomes))

        callers = [threading.Thread(target=caller, args=(number,)) for number in range(8)]
        for item in callers:
            item.start()
        for item in callers:
            item.join(PATIENCE_S)
        assert failures == []
        until(lambda: desk.holds_nothing)
