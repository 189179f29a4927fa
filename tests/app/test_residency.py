"""Models that are loaded on their first use, and evicted for others."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from app.errors import DeadlineExceeded, LimitExceeded, NotReady, SettingsError
from app.models import residency
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import ArtifactError
from tests.app.fakes import BUDGET, NUM_BYTES, FakeBundles, FakeTranslator, WordDetector, held_translator, manifest_of
from tests.app.observed import ObservedService
from tests.app.services import DEADLINE_S, advance_clock, ask, service_with, texts_of
from tests.waiting import Gate, eventually

LANGUAGES = ("de", "fr", "it", "es")


def of(language: str) -> FakeTranslator:
    return FakeTranslator(manifest=manifest_of(language, f"{language}-en"), sha256=language.ljust(64, "0"))


@contextlib.asynccontextmanager
async def serving(
    *translators: FakeTranslator | Callable[[], FakeTranslator], room_for: int, **options: Any
) -> AsyncIterator[tuple[ObservedService, FakeBundles]]:
    bundles = FakeBundles(*(translators or map(of, LANGUAGES)))
    options.setdefault("detector", None)
    async with service_with(bundles, model_memory=room_for * NUM_BYTES, **options) as service:
        yield service, bundles


async def translate(service: TranslationService, language: str, text: str = "a") -> list[str]:
    return texts_of(await ask(service, text, source=language, target="en"))


def in_memory(service: TranslationService) -> list[str]:
    return [model.name for model in service.models if model.in_memory]


def loads(bundles: FakeBundles) -> list[str]:
    return [file.removeprefix("configured-").removesuffix(".pt") for file, _ in bundles.loads]


async def test_all_languages_are_served_from_the_start_and_only_the_first_model_is_loaded() -> None:
    async with serving(room_for=2) as (service, bundles):
        assert [model.name for model in service.models] == list(LANGUAGES)
        assert service.state == "ready"
        assert (await service.language_pairs()).sources == LANGUAGES
        assert (in_memory(service), loads(bundles)) == (["de"], ["0"])
        assert (service.sample("verso_models"), service.sample("verso_models_in_memory")) == (4, 1)
        assert service.sample("verso_model_bytes") == NUM_BYTES


async def test_a_first_use_loads_a_model_and_the_least_recently_used_one_makes_room() -> None:
    async with serving(room_for=2) as (service, bundles):
        assert await translate(service, "fr") == ["A"]
        assert in_memory(service) == ["de", "fr"]
        await translate(service, "de")
        await translate(service, "it")
        assert in_memory(service) == ["de", "it"]
        await translate(service, "de")
        assert loads(bundles) == ["0", "1", "2"]
        assert await translate(service, "fr", "b") == ["B"]
        assert in_memory(service) == ["de", "fr"]
        assert service.sample("verso_model_evictions_total") == 2
        assert service.sample("verso_model_loads_total", {"outcome": "loaded"}) == 3
        assert service.sample("verso_model_load_seconds_count") == 3
        assert service.sample("verso_model_bytes") == 2 * NUM_BYTES


async def test_several_requests_for_a_model_load_it_once() -> None:
    gate = Gate()

    def slow() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator(manifest=manifest_of("configured-1", "fr-en"))

    async with serving(of("de"), slow, room_for=2, deadline_s=DEADLINE_S) as (service, bundles):
        tasks = [asyncio.create_task(translate(service, "fr", text)) for text in "abc"]
        await eventually(gate.reached.is_set)
        assert await translate(service, "de") == ["A"], "requests for models in memory go on"
        gate.open.set()
        assert await asyncio.gather(*tasks) == [["A"], ["B"], ["C"]]
        assert loads(bundles) == ["0", "1"]


async def test_a_model_in_use_is_never_evicted_and_the_next_one_waits_for_it() -> None:
    going = held_translator(manifest_of("de", "de-en"))
    async with serving(going, of("fr"), room_for=1) as (service, bundles):
        running = asyncio.create_task(translate(service, "de", "running"))
        await eventually(going.stepping.is_set)
        waiting = asyncio.create_task(translate(service, "fr", "waiting"))
        await asyncio.sleep(0.02)  # lets it look for room; the result does not depend on it
        assert (in_memory(service), loads(bundles)) == (["de"], ["0"])
        going.step_gate.set()
        assert await running == ["RUNNING"]
        assert await waiting == ["WAITING"]
        assert in_memory(service) == ["fr"]


async def test_a_model_that_is_always_in_use_cannot_keep_another_one_out() -> None:
    going = held_translator(manifest_of("de", "de-en"))
    async with serving(going, of("fr"), room_for=1) as (service, _):
        first = asyncio.create_task(translate(service, "de", "first"))
        await eventually(going.stepping.is_set)
        other = asyncio.create_task(translate(service, "fr", "other"))
        await asyncio.sleep(0.02)  # lets it look for room
        second = asyncio.create_task(translate(service, "de", "second"))
        await asyncio.sleep(0.02)  # lets it join, if it could
        going.step_gate.set()
        assert (await first, await other, await second) == (["FIRST"], ["OTHER"], ["SECOND"])
        assert going.log.joins == [1, 1]
        assert service.sample("verso_model_evictions_total") == 2


async def test_an_evicted_model_releases_its_memory_and_keeps_its_cached_sentences() -> None:
    made: list[weakref.ref[FakeTranslator]] = []

    def german() -> FakeTranslator:
        translator = FakeTranslator(manifest=manifest_of("configured-0", "fr-en"))
        made.append(weakref.ref(translator))
        return translator

    async with serving(german, of("it"), room_for=1) as (service, _):
        await translate(service, "fr")
        await translate(service, "it")
        gc.collect()
        assert [reference() for reference in made] == [None]
        await translate(service, "fr")
        assert len(made) == 2
        again = made[1]()
        assert again is not None
        assert again.log.joins == [], "the answer is in the cache, by the digest of the bundle"


async def test_a_request_that_reaches_its_deadline_while_its_model_loads_gets_503_and_the_load_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate()

    def slow() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator(manifest=manifest_of("configured-1", "fr-en"))

    async with serving(of("de"), slow, room_for=2, deadline_s=DEADLINE_S) as (service, bundles):
        late = asyncio.create_task(translate(service, "fr"))
        await eventually(gate.reached.is_set)
        left = asyncio.create_task(translate(service, "fr"))
        await asyncio.sleep(0)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        advance_clock(monkeypatch, DEADLINE_S + 1.0)
        with pytest.raises(NotReady, match="model of this pair is still being loaded; try again in") as refused:
            await late
        assert (refused.value.reason, refused.value.retry_after_s) == ("model_loading", 2.0)
        monkeypatch.undo()
        gate.open.set()
        await eventually(lambda: in_memory(service) == ["de", "configured-1"])
        assert await translate(service, "fr") == ["A"]
        assert loads(bundles) == ["0", "1"]


async def test_a_deadline_that_passes_after_the_load_is_the_usual_error(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = held_translator(manifest_of("fr", "fr-en"))
    async with serving(of("de"), slow, room_for=2, deadline_s=DEADLINE_S) as (service, _):
        late = asyncio.create_task(translate(service, "fr", "running"))
        await eventually(slow.stepping.is_set)
        advance_clock(monkeypatch, DEADLINE_S + 1.0)
        with pytest.raises(DeadlineExceeded):
            await late
        slow.step_gate.set()


@pytest.mark.parametrize("pause_s", [residency.RETRY_S, 0.0])
async def test_a_bundle_that_cannot_be_loaded_is_tried_again_after_a_pause(
    pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(residency, "RETRY_S", pause_s)
    failures = [ArtifactError("secret path")]

    def bad() -> FakeTranslator:
        if failures:
            raise failures.pop()
        return FakeTranslator(manifest=manifest_of("configured-1", "fr-en"))

    async with serving(of("de"), bad, room_for=2) as (service, bundles):
        for _ in range(2 if pause_s else 1):
            with pytest.raises(NotReady, match="could not be loaded, and the log has the reason") as refused:
                await translate(service, "fr")
            assert 0 <= (refused.value.retry_after_s or 0) <= pause_s
        assert loads(bundles) == ["0", "1"]
        if not pause_s:
            assert await translate(service, "fr") == ["A"]
        assert service.sample("verso_model_loads_total", {"outcome": "failed"}) == 1
        assert await translate(service, "de") == ["A"]


async def test_a_bundle_that_was_replaced_is_refused() -> None:
    digests = iter("ab")

    def changing() -> FakeTranslator:
        return FakeTranslator(manifest=manifest_of("configured-0", "fr-en"), sha256=next(digests) * 64)

    def other() -> FakeTranslator:
        return FakeTranslator(manifest=manifest_of("another name", "fr-en"))

    async with serving(changing, of("it"), other, room_for=1) as (service, _):
        await translate(service, "it")
        with pytest.raises(NotReady, match="could not be loaded"):
            await translate(service, "fr")
        await service.unload_model("configured-0")
        with pytest.raises(NotReady, match="could not be loaded"):
            await translate(service, "fr")


async def test_a_request_for_several_models_has_all_of_them_or_is_told_that_they_do_not_fit() -> None:
    texts = ["der x", "le y"]
    async with serving(of("de"), of("fr"), room_for=2, detector=WordDetector()) as (service, _):
        assert texts_of(await ask(service, *texts, source="auto", target="en")) == ["DER X", "LE Y"]
    async with serving(of("de"), of("fr"), room_for=1, detector=WordDetector()) as (service, _):
        with pytest.raises(LimitExceeded, match="20000000 exceeds the limit of 10000000 bytes of the models"):
            await ask(service, *texts, source="auto", target="en")
        assert await translate(service, "fr") == ["A"]


async def test_requests_for_several_models_at_once_do_not_wait_for_each_other_forever() -> None:
    words: dict[str, tuple[str, ...]] = {"der": ("de",), "le": ("fr",), "il": ("it",), "el": ("es",)}
    async with serving(room_for=2, detector=WordDetector(words)) as (service, _):
        pairs = [("der", "le"), ("il", "el"), ("le", "il"), ("el", "der")] * 3
        tasks = [
            ask(service, f"{first} {number}", f"{second} {number}", source="auto", target="en")
            for number, (first, second) in enumerate(pairs)
        ]
        results = await asyncio.gather(*tasks)
    for number, ((first, second), result) in enumerate(zip(pairs, results, strict=True)):
        assert texts_of(result) == [f"{first} {number}".upper(), f"{second} {number}".upper()]


async def test_a_model_may_be_loaded_and_unloaded_by_an_operator() -> None:
    bundles = FakeBundles(of("de"), of("fr"), files={"it.pt": of("it")})
    async with service_with(bundles, model_memory=NUM_BYTES) as service:
        model = await service.load_model("it.pt", None)
        assert (in_memory(service), model.in_memory) == (["it"], True)
        await translate(service, "fr")
        assert in_memory(service) == ["fr"]
        assert await translate(service, "it") == ["A"]
        for name in ("it", "de"):
            await service.unload_model(name)
        assert (in_memory(service), service.sample("verso_model_bytes")) == ([], 0)
        assert [model.name for model in service.models] == ["fr"]


async def test_a_request_for_a_model_that_leaves_for_one_of_the_operator_waits_until_it_is_loaded_again() -> None:
    going = held_translator(manifest_of("de", "de-en"))
    bundles = FakeBundles(going, files={"it.pt": of("it")})
    async with service_with(bundles, model_memory=NUM_BYTES) as service:
        first = asyncio.create_task(translate(service, "de", "first"))
        await eventually(going.stepping.is_set)
        loading = asyncio.create_task(service.load_model("it.pt", None))
        await asyncio.sleep(0.02)  # lets it look for room
        second = asyncio.create_task(translate(service, "de", "second"))
        await asyncio.sleep(0.02)  # lets it wait; the event loop stays free
        going.step_gate.set()
        assert await first == ["FIRST"]
        assert (await loading).name == "it"
        assert await second == ["SECOND"]
        assert in_memory(service) == ["de"]


async def test_a_model_that_is_unloaded_while_it_loads_refuses_its_requests() -> None:
    going = held_translator(manifest_of("de", "de-en"))
    async with serving(going, of("fr"), room_for=1, drain_timeout_s=0.0) as (service, _):
        running = asyncio.create_task(translate(service, "de", "running"))
        await eventually(going.stepping.is_set)
        waiting = asyncio.create_task(translate(service, "fr", "waiting"))
        await asyncio.sleep(0.02)  # lets it look for room; the result does not depend on it
        unloading = asyncio.create_task(service.unload_model("fr"))
        with pytest.raises(NotReady, match="was unloaded"):
            await waiting
        await unloading
        going.step_gate.set()
        assert await running == ["RUNNING"]


async def test_a_model_that_does_not_fit_alone_ends_the_start() -> None:
    bundles = FakeBundles(of("de"))
    service = TranslationService(Settings(**BUDGET, model_memory=NUM_BYTES - 1), Metrics(), bundles)
    await service.start()
    await service.wait_loaded()
    assert isinstance(service.failure, SettingsError)
    assert "VERSO_MODEL_MEMORY is 9999999, and de takes 10000000 bytes" in str(service.failure)
    await service.stop()


async def test_without_the_setting_all_models_are_in_memory_and_stay() -> None:
    async with service_with(FakeBundles(*map(of, LANGUAGES))) as service:
        assert in_memory(service) == list(LANGUAGES)
        for language in LANGUAGES:
            await translate(service, language)
        assert service.sample("verso_models_in_memory") == 4
        assert service.sample("verso_model_loads_total", {"outcome": "loaded"}) == 0
