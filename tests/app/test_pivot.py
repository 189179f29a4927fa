"""Pairs without a model: translated by two, through the pivot language."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.errors import DeadlineExceeded, NotReady, PairInTwoLegs, SettingsError
from app.main import create_app
from app.serving.request import TranslationRequest
from app.serving.text_job import Via
from app.serving.text_translation import StreamedSentence, StreamedText
from app.settings import Settings, load_settings
from model.errors import InvalidMarkup, SeveralSentences, UnsupportedFormality, UnsupportedPair
from model.text.glossary import GlossaryTerm
from model.translation.options import TranslationOptions
from tests.app.accounts.keyed import bearer, make_file, make_key, used
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, WordDetector, manifest_of
from tests.app.observed import ObservedService
from tests.app.services import GREEDY, PATIENCE_S, advance_clock, ask, service_with, texts_of
from tests.app.serving import client_of
from tests.app.words import WordTranslator, english_to_german, french_to_english
from tests.waiting import eventually

pytestmark = pytest.mark.anyio

FR_DE: dict[str, Any] = {"source": "fr", "target": "de"}


@asynccontextmanager
async def pivoting(
    first: WordTranslator | None = None, second: WordTranslator | None = None, **settings: Any
) -> AsyncIterator[ObservedService]:
    translators = first or french_to_english(), second or english_to_german()
    async with service_with(FakeBundles(*translators), WordDetector(), **settings) as service:
        try:
            yield service
        finally:
            for translator in translators:
                translator.step_gate.set()


@asynccontextmanager
async def serving(*others: FakeTranslator, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    bundles = FakeBundles(french_to_english(), english_to_german(), *others)
    app = create_app(Settings(**{**BUDGET, **settings}), bundles)
    async with asyncio.timeout(PATIENCE_S), app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        yield client


async def test_a_pair_without_a_model_is_translated_by_two() -> None:
    async with pivoting() as service:
        outcome = await ask(service, "le chat noir dort. bonjour!\n\n  bonjour", **FR_DE)
    assert texts_of(outcome) == ["die schwarze katze schläft. hallo!\n\n  hallo"]
    (text,) = outcome.texts
    assert not isinstance(text.result, Exception)
    assert (text.result.source, text.result.target) == ("fr", "de")
    assert (text.model, text.via, outcome.model) == ("german", Via("en", "french"), "german")


async def test_a_model_of_the_pair_wins() -> None:
    direct = WordTranslator("direct", "fr-de", {"chat": "Kater"})
    async with service_with(FakeBundles(french_to_english(), english_to_german(), direct)) as service:
        outcome = await ask(service, "chat", **FR_DE)
        assert texts_of(outcome) == ["Kater"]
        assert (outcome.model, outcome.texts[0].via) == ("direct", None)
        await service.unload_model("direct")
        assert texts_of(await ask(service, "chat", **FR_DE)) == ["katze"]


async def test_the_pivot_language_is_a_setting() -> None:
    async with pivoting(pivot="off") as service:
        with pytest.raises(UnsupportedPair):
            await ask(service, "chat", **FR_DE)
        assert ("fr", "de") not in await service.language_pairs()
    to_german = WordTranslator("a", "en-de", {"cat": "Katze"}), WordTranslator("b", "de-fr", {"Katze": "chat"})
    async with service_with(FakeBundles(*to_german), pivot="DE") as service:
        assert texts_of(await ask(service, "cat", source="en", target="fr")) == ["chat"]
    with pytest.raises(SettingsError, match=r"VERSO_PIVOT is 'english'.*code of a language"):
        load_settings({"VERSO_PIVOT": "english"})


async def test_texts_in_one_leg_and_in_two_share_a_request() -> None:
    async with pivoting() as service:
        texts = "le chat noir", "the cat", "der hund", "42"
        outcome = await ask(service, *texts, source="auto", target="de")
    assert texts_of(outcome) == ["die schwarze katze", "die katze", "der hund", "42"]
    assert [text.via for text in outcome.texts] == [Via("en", "french"), None, None, None]
    assert outcome.texts[0].detected is not None and outcome.texts[0].detected.language == "fr"


async def test_a_detected_language_with_one_direct_pair_has_this_target() -> None:
    async with pivoting() as service:
        assert texts_of(await ask(service, "le chat", source="auto", target=None)) == ["the cat"]


async def test_markup_alignment_terms_and_spans_are_carried_through_both_legs() -> None:
    source = "le <b>chat</b> noir {name} dort."
    options = replace(
        GREEDY, format="html", return_alignment=True, return_confidence=True, glossary=(GlossaryTerm("chat", "Kater"),)
    )
    async with pivoting() as service:
        (text,) = (await ask(service, source, options=options, **FR_DE)).results
    assert not isinstance(text, Exception)
    assert text.text == "die schwarze <b>Kater</b> {name} schläft."
    assert text.alignment is not None and text.glossary is not None and text.integrity is not None
    linked = {(source[slice(*link.source)], text.text[slice(*link.target)]) for link in text.alignment}
    assert {("n", "s"), ("d", "s"), ("l", "d")} <= linked
    assert all(link.weight <= 0.25 for link in text.alignment)
    (use,) = text.glossary
    assert (source[slice(*use.source)], text.text[slice(*use.target or (0, 0))]) == ("chat", "Kater")
    assert [text.text[slice(*use.target)] for use in text.integrity] == ["{name}"]
    assert text.confidence is not None and text.confidence.score == pytest.approx(0.25, abs=0.01)


async def test_words_that_either_leg_leaves_out_are_uncovered() -> None:
    source = "zut chat noir."  # a word with z is uncovered by the fake
    options = replace(GREEDY, return_confidence=True)
    first = WordTranslator("french", "fr-en", {"chat": "buzz", "zut": "damn"})
    async with pivoting(first) as service:
        (text,) = (await ask(service, source, options=options, **FR_DE)).results
    assert not isinstance(text, Exception) and text.confidence is not None
    assert [source[slice(*span)] for span in text.confidence.uncovered or ()] == ["zut", "chat"]


@pytest.mark.parametrize(
    ("text", "options", "error"),
    [
        ("chat. noir.", replace(GREEDY, target_prefix="die"), SeveralSentences),
        ("chat", replace(GREEDY, formality="formal"), UnsupportedFormality),
        ("<a", replace(GREEDY, format="xml"), InvalidMarkup),
        ("boom", GREEDY, Exception),
        ("nan", GREEDY, Exception),
    ],
)
async def test_a_text_that_fails_in_a_leg_fails_alone(text: str, options: TranslationOptions, error: Any) -> None:
    async with pivoting() as service:
        outcome = await ask(service, text, "<p/>" if options.format == "xml" else "chat", options=options, **FR_DE)
    assert isinstance(outcome.results[0], error)
    if options is GREEDY:
        assert texts_of(outcome)[1] == "katze"


async def test_a_failure_in_the_second_leg_is_that_of_its_text() -> None:
    first = WordTranslator("french", "fr-en", {"mauvais": "nan"})
    async with pivoting(first) as service:
        outcome = await ask(service, "mauvais", "chat", **FR_DE)
        stream = service.stream(TranslationRequest(["mauvais", "chat"], options=GREEDY, **FR_DE))
        events = [event async for event in stream]
    assert isinstance(outcome.results[0], Exception) and texts_of(outcome)[1] == "chat"
    failed = [event for event in events if isinstance(event, StreamedText) and event.text == 0]
    assert len(failed) == 1 and isinstance(failed[0].result.result, Exception)


async def test_a_second_leg_that_cannot_be_prepared_fails_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    second = english_to_german()

    def refuse(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(second.pipeline, "read_divided", refuse)
    async with pivoting(second=second) as service:
        outcome = await ask(service, "chat", **FR_DE)
        assert isinstance(outcome.results[0], Exception)
        assert texts_of(await ask(service, "cat", source="en", target="de")) == ["katze"]


async def test_sentences_of_the_second_leg_are_streamed_with_their_source() -> None:
    text = "le chat noir. 42! bonjour."
    async with pivoting() as service:
        stream = service.stream(TranslationRequest([text, ""], options=GREEDY, **FR_DE))
        events = [event async for event in stream]
    sentences = [event for event in events if isinstance(event, StreamedSentence)]
    assert [(text[slice(*event.translated.source)], event.translated.text) for event in sentences] == [
        ("le chat noir.", "die schwarze katze."),
        ("bonjour.", "hallo."),
    ]
    texts = [event for event in events if isinstance(event, StreamedText)]
    assert sorted((event.text, event.result.via) for event in texts if event.text == 0) == [(0, Via("en", "french"))]
    assert [type(event) for event in events[-1:]] != [StreamedText]


async def test_a_request_whose_client_left_in_the_second_leg_is_withdrawn() -> None:
    second = english_to_german()
    second.step_gate.clear()
    async with pivoting(second=second) as service:
        running = asyncio.create_task(ask(service, "le chat noir dort", **FR_DE))
        await eventually(second.stepping.is_set)
        running.cancel()
        second.step_gate.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        await eventually(lambda: service.sample("verso_sentences_total", {"model": "german", "outcome": "cancelled"}))
        assert service.sample("verso_sentences_total", {"model": "french", "outcome": "finished"}) == 1


async def test_both_legs_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    second = english_to_german()
    second.step_gate.clear()
    async with pivoting(second=second, deadline_s=20.0) as service:
        running = asyncio.create_task(ask(service, "le chat noir dort", **FR_DE))
        await eventually(second.stepping.is_set)
        advance_clock(monkeypatch, 21.0)
        with pytest.raises(DeadlineExceeded):
            await running


async def test_both_models_are_in_use_until_the_request_ends() -> None:
    first, second = french_to_english(), english_to_german()
    second.step_gate.clear()
    async with pivoting(first, second) as service:
        running = asyncio.create_task(ask(service, "le chat", **FR_DE))
        await eventually(second.stepping.is_set)
        assert [len(model.requests) for model in service.models] == [1, 1]
        second.step_gate.set()
        await running
        assert [len(model.requests) for model in service.models] == [0, 0]


async def test_a_service_that_stops_in_the_second_leg_is_not_ready() -> None:
    second = english_to_german()
    second.step_gate.clear()
    async with pivoting(second=second) as service:
        running = asyncio.create_task(ask(service, "le chat", **FR_DE))
        await eventually(second.stepping.is_set)
        stopping = asyncio.create_task(service.drain(0.0))
        with pytest.raises(NotReady):
            await running
        assert await stopping is False


async def test_sentences_of_both_legs_are_cached_and_shared() -> None:
    first, second = french_to_english(), english_to_german()
    async with pivoting(first, second) as service:
        await ask(service, "le chat", **FR_DE)
        joins = sum(first.log.joins), sum(second.log.joins)
        assert texts_of(await ask(service, "le chat", **FR_DE)) == ["die katze"]
        assert texts_of(await ask(service, "the cat", source="en", target="de")) == ["die katze"]
        assert (sum(first.log.joins), sum(second.log.joins)) == joins


async def test_the_attention_of_two_models_is_refused_with_the_two_requests_to_make() -> None:
    async with pivoting() as service:
        with pytest.raises(PairInTwoLegs, match=r"request fr to en, then its translation from en to de"):
            await service.attention(TranslationRequest(["chat"], options=GREEDY, **FR_DE))


async def test_the_answers_of_routes_name_the_pivot_language_and_both_models() -> None:
    body = {"text": "le chat noir. bonjour", **FR_DE, "decoding": "greedy", "beam_size": 1}
    async with serving() as client:
        answer = (await client.post("/translate", json=body)).json()
        lines = (await client.post("/translate", json=body, headers={"accept": "application/x-ndjson"})).text
        direct = (await client.post("/translate", json={**body, "target": "en"})).json()
        attention = await client.post("/attention", json={"text": "chat", **FR_DE})
        models = (await client.get("/models")).json()
    (entry,) = answer["translations"]
    assert (entry["text"], entry["model"], entry["via"]) == (
        "die schwarze katze. hallo",
        "german",
        {"language": "en", "model": "french"},
    )
    assert answer["model"] == "german"
    assert answer["usage"] == {
        "source_tokens": len("le chat noir.bonjour"),
        "target_tokens": len("die schwarze katze.hallo"),
    }
    events = [json.loads(line) for line in lines.splitlines()]
    assert [event["translation"]["via"]["language"] for event in events if event["event"] == "translation"] == ["en"]
    assert "via" not in direct["translations"][0]
    assert (attention.status_code, attention.json()["code"]) == (422, "pair_in_two_legs")
    assert models["pivot"] == {"language": "en", "pairs": [["fr", "de"]], "languages": []}


async def test_protocols_of_others_list_the_reachable_pairs_and_translate_them() -> None:
    async with serving() as client:
        listed = (await client.get("/libretranslate/languages")).json()
        assert {language["code"]: language["targets"] for language in listed} == {
            "fr": ["de", "en", "fr"],
            "en": ["de", "en"],
            "de": ["de"],
        }
        answer = await client.post("/libretranslate/translate", json={"q": "le chat", "source": "fr", "target": "de"})
        assert answer.json()["translatedText"] == "die katze"
        headers = {"authorization": "DeepL-Auth-Key x"}
        answer = await client.post(
            "/v2/translate", json={"text": ["le chat"], "source_lang": "FR", "target_lang": "DE"}, headers=headers
        )
        assert [item["text"] for item in answer.json()["translations"]] == ["die katze"]
        pairs = (await client.get("/v2/glossary-language-pairs", headers=headers)).json()["supported_languages"]
        assert {"source_lang": "fr", "target_lang": "de"} in pairs


async def test_documents_are_translated_in_two_legs() -> None:
    async with serving() as client:
        sent = await client.post(
            "/documents",
            files={"file": ("a.txt", b"le chat noir.\n\n- bonjour\n")},
            data={**FR_DE, "decoding": "greedy"},
        )
        id = sent.json()["id"]
        while (state := (await client.get(f"/documents/{id}")).json())["status"] in ("queued", "running"):
            await asyncio.sleep(0.01)
        assert state["status"] == "done", state
        assert (await client.get(f"/documents/{id}/result")).text == "die schwarze katze.\n\n- hallo\n"


def made(*pairs: str) -> list[FakeTranslator]:
    return [
        FakeTranslator(manifest=manifest_of(pair, pair), sha256=f"{number:064x}") for number, pair in enumerate(pairs)
    ]


async def listed(*pairs: str, **settings: Any) -> Sequence[Any]:
    async with service_with(FakeBundles(*made(*pairs)), **settings) as service:
        result = await service.language_pairs()
        return result.pairs, result.any_to_any


async def test_languages_with_both_directions_are_listed_as_a_group_and_others_pair_by_pair() -> None:
    assert await listed("de-en", "en-de") == ((("de", "en"), ("en", "de")), ())
    assert await listed("fr-en", "en-de") == ((("fr", "en"), ("en", "de"), ("fr", "de")), ())
    pairs, languages = await listed("de-en", "en-de", "fr-en", "en-fr", "it-en", "en-nl")
    assert set(languages) == {"de", "fr", "en"}
    assert set(pairs) == {
        *(("it", target) for target in ("en", "de", "fr", "nl")),
        *((source, "nl") for source in ("en", "de", "fr")),
    }


async def test_what_is_listed_is_translated_and_nothing_else() -> None:
    codes = ["de", "eng", "fr", "it", "pt-BR", "nl"]
    models = made("de-en", "en-de", "en-fr", "fr-en", "it-en", "en-pt-BR", "nl-de")
    async with service_with(FakeBundles(*models)) as service:
        pairs = await service.language_pairs()
        for source in codes:
            for target in codes:
                try:
                    outcome = await ask(service, "a", source=source, target=target)
                except UnsupportedPair:
                    assert not pairs.find(source, target), (source, target)
                else:
                    assert pairs.find(source, target), (source, target)
                    assert outcome.texts[0].result, (source, target)


async def test_characters_count_once(tmp_path: Path) -> None:
    path = make_file(tmp_path / "keys.sqlite")
    async with serving(keys_db=path) as client:
        headers = bearer(make_key(path))
        answer = await client.post("/translate", json={"text": ["le chat", "noir"], **FR_DE}, headers=headers)
        assert answer.status_code == 200
    assert used(path) == (len("le chatnoir"), 1)
