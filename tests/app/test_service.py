from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from app.engine.caller import Caller, Priority
from app.engine.capacity import MIN_ROWS
from app.engine.coalescing import SharedDecoding
from app.engine.estimate import Pace
from app.engine.queued_sentence import ModelRequest
from app.engine.scheduler import Scheduler
from app.errors import DeadlineExceeded, DeadlineUnreachable, InferenceFailed, LimitExceeded, NotReady, QueueFull
from app.serving.detection import Detection, LanguageDetector
from app.serving.request import TranslationRequest
from app.serving.service import TranslationService
from app.serving.text_job import TranslateResult
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import ArtifactError, DecodingError, InputError, InvalidMarkup, SeveralSentences, UnsupportedPair
from model.network.heads import AttentionHead
from model.translation.confidence import NOTHING_TRANSLATED
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translation.results import AttendedSentence
from model.translator import Attention
from tests.app.fakes import BUDGET, MANIFEST, SHAPED, FakeBundles, FakeTranslator, WordDetector, held_translator
from tests.app.observed import ObservedService, is_stopping, num_waiting_calls, service_threads
from tests.waiting import eventually

PATIENCE_S = 30.0
DEADLINE_S = 20.0
"""Long enough that it never passes unless a test moves the clock, and less than ``PATIENCE_S``."""
GREEDY = TranslationOptions(decoding="greedy")


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


@asynccontextmanager
async def service_of(translator: FakeTranslator, **settings: Any) -> AsyncIterator[ObservedService]:
    async with service_with(FakeBundles(translator), **settings) as service:
        try:
            yield service
        finally:
            translator.step_gate.set()


@asynccontextmanager
async def service_with(
    bundles: FakeBundles, detector: LanguageDetector | None = None, **settings: Any
) -> AsyncIterator[ObservedService]:
    service = ObservedService(Settings(**{**BUDGET, **settings}), bundles, detector)
    await service.start()
    try:
        await service.wait_loaded()
        yield service
    finally:
        await service.stop()


async def ask(
    service: TranslationService, *texts: str, options: TranslationOptions = GREEDY, **fields: Any
) -> TranslateResult:
    arguments: dict[str, Any] = {"source": None, "target": "de", **fields}
    requested = {name: arguments.pop(name) for name in ("return_alignment", "return_confidence") if name in arguments}
    return await service.translate(TranslationRequest(texts, options=replace(options, **requested), **arguments))


async def look(service: TranslationService, text: str, target: str = "de") -> Attention:
    outcome = await service.attention(TranslationRequest([text], None, target, GREEDY))
    return outcome.attention


