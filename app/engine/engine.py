"""The engine: a single thread that runs all models and steps their cohorts in turn.

Other threads submit sentences, or function calls to be made on this thread, and receive outcomes through callbacks.
Between two decoding steps the thread drops cancelled sentences and lets waiting sentences join. It sleeps while there
is no work.

The thread is supervised. After an error that is not a model's it starts again: queued sentences keep their positions,
and those that were decoding are decoded once more, each alone. The engine gives up if that happens too often, if a
step or a call hangs, and if a GPU has failed for good: it drops all sentences, and only a new process helps.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.engine.caller import UNKNOWN_CALLER, Caller
from app.engine.calls import MAX_CALLS, Call, DeviceLost
from app.engine.joining import Budget
from app.engine.queued_sentence import ModelRequest, QueuedSentence
from app.engine.runner import PRIORITIES, Runner
from app.engine.scheduler import Admission, Scheduler
from app.engine.state import EngineState, safely
from app.engine.watchdog import Watchdog
from app.errors import InferenceFailed, QueueFull
from app.telemetry.metrics import Metrics
from app.threads import SYSTEM, RunningThread, Threads
from model.decoding.options import Outcome

logger = logging.getLogger("app.engine")

_T = TypeVar("_T")

STEP_TIMEOUT_S = 30.0
"""Seconds that a step, or a function call, may take before it counts as hanging, unless something else is said."""

MAX_DEATHS = 5
"""Deaths of the thread within ``DEATHS_S`` seconds that are survived. With one more, the engine gives up."""

DEATHS_S = 60.0


class Dropped(Exception):
    """The sentence or call was dropped, because its caller was cancelled or the engine stops."""


class Engine:
    """Runs the models on its own thread.

    Args:
        scheduler: The queue; from now on protected by the engine's lock.
        metrics: The metrics to update.
        clock: The scheduler's clock, in seconds.
        step_timeout_s: Seconds after which a step, or a function call, counts as hanging.
        threads: Where its thread and its lock come from.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        step_timeout_s: float = STEP_TIMEOUT_S,
        threads: Threads = SYSTEM,
    ) -> None:
        self._state = EngineState(scheduler, metrics, clock, threads.condition())
        self._wake = self._state.wake
        self._runner = Runner(self._state)
        self._watchdog = Watchdog(step_timeout_s, clock)
        self._keys = itertools.count()
        self._deaths: deque[float] = deque()
        self._threads = threads
        self._thread: RunningThread | None = None

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread = self._threads.start(self._run, "verso-engine")

    def stop(self, timeout_s: float) -> None:
        """Stop the thread; callers that still wait receive :class:`Dropped`."""
        with self._wake:
            has_given_up, self._state.stopping = self._state.stopping, True
            self._wake.notify_all()
        if self._thread is not None and self._thread.is_alive() and not has_given_up:
            self._thread.join(timeout_s)
        self._abandon()  # nothing is left, unless the thread was never started, or hangs

    def watch(self) -> None:
        """Give up if the thread makes no progress: one that hangs in C++ cannot be ended. Call this once a second."""
        state = self._state
        state.restore_budget()
        if self._watchdog.hangs(None if state.is_asleep else state.num_works) and not self.has_given_up:
            logger.critical("a step hangs, and the engine gives up: only a new process helps")
            self._abandon()

    @property
    def has_given_up(self) -> bool:
        """Whether it has stopped: it gave up, or :meth:`stop` was called."""
        with self._wake:
            return self._state.stopping

    @property
    def budget(self) -> Budget:
        """The budget, as it is when memory is enough."""
        with self._wake:
            return self._state.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        with self._wake:
            self._state.budget = budget

    @property
    def num_waiting(self) -> int:
        """Sentences in the queue."""
        with self._wake:
            return self._state.scheduler.num_waiting

    @property
    def is_idle(self) -> bool:
        """Whether it has no sentences and no calls, including cancelled ones."""
        with self._wake:
            left = (self._state.unanswered, self._state.withdrawn, self._state.scheduler.num_waiting)
            return not any(left) and self._runner.is_idle and self._state.calls.is_idle

    def retry_after_s(self) -> float:
        """Seconds after which a refused request should be retried."""
        with self._wake:
            return self._state.scheduler.retry_after_s()

    def submit(
        self,
        requests: Sequence[ModelRequest],
        deliver: Callable[[int, Outcome], None],
        caller: Caller = UNKNOWN_CALLER,
        within_s: float | None = None,
        admission: Admission = Admission.REFUSE,
    ) -> list[QueuedSentence]:
        """Submit a caller's sentences.

        Args:
            requests: The sentences and their models.
            deliver: Called with a sentence's index and its outcome, on the engine's thread.
            caller: The caller.
            within_s: Seconds until the deadline; None if they are not to be refused for it.
            admission: Whether they may be refused.

        Returns:
            The sentences, with the keys for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: The sentences do not fit into the queue.
            DeadlineUnreachable: They would probably not be finished in time.
        """
        owner = object()
        sentences = [
            QueuedSentence(
                replace(request, key=next(self._keys)),
                model,
                partial(deliver, index),
                max_target_tokens=model.manifest.max_target_tokens,
                owner=owner,
                caller=caller,
            )
            for index, (model, request) in enumerate(requests)
        ]
        with self._wake:
            self._refuse_if_stopping()
            self._state.scheduler.admit(sentences, within_s, admission)
            self._state.unanswered.update((sentence.key, sentence) for sentence in sentences)
            self._wake.notify_all()
        return sentences

    def hasten(self, sentences: Sequence[QueuedSentence], caller: Caller) -> None:
        """Another request waits for queued sentences, too: they go when the first of both would go.

        Args:
            sentences: Results of :meth:`submit`; sentences no longer in the queue are ignored.
            caller: The caller of the other request.
        """
        with self._wake:
            self._state.scheduler.hasten(sentences, caller)

    def call(
        self,
        run: Callable[[], _T],
        deliver: Callable[[_T | Exception], None],
        admission: Admission = Admission.ALWAYS,
    ) -> int:
        """Submit a function to be called on the engine's thread, between two steps.

        Args:
            run: The function.
            deliver: Called with its result or exception, on the engine's thread.
            admission: Whether it may be refused: not if it completes what was admitted and decoded before.

        Returns:
            The call's key, for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: Too many calls wait.
        """
        call = Call.of(next(self._keys), run, deliver)
        with self._wake:
            self._refuse_if_stopping()
            if admission is Admission.REFUSE and self._state.calls.is_full:
                raise QueueFull(self._state.scheduler.retry_after_s(), 1, len(self._state.calls), MAX_CALLS)
            self._state.calls.add(call)
            self._wake.notify_all()
        return call.key

    def withdraw(self, keys: Collection[int], expired: bool = False) -> None:
        """Cancel sentences or calls; decoding sentences leave their cohort at the next step. Nothing is delivered.

        Args:
            keys: Their keys; keys of finished sentences and calls are ignored.
            expired: Whether the deadline has passed; False if the caller was cancelled.
        """
        with self._wake:
            waiting = {sentence.key for sentence in self._state.scheduler.withdraw(keys)}
            self._state.calls.withdraw(keys)
            left = [sentence for key in keys if (sentence := self._state.unanswered.pop(key, None)) is not None]
            if not self._state.stopping:  # else no step comes in which they could leave their cohort
                self._state.withdrawn.update(sentence.key for sentence in left if sentence.key not in waiting)
            for sentence in left:
                self._state.metrics.sentence_left(sentence.model_name, "expired" if expired else "cancelled")
            self._wake.notify_all()

    def _refuse_if_stopping(self) -> None:
        if self._state.stopping:
            raise Dropped

    def _run(self) -> None:
        """The engine's thread."""
        try:
            while self._takes_turns():
                pass
        except BaseException:  # callers wait for this thread, whatever the error is
            logger.critical("the engine gives up: its thread cannot continue", exc_info=True)
        self._abandon()

    def _takes_turns(self) -> bool:
        """Run the models until the engine stops, or an error ends it. Returns whether to start again."""
        try:
            self._runner.run()
        except DeviceLost:
            logger.critical("the GPU has failed, and the engine gives up: only a new process helps", exc_info=True)
        except BaseException:  # noqa: BLE001  (callers wait for this thread, whatever the error is)
            return self._recover()
        return False

    def _recover(self) -> bool:
        """Replace the runner after an error that is not a model's. Returns False if that has happened too often."""
        logger.critical("the engine's thread died of an error, and starts again", exc_info=True)
        state = self._state
        with self._wake:
            again, failed = state.interrupt(self._runner.not_begun)
            calls = state.calls.interrupt()
            self._runner = Runner(state, again)
            now = state.clock()
            self._deaths.append(now)
            while self._deaths[0] < now - DEATHS_S:
                self._deaths.popleft()
            state.metrics.engine_restarted()
        state.fail(failed, InferenceFailed)
        for call in calls:
            safely(partial(call.fail, InferenceFailed()))
        if len(self._deaths) > MAX_DEATHS:
            logger.critical("the engine gives up: its thread died too often")
            return False
        return True

    def _abandon(self) -> None:
        """Drop all sentences and calls."""
        state = self._state
        with self._wake:
            state.stopping = True
            safely(state.scheduler.clear)
            sentences = list(state.unanswered.values())
            calls = state.calls.clear()
            state.withdrawn.clear()
            state.metrics.load_changed(dict.fromkeys(PRIORITIES, 0), 0)
            self._wake.notify_all()
        state.fail(sentences, Dropped, "cancelled")
        for call in calls:
            safely(partial(call.fail, Dropped()))
