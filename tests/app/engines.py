"""An engine whose translator needs no model, and what tests ask of it."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.engine.engine import Engine
from app.engine.joining import Budget
from app.engine.queued_sentence import QueuedSentence
from app.engine.scheduler import Scheduler
from app.telemetry.metrics import Metrics
from model.decoding.options import DecodingOptions, Hypothesis, Outcome
from model.decoding.sentence import DecodingRequest
from tests.app.fakes import FakeTranslator
from tests.app.observed import service_threads
from tests.waiting import until

PATIENCE_S = 30.0
GREEDY = DecodingOptions(decoding="greedy")


class Inbox:
    """Collects outcomes in the order of delivery."""

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[int, object]] = queue.Queue()

    def deliver(self, index: int, outcome: object) -> None:
        self._queue.put((index, outcome))

    def take(self, number: int) -> dict[int, Any]:
        result: dict[int, Any] = {}
        for _ in range(number):
            index, outcome = self._queue.get(timeout=PATIENCE_S)
            assert index not in result, "delivered twice"
            result[index] = outcome
        return result

    @property
    def is_empty(self) -> bool:
        return self._queue.empty()


class FakeEngine(Engine):
    """An engine with a default model."""

    def __init__(
        self,
        translator: FakeTranslator,
        max_waiting: int = 100,
        max_rows: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.metrics = Metrics()
        super().__init__(Scheduler(Budget(100_000, max_rows), max_waiting, clock), self.metrics, clock)
        self.translator = translator

    def ask(
        self,
        sources: list[list[int]],
        options: DecodingOptions,
        deliver: Callable[[int, Outcome], None],
        translator: FakeTranslator | None = None,
    ) -> list[QueuedSentence]:
        model = translator or self.translator
        return self.submit([(model, DecodingRequest(0, token_ids, options, (9,))) for token_ids in sources], deliver)


@contextmanager
def engine_of(
    translator: FakeTranslator,
    max_waiting: int = 100,
    max_rows: int = 64,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[FakeEngine]:
    existing = service_threads()
    engine = FakeEngine(translator, max_waiting, max_rows, clock)
    engine.start()
    try:
        yield engine
    finally:
        translator.step_gate.set()
        engine.stop(PATIENCE_S)
        until(lambda: not service_threads(existing))


def ids(text: str) -> list[int]:
    return [2, *map(ord, text), 3]


def text_of(outcome: Any) -> str:
    assert isinstance(outcome, Hypothesis), outcome
    return "".join(map(chr, outcome.token_ids))


def counted(engine: FakeEngine, outcome: str, model: str = "fake") -> float:
    """Number of sentences with this outcome."""
    labels = {"model": model, "outcome": outcome}
    return engine.metrics.registry.get_sample_value("verso_sentences_total", labels) or 0.0
