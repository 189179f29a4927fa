"""Translations, alignments and confidences of a service, and the errors of single texts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest

from app.engine.estimate import Pace
from app.errors import InferenceFailed
from app.serving.detection import Detection
from app.serving.request import TranslationRequest
from model.errors import DecodingError, InputError, InvalidMarkup, SeveralSentences, UnsupportedPair
from model.network.heads import AttentionHead
from model.translation.confidence import NOTHING_TRANSLATED
from model.translation.options import TranslationOptions
from model.translation.plan import Plan
from model.translation.results import AttendedSentence
from tests.app.fakes import MANIFEST, FakeBundles, FakeTranslator, WordDetector
from tests.app.services import (
    GREEDY,
    advance_clock,
    ask,
    counted,
    service_of,
    service_with,
    texts_of,
)
from tests.waiting import Gate, eventually


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


@pytest.mark.parametrize("expected", [True, False])
async def test_a_repetition_loop_is_decoded_again_if_the_model_asks_for_it(expected: bool) -> None:
    translator = FakeTranslator(manifest=replace(MANIFEST, retry_loops=expected))
    async with service_of(translator) as service:
        outcome = await ask(service, "Red. A loop. Old.", "Blue.")
        answer = "A LOOP." if expected else "A LOOP. A LOOP. A LOOP. A LOOP."
        assert texts_of(outcome) == [f"RED. {answer} OLD.", "BLUE."]
        assert sum(translator.log.joins) == 4 + expected


async def test_a_pair_that_is_not_loaded_is_refused() -> None:
    async with service_of(FakeTranslator()) as service:
        with pytest.raises(UnsupportedPair):
            await ask(service, "x", target="fr")
        assert (await ask(service, "x", source="EN", target=None)).results


async def test_attention_runs_on_the_engine_and_its_errors_are_raised() -> None:
    async with service_of(FakeTranslator()) as service:
        request = TranslationRequest(["two words"], None, "de", GREEDY)
        attention = await service.attention(request)
        assert (attention.attention.translation, attention.model) == ("TWO WORDS", "fake")
        assert attention.attention.steps is None
        attention = await service.attention(request, steps=AttentionHead("cross", 0, 1))
        assert attention.attention.steps is not None and list(attention.attention.steps) == ["weights"]
        with pytest.raises(InferenceFailed):
            await service.attention(replace(request, texts=["boom"]))
        with pytest.raises(UnsupportedPair):
            await service.attention(replace(request, target="fr"))


@pytest.mark.parametrize(
    ("error", "kind"), [(RuntimeError("secret"), InferenceFailed), (DecodingError("NaN"), DecodingError)]
)
async def test_an_alignment_that_fails_fails_only_its_text(
    error: Exception, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator()
    align = translator.align

    def fail(sentences: Sequence[AttendedSentence]) -> Any:
        if any("bad" in "".join(map(chr, sentence.source_ids[1:-1])) for sentence in sentences):
            raise error
        return align(sentences)

    monkeypatch.setattr(translator, "align", fail)
    async with service_of(translator) as service:
        outcome = await ask(service, "bad", "good", "nan", return_alignment=True)
        assert isinstance(outcome.results[0], kind)
        good = outcome.results[1]
        assert not isinstance(good, Exception) and good.text == "GOOD" and good.alignment
        assert isinstance(outcome.results[2], DecodingError)


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
        without = [replace(result, confidence=None) for result in outcome.results if not isinstance(result, Exception)]
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


@pytest.mark.parametrize(("length", "thread"), [(20, "MainThread"), (2_000, "verso-prepare")])
async def test_only_long_texts_are_split_on_another_thread(
    length: int, thread: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator()
    threads: list[str] = []
    prepare = translator.prepare

    def noting(text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        threads.append(threading.current_thread().name)
        return prepare(text, source, target, options)

    monkeypatch.setattr(translator, "prepare", noting)
    async with service_of(translator) as service:
        await ask(service, "x" * length)
    assert [name.startswith(thread) for name in threads] == [True]


async def test_texts_are_translated_while_languages_are_still_being_loaded() -> None:
    class Loading(WordDetector):
        """Loads until its gate is open."""

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
        assert [texts_of(result) for result in await asyncio.gather(*detecting)] == [["THE CAT"]] * 4


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
async def test_a_loop_whose_second_decoding_does_not_end_well_stays_as_it_is(
    second: Literal["fails", "never ends"], monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = FakeTranslator(0.001, replace(MANIFEST, retry_loops=True))
    translator.second = second
    async with service_of(translator, deadline_s=10.0) as service:
        task = asyncio.create_task(ask(service, "A loop."))
        if second == "never ends":
            await eventually(lambda: len(translator.log.joins) == 2)
            advance_clock(monkeypatch, 6.0)
        assert texts_of(await task) == ["A loop."]
        await eventually(lambda: service.engine.is_idle)
        assert counted(service, "expired") == (second == "never ends")


async def test_a_sentence_requested_twice_is_translated_once_with_equal_results() -> None:
    translator, without = FakeTranslator(), FakeTranslator()
    requests: list[dict[str, Any]] = [
        {"texts": ["One. Two.", "Two.", "nan"], "options": GREEDY},
        {"texts": ["Two.\n\n One."], "options": GREEDY, "return_alignment": True, "return_confidence": True},
        {"texts": ["Two."], "options": TranslationOptions(num_hypotheses=2, return_scores=True)},
        {"texts": ["Two.  One."], "options": TranslationOptions(num_hypotheses=2, return_scores=True)},
    ]
    values: list[list[list[Any]]] = [[], []]
    async with (
        service_of(translator) as service,
        service_of(without, cache_bytes=0, coalesce="off") as plain,
    ):
        for request in requests * 2:
            for index, asked_service in enumerate((service, plain)):
                texts, arguments = request["texts"], {name: request[name] for name in request if name != "texts"}
                results = (await ask(asked_service, *texts, **arguments)).results
                values[index].append([type(result) if isinstance(result, Exception) else result for result in results])
    assert values[0] == values[1]
    assert sum(translator.log.joins) == 6, "four distinct sentences, and one that fails each time"
    assert sum(without.log.joins) == 2 * (4 + 2 + 1 + 2)
