"""A service around a translator that needs no model, and the requests that tests send it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from app.serving.detection import LanguageDetector
from app.serving.request import TranslationRequest
from app.serving.service import TranslationService
from app.serving.text_job import TranslateResult
from app.settings import Settings
from model.attention import Attention
from model.translation.options import TranslationOptions
from tests.app.fakes import BUDGET, FakeBundles, FakeTranslator
from tests.app.observed import ObservedService
from tests.waiting import eventually

PATIENCE_S = 30.0
DEADLINE_S = 20.0
"""Long enough that it never passes unless a test moves the clock, and less than ``PATIENCE_S``."""
GREEDY = TranslationOptions(decoding="greedy")


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


async def begin(service: TranslationService, translator: FakeTranslator) -> asyncio.Task[TranslateResult]:
    """A request whose sentence is decoding."""
    running = asyncio.create_task(ask(service, "running"))
    await eventually(translator.stepping.is_set)
    return running


def texts_of(outcome: TranslateResult) -> list[str]:
    return [result if isinstance(result, Exception) else result.text for result in outcome.results]  # type: ignore[misc]
