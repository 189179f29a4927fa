"""The parts of the service on Ray Serve, without Ray: engine replicas are objects of this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import ValidationError

from app.cluster.calls import Description, ReplicaLost
from app.cluster.engine import EngineReplica
from app.cluster.options import ClusterOptions, ingress_settings, read_settings
from app.cluster.replicas import Engine
from app.cluster.scaling import SENTENCES, ScaleOnSentences
from app.cluster.service import MAX_LOSSES, RemoteTranslations
from app.errors import DeadlineExceeded, LimitExceeded, NotReady, SettingsError
from app.serving.request import TranslationRequest
from app.serving.text_job import TranslateResult, Via
from app.serving.text_translation import StreamedSentence, StreamedText
from app.settings import Settings
from app.telemetry.metrics import Metrics
from model.errors import UnsupportedPair
from model.translation.options import TranslationOptions
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, WordDetector, held_translator, manifest_of

GREEDY = TranslationOptions(decoding="greedy")
NO_MEMORY = {"cache_bytes": 0, "coalesce": "off"}


class LocalEngine(Engine):
    """An engine of one replica in this process, called over TCP.

    Args:
        replica: The replica.
        losses: For each of the next calls the number of results after which the replica is lost.
    """

    def __init__(self, replica: EngineReplica, losses: Sequence[int] = ()) -> None:
        super().__init__()
        self.asked: list[list[str]] = []
        self.replica = replica
        self._losses = list(losses)

    async def discover(self) -> list[Description]:
        description = self.replica.describe()
        return [description] if description is not None else []

    async def metrics(self) -> dict[str, bytes]:
        return {"replica": self.replica.render_metrics()}

    async def call(self, method: str, *arguments: Any) -> Any:
        self.asked.append(arguments[0].texts)
        if self._losses and self._losses.pop(0) >= 0:
            raise ReplicaLost
        return await super().call(method, *arguments)

    @asynccontextmanager
    async def stream(self, method: str, *arguments: Any) -> AsyncIterator[AsyncIterator[Any]]:
        self.asked.append(arguments[0].texts)
        num_left = self._losses.pop(0) if self._losses else -1
        async with super().stream(method, *arguments) as elements, aclosing(_cut(elements, num_left)) as delivered:
            yield delivered


async def _cut(elements: AsyncIterator[Any], num_left: int) -> AsyncGenerator[Any, None]:
    """The first elements, and then the loss of the replica; all of them if their number is negative."""
    async for element in elements:
        if num_left == 0:
            raise ReplicaLost
        num_left -= 1
        yield element


@asynccontextmanager
async def cluster_of(
    *translators: FakeTranslator, losses: list[int] | None = None, **settings: Any
) -> AsyncIterator[tuple[RemoteTranslations, list[LocalEngine]]]:
    """An ingress's service, and an engine for each translator."""
    chosen = {**BUDGET, "threads": 1, **settings}
    replicas = [EngineReplica(Settings(**chosen), FakeBundles(translator)) for translator in translators]
    engines = [LocalEngine(replica, losses or []) for replica in replicas]
    service = RemoteTranslations(
        Settings(**chosen),
        Metrics(),
        {f"engine-{number}": engine for number, engine in enumerate(engines)},
        detector=WordDetector(),
    )
    for replica in replicas:
        await replica.start()
    await service.start()
    try:
        await service.wait_loaded()
        yield service, engines
    finally:
        await service.stop()
        for translator in translators:
            translator.step_gate.set()
        for replica in replicas:
            await replica.stop()


def request_of(texts: Sequence[str], **fields: Any) -> TranslationRequest:
    return TranslationRequest(texts, **{"source": None, "target": "de", "options": GREEDY, **fields})


async def ask(service: RemoteTranslations, *texts: str, **fields: Any) -> list[str | Exception]:
    outcome = await service.translate(request_of(texts, **fields))
    return [result if isinstance(result, Exception) else result.text for result in outcome.results]


async def streamed(service: RemoteTranslations, *texts: str, **fields: Any) -> list[Any]:
    stream = service.stream(request_of(texts, **fields))
    async with aclosing(stream) as events:
        return [event async for event in events]


async def test_texts_are_translated_by_a_replica() -> None:
    async with cluster_of(FakeTranslator()) as (service, _):
        assert await ask(service, "one. two.", "three.") == ["ONE. TWO.", "THREE."]
        assert [model.name for model in service.models] == ["fake"]


