"""A GPU fails for good: an illegal access, after which CUDA refuses every call of the process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from app.engine.engine import Dropped
from app.errors import InferenceFailed
from app.main import create_app
from app.settings import Settings
from tests.app.engines import GREEDY, PATIENCE_S, Inbox, counted, engine_of, ids, text_of
from tests.app.fakes import BUDGET, SHAPED, FakeBundles, FakeCohort, FakeTranslator
from tests.app.serving import client_of
from tests.waiting import until


class Gpu:
    """Fails when a text contains ``illegal``; refuses everything from then on, if it has failed for good."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, for_good: bool = True) -> None:
        self.has_failed = False
        self.for_good = for_good
        for name in ("join", "step", "leave"):
            monkeypatch.setattr(FakeCohort, name, self._failing(getattr(FakeCohort, name)))
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: self.use())

    def use(self) -> None:
        if self.has_failed and self.for_good:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    def fail(self) -> None:
        self.has_failed = True
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")

    def _failing(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def run(cohort: FakeCohort, *arguments: Any) -> Any:
            self.use()
            if any("illegal" in cohort._translator.text_of(request) for request in cohort._requests.values()):
                self.fail()
            return method(cohort, *arguments)

        return run


def test_the_engine_gives_up_and_everything_that_waits_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Gpu(monkeypatch)
    inbox, called = Inbox(), Inbox()
    translator = FakeTranslator()
    with engine_of(translator, max_rows=2) as engine, caplog.at_level(logging.CRITICAL):
        engine.ask([ids("good")], GREEDY, inbox.deliver)
        assert text_of(inbox.take(1)[0]) == "good"
        gate = threading.Event()
        engine.call(lambda: gate.wait(PATIENCE_S), lambda outcome: None)
        engine.ask([ids("illegal"), *[ids("waits")] * 5], GREEDY, inbox.deliver)
        gate.set()
        assert [type(item) for item in inbox.take(6).values()] == [Dropped] * 6
        assert engine.has_given_up
        with pytest.raises(Dropped):
            engine.ask([ids("late")], GREEDY, inbox.deliver)
        assert counted(engine, "failed") == 0
    assert "the GPU has failed" in caplog.text
    assert inbox.is_empty and called.is_empty


def test_a_call_that_finds_it_makes_the_engine_give_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, inbox = Gpu(monkeypatch), Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.call(gpu.fail, lambda outcome: inbox.deliver(0, outcome))
        engine_waits = inbox.take(1)[0]
        assert isinstance(engine_waits, Dropped)
        until(lambda: engine.has_given_up)


def test_an_error_that_passes_fails_its_sentence_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch, for_good=False)
    inbox = Inbox()
    with engine_of(FakeTranslator()) as engine:
        engine.ask([ids("illegal"), ids("good")], GREEDY, inbox.deliver)
        outcomes = inbox.take(2)
        assert isinstance(outcomes[0], InferenceFailed)
        assert text_of(outcomes[1]) == "good"
        assert not engine.has_given_up


async def test_clients_get_503_livez_says_so_and_the_process_is_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    Gpu(monkeypatch)
    monkeypatch.setattr("app.serving.service._WATCH_S", 0.01)
    request = {"source": "en", "target": "de"}

    app = create_app(Settings(**BUDGET), FakeBundles(FakeTranslator()))
    async with app.router.lifespan_context(app), client_of(app) as client:
        service = app.state.service
        await service.wait_loaded()
        assert (await client.get("/livez")).status_code == 200
        refused = await client.post("/translate", json={"text": "illegal", **request})
        assert (refused.status_code, refused.json()["code"]) == (503, "not_ready")
        await service.engine_given_up()
        assert service.state == "failed"
        assert (await client.get("/readyz")).status_code == (await client.get("/livez")).status_code == 503
        again = await client.post("/translate", json={"text": "good", **request})
        assert again.status_code == 503


async def test_a_gpu_that_fails_in_the_probe_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    monkeypatch.setattr("app.engine.capacity.Probe.run", lambda *_: gpu.fail())

    app = create_app(Settings(), FakeBundles(FakeTranslator(manifest=SHAPED)))
    async with app.router.lifespan_context(app), client_of(app) as client:
        service = app.state.service
        await service.wait_loaded()
        await service.engine_given_up()
        assert service.state == "failed"
        assert (await client.get("/livez")).status_code == 503