def advance_clock(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Move the clock of the event loop, and with it all deadlines, so that no test sleeps until a deadline."""
    loop = asyncio.get_running_loop()
    now = loop.time
    monkeypatch.setattr(loop, "time", lambda: now() + seconds)


def counted(service: ObservedService, outcome: str) -> float:
    return service.sample("verso_sentences_total", {"model": "fake", "outcome": outcome}) or 0.0


def is_idle(service: ObservedService) -> bool:
    """Whether the engine holds no sentence and no call."""
    return service.engine.is_idle


class Gate:
    """A point that another thread reaches and passes once it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.open.wait(PATIENCE_S)


async def begin(service: TranslationService, translator: FakeTranslator) -> asyncio.Task[TranslateResult]:
    """A request whose sentence is decoding."""
    running = asyncio.create_task(ask(service, "running"))
    await eventually(translator.stepping.is_set)
    return running


def texts_of(outcome: TranslateResult) -> list[str]:
    return [result if isinstance(result, Exception) else result.text for result in outcome.results]  # type: ignore[misc]


async def test_texts_are_split_translated_and_joined() -> None:
    async with service_of(FakeTranslator()) as service:
        outcome = await ask(service, "One. Two.\n\n  Three!", "", " \n", "four", "x" * 900)
        assert texts_of(outcome) == ["ONE. TWO.\n\n  THREE!", "", " \n", "FOUR", "X" * 900]
        assert outcome.total_ms >= outcome.decode_ms >= 0
        assert outcome.queue_ms >= 0
        assert outcome.num_target_tokens > 0


async def test_a_text_that_fails_does_not_affect_the_others() -> None:
    async with service_of(FakeTranslator()) as service:
        outcome = await ask(service, "good", "boom", "Fine. So nan. Yes.", "last")
        assert isinstance(outcome.results[1], InferenceFailed)
        assert isinstance(outcome.results[2], DecodingError)
        assert [texts_of(outcome)[index] for index in (0, 3)] == ["GOOD", "LAST"]


@pytest.mark.parametrize("wanted", [True, False])
async def test_a_repetition_loop_is_decoded_again_if_the_model_asks_for_it(wanted: bool) -> None:
    translator = FakeTranslator(manifest=replace(MANIFEST, retry_loops=wanted))
    async with service_of(translator) as service:
        outcome = await ask(service, "Red. A loop. Old.", "Blue.")
        answer = "A LOOP." if wanted else "A LOOP. A LOOP. A LOOP. A LOOP."
        assert texts_of(outcome) == [f"RED. {answer} OLD.", "BLUE."]
        assert sum(translator.log.joins) == 4 + wanted


async def test_a_pair_that_is_not_loaded_is_refused() -> None:
    async with service_of(FakeTranslator()) as service:
        with pytest.raises(UnsupportedPair):
            await ask(service, "x", target="fr")
        assert (await ask(service, "x", source="EN", target=None)).results


async def test_the_deadline_stops_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(translator, deadline_s=DEADLINE_S) as service:
        asked = asyncio.create_task(ask(service, "x" * 180))
        await eventually(translator.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S)
        with pytest.raises(DeadlineExceeded, match=r"within 20 s"):
            await asked
        translator.step_gate.set()
        await eventually(lambda: is_idle(service))
        assert len(translator.log.left) == len(translator.log.joins)
        assert counted(service, "expired") == 1
        assert counted(service, "finished") == 0


async def test_the_deadline_reaches_sentences_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(
        translator, deadline_s=DEADLINE_S, max_batch_rows=1, max_beam_size=1, max_hypotheses=1
    ) as service:
        asked = asyncio.create_task(ask(service, "first", "second", "third"))
        await eventually(translator.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S)
        with pytest.raises(DeadlineExceeded):
            await asked
        assert service.engine.num_waiting == 0
        translator.step_gate.set()
        await eventually(lambda: is_idle(service))
        assert counted(service, "expired") == 3
        assert sum(translator.log.joins) <= 1


def test_the_engine_and_memory_are_looked_after_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks: list[str] = []

    def fails(name: str) -> Callable[..., None]:
        def look(**_: object) -> None:
            looks.append(name)
            raise RuntimeError(name)

        return look

    async def test() -> None:
        for name in ("_WATCH_S", "_TIDY_S"):
            monkeypatch.setattr(f"app.serving.service.{name}", 0.001)
        monkeypatch.setattr("app.serving.service.give_back_freed_memory", fails("memory"))
        async with service_of(FakeTranslator()) as service:
            monkeypatch.setattr(service.engine, "watch", fails("engine"))
            await eventually(lambda: looks.count("memory") > 1 and looks.count("engine") > 1)
            assert service.state == "ready"

    run(test)
    assert "housekeeping failed; it will be tried again" in caplog.text


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
        with pytest.raises(LimitExceeded, match="asks for 3; at most 2"):
            await ask(service, "a", "b", "c")
        assert texts_of(await ask(service, "a", "b")) == ["A", "B"]


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


async def test_attention_runs_on_the_engine_and_its_errors_are_raised() -> None:
    async with service_of(FakeTranslator()) as service:
        request = TranslationRequest(["two words"], None, "de", GREEDY)
        found = await service.attention(request)
        assert (found.attention.translation, found.model) == ("TWO WORDS", "fake")
        assert found.attention.steps is None
        found = await service.attention(request, steps=AttentionHead("cross", 0, 1))
        assert found.attention.steps is not None and list(found.attention.steps) == ["weights"]
        with pytest.raises(InferenceFailed):
            await service.attention(replace(request, texts=["boom"]))
        with pytest.raises(UnsupportedPair):
            await service.attention(replace(request, target="fr"))


def is_bad(sentence: AttendedSentence) -> bool:
    return "bad" in "".join(map(chr, sentence.source_ids[1:-1]))


async def test_an_alignment_that_fails_fails_only_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    align = translator.align

    def fail(sentences: Sequence[AttendedSentence]) -> Any:
        if any(is_bad(one) for one in sentences):
            raise RuntimeError("secret")
        return align(sentences)

    monkeypatch.setattr(translator, "align", fail)
    async with service_of(translator) as service:
        outcome = await ask(service, "bad", "good", return_alignment=True)
        assert isinstance(outcome.results[0], InferenceFailed)
        good = outcome.results[1]
        assert not isinstance(good, Exception) and good.text == "GOOD" and good.alignment


async def test_input_errors_of_attention_keep_their_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()

    def refuse(*args: Any) -> Any:
        raise SeveralSentences(3)

    monkeypatch.setattr(translator, "attention", refuse)
    async with service_of(translator) as service:
        with pytest.raises(SeveralSentences):
            await service.attention(TranslationRequest(["a"], None, "de", GREEDY))


async def test_languages_of_documents_are_detected_and_their_errors_are_their_own() -> None:
    async with service_with(FakeBundles(FakeTranslator()), WordDetector()) as service:
        xml, html = replace(GREEDY, format="xml"), replace(GREEDY, format="html")
        outcome = await ask(service, "<a>the", "<a>the cat</a>", source="auto", options=xml)
        assert isinstance(outcome.results[0], InvalidMarkup)
        assert texts_of(outcome)[1:] == ["<a>THE CAT</a>"]
        outcome = await ask(service, '<!-- der --><img alt="the cat">', source="auto", options=html)
        assert texts_of(outcome) == ['<!-- der --><img alt="THE CAT">']
        assert outcome.texts[0].detected is not None


@pytest.mark.parametrize("return_alignment", [False, True])
async def test_blank_texts_are_returned_unchanged_without_the_model(
    return_alignment: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator()
    monkeypatch.setattr(translator, "align", None)
    async with service_of(translator) as service:
        outcome = await ask(service, "", " \n\t", "42 — 7", return_alignment=return_alignment)
        assert texts_of(outcome) == ["", " \n\t", "42 — 7"]
        assert (outcome.num_source_tokens, outcome.num_target_tokens) == (0, 0)
        assert outcome.queue_ms == 0
        assert [result.alignment for result in outcome.results if not isinstance(result, Exception)] == (
            [()] * 3 if return_alignment else [None] * 3
        )
    assert translator.log.joins == []


async def test_alignments_are_computed_on_the_engine_thread_and_reach_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = FakeTranslator()
    threads: list[str] = []
    align = translator.align

    def noting(sentences: Sequence[AttendedSentence]) -> Any:
        threads.append(threading.current_thread().name)
        return align(sentences)

    monkeypatch.setattr(translator, "align", noting)
    async with service_of(translator) as service:
        outcome = await ask(service, "ab", "", "c", return_alignment=True)
        first, blank, last = outcome.results
        assert not isinstance(first, Exception) and first.alignment is not None
        assert [(link.source, link.target) for link in first.alignment] == [((0, 1), (0, 1)), ((1, 2), (1, 2))]
        assert not isinstance(blank, Exception) and blank.alignment == ()
        assert not isinstance(last, Exception) and last.alignment is not None and len(last.alignment) == 1
        assert threads == ["verso-engine"], "the sentences of a request share a call"


async def test_confidences_are_computed_on_the_engine_thread_and_only_if_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = FakeTranslator()
    threads: list[str] = []
    confidence = translator.confidence

    def noting(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return confidence(*arguments)

    monkeypatch.setattr(translator, "confidence", noting)
    async with service_of(translator) as service:
        texts = ("Two words.\n az b.", " ", "c")
        plain = await ask(service, *texts)
        assert threads == []
        outcome = await ask(service, *texts, return_confidence=True)
        assert threads == ["verso-engine"] * 2
        first, blank, last = outcome.results
        assert not isinstance(first, Exception) and first.confidence is not None
        assert [first.text[slice(*word.target)] for word in first.confidence.words] == first.text.split()
        assert [word.probability for word in first.confidence.words] == [0.125, 0.0078, 0.25, 0.125]
        assert first.confidence.score == 0.5
        assert first.confidence.uncovered == ((12, 14),)
        assert not isinstance(blank, Exception) and blank.confidence == NOTHING_TRANSLATED
        assert not isinstance(last, Exception) and last.confidence is not None
        without = [replace(one, confidence=None) for one in outcome.results if not isinstance(one, Exception)]
        assert without == plain.results


async def test_a_confidence_that_fails_fails_only_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    confidence = translator.confidence

    def fail(plan: Plan, *sentences: int) -> Any:
        if "bad" in plan.text:
            raise RuntimeError("secret")
        return confidence(plan, *sentences)

    monkeypatch.setattr(translator, "confidence", fail)
    async with service_of(translator) as service:
        outcome = await ask(service, "bad", "good", "nan", return_confidence=True, return_alignment=True)
        assert isinstance(outcome.results[0], InferenceFailed)
        good = outcome.results[1]
        assert not isinstance(good, Exception) and good.confidence is not None and good.alignment is not None
        assert isinstance(outcome.results[2], DecodingError)


@pytest.mark.parametrize(
    ("bad", "options"),
    [
        ("<p>", TranslationOptions(decoding="greedy", format="xml")),
        ("x" * 10_001, TranslationOptions(decoding="greedy", protect=("x",))),
    ],
)
async def test_a_text_that_cannot_be_prepared_fails_alone(bad: str, options: TranslationOptions) -> None:
    async with service_of(FakeTranslator()) as service:
        outcome = await ask(service, bad, "good", options=options)
        assert isinstance(outcome.results[0], InputError)
        assert texts_of(outcome)[1] == "GOOD"


async def test_a_text_that_cannot_be_joined_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    complete = Plan.complete

    def broken(plan: Plan, *requested: Any) -> Any:
        if "bad" in plan.text:
            raise RuntimeError("secret")
        return complete(plan, *requested)

    monkeypatch.setattr(Plan, "complete", broken)
    async with service_of(translator) as service:
        outcome = await ask(service, "bad", "good")
        assert isinstance(outcome.results[0], InferenceFailed)
        assert texts_of(outcome)[1] == "GOOD"


async def test_the_times_are_reported_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = FakeTranslator()
    now = [100.0]
    prepare = translator.prepare

    def slow(text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        now[0] += 5.0
        return prepare(text, source, target, options)

    monkeypatch.setattr(translator, "prepare", slow)
    service = TranslationService(Settings(**BUDGET), Metrics(), FakeBundles(translator), clock=lambda: now[0])
    await service.start()
    try:
        await service.wait_loaded()
        outcome = await ask(service, "text")
    finally:
        await service.stop()
    assert (outcome.queue_ms, outcome.decode_ms, outcome.total_ms) == (0.0, 0.0, 5000.0)


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
        first = asyncio.create_task(ask(service, "a1", "a2", "a3"))
        await eventually(lambda: translator.log.joins)
        patient = asyncio.create_task(ask(service, "b1", "b2", waits=True))
        with pytest.raises(QueueFull):
            await ask(service, "c1", "c2")
        translator.step_gate.set()
        assert texts_of(await first) == ["A1", "A2", "A3"]
        assert texts_of(await patient) == ["B1", "B2"]


async def test_a_request_that_waits_for_a_full_queue_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = held_translator()
    async with service_of(
        translator, queue_sentences=3, max_batch_rows=1, max_beam_size=1, max_hypotheses=1, deadline_s=10.0
    ) as service:
        first = asyncio.create_task(ask(service, "a1", "a2", "a3"))
        await eventually(lambda: translator.log.joins)
        patient = asyncio.create_task(ask(service, "b1", "b2", waits=True))
        await asyncio.sleep(0)  # until it has been refused once
        advance_clock(monkeypatch, 11.0)
        for asked in (first, patient):
            with pytest.raises(DeadlineExceeded):
                await asked


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
        for one in late:
            with pytest.raises(DeadlineExceeded):
                await one
        waiting = asyncio.create_task(service.language_pairs()), asyncio.create_task(service.detect(["the cat"]))
        gate.open.set()
        assert (await waiting[0]).pairs == MANIFEST.pairs
        (found,) = await waiting[1]
        assert found is not None
        assert found.language == "en"
    finally:
        gate.open.set()
        await service.stop()


async def test_texts_are_translated_while_languages_are_still_being_loaded() -> None:
    class Loading(WordDetector):
        """Loads until it is told to end."""

        gate = Gate()

        def detect(self, texts: Sequence[str], languages: tuple[str, ...]) -> list[Detection | None]:
            self.gate.pass_through()
            return super().detect(texts, languages)

    detector = Loading()
    async with service_with(FakeBundles(FakeTranslator()), detector) as service:
        detecting = [asyncio.create_task(ask(service, "the cat", source="auto")) for _ in range(4)]
        await eventually(detector.gate.reached.is_set)
        long_text = "a sentence of words. " * 100  # split and joined on the pool
        try:
            assert texts_of(await ask(service, long_text, source="en")) == [long_text.upper()]
        finally:
            detector.gate.open.set()
        assert [texts_of(one) for one in await asyncio.gather(*detecting)] == [["THE CAT"]] * 4


async def test_detection_leaves_out_texts_without_letters_and_is_refused_while_draining() -> None:
    async with service_with(FakeBundles(FakeTranslator()), WordDetector()) as service:
        found = await service.detect(["der Hund", "42", "the cat", "le chat"])
        assert [None if one is None else one.language for one in found] == ["de", None, "en", None]
        await service.drain(PATIENCE_S)
        with pytest.raises(NotReady):
            await service.detect(["the cat"])
        with pytest.raises(NotReady):
            await service.language_pairs()


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


async def test_a_sentence_that_is_decoded_again_is_not_refused_for_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    translator = FakeTranslator(manifest=replace(MANIFEST, retry_loops=True))
    async with service_of(translator) as service:
        monkeypatch.setattr(Pace, "rate", lambda self, now: 0.001 if translator.log.joins else None)
        outcome = await ask(service, "A loop.")
        assert not isinstance(outcome.results[0], Exception)
        assert len(translator.log.joins) == 2


async def test_a_sentence_that_is_decoded_again_is_not_refused_by_a_full_queue() -> None:
    translator = FakeTranslator(0.02, replace(MANIFEST, retry_loops=True))
    async with service_of(
        translator, queue_sentences=3, max_batch_rows=1, max_beam_size=1, max_hypotheses=1
    ) as service:
        looping = asyncio.create_task(ask(service, "A loop.", "B loop.", "C loop."))
        await eventually(translator.stepping.is_set)
        others = asyncio.create_task(ask(service, "one", "two", waits=True))
        assert texts_of(await looping) == ["A LOOP.", "B LOOP.", "C LOOP."]
        assert texts_of(await others) == ["ONE", "TWO"]
        assert sum(translator.log.joins) == 8


@pytest.mark.parametrize("second", ["fails", "never ends"])
async def test_a_second_decoding_that_does_not_end_well_leaves_the_first_answer(
    second: Literal["fails", "never ends"], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator(0.001, replace(MANIFEST, retry_loops=True))
    translator.second = second
    async with service_of(translator, deadline_s=10.0) as service:
        asked = asyncio.create_task(ask(service, "A loop."))
        if second == "never ends":
            await eventually(lambda: len(translator.log.joins) == 2)
            advance_clock(monkeypatch, 6.0)
        assert texts_of(await asked) == ["A LOOP. A LOOP. A LOOP. A LOOP."]
        await eventually(lambda: is_idle(service))
        assert counted(service, "expired") == (second == "never ends")


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
        first = asyncio.create_task(ask(service, "a1", "a2"))
        await eventually(lambda: translator.log.joins)
        ended: list[int] = []

        async def patient(number: int) -> None:
            assert texts_of(await ask(service, f"b{number}", f"c{number}", waits=True)) == [
                f"B{number}",
                f"C{number}",
            ]
            ended.append(number)

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
        assert ended == [0, 2, 3, 4]


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

    known = service_threads()
    service = ObservedService(Settings(**BUDGET), FakeBundles(load))
    await service.start()
    await eventually(gate.reached.is_set)
    await service.stop()
    await service.wait_loaded()
    assert service.state == "stopped"
    gate.open.set()
    assert not any(thread.name == "verso-engine" for thread in service_threads(known))
    await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})
    assert service.state == "stopped"
    assert service.models == []
    assert (service.failure is not None) == fails


async def test_stopping_refuses_waiting_requests() -> None:
    translator = held_translator()
    async with service_of(translator) as service:
        asked = [asyncio.create_task(ask(service, "text")), asyncio.create_task(ask(service, "other"))]
        await eventually(translator.stepping.is_set)
        asked.append(asyncio.create_task(ask(service, "late")))
        looking = asyncio.create_task(look(service, "two words"))
        await eventually(lambda: num_waiting_calls(service.engine))
        stopping = asyncio.create_task(service.stop())
        await eventually(lambda: is_stopping(service.engine))
        translator.step_gate.set()
        await stopping
        for task in (*asked, looking):
            with pytest.raises(NotReady, match="has stopped"):
                await task
        with pytest.raises(NotReady, match="has stopped"):
            await ask(service, "x")


async def test_a_stopped_service_leaves_no_thread_running() -> None:
    known = service_threads()
    async with service_of(FakeTranslator()) as service:
        await ask(service, "Long text. " * 100)
        mine = service_threads(known)
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
        asked: list[asyncio.Task[Any]] = [asyncio.create_task(ask(service, "running"))]
        await eventually(translator.stepping.is_set)
        asked.append(asyncio.create_task(look(service, "two words")))
        await eventually(lambda: num_waiting_calls(service.engine))
        assert not await service.drain(0.0)
        for task in asked:
            with pytest.raises(NotReady, match="shutting down"):
                await task
        translator.step_gate.set()
        await eventually(lambda: is_idle(service))
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


async def test_a_sentence_requested_twice_is_translated_once_with_equal_results() -> None:
    translator, without = FakeTranslator(), FakeTranslator()
    asked: list[dict[str, Any]] = [
        {"texts": ["One. Two.", "Two.", "nan"], "options": GREEDY},
        {"texts": ["Two.\n\n One."], "options": GREEDY, "return_alignment": True, "return_confidence": True},
        {"texts": ["Two."], "options": TranslationOptions(num_hypotheses=2, return_scores=True)},
        {"texts": ["Two.  One."], "options": TranslationOptions(num_hypotheses=2, return_scores=True)},
    ]
    found: list[list[list[Any]]] = [[], []]
    async with (
        service_of(translator) as service,
        service_of(without, cache_bytes=0, coalesce="off") as plain,
    ):
        for request in asked * 2:
            for index, one in enumerate((service, plain)):
                texts, arguments = request["texts"], {name: request[name] for name in request if name != "texts"}
                results = (await ask(one, *texts, **arguments)).results
                found[index].append([type(one) if isinstance(one, Exception) else one for one in results])
    assert found[0] == found[1]
    assert sum(translator.log.joins) == 6, "four distinct sentences, and one that fails each time"
    assert sum(without.log.joins) == 2 * (4 + 2 + 1 + 2)


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


def test_more_threads_than_allowed_are_reduced_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    used: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", used.append)
    monkeypatch.setattr("model.process.threads.available_threads", lambda proc: 2)

    async def test(asked: int | None) -> None:
        async with service_of(FakeTranslator(), threads=asked):
            pass

    for asked in (1, None, 64):
        run(lambda asked=asked: test(asked))  # type: ignore[misc]
    assert used == [1, 2, 2]
    (warning,) = [record for record in caplog.records if "fewer threads" in record.message]
    assert warning.__dict__["fields"] == {"configured": 64, "used": 2}
