"""A process that serves callers, and what a caller has sent it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from app.engine.coalescing import SharedDecoding
from app.engine.engine import Engine
from app.settings import Settings
from app.telemetry.metrics import Metrics
from tests.simulation.kernel import DELAYS_S
from tests.simulation.ledger import EngineLedger, require
from tests.simulation.locks import SimulatedThreads
from tests.simulation.loop import SimulatedLoop
from tests.simulation.scenario import Request, Scenario, What
from tests.simulation.stand_in import Machine

if TYPE_CHECKING:
    from tests.simulation.world import World

SLACK_S = 1e-6

LOST_S = 1.0
"""Seconds after the last outcome in which a request must have got all its outcomes."""

LOST_TURNS = 16
"""Turns of threads between two searches for requests that have not."""


@dataclass(eq=False)
class Attempt:
    """A request that was sent to a process.

    Args:
        request: What is requested.
        number: Counts the attempts of the request.
        began: Clock time when its task began; its deadline counts from then.
        delayed_s: Seconds for which threads had been preempted by then.
        task: The task that answers it.
        is_over: Whether the client has an answer, or knows that there is none.
        has_left: Whether the client has left.
        done: Called with the response, for a request that is no event of the scenario.
        response: The status and the body; None without an answer.
    """

    request: Request
    number: int
    began: float = 0.0
    delayed_s: float = 0.0
    task: asyncio.Task[None] | None = None
    is_over: bool = False
    has_left: bool = False
    done: Callable[[tuple[int, bytes] | None], None] | None = None
    response: tuple[int, bytes] | None = None


class Process(ABC):
    """One life of a process: an event loop, an engine, and the requests that it answers.

    Subclasses with an engine set :attr:`engine`, :attr:`shared`, :attr:`metrics` and :attr:`ledger`.

    Args:
        world: The world.
    """

    accepts = True
    """Whether it accepts connections: a server opens its socket when its application has started."""
    admission_s = 0.0
    """Seconds that a request may take before its deadline counts: its key and its quota are looked up."""
    engine: Engine
    shared: SharedDecoding
    metrics: Metrics
    ledger: EngineLedger

    def __init__(self, world: World) -> None:
        scenario, kernel = world.scenario, world.kernel
        self.world = world
        self.threads = SimulatedThreads(kernel, self)
        self.attempts: dict[Attempt, None] = {}
        self.is_over = False
        self.machine = Machine(kernel.sleep, scenario.step_s, scenario.row_s, lambda *_: None, lambda: (), lambda: ())
        self.loop = SimulatedLoop(kernel, self.threads)
        self.stopping = asyncio.Event()
        self.waits_s = 0.0
        """Seconds for which its end waited for a lowered budget."""

    def start(self) -> None:
        """Start the event loop."""
        self.world.kernel.start(lambda: self.loop.run_until_complete(self._live()), "loop", self)

    def send(self, attempt: Attempt) -> None:
        """A client sends a request."""
        self.attempts[attempt] = None

        def begin() -> None:
            attempt.task = self.loop.create_task(self._handle(attempt))
            attempt.task.add_done_callback(lambda _: self._left_at_once(attempt))

        self.loop.call_soon_threadsafe(begin)

    def leave(self, attempt: Attempt) -> None:
        """A client leaves."""
        attempt.has_left = True
        self.loop.call_soon_threadsafe(lambda: attempt.task is not None and attempt.task.cancel())

    def stop(self) -> None:
        """Stop in order."""
        self.loop.call_soon_threadsafe(self.stopping.set)

    def check(self) -> None:
        """What must hold after each turn of a thread."""
        self.ledger.check()
        shared, kernel = self.shared, self.world.kernel
        require(shared._cache.num_bytes <= self.world.scenario.cache_bytes, "the cache exceeds its bound")
        require(len(shared._of_request) <= self.num_requests, "work for a request that has ended")
        before = kernel.now - LOST_S
        if kernel.num_switches % LOST_TURNS == 0 and self.world.jumped_at < before:
            for pending in shared._of_request:
                is_lost = pending.sentences and all(sentence.ended_at < before for sentence in pending.sentences)
                require(not is_lost, "the outcome of a sentence is lost", *pending.sentences if is_lost else ())

    @property
    def num_requests(self) -> int:
        """Requests that it answers."""
        return len(self.attempts)

    @property
    def is_lowered(self) -> bool:
        """Whether its budget is lowered for lack of memory, and will be restored."""
        return self.engine._state._full_tokens is not None and not self.engine.has_given_up

    def check_end(self) -> None:
        """What must hold when it ends in order."""
        self.ledger.check_idle(self.shared)
        self.check_metrics()

    def check_metrics(self) -> None:
        """The metrics agree with what has happened; the process has ended."""
        self.ledger.check_metrics(samples_of(self.metrics), caches=self.world.scenario.cache_bytes > 0)

    @abstractmethod
    def happen(self, what: What) -> None:
        """An event that only this kind of process knows."""

    def killed(self, cuts_power: bool) -> AbstractContextManager[None]:
        """It is killed at the beginning of the block, in which its threads end and :meth:`close` is called.

        Args:
            cuts_power: Whether by a power cut.
        """
        return nullcontext()

    def close(self) -> None:  # noqa: B027  (most have nothing)
        """Close the files and connections of a process that has ended."""

    @abstractmethod
    async def _live(self) -> None:
        """Serve, and call :meth:`World.ended` at the end."""

    @abstractmethod
    async def _answer(self, attempt: Attempt) -> str:
        """Answer a request; returns the kind of the result."""

    async def _handle(self, attempt: Attempt) -> None:
        world = self.world
        attempt.began, attempt.delayed_s = world.kernel.now, world.kernel.delayed_s
        try:
            result = await self._answer(attempt)
        except asyncio.CancelledError:
            result = "left"
        finally:
            del self.attempts[attempt]
        if world.kernel.is_over:
            return
        now, request = world.kernel.now, attempt.request
        is_early = attempt.began <= world.jumped_from <= attempt.began + self.admission_s
        began = world.jumped_at if is_early else attempt.began
        deadline = max(began + request.deadline_s, world.jumped_at)
        late_s = (
            now - deadline - (request.longest_s - request.deadline_s) - (world.kernel.delayed_s - attempt.delayed_s)
        )
        require(late_s <= SLACK_S + max(DELAYS_S), "a request took longer than its deadline", request.number, late_s)
        if result == "expired":
            require(now >= attempt.began + request.deadline_s - SLACK_S, "a request was given up early", request.number)
        if result == "left":
            require(attempt.has_left, "a request was cancelled without reason", request.number)
        world.answered(attempt, result)

    def _left_at_once(self, attempt: Attempt) -> None:
        """A client may leave before its task begins."""
        if attempt in self.attempts and not self.world.kernel.is_over:
            del self.attempts[attempt]
            self.world.answered(attempt, "left")


def samples_of(metrics: Metrics) -> dict[tuple[str, ...], float]:
    """All metrics, by their names and labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
    }


@lru_cache(maxsize=1)
def settings_of(
    scenario: Scenario, deadline_s: float, data_dir: Path | None = None, model_memory: int | None = None
) -> Settings:
    """The settings of all processes of a simulation that have models; validating them takes 4 ms.

    Args:
        scenario: The scenario.
        deadline_s: The deadline of requests.
        data_dir: The folder for data.
        model_memory: Most memory of models.
    """
    return Settings(
        max_batch_rows=scenario.budget.max_rows,
        max_batch_tokens=scenario.budget.max_tokens,
        max_beam_size=4,
        max_hypotheses=1,
        queue_sentences=scenario.max_waiting,
        cache_bytes=scenario.cache_bytes,
        coalesce="on" if scenario.coalesce else "off",
        deadline_s=deadline_s,
        drain_timeout_s=1.0,
        step_timeout_s=30.0,
        threads=1,
        data_dir=data_dir,
        model_memory=model_memory,
    )
