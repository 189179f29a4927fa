"""The service on a GPU: answers over HTTP, models that come and go, want of memory, a GPU that fails for good."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import torch

from app.commands.main import main
from app.main import create_app
from app.models.bundles import StoredBundle
from app.serving.service import TranslationService
from app.settings import Settings
from model.artifacts.bundle import load_bundle, read_manifest
from model.decoding.backend import SlotBackend
from model.translator import Translator
from tests.app.fakes import BUDGET
from tests.app.serving import client_of
from tests.server import ServiceProcess
from tests.simulated_gpu.device import Device
from tests.toy import WORDS

pytestmark = [pytest.mark.thorough, pytest.mark.anyio]


class ToyBundles:
    """The toy translator on the GPU, and the same one under other names."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load_configured(self) -> list[Translator]:
        return [self.load(bundle) for bundle in self.describe_configured()]

    def describe_configured(self) -> list[StoredBundle]:
        return [self.describe("toy", None)]

    def describe(self, file: str, sha256: str | None) -> StoredBundle:
        return StoredBundle(self._path, replace(read_manifest(self._path), name=file), "cuda")

    def load(self, stored: StoredBundle) -> Translator:
        bundle = load_bundle(self._path, "cuda")
        name = stored.manifest.name
        return Translator(replace(bundle, manifest=replace(bundle.manifest, name=name), sha256=name))


@pytest.fixture
def _quick_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the simulated GPU, little is captured before the service is ready: a capture takes it long."""
    if request.node.get_closest_marker("simulated"):
        monkeypatch.setattr("model.token_translator._SLOT_LENGTHS", (16,))
        monkeypatch.setattr("model.token_translator.check_graphs", lambda *args: None)
        monkeypatch.setattr(SlotBackend, "warm_up_batches", (1,))


@asynccontextmanager
async def serving(toy_bundle: Path) -> AsyncIterator[tuple[httpx.AsyncClient, TranslationService]]:
    """A client of the whole application, and its service, which is ready; nothing is cached."""
    app = create_app(Settings(cache_bytes=0, deadline_s=300, **BUDGET), ToyBundles(toy_bundle))
    async with app.router.lifespan_context(app), client_of(app) as client:
        await app.state.service.wait_loaded()
        assert app.state.service.failure is None
        yield client, app.state.service


def some_texts(number: int, seed: int = 0) -> dict[str, str]:
    """Texts, and their translations."""
    rng = random.Random(seed)
    chosen = [rng.choices(list(WORDS), k=rng.randint(1, 4)) for _ in range(number)]
    return {" ".join(words) + ".": " ".join(WORDS[word] for word in words) + "." for words in chosen}


async def check(client: httpx.AsyncClient, seed: int, number: int = 1, **options: object) -> None:
    """Have texts translated, and compare."""
    texts = some_texts(number, seed)
    request = {"text": list(texts), "source": "en", "target": "de", **options}
    response = await client.post("/translate", json=request)
    assert response.status_code == 200, response.text
    assert [translation["text"] for translation in response.json()["translations"]] == list(texts.values())


async def metric(client: httpx.AsyncClient, name: str) -> float:
    lines = (await client.get("/metrics")).text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.mark.usefixtures("gpu", "_quick_start")
async def test_models_are_loaded_and_unloaded_while_others_are_asked(toy_bundle: Path) -> None:
    async with serving(toy_bundle) as (client, service):
        await check(client, 0)
        event = asyncio.Event()

        async def ask(first: int) -> int:
            seed = first
            while not event.is_set():
                await check(client, seed, decoding="greedy")
                seed += 10
            return seed

        asking = [asyncio.create_task(ask(number)) for number in range(2)]
        await service.load_model("second", None)
        await service.unload_model("toy")
        event.set()
        assert min(await asyncio.gather(*asking)) >= 10, "they were asked meanwhile"
        await check(client, 1)
        assert [model.name for model in service.models] == ["second"]


@pytest.mark.usefixtures("_quick_start")
async def test_sentences_are_answered_where_memory_ends_and_fewer_decode_at_once(
    toy_bundle: Path, gpu: Device | None
) -> None:
    async with serving(toy_bundle) as (client, _):
        await check(client, 0)
        before = await metric(client, "verso_max_batch_tokens")
        room = 2**18 if gpu is not None else 32 * 2**20
        torch.cuda.set_per_process_memory_fraction(
            (torch.cuda.memory_allocated() + room) / torch.cuda.mem_get_info()[1]
        )
        try:
            await check(client, 1, number=5 if gpu is not None else 2000)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert 0 < await metric(client, "verso_max_batch_tokens") < before
        await check(client, 2)


@pytest.mark.usefixtures("_quick_start")
async def test_a_service_whose_gpu_has_failed_for_good_gives_up(
    toy_bundle: Path, simulated_gpu: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.serving.service._WATCH_S", 0.01)
    async with serving(toy_bundle) as (client, service):
        await check(client, 0)
        simulated_gpu.fail()
        request = {"text": "cat.", "source": "en", "target": "de"}
        answers = await asyncio.gather(*(client.post("/translate", json=request) for _ in range(4)))
        assert {answer.status_code for answer in answers} <= {500, 503}
        async with asyncio.timeout(30):
            while service.state != "failed":
                await asyncio.sleep(0.01)
        for path in ("/livez", "/readyz"):
            assert (await client.get(path)).status_code == 503
        assert (await client.post("/translate", json=request)).status_code == 503


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    [
        pytest.param("simulated", marks=pytest.mark.simulated),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
async def test_the_process_ends_with_an_error_when_its_gpu_has_failed_for_good(device: str, toy_bundle: Path) -> None:
    settings = {"VERSO_MODEL": str(toy_bundle), "VERSO_DEVICE": "cuda", "VERSO_GRAPHS": "off", "TEST_GPU": device}
    settings |= {f"VERSO_{name.upper()}": str(value) for name, value in BUDGET.items()}
    process = ServiceProcess([sys.executable, "-m", "tests.app.gpu_server"], settings)
    try:
        process.wait_until_ready()
        with process.new_client() as client:
            request = {"text": "red cat.", "source": "en", "target": "de"}
            assert client.post("/translate", json=request).json()["translations"][0]["text"] == "rot Katze."
            process.popen.send_signal(signal.SIGUSR1)
            with contextlib.suppress(httpx.TransportError):  # it has ended already
                assert client.post("/translate", json={**request, "text": "old dog."}).status_code in (500, 503)
        assert process.wait() == 1
        assert any("GPU" in line or "engine" in line for line in process.lines)
    finally:
        process.close()


@pytest.mark.usefixtures("gpu", "_quick_start")
def test_doctor_finds_the_gpu_and_loads_the_model(
    toy_bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("VERSO_")]:
        monkeypatch.delenv(name)
    for name, value in {"PORT": "0", "MODEL": str(toy_bundle), "DEVICE": "cuda"}.items():
        monkeypatch.setenv(f"VERSO_{name}", value)
    assert main(["doctor", "--load", "--json"]) == 0
    checks = {check["name"]: check for check in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["gpu"]["state"] == checks["loading"]["state"] == "ok"
    assert checks["back-end"]["details"]["toy"]["name"] == "slots"