@pytest.mark.parametrize("num_before", range(8))
async def test_a_stream_that_loses_its_replica_goes_on_with_what_was_not_delivered(num_before: int) -> None:
    """After any number of events; the second replica is lost as well."""

    texts = ["one. two. three.", "four.", "five. six."]
    async with cluster_of(FakeTranslator(), losses=[num_before, 1], **NO_MEMORY) as (service, engines):
        *events, end = await streamed(service, *texts)
        sentences = [(event.text, event.index) for event in events if isinstance(event, StreamedSentence)]
        assert sorted(sentences) == [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
        assert [index for text, index in sentences if text == 0] == [0, 1, 2]
        assert sorted(event.text for event in events if isinstance(event, StreamedText)) == [0, 1, 2]
        assert isinstance(end, TranslateResult)
        assert [result.text for result in end.results if not isinstance(result, Exception)] == [
            text.upper() for text in texts
        ]
        assert len(engines[0].asked) == 3
        assert all(set(request) <= set(texts) for request in engines[0].asked)


async def test_finished_texts_of_a_stream_are_not_translated_again() -> None:
    async with cluster_of(FakeTranslator(), losses=[2], **NO_MEMORY) as (service, engines):
        await streamed(service, "a.", "a much longer sentence.")
        assert engines[0].asked == [["a.", "a much longer sentence."], ["a much longer sentence."]]


async def test_a_request_is_given_to_a_bounded_number_of_replicas() -> None:
    """A request that ends every replica must not end all of them."""

    async with cluster_of(FakeTranslator(), losses=[0] * 10) as (service, engines):
        with pytest.raises(NotReady):
            await ask(service, "one.")
        assert len(engines[0].asked) == MAX_LOSSES
        with pytest.raises(NotReady):
            await streamed(service, "one.")
        assert len(engines[0].asked) == 2 * MAX_LOSSES
        assert 'verso_replica_losses_total{process="ingress"} 6.0' in (await rendered(service)).decode()


async def rendered(service: RemoteTranslations) -> bytes:
    return await service._metrics.render_all()


async def test_refusals_of_a_replica_are_raised() -> None:
    async with cluster_of(FakeTranslator(), queue_sentences=2) as (service, engines):
        with pytest.raises(LimitExceeded, match="limit of 2"):
            await ask(service, "one. two. three.")
        with pytest.raises(LimitExceeded, match="limit of 2"):
            await streamed(service, "one. two. three.")
        assert len(engines[0].asked) == 2


async def test_an_unknown_pair_reaches_no_replica() -> None:
    async with cluster_of(FakeTranslator()) as (service, engines):
        with pytest.raises(UnsupportedPair):
            await ask(service, "one.", target="fr")
        assert engines[0].asked == []


async def test_the_deadline_includes_the_way_to_the_replica() -> None:
    async with cluster_of(held_translator(), deadline_s=0.5) as (service, _):
        with pytest.raises(DeadlineExceeded):
            await ask(service, "one.")


async def test_each_engine_gets_the_texts_of_its_pairs() -> None:
    german = FakeTranslator(manifest=manifest_of("de", "en-de", "de-en"), sha256="1" * 64)
    french = FakeTranslator(manifest=manifest_of("fr", "fr-de", "en-fr"), sha256="2" * 64)
    async with cluster_of(german, french) as (service, engines):
        texts = ["the cat.", "le chat.", "der Hund.", "123"]
        outcome = await service.translate(TranslationRequest(texts, "auto", "de", GREEDY))
        assert [text.model for text in outcome.texts] == ["de", "fr", None, None]
        assert [text.detected and text.detected.language for text in outcome.texts] == ["en", "fr", "de", None]
        assert [result.text for result in outcome.results if not isinstance(result, Exception)] == [
            "THE CAT.",
            "LE CHAT.",
            "der Hund.",
            "123",
        ]
        assert [engine.asked for engine in engines] == [[["the cat."]], [["le chat."]]]
        *_, end = await streamed(service, *texts, source="auto")
        assert [text.model for text in end.texts] == ["de", "fr", None, None]
        assert await service.pair_of("le chat.", "auto", "de") == ("fr", "de")


async def test_nothing_is_served_before_every_engine_has_described_its_models() -> None:
    replica = EngineReplica(Settings(threads=1), FakeBundles(FakeTranslator()))
    service = RemoteTranslations(Settings(), Metrics(), {"engine": LocalEngine(replica)})
    assert service.state == "loading"
    with pytest.raises(NotReady):
        await ask(service, "one.")
    await service.stop()


async def test_replicas_report_waiting_and_decoding_sentences() -> None:
    async with cluster_of(FakeTranslator(step_s=0.01)) as (service, engines):
        asking = asyncio.create_task(ask(service, *(name * 150 for name in "abc")))
        while engines[0].replica.record_autoscaling_stats() != {SENTENCES: 3.0}:
            await asyncio.sleep(0.005)
        asking.cancel()
        while engines[0].replica.record_autoscaling_stats() != {SENTENCES: 0.0}:
            await asyncio.sleep(0.005)


async def test_metrics_of_all_processes_are_one_page() -> None:
    async with cluster_of(FakeTranslator()) as (service, _):
        await ask(service, "one.")
        page = (await rendered(service)).decode()
        families = list(text_string_to_metric_families(page))
        names = [family.name for family in families]
        assert len(set(names)) == len(names)
        finished = next(family for family in families if family.name == "verso_sentences")
        (sample,) = [sample for sample in finished.samples if sample.labels.get("outcome") == "finished"][:1]
        assert (sample.labels["process"], sample.value) == ("replica", 1.0)


@dataclass
class Load:
    aggregated_metrics: dict[str, dict[str, float]] | None
    target_num_replicas: int = 2


@pytest.mark.parametrize(
    ("load", "needed"),
    [
        (Load({SENTENCES: {"a": 100.0, "b": 60.0}}), 2.5),
        (Load({SENTENCES: {"a": 0.0}}), 0.0),
        (Load({SENTENCES: {"a": 64.0}}), 1.0),
        (Load(None), 2),
        (Load({}), 2),
    ],
)
def test_there_is_a_replica_for_so_many_sentences(load: Load, needed: float) -> None:
    assert ScaleOnSentences(64)(load) == (needed, {})


def test_engines_have_the_options_of_the_application_unless_they_have_their_own() -> None:
    options = ClusterOptions.model_validate(
        {
            "max_replicas": "4",
            "settings": {"VERSO_DEADLINE_S": 9},
            "engines": {"a": {}, "b": {"max_replicas": 2, "settings": {"VERSO_MODEL": "x.pt"}}},
        }
    )
    assert (options.engine("a").max_replicas, options.engine("b").max_replicas) == (4, 2)
    assert options.engine("b").settings == {"VERSO_DEADLINE_S": 9, "VERSO_MODEL": "x.pt"}
    environ = {"VERSO_DEADLINE_S": "5", "VERSO_THREADS": "3", "VERSO_PORT": "1", "HOME": "/"}
    assert read_settings(options.engine("a"), environ) == {"VERSO_DEADLINE_S": "9", "VERSO_THREADS": "3"}


@pytest.mark.parametrize(
    "arguments",
    [
        {"engines": {}},
        {"engines": {"No Name": {}}},
        {"min_replicas": 3, "max_replicas": 2},
        {"engines": {"a": {"min_replicas": 2}}},
        {"engines": {"a": {"unknown": 2}}},
        {"replicas": 2},
    ],
)
def test_wrong_options_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ClusterOptions.model_validate(arguments)


def test_wrong_settings_are_refused_before_replicas_start() -> None:
    with pytest.raises(SettingsError, match="VERSO_MODLE"):
        read_settings(ClusterOptions(settings={"VERSO_MODLE": "x.pt"}), {})


@pytest.mark.parametrize("setting", [{"VERSO_DATA_DIR": "/data"}, {"VERSO_MAX_DOCUMENTS": "10"}])
def test_documents_have_one_ingress(setting: dict[str, str]) -> None:
    options = ClusterOptions(ingress_replicas=2)
    assert ingress_settings(options, {}) == {"VERSO_MAX_DOCUMENTS": "0"}
    with pytest.raises(SettingsError, match="ingress_replicas"):
        ingress_settings(options, setting)
    assert ingress_settings(ClusterOptions(), setting) == setting


async def test_two_legs_are_those_of_one_engine() -> None:
    to_english, to_german = (
        FakeTranslator(manifest=manifest_of(name, pair), sha256=digit * 64)
        for name, pair, digit in (("french", "fr-en", "1"), ("german", "en-de", "2"))
    )
    async with cluster_of(to_english, to_german) as (service, _):
        assert ("fr", "de") not in await service.language_pairs()
        with pytest.raises(UnsupportedPair):
            await ask(service, "a", source="fr")
    replica = EngineReplica(Settings(**BUDGET, threads=1), FakeBundles(to_english, to_german))
    await replica.start()
    service = RemoteTranslations(Settings(**BUDGET), Metrics(), {"both": LocalEngine(replica)})
    try:
        await service.start()
        await service.wait_loaded()
        assert ("fr", "de") in await service.language_pairs()
        outcome = await service.translate(request_of(["a b", "c"], source="fr"))
        assert [(text.model, text.via) for text in outcome.texts] == [("german", Via("en", "french"))] * 2
        events = await streamed(service, "a b. c", source="fr")
        assert [event.translated.text for event in events if isinstance(event, StreamedSentence)] == ["A B.", "C"]
    finally:
        await service.stop()
        await replica.stop()
