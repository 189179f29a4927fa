"""The world around a simulated process: callers, faults, and the processes that follow one another."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from app.engine.state import MEMORY_BACK_S
from tests.simulation.kernel import BEGIN, Kernel
from tests.simulation.ledger import Broken, Trace, require
from tests.simulation.process import Attempt
from tests.simulation.scenario import FaultDue, Jump, Request, Restart, Scenario, What

if TYPE_CHECKING:
    from tests.simulation.process import Process

LIMIT_S = 100_000.0
"""Simulated seconds in which everything must have ended."""

RESTORED_S = 10 * MEMORY_BACK_S
"""Seconds after which a budget that was lowered for lack of memory is restored."""

RETRIED = ("QueueFull", "DeadlineUnreachable", "Dropped", "reset", "refused", "not_ready")
"""Results after which a client sends its request again."""


class World:
    """Plays the events of a scenario.

    Args:
        scenario: The scenario.
        trace: Records what happens.
        make_process: Makes a process, at the beginning and after each end of one.
    """

    def __init__(self, scenario: Scenario, trace: Trace, make_process: Callable[[World], Process]) -> None:
        self.scenario = scenario
        self.trace = trace
        self._make_process = make_process
        self.kernel = Kernel(scenario.begins, scenario.preempts, self._check)
        self.jumped_from = self.jumped_at = 0.0
        self.results: dict[int, str] = {}
        self.num_open = 0
        """Clients that wait for a document."""
        self._num_asked = sum(isinstance(event.what, Request) for event in scenario.events)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._thread = self.kernel.start(self._play, "world")
        self._is_closing = False
        self.process: Process | None = None

    def run(self) -> None:
        """Play all events, and wait until everything has ended.

        Raises:
            AssertionError: Something does not hold.
        """
        Broken.noted.clear()
        try:
            for event in self.scenario.events:
                self.later(event.at_s, partial(self._happen, event.what))
            self._start()
            self.kernel.run(lambda: self._is_closing and not self.processes, BEGIN + LIMIT_S)
            require(len(self.results) == self._num_asked, "requests without an end", self._num_asked)
            require(self.kernel.alive == ["world"], "threads stay", *self.kernel.alive)
        finally:
            self.trace.counts["switches"] += self.kernel.num_switches
            for process in self.processes:
                self.kernel.kill(process, process.loop)
                process.close()
            self.kernel.close()

    @property
    def processes(self) -> list[Process]:
        """The processes that run."""
        return [] if self.process is None else [self.process]

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Do something after some time."""
        heapq.heappush(self._due, (self.kernel.now + seconds, next(self._numbers), act))
        self.kernel.wake(self._thread)

    def answered(self, attempt: Attempt, result: str) -> None:
        """A client has its answer, or knows that there is none."""
        request = attempt.request
        attempt.is_over = True
        if attempt.done is not None:
            attempt.done(attempt.response)
            return
        self.trace.note(self.kernel.now, result, request.number, attempt.number)
        is_lost = result == "answered" and attempt.number == 0 and request.loses_answer
        if is_lost or (result in RETRIED and attempt.number < request.num_retries):
            self.later(0.5, partial(self._send, request, attempt.number + 1))
            return
        require(request.number not in self.results, "a request has two ends", request.number)
        self.results[request.number] = result
        self.close_if_done()

    def call(self, request: Request, done: Callable[[tuple[int, bytes] | None], None]) -> None:
        """Send a request that is no event, to the process that runs.

        Args:
            request: The request.
            done: Called with the status and the body of the answer, or with None if there is none.
        """
        if self.process is None or not self.process.accepts:
            done(None)
        else:
            self.process.send(Attempt(request, 0, done=done))

    def ended(self, process: Process, has_given_up: bool) -> None:
        """A process has ended in order, or because its engine gave up."""
        self.trace.note(self.kernel.now, "gave up" if has_given_up else "stopped")
        process.check_end()
        self.kernel.between_turns(partial(self._bury, process))

    def _bury(self, process: Process, killed: AbstractContextManager[None] | None = None) -> None:
        if process.is_over:
            return
        self.trace.counts.update({f"fault {kind}": number for kind, number in process.machine.num_faults.items()})
        process.is_over = True
        failures = [context for context in process.loop.failures if "exception" in context]
        attempts = list(process.attempts)
        self.trace.is_muted = True
        with killed or nullcontext():
            self.kernel.kill(process, process.loop)
            process.close()
        self.trace.is_muted = False
        Broken.noted.clear()  # by threads that were killed
        require(not failures, "a task failed", *failures)
        self._buried(process, attempts)

    def _buried(self, process: Process, attempts: list[Attempt]) -> None:
        """What follows the end of a process, which had not answered some attempts."""
        self.process = None
        for attempt in attempts:
            if not attempt.is_over:
                self.answered(attempt, "reset")
        if not self._is_closing:
            self._start()

    def _start(self) -> None:
        if self.process is None and not self._is_closing:
            self.process = self._make_process(self)
            self.process.start()

    def close_if_done(self) -> None:
        """Let the last process stop, if every client has what it waits for."""
        if len(self.results) == self._num_asked and not self.num_open and not self._is_closing:
            self._is_closing = True
            if self.process is not None:
                self.later(0.0, partial(self._stop_restored, self.process))

    def _stop_restored(self, process: Process) -> None:
        """Let a process stop as soon as its budget is the full one."""
        if process.is_over:
            return
        if process.is_lowered:
            require(process.waits_s < RESTORED_S, "a lowered budget is not restored")
            process.waits_s += MEMORY_BACK_S
            self.later(MEMORY_BACK_S, partial(self._stop_restored, process))
        else:
            process.stop()

    def _happen(self, what: What) -> None:
        self.trace.note(self.kernel.now, type(what).__name__)
        process = self.process
        if isinstance(what, Request):
            self._send(what, 0)
        elif isinstance(what, Jump):
            self.jumped_from = self.kernel.now
            self.kernel.now += what.seconds
            self.jumped_at = self.kernel.now
        elif process is None or self._is_closing:
            return
        elif isinstance(what, FaultDue):
            process.machine.faults.append(what.fault())
        elif isinstance(what, Restart) and what.kills:
            if what.cuts_power:
                self.trace.note(self.kernel.now, "power cut")
            self.kernel.between_turns(partial(self._bury, process, process.killed(what.cuts_power)))
        elif isinstance(what, Restart):
            process.stop()
        else:
            process.happen(what)

    def _send(self, request: Request, number: int) -> None:
        attempt = Attempt(request, number)
        process = self.process
        if process is None or not process.accepts:
            self.answered(attempt, "refused")
            return
        process.send(attempt)
        if request.leaves_s is not None:
            self.later(request.leaves_s, lambda: None if attempt.is_over or process.is_over else process.leave(attempt))

    def _check(self) -> None:
        if Broken.noted:
            raise Broken.noted[0]
        for process in self.processes:
            process.check()

    def _play(self) -> None:
        while True:
            while self._due and self._due[0][0] <= self.kernel.now:
                heapq.heappop(self._due)[2]()
            self.kernel.block(self._due[0][0] - self.kernel.now if self._due else None)
