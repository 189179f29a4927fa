"""A process that is an engine with its bridge: callers ask for sentences and calls."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from app.engine.bridge import EngineBridge
from app.engine.coalescing import SharedDecoding
from app.engine.engine import Dropped, Engine
from app.engine.scheduler import Scheduler
from app.engine.translation_cache import TranslationCache
from app.errors import DeadlineUnreachable, InferenceFailed, QueueFull
from app.telemetry.metrics import Metrics
from model.decoding.options import Hypothesis
from model.decoding.sentence import DecodingRequest
from model.errors import DecodingError
from tests.simulation.ledger import EngineLedger, require
from tests.simulation.process import Attempt, Process
from tests.simulation.scenario import Ask, Forget, What
from tests.simulation.stand_in import model_named
from tests.simulation.world import World

WATCH_S = 1.0
STEP_TIMEOUT_S = 30.0

MODELS = ("a", "b")
"""The names of the models."""


class EngineProcess(Process):
    """A process without HTTP, texts and keys.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        scenario, clock = world.scenario, world.kernel.clock
        self.metrics = Metrics()
        self.models = [model_named(name) for name in MODELS]
        for model in self.models:
            model.machine = self.machine
        scheduler = Scheduler(scenario.budget, scenario.max_waiting, clock)
        self.engine = Engine(scheduler, self.metrics, clock, STEP_TIMEOUT_S, self.threads)
        self.ledger = EngineLedger(self.engine, self.machine, world.trace)
        cache = TranslationCache(scenario.cache_bytes)
        self.shared = SharedDecoding(self.engine, cache, scenario.coalesce, self.metrics, clock, self.threads)
        self.ledger.watch_shared(self.shared)
        self.bridge = EngineBridge(self.engine, self.shared)

    def happen(self, what: What) -> None:
        """See :class:`tests.simulation.process.Process`."""
        assert isinstance(what, Forget)
        self.loop.call_soon_threadsafe(self.bridge.forget, self.models[what.model].sha256)

    async def _live(self) -> None:
        self.engine.start()
        while not self.stopping.is_set():
            try:
                async with asyncio.timeout(WATCH_S):
                    await self.stopping.wait()
            except TimeoutError:
                self.engine.watch()
                if self.engine.has_given_up:
                    break
        has_given_up = self.engine.has_given_up
        await self.loop.run_in_executor(None, self.engine.stop, 10.0)
        while self.attempts:
            await asyncio.sleep(0.001)
        self.world.ended(self, has_given_up)

    async def _answer(self, attempt: Attempt) -> str:
        ask = attempt.request
        assert isinstance(ask, Ask)
        try:
            async with asyncio.timeout(ask.deadline_s) as timeout:
                self._check(ask, await self._outcomes(ask, timeout))
        except (QueueFull, DeadlineUnreachable) as error:
            require(1 <= (error.retry_after_s or 1.0) <= 60, "Retry-After", error.retry_after_s)
            return type(error).__name__
        except TimeoutError:
            return "expired"
        except Dropped:
            require(self.engine.has_given_up, "a request was dropped without reason", ask.number)
            return "Dropped"
        except InferenceFailed:
            require(ask.how == "call" and self.machine.num_faults["death"] > 0, "a call failed", ask.number)
            return "InferenceFailed"
        return "answered"

    async def _outcomes(self, ask: Ask, timeout: asyncio.Timeout) -> list[Any]:
        requests = [
            (self.models[sentence.model], request_of(sentence.text, sentence.options)) for sentence in ask.sentences
        ]
        if ask.how == "call":
            return [await self.bridge.call(partial(self._called, ask), timeout, ask.admission)]
        if ask.how == "all":
            outcomes, waited_s = await self.bridge.decode(requests, timeout, ask.caller, ask.admission)
            require(waited_s >= 0.0, "a wait of negative length", waited_s)
            return outcomes
        by_index: dict[int, Any] = {}
        arriving = self.bridge.decode_each(requests, timeout, ask.caller, ask.admission)
        try:
            async for index, outcome in arriving:
                require(index not in by_index, "an outcome is delivered twice", ask.number, index)
                by_index[index] = outcome
                await asyncio.sleep(ask.reads_s)
        finally:
            arriving.close(expired=timeout.expired())
        return [by_index[index] for index in range(len(requests))]

    def _called(self, ask: Ask) -> int:
        """What a call does, on the engine's thread."""
        require(self.world.kernel.running_thread.name == "verso-engine", "a call on another thread")
        self.machine.call("call", (), 0.001)
        return ask.number

    def _check(self, ask: Ask, outcomes: list[Any]) -> None:
        if ask.how == "call":
            require(outcomes == [ask.number], "a call has another result", outcomes)
            return
        for sentence, outcome in zip(ask.sentences, outcomes, strict=False):
            model = self.models[sentence.model]
            right = model.answer(request_of(sentence.text, sentence.options))
            if isinstance(outcome, Hypothesis):
                require(outcome == right, "a wrong answer", ask.number, outcome, right)
            elif isinstance(outcome, InferenceFailed):
                require((model.manifest.name, sentence.text) in self.ledger.failed, "a failure", ask.number)
            else:
                require(isinstance(outcome, DecodingError) and isinstance(right, DecodingError), "an error", outcome)
        require(len(outcomes) == len(ask.sentences), "outcomes are missing", ask.number)


def request_of(text: str, options: Any) -> DecodingRequest:
    """The request of a sentence; the engine sets its key."""
    return DecodingRequest(0, [2, *map(ord, text), 3], options)
