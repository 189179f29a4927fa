"""Models that are loaded and unloaded while the service runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from app.errors import (
    BundleNotFound,
    BundleRefused,
    DetectedPairNotServed,
    LanguageNotDetected,
    ModelAlreadyLoaded,
    NotReady,
    UnknownModel,
)
from app.serving.detection import Detection
from app.serving.request import TranslationRequest
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.artifacts.manifest import Manifest
from model.errors import ArtifactError, DeviceError, EmptySource, UnsupportedPair
from model.translation.options import TranslationOptions
from tests.app.fakes import (
    BUDGET,
    MANIFEST,
    FakeBundles,
    FakeTranslator,
    WordDetector,
    held_translator,
    manifest_of,
)
from tests.app.observed import ObservedService
from tests.app.services import PATIENCE_S, ask, service_with, texts_of
from tests.waiting import Gate, eventually


def french() -> FakeTranslator:
    return FakeTranslator(manifest=manifest_of("french", "fr-en"))


def gauge(service: ObservedService, name: str) -> float | None:
    return service.sample(name)


async def test_several_models_serve_their_pairs_and_are_named_in_results() -> None:
    first, second = FakeTranslator(), french()
    async with service_with(FakeBundles(first, second)) as service:
        assert [model.name for model in service.models] == ["fake", "french"]
        assert first.warmed_up == second.warmed_up == [1, 4]
        german = await ask(service, "a", source="de", target="en")
        other = await ask(service, "b", source="fr", target=None)
        assert (german.model, other.model) == ("fake", "french")
        assert [text.model for text in other.texts] == ["french"]
        assert (sum(first.log.joins), sum(second.log.joins)) == (1, 1)
        with pytest.raises(UnsupportedPair, match="en-de, de-en, fr-en, fr-de"):
            await ask(service, "c", source="de", target="fr")
        assert gauge(service, "verso_models") == 2


async def test_one_request_may_need_several_models() -> None:
    first, second = FakeTranslator(), french()
    async with service_with(FakeBundles(first, second), WordDetector()) as service:
        outcome = await ask(service, "", "le x", "the y", "der z", "слово", source="auto", target="en")
        assert [text.model for text in outcome.texts] == [None, "french", None, "fake", None]
        assert texts_of(outcome)[:4] == ["", "LE X", "the y", "DER Z"]
        assert [text.detected and text.detected.language for text in outcome.texts] == [
            None,
            "fr",
            "en",
            "de",
            None,
        ]
        assert "cannot be detected" in str(outcome.results[4])
        assert outcome.model == "french", "the model of the first translated text"
        assert (sum(first.log.joins), sum(second.log.joins)) == (1, 1)


async def test_attention_detects_the_language_too() -> None:
    async with service_with(FakeBundles(FakeTranslator()), WordDetector()) as service:
        request = TranslationRequest(["der Hund"], "auto", "en", TranslationOptions(decoding="greedy"))
        outcome = await service.attention(request)
        assert outcome.model == "fake"
        assert outcome.detected == Detection("de", 0.9, ("de",))
        for text, error in (("the end", DetectedPairNotServed), (" ", EmptySource)):
            with pytest.raises(error):
                await service.attention(replace(request, texts=[text]))
        for text in ("12", "слово"):
            with pytest.raises(LanguageNotDetected):
                await service.attention(replace(request, texts=[text]))


async def test_a_loaded_model_serves_after_its_warm_up() -> None:
    bundles = FakeBundles(FakeTranslator(), files={"french.pt": french()})
    async with service_with(bundles) as service:
        with pytest.raises(UnsupportedPair):
            await ask(service, "a", source="fr", target="en")
        model = await service.load_model("french.pt", "ab" * 32)
        assert isinstance(model.translator, FakeTranslator)
        assert (model.name, model.translator.warmed_up) == ("french", [1, 4])
        assert bundles.loads == [("french.pt", "ab" * 32)]
        assert (await ask(service, "a", source="fr", target="en")).model == "french"
        assert gauge(service, "verso_models") == 2


class OnGpu(FakeTranslator):
    """A model on a GPU that does not exist: notes what is done with its graphs, and on which thread."""

    def __init__(self, manifest: Manifest = MANIFEST) -> None:
        super().__init__(manifest=manifest)
        self.device = "cuda:0"
        self.done: list[str] = []

    def note(self, what: str) -> None:
        assert threading.current_thread().name == "verso-engine", what
        self.done.append(what)

    def check_graphs(self, widths: Sequence[int]) -> None:
        self.note("check")

    def warm_up_parts(self, widths: Sequence[int]) -> Iterator[Callable[[], object]]:
        for width in widths:
            yield partial(self.note, f"width {width}")

    def warm_up(self, widths: Sequence[int]) -> None:
        raise AssertionError("not in one piece")

    def drop_graphs(self) -> None:
        self.note("drop")


@pytest.fixture
def emptied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    threads: list[str] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: threads.append(threading.current_thread().name))
    return threads


async def test_what_is_on_a_gpu_is_checked_warmed_up_and_dropped_by_the_engines_thread(emptied: list[str]) -> None:
    first = OnGpu()
    second = OnGpu(manifest_of("second", "fr-en"))
    third = OnGpu(manifest_of("third", "es-en"))
    async with service_with(FakeBundles(first, second, files={"third.pt": third})) as service:
        assert first.done == second.done == ["check", "width 1", "width 4"]
        await service.load_model("third.pt", None)
        assert third.done == first.done
        await service.unload_model("third")
        assert third.done[-1] == "drop"
        assert (await ask(service, "a", source="fr", target="en")).model == "second"
        assert emptied == ["verso-engine"]


async def test_translations_go_on_between_the_parts_of_a_warm_up() -> None:
    gate = Gate()
    loading_model = OnGpu(manifest_of("french", "fr-en"))

    def parts(widths: Sequence[int]) -> Iterator[Callable[[], object]]:
        yield lambda: None
        gate.pass_through()  # on the loop's thread: the next part is not yet asked for
        yield lambda: None

    loading_model.warm_up_parts = parts  # type: ignore[method-assign]
    gate.open.set()
    async with service_with(FakeBundles(FakeTranslator(), files={"french.pt": loading_model})) as service:
        loading = asyncio.create_task(service.load_model("french.pt", None))
        assert texts_of(await ask(service, "meanwhile")) == ["MEANWHILE"]
        await loading
        assert gate.reached.is_set()


async def test_an_error_of_a_warm_up_on_the_engines_thread_refuses_the_bundle() -> None:
    broken = OnGpu(manifest_of("french", "fr-en"))

    def fail(widths: Sequence[int]) -> None:
        raise RuntimeError("it does not decode")

    broken.check_graphs = fail  # type: ignore[method-assign]
    async with service_with(FakeBundles(FakeTranslator(), files={"french.pt": broken})) as service:
        with pytest.raises(BundleRefused, match="could not be loaded"):
            await service.load_model("french.pt", None)
        assert texts_of(await ask(service, "next")) == ["NEXT"]


async def test_loads_run_one_after_another_and_a_name_is_loaded_once() -> None:
    gate, running = Gate(), []

    def slow() -> FakeTranslator:
        running.append(1)
        assert len(running) == 1
        gate.pass_through()
        running.pop()
        return french()

    bundles = FakeBundles(FakeTranslator(), files={"french.pt": slow})
    async with service_with(bundles) as service:
        first = asyncio.create_task(service.load_model("french.pt", None))
        await eventually(gate.reached.is_set)
        second = asyncio.create_task(service.load_model("french.pt", None))
        await asyncio.sleep(0.02)  # lets the second load begin; the result does not depend on it
        gate.open.set()
        assert (await first).name == "french"
        with pytest.raises(ModelAlreadyLoaded, match="'french'"):
            await second
        assert len(bundles.loads) == 1


@pytest.mark.parametrize(
    ("error", "raised", "output"),
    [
        (ArtifactError("It is damaged."), BundleRefused, "It is damaged."),
        (DeviceError("An int8 bundle runs on the CPU only."), BundleRefused, "CPU only"),
        (RuntimeError("secret path"), BundleRefused, "the log has the reason"),
    ],
)
async def test_a_bad_bundle_changes_nothing(error: Exception, raised: type[Exception], output: str) -> None:
    def fail() -> FakeTranslator:
        raise error

    async with service_with(FakeBundles(FakeTranslator(), files={"bad.pt": fail})) as service:
        with pytest.raises(raised, match=output) as refused:
            await service.load_model("bad.pt", None)
        assert "secret" not in str(refused.value)
        with pytest.raises(BundleNotFound):
            await service.load_model("none.pt", None)
        assert [model.name for model in service.models] == ["fake"]
        assert texts_of(await ask(service, "fine")) == ["FINE"]


async def test_a_load_finishes_even_if_the_caller_is_cancelled() -> None:
    gate = Gate()

    def slow() -> FakeTranslator:
        gate.pass_through()
        return french()

    async with service_with(FakeBundles(FakeTranslator(), files={"french.pt": slow})) as service:
        loading = asyncio.create_task(service.load_model("french.pt", None))
        await eventually(gate.reached.is_set)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await loading
        gate.open.set()
        await eventually(lambda: len(service.models) == 2)


async def test_unloading_waits_for_running_requests_and_refuses_new_ones() -> None:
    going = held_translator(manifest_of("french", "fr-en"))
    async with service_with(FakeBundles(FakeTranslator(), going)) as service:
        running = asyncio.create_task(ask(service, "running", source="fr", target="en"))
        await eventually(going.stepping.is_set)
        unloading = asyncio.create_task(service.unload_model("french"))
        await eventually(lambda: len(service.models) == 1)
        with pytest.raises(UnsupportedPair, match="The pairs are en-de, de-en"):
            await ask(service, "late", source="fr", target="en")
        with pytest.raises(UnknownModel, match="loaded models: fake"):
            await service.unload_model("french")
        assert not unloading.done()
        going.step_gate.set()
        assert texts_of(await running) == ["RUNNING"]
        assert await unloading > 0
        assert gauge(service, "verso_models") == 1


async def test_requests_that_exceed_the_drain_timeout_are_cancelled_with_the_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    going, staying = held_translator(manifest_of("french", "fr-en")), held_translator()
    async with service_with(FakeBundles(staying, going), drain_timeout_s=0.05) as service:
        running = asyncio.create_task(ask(service, "running", source="fr", target="en"))
        other = asyncio.create_task(ask(service, "other"))
        await eventually(going.stepping.is_set)
        unloading = asyncio.create_task(service.unload_model("french"))
        with pytest.raises(NotReady, match="was unloaded"):
            await running
        going.step_gate.set()
        staying.step_gate.set()
        with caplog.at_level(logging.INFO, logger="app.models"):
            await unloading
        assert texts_of(await other) == ["OTHER"], "requests of other models continue"
        (record,) = [record for record in caplog.records if record.message == "unloaded"]
        assert record.fields["requests_given_up"] is True  # type: ignore[attr-defined]


async def test_the_memory_of_a_model_is_released() -> None:
    going: list[FakeTranslator] = [french()]
    observed = weakref.ref(going[0])
    bundles = FakeBundles(FakeTranslator(), files={"french.pt": lambda: going.pop()})
    async with service_with(bundles) as service:
        await service.load_model("french.pt", None)
        await ask(service, "a text", source="fr", target="en")
        assert observed() is not None
        await service.unload_model("french")
        gc.collect()
        assert observed() is None


async def test_a_service_without_models_is_not_ready_until_one_is_loaded() -> None:
    async with service_with(FakeBundles(FakeTranslator(), files={"french.pt": french()})) as service:
        await service.unload_model("fake")
        assert (service.state, gauge(service, "verso_ready"), gauge(service, "verso_models")) == ("empty", 0, 0)
        with pytest.raises(NotReady, match="No model is loaded"):
            await ask(service, "x")
        await service.load_model("french.pt", None)
        assert (service.state, gauge(service, "verso_ready")) == ("ready", 1)
        assert texts_of(await ask(service, "x", source="fr", target="en")) == ["X"]


async def test_a_request_whose_models_are_unloaded_during_detection_is_refused() -> None:
    gate = Gate()

    class SlowDetector(WordDetector):
        def detect(self, texts: Any, languages: Any) -> Any:
            gate.pass_through()
            return super().detect(texts, languages)

    async with service_with(FakeBundles(FakeTranslator()), SlowDetector()) as service:
        task = asyncio.create_task(ask(service, "der", source="auto", target="en"))
        await eventually(gate.reached.is_set)
        await service.unload_model("fake")
        gate.open.set()
        with pytest.raises(NotReady, match="No model is loaded"):
            await task


async def test_nothing_is_loaded_or_unloaded_during_start_or_shutdown() -> None:
    gate = Gate()

    def slow() -> FakeTranslator:
        gate.pass_through()
        return FakeTranslator()

    service = TranslationService(Settings(**BUDGET), Metrics(), FakeBundles(slow, files={"french.pt": french()}))
    await service.start()
    for work in (service.load_model("french.pt", None), service.unload_model("fake")):
        with pytest.raises(NotReady, match="still loading"):
            await work
    gate.open.set()
    await service.wait_loaded()
    await service.drain(PATIENCE_S)
    with pytest.raises(NotReady, match="shutting down"):
        await service.load_model("french.pt", None)
    await service.stop()
