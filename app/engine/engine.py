"""The engine: a single thread that runs all models and steps their cohorts in turn.

Other threads submit sentences, or function calls to be made on this thread, and receive outcomes through callbacks.
Between two decoding steps the thread drops cancelled sentences and lets waiting sentences join. It sleeps while there
is no work.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from app.engine.caller import UNKNOWN_CALLER, Caller, Priority
from app.engine.calls import MAX_CALLS, Call, CallQueue
from app.engine.running import RunningCohort
from app.engine.scheduler import BatchKey, Budget, Load, ModelRequest, QueuedSentence, Scheduler
from app.errors import InferenceFailed, QueueFull
from app.telemetry.metrics import Metrics
from model.decoding.options import Outcome

if TYPE_CHECKING:
    from model.decoding.sentence import Finished

logger = logging.getLogger("app.engine")

_T = TypeVar("_T")

_CALLS_S = 0.002
"""Seconds after which no further call is made before the next step."""

_PRIORITIES = {one.label: one for one in Priority}
"""By their name in the metrics."""


class Dropped(Exception):
    """The sentence or call was dropped, because its caller was cancelled or the engine stops."""


class Engine:
    """Runs the models on its own thread.

    Args:
        scheduler: The queue; from now on protected by the engine's lock.
        metrics: The metrics to update.
        clock: The scheduler's clock, in seconds.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics, clock: Callable[[], float] = time.monotonic) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._clock = clock
        self._wake = threading.Condition()
        # Protected by the lock. Only the code that removes a sentence from _decoding delivers its outcome, so that each
        # sentence has exactly one outcome.
        self._calls = CallQueue()
        self._decoding: dict[int, QueuedSentence] = {}  # sentences taken from the queue whose callers wait
        self._withdrawn: set[int] = set()  # keys of cancelled sentences that a cohort may still contain
        self._stopping = False
        self._keys = itertools.count()
        self._running: list[RunningCohort] = []
        self._suspects: deque[QueuedSentence] = deque()  # sentences of a failed cohort, to be decoded again one by one
        # A daemon thread, so that a step that never ends does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="verso-engine", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Stop the thread; callers that still wait receive :class:`Dropped`."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        else:
            self._abandon()  # the thread was never started, or has ended

    @property
    def budget(self) -> Budget:
        """The current budget."""
        with self._wake:
            return self._scheduler.budget

    @budget.setter
    def budget(self, budget: Budget) -> None:
        with self._wake:
            self._scheduler.budget = budget
            self._metrics.budget_changed(budget.max_rows, budget.max_tokens)
            self._wake.notify_all()

    @property
    def num_waiting(self) -> int:
        """Sentences in the queue."""
        with self._wake:
            return self._scheduler.num_waiting

    @property
    def is_idle(self) -> bool:
        """Whether it has no sentences and no calls, including cancelled ones."""
        with self._wake:
            left = (self._running, self._suspects, self._decoding, self._withdrawn, self._scheduler.num_waiting)
            return not any(left) and self._calls.is_idle

    def retry_after_s(self) -> float:
        """Seconds after which a refused request should be retried."""
        with self._wake:
            return self._scheduler.retry_after_s()

    def submit(
        self,
        requests: Sequence[ModelRequest],
        deliver: Callable[[int, Outcome], None],
        caller: Caller = UNKNOWN_CALLER,
        within_s: float | None = None,
    ) -> list[QueuedSentence]:
        """Submit a caller's sentences.

        Args:
            requests: The sentences and their models.
            deliver: Called with a sentence's index and its outcome, on the engine's thread.
            caller: The caller.
            within_s: Seconds until the deadline; None if they are not to be refused for it.

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
            self._scheduler.admit(sentences, within_s)
            self._wake.notify_all()
        return sentences

    def hasten(self, sentences: Sequence[QueuedSentence], caller: Caller) -> None:
        """Another request waits for queued sentences, too: they go when the first of both would go.

        Args:
            sentences: Results of :meth:`submit`; sentences no longer in the queue are ignored.
            caller: The caller of the other request.
        """
        with self._wake:
            self._scheduler.hasten(sentences, caller)

    def call(self, run: Callable[[], _T], deliver: Callable[[_T | Exception], None]) -> int:
        """Submit a function to be called on the engine's thread, between two steps.

        Args:
            run: The function.
            deliver: Called with its result or exception, on the engine's thread.

        Returns:
            The call's key, for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: Too many calls wait.
        """
        call = Call.of(next(self._keys), run, deliver)
        with self._wake:
            self._refuse_if_stopping()
            if self._calls.is_full:
                raise QueueFull(self._scheduler.retry_after_s(), 1, len(self._calls), MAX_CALLS)
            self._calls.add(call)
            self._wake.notify_all()
        return call.key

    def withdraw(self, keys: Collection[int], expired: bool = False) -> None:
        """Cancel sentences or calls; decoding sentences leave their cohort at the next step. Nothing is delivered.

        Args:
            keys: Their keys; keys of finished sentences and calls are ignored.
            expired: Whether the deadline has passed; False if the caller was cancelled.
        """
        with self._wake:
            waiting = self._scheduler.withdraw(keys)
            self._calls.withdraw(keys)
            decoding = [sentence for key in keys if (sentence := self._decoding.pop(key, None)) is not None]
            self._withdrawn.update(sentence.key for sentence in decoding)
            for sentence in (*waiting, *decoding):
                self._metrics.sentence_left(sentence.model_name, "expired" if expired else "cancelled")
            self._wake.notify_all()

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise Dropped

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except Exception:
            logger.critical("the engine ends", exc_info=True)
        finally:
            self._abandon()

    def _turn(self) -> bool:
        """One iteration: leave, join, calls, one step of each cohort. Returns False when the engine stops."""
        with self._wake:
            while not (
                self._stopping
                or self._calls
                or self._withdrawn
                or self._running
                or self._suspects
                or self._scheduler.num_waiting
            ):
                self._wake.wait()
            if self._stopping:
                return False
            withdrawn, self._withdrawn = self._withdrawn, set()
        self._leave(withdrawn)
        self._retry_alone()
        with self._wake:
            waiting = self._scheduler.num_waiting > 0
            joining = self._scheduler.take(self._loads(), self._rows_of_owners()) if waiting else []
            self._decoding.update((sentence.key, sentence) for sentence in joining)
        if joining:
            self._join(joining)
        self._make_calls()
        for running in list(self._running):
            self._step(running)
        with self._wake:
            self._metrics.load_changed(
                {name: self._scheduler.num_waiting_of(one) for name, one in _PRIORITIES.items()},
                sum(len(running.sentences) for running in self._running),
            )
        return True

    def _loads(self) -> dict[BatchKey, Load]:
        """The load by model and beam width; sentences that decode alone are counted under the key (None, 0)."""
        loads = {running.batch: running.load() for running in self._running if running.may_join}
        alone = [running.cohort.num_rows for running in self._running if not running.may_join]
        return {**loads, (None, 0): Load(len(alone), sum(alone))} if alone else loads

    def _rows_of_owners(self) -> Counter[object]:
        """Number of decoding rows by owner, the request they belong to, and by caller."""
        rows: Counter[object] = Counter()
        for running in self._running:
            for sentence in running.sentences.values():
                rows[sentence.owner] += sentence.width
                rows[sentence.caller] += sentence.width
        return rows

    def _make_calls(self) -> None:
        """Make the next call, and more while they are short: sentences wait no longer than for a step."""
        until = time.perf_counter() + _CALLS_S
        while True:
            with self._wake:
                call = self._calls.begin()
            if call is None:
                return
            deliver = call.perform()
            with self._wake:
                wanted = self._calls.end(call)
            if wanted:
                _safely(deliver)
            if time.perf_counter() >= until:
                return

    def _leave(self, keys: set[int]) -> None:
        for running in list(self._running):
            leaving = keys & running.sentences.keys()
            if not leaving:
                continue
            if not running.leave(leaving):
                self._separate(running)
            elif not running.sentences:
                self._close(running)

    def _join(self, joining: list[QueuedSentence]) -> None:
        batch = joining[0].batch
        running = next((one for one in self._running if one.may_join and one.batch == batch), None)
        if running is None:
            running = self._open(joining[0], may_join=True)
        if running is None:
            self._fail(joining)
            return
        self._metrics.joined(
            [sentence.num_source_tokens for sentence in joining],
            [sentence.started_at - sentence.arrived_at for sentence in joining],
        )
        self._admit(running, joining)

    def _admit(self, running: RunningCohort, joining: list[QueuedSentence]) -> None:
        joining = self._wanted(joining)
        if not joining:
            return
        finished = running.join(joining)
        encoded_at = self._clock()
        for sentence in joining:
            sentence.encoded_at = encoded_at
        if finished is None:
            self._separate(running)
        else:
            self._settle(running, finished)

    def _step(self, running: RunningCohort) -> None:
        if running.sentences:
            began, num_rows = time.perf_counter(), running.cohort.num_rows
            finished = running.step()
            if finished is None:
                self._separate(running)
                return
            self._metrics.stepped(num_rows, time.perf_counter() - began)
            self._settle(running, finished)
        if not running.sentences:
            self._close(running)

    def _separate(self, running: RunningCohort) -> None:
        """After a failure, schedule each sentence to be decoded again alone, so that only the faulty sentence fails."""
        sentences = self._wanted(running.sentences.values())
        alone = not running.may_join
        num_sentences = len(running.sentences)
        self._close(running)
        running.release()
        if alone or num_sentences == 1:
            self._fail(sentences)
        else:
            self._suspects.extend(sentences)

    def _retry_alone(self) -> None:
        """Decode the next suspect in its own cohort. One at a time: several cohorts would need even more memory."""
        while self._suspects and all(running.may_join for running in self._running):
            wanted = self._wanted([self._suspects.popleft()])
            if not wanted:
                continue
            own = self._open(wanted[0], may_join=False)
            if own is None:
                self._fail(wanted)
            else:
                self._admit(own, wanted)
                if not own.sentences and own in self._running:
                    self._close(own)

    def _wanted(self, sentences: Iterable[QueuedSentence]) -> list[QueuedSentence]:
        """The sentences whose callers still wait."""
        with self._wake:
            return [sentence for sentence in sentences if sentence.key in self._decoding]

    def _fail(self, sentences: Sequence[QueuedSentence]) -> None:
        with self._wake:
            failed = [sentence for sentence in sentences if self._decoding.pop(sentence.key, None) is not None]
        ended_at = self._clock()
        for sentence in failed:
            sentence.ended_at = ended_at
            self._metrics.sentence_left(sentence.model_name, "failed")
            _deliver(sentence, InferenceFailed())

    def _settle(self, running: RunningCohort, finished: Sequence[Finished]) -> None:
        """Deliver the outcomes of finished sentences."""
        if not finished:
            return
        done: list[tuple[QueuedSentence, Finished]] = []
        gone: list[QueuedSentence] = []
        with self._wake:
            for one in finished:
                left = running.sentences.pop(one.key, None)
                if left is not None:
                    gone.append(left)
                self._withdrawn.discard(one.key)
                sentence = self._decoding.pop(one.key, None)
                if sentence is not None:
                    done.append((sentence, one))
            self._scheduler.finished(gone)
        ended_at = self._clock()
        for sentence, one in done:
            sentence.ended_at = ended_at
            name = sentence.model_name
            if one.hypothesis is not None:
                self._metrics.sentence_left(name, "finished", len(one.hypothesis.token_ids))
                _deliver(sentence, one.hypothesis)
            else:
                logger.error("a sentence failed", extra={"fields": {"error": str(one.error)}})
                self._metrics.sentence_left(name, "failed")
                _deliver(sentence, one.error or InferenceFailed())

    def _open(self, first: QueuedSentence, *, may_join: bool) -> RunningCohort | None:
        running = RunningCohort.open(first, may_join=may_join)
        if running is not None:
            with self._wake:
                self._running.append(running)
        return running

    def _close(self, running: RunningCohort) -> None:
        with self._wake:
            self._running.remove(running)

    def _abandon(self) -> None:
        """Drop all sentences and calls."""
        with self._wake:
            self._stopping = True
            sentences = [*self._scheduler.clear(), *self._decoding.values()]
            calls = self._calls.clear()
            self._decoding, self._withdrawn = {}, set()
            self._running = []
            self._metrics.load_changed(dict.fromkeys(_PRIORITIES, 0), 0)
        for sentence in sentences:
            self._metrics.sentence_left(sentence.model_name, "cancelled")
            _deliver(sentence, Dropped())
        for call in calls:
            _safely(partial(call.fail, Dropped()))


def _deliver(sentence: QueuedSentence, outcome: Outcome) -> None:
    _safely(partial(sentence.deliver, outcome))


def _safely(deliver: Callable[[], None]) -> None:
    """Deliver an outcome; an exception of a callback must not affect other callers."""
    try:
        deliver()
    except Exception:
        logger.exception("an outcome could not be delivered")
