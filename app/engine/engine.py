"""The engine: a single thread that runs all models and steps their cohorts in turn.

Other threads submit sentences, or function calls to be made on this thread, and receive outcomes through callbacks.
Between two decoding steps the thread drops cancelled sentences and lets waiting sentences join. It sleeps while there
is no work.

The thread is supervised. If it dies of an error that is not a model's, it begins anew; if a piece of work hangs,
another thread takes over. Either way sentences that wait keep their places, those that were decoding are decoded once
more, each alone, and what may be the reason fails. If that happens again and again, the engine gives up. So it does at
once if a GPU has failed for good.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.engine.caller import UNKNOWN_CALLER, Caller
from app.engine.calls import MAX_CALLS, Call, DeviceLost
from app.engine.runner import PRIORITIES, Replaced, Runner
from app.engine.scheduler import Admission, Budget, ModelRequest, QueuedSentence, Scheduler
from app.engine.state import EngineState, safely
from app.engine.watchdog import Watchdog
from app.errors import InferenceFailed, NotReady, QueueFull
from app.telemetry.metrics import Metrics
from model.decoding.options import Outcome

logger = logging.getLogger("app.engine")

_T = TypeVar("_T")

STEP_TIMEOUT_S = 30.0
"""Seconds that a step, or a function call, may take before it counts as hanging, unless something else is said."""

MAX_LEFT_BEHIND = 2
"""Threads that hang and were replaced. When one more hangs, the engine gives up: only a new process helps."""

MAX_DEATHS = 5
"""Deaths of the thread within ``DEATHS_S`` seconds that are survived. With one more, the engine gives up."""

DEATHS_S = 60.0


class Dropped(Exception):
    """The sentence or call was dropped, because its caller was cancelled or the engine stops."""


def _hung() -> NotReady:
    return NotReady(1.0, "hung")


class Engine:
    """Runs the models on its own thread.

    Args:
        scheduler: The queue; from now on protected by the engine's lock.
        metrics: The metrics to update.
        clock: The scheduler's clock, in seconds.
        step_timeout_s: Seconds after which a step, or a function call, counts as hanging.

    Attributes:
        prepare_thread: Called on each thread that takes over, before it runs models.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
        step_timeout_s: float = STEP_TIMEOUT_S,
    ) -> None:
        self.prepare_thread: Callable[[], None] = lambda: None
        self._state = EngineState(scheduler, metrics, clock)
        self._wake = self._state.wake
        self._runner = self._state.runner = Runner(self._state)
        self._watchdog = Watchdog(step_timeout_s, clock)
        self._keys = itertools.count()
        self._deaths: deque[float] = deque()
        self._left_behind: list[threading.Thread] = []
        self._thread = self._thread_of(self._runner)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Stop the thread; callers that still wait receive :class:`Dropped`."""
        with self._wake:
            has_given_up, self._state.stopping = self._state.stopping, True
            self._wake.notify_all()
        if self._thread.is_alive() and not has_given_up:
            self._thread.join(timeout_s)
        self._abandon()  # nothing is left, unless the thread was never started, or hangs

    def watch(self, *, may_replace: bool = True) -> None:
        """Look whether the thread makes progress, and begin anew if it does not. To be called about once a second.

        Args:
            may_replace: Whether another thread may run the models while one hangs in them. If not, the engine gives up.
        """
        self._state.restore_budget()
        runner = self._runner
        work = runner.work
        if self._watchdog.hangs(None if work is None else work.number):
            self._replace(runner, may_replace)

    @property
    def has_given_up(self) -> bool:
        """Whether it has stopped, of its own accord or because it was told to."""
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
            self._state.withdrawn.update(sentence.key for sentence in left if sentence.key not in waiting)
            for sentence in left:
                self._state.metrics.sentence_left(sentence.model_name, "expired" if expired else "cancelled")
            self._wake.notify_all()

    def _refuse_if_stopping(self) -> None:
        if self._state.stopping:
            raise Dropped

    def _thread_of(self, runner: Runner) -> threading.Thread:
        # A daemon thread, so that a step that never ends does not keep the process alive.
        return threading.Thread(target=self._run, args=(runner,), name="verso-engine", daemon=True)

    def _run(self, runner: Runner | None) -> None:
        try:
            while runner is not None:
                try:
                    self.prepare_thread()
                    runner.run()
                    break
                except Replaced:
                    raise
                except DeviceLost:
                    logger.critical(
                        "the GPU has failed, and the engine gives up: only a new process helps", exc_info=True
                    )
                    break
                except BaseException:  # noqa: BLE001  (whatever it is, callers wait for this thread)
                    runner = self._after_death(runner)
        except Replaced:
            self._watchdog.was_mistaken()
            logger.warning("a step that hung has ended; its thread ends")
            return
        except BaseException:  # nobody else would look after the callers that wait
            logger.critical("the engine gives up: its thread cannot begin anew", exc_info=True)
        self._abandon()

    def _after_death(self, runner: Runner) -> Runner | None:
        """What the thread runs after an error that is not a model's; None if it has died too often."""
        logger.critical("the engine's thread died of an error, and begins anew", exc_info=True)
        state = self._state
        with self._wake:
            again, failed = state.begin_anew(runner.not_begun)
            calls = state.calls.interrupt()
            self._runner = state.runner = Runner(state)
            self._runner.retry_alone(again)
            now = state.clock()
            self._deaths.append(now)
            while self._deaths[0] < now - DEATHS_S:
                self._deaths.popleft()
            goes_on = len(self._deaths) <= MAX_DEATHS
            state.metrics.engine_restarted("died")
        state.fail(failed, InferenceFailed)
        for call in calls:
            safely(partial(call.fail, InferenceFailed()))
        if not goes_on:
            logger.critical("the engine gives up: its thread died too often")
        return self._runner if goes_on else None

    def _replace(self, runner: Runner, may_replace: bool) -> None:
        """Let another thread take over from one that hangs."""
        state = self._state
        with self._wake:
            work = runner.work
            if work is None or not self._watchdog.hangs(work.number) or state.stopping:
                return  # it has just ended
            self._left_behind = [thread for thread in self._left_behind if thread.is_alive()]
            gives_up = not may_replace or len(self._left_behind) >= MAX_LEFT_BEHIND
            if not gives_up:
                successor = Runner(state)
                thread = self._thread_of(successor)
                try:
                    thread.start()  # it waits for the lock
                except RuntimeError as error:
                    logger.error("a step hangs, and no thread can be started: %s", error)
                    return
                self._left_behind.append(self._thread)
                stuck = set() if work.running is None else set(work.running.sentences)
                again, failed = state.begin_anew(runner.not_begun, stuck)
                calls = state.calls.interrupt()
                successor.retry_alone(again)
                self._runner, self._thread, state.runner = successor, thread, successor
                state.metrics.engine_restarted("hung")
        if gives_up:
            logger.critical("a step hangs, and the engine gives up: only a new process helps")
            self._abandon()
            return
        fields = {"sentences_refused": len(failed), "sentences_again": len(again), "calls_refused": len(calls)}
        logger.critical("a step hangs; another thread takes over", extra={"fields": fields})
        state.fail(failed, _hung)
        for call in calls:
            safely(partial(call.fail, _hung()))

    def _abandon(self) -> None:
        """Drop all sentences and calls."""
        state = self._state
        with self._wake:
            state.stopping = True
            safely(state.scheduler.clear)
            sentences = list(state.unanswered.values())
            calls = state.calls.clear()
            state.withdrawn.clear()
            self._runner = state.runner = Runner(state)  # one that still works ends after its piece of work
            state.metrics.load_changed(dict.fromkeys(PRIORITIES, 0), 0)
            self._wake.notify_all()
        state.fail(sentences, Dropped, "cancelled")
        for call in calls:
            safely(partial(call.fail, Dropped()))
