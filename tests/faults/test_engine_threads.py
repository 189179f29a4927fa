"""The system refuses to start another thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.engine.bridge import on_own_thread
from app.errors import NotReady
from app.main import create_app
from app.settings import Settings
from app.steady_pool import SteadyPool
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator, manifest_of
from tests.app.serving import client_of
from tests.server import ROOT

TOKEN = "a token of an operator".replace(" ", "-")
PATIENCE_S = 30.0


@contextmanager
def no_more_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starting a thread fails as it does when the system refuses."""

    def refused(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        for name in ("_start_new_thread", "_start_joinable_thread"):  # up to Python 3.12, and from 3.13
            if hasattr(threading, name):
                patch.setattr(threading, name, refused)
        yield


def test_a_pool_without_threads_refuses_work_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[str] = []
    with SteadyPool(2) as pool:
        with no_more_threads(monkeypatch), pytest.raises(NotReady, match="refuses to start another thread"):
            pool.submit(finished.append, "refused")
        pool.submit(finished.append, "accepted")
    assert finished == ["accepted"], "what was refused is not done later"


def test_a_pool_with_a_thread_does_everything_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, release = threading.Event(), threading.Event()

    def wait() -> None:
        first.set()
        assert release.wait(PATIENCE_S)

    with SteadyPool(2) as pool:
        pool.submit(wait)
        assert first.wait(PATIENCE_S)
        with no_more_threads(monkeypatch):
            second = pool.submit(lambda: threading.current_thread())
            assert not second.done()
            release.set()
            assert second.result(PATIENCE_S) in pool._threads
        assert len(pool._threads) == 1


def test_work_on_an_own_thread_is_refused_and_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    finished: list[str] = []

    async def test() -> None:
        with no_more_threads(monkeypatch), pytest.raises(NotReady, match="refuses to start another thread"):
            await on_own_thread(lambda: finished.append("refused"), "verso-test")
        await on_own_thread(lambda: finished.append("accepted"), "verso-test")

    asyncio.run(test())
    assert finished == ["accepted"]


def test_requests_are_answered_or_refused_with_503_and_nothing_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(**BUDGET, admin_token=TOKEN)  # type: ignore[arg-type]
    other = FakeTranslator(manifest=manifest_of("other", "fr-en"))
    request = {"source": "en", "target": "de"}
    load = {"url": "/admin/models", "headers": {"Authorization": f"Bearer {TOKEN}"}, "json": {"file": "fr.pt"}}

    async def test() -> None:
        app = create_app(settings, FakeBundles(FakeTranslator(), files={"fr.pt": other}))
        async with app.router.lifespan_context(app), client_of(app) as client:
            asyncio.get_running_loop().set_default_executor(SteadyPool())  # as the server does
            await app.state.service.wait_loaded()

            async def post(**arguments: Any) -> tuple[int, str | None]:
                answer = await client.post(**arguments)
                return answer.status_code, answer.json().get("code") if answer.status_code >= 400 else None

            with no_more_threads(monkeypatch):
                short = await client.post("/translate", json={"text": "short", **request})
                assert short.json()["translations"][0]["text"] == "SHORT"
                refused = {
                    "a long text": {"url": "/translate", "json": {"text": "Long text. " * 100, **request}},
                    "a picture": {"url": "/attention", "json": {"text": "two words", **request}},
                    "a model to load": load,
                }
                for name, arguments in refused.items():
                    assert await post(**arguments) == (503, "not_ready"), name
                assert (await client.get("/readyz")).status_code == 200
            for name, arguments in refused.items():
                assert (await post(**arguments))[0] in (200, 201), name

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


# The compiled decoder in a process that may start no thread, as a user to whom the limit applies.
CHILD = """
import os, resource, sys
import torch
from model.translation.options import TranslationOptions
from model.decoding.sentence import DecodingRequest
from model.translator import Translator

translator = Translator.load(sys.argv[1], num_threads=1)
torch.set_num_threads(1)
plans = [translator.prepare(text, "en", "de") for text in ("cat sees dog.", "red house.", "old tree likes red cat.")]

def decode():
    # Enough rows that they are shared by threads.
    requests = [DecodingRequest(number, plans[number % 3].sentences[0].token_ids, TranslationOptions(beam_size=4))
                for number in range(300)]
    cohort, found = translator.cohort(4), {}
    for one in cohort.join(requests):
        found[one.key] = one.hypothesis
    while cohort.num_sentences:
        found.update((one.key, one.hypothesis) for one in cohort.step())
    return found

wanted = decode()
if os.getuid() == 0:
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    import threading
    threading.Thread(target=print).start()
    print("threads can be started")
except RuntimeError:
    torch.get_num_threads = lambda: 4  # of the compiled decoder only: torch itself starts its threads at once
    print(translator.backend.name, decode() == wanted)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="the limit is one of Linux")
def test_the_compiled_decoder_gives_the_same_answers_without_its_threads(toy_bundle: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(toy_bundle)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    if child.stdout.split()[0] != "native":
        pytest.skip(child.stdout)
    assert child.stdout.split() == ["native", "True"]
