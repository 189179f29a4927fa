"""The one thread that runs all models, so that they share the processors: it drives their cohorts in turn.

Other threads hand in sentences, or calls to be made on this thread, and get outcomes back through callbacks. Between
two decoding steps the thread drops cancelled sentences and lets waiting ones join; it sleeps when there is nothing to
do, and starts at once when there is.
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


class Dropped(Exception):
    """The sentence or call was given up: its caller left, or the engine stops."""


class Engine:
    """Runs the models on a thread of its own.

    Args:
        scheduler: The queue; guarded by this engine's lock from here on.
        metrics: Counts what happens.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._wake = threading.Condition()
        # Guarded by the lock. Whatever takes a sentence out of _decoding settles it, so that it is settled once.
        self._calls = CallQueue()
        self._decoding: dict[int, QueuedSentence] = {}  # left the queue, and a caller waits for them
        self._withdrawn: set[int] = set()  # no caller waits for them, but a cohort may still hold them
        self._stopping = False
        self._keys = itertools.count()
        self._running: list[RunningCohort] = []
        self._suspects: deque[QueuedSentence] = deque()  # of a cohort that failed; each starts again alone
        # A daemon, so that a step that never ends does not hold the process.
        self._thread = threading.Thread(target=self._run, name="verso-engine", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; callers that still wait get :class:`Dropped`."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        else:
            self._abandon()  # it was never started, or has done so itself

    @property
    def budget(self) -> Budget:
        """How much may decode at once."""
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
        """Whether it holds no sentence and no call, not even one that was withdrawn."""
        with self._wake:
            left = (self._running, self._suspects, self._decoding, self._withdrawn, self._scheduler.num_waiting)
            return not any(left) and self._calls.is_idle

    def retry_after_s(self) -> float:
        """Seconds after which trying again may help."""
        with self._wake:
            return self._scheduler.retry_after_s()

    def submit(self, requests: Sequence[ModelRequest], deliver: Callable[[int, Outcome], None]) -> list[QueuedSentence]:
        """Hand in a caller's sentences.

        Args:
            requests: What to decode, with which model.
            deliver: Takes a sentence's index and its outcome, on the engine's thread.

        Returns:
            The sentences; their keys are for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: They do not fit into the queue.
        """
        owner = object()
        sentences = [
            QueuedSentence(
                replace(request, key=next(self._keys)),
                model,
                partial(deliver, index),
                max_target_tokens=model.manifest.max_target_tokens,
                owner=owner,
            )
            for index, (model, request) in enumerate(requests)
        ]
        with self._wake:
            self._refuse_if_stopping()
            self._scheduler.admit(sentences)
            self._wake.notify_all()
        return sentences

    def hasten(self, sentences: Sequence[QueuedSentence]) -> None:
        """Move sentences in the queue to where they would be if they arrived now, if that is further ahead.

        Args:
            sentences: What :meth:`submit` gave; those no longer in the queue are ignored.
        """
        with self._wake:
            self._scheduler.hasten(sentences)

    def call(self, run: Callable[[], _T], deliver: Callable[[_T | Exception], None]) -> int:
        """Have something done on the thread, between two steps.

        Args:
            run: What to do.
            deliver: Takes its result or exception, on the engine's thread.

        Returns:
            Its key, for :meth:`withdraw`.

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
        """Give up sentences or calls; those that decode leave at the next step. Nothing is delivered for them.

        Args:
            keys: Their keys; those that are done already are ignored.
            expired: Whether their deadline passed, rather than their caller left.
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
        """One round: leave, join, one call, one step for each cohort. False when it is time to end."""
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
        self._make_call()
        for running in list(self._running):
            self._step(running)
        with self._wake:
            self._metrics.load_changed(
                self._scheduler.num_waiting, sum(len(running.sentences) for running in self._running)
            )
        return True

    def _loads(self) -> dict[BatchKey, Load]:
        """What decodes, by model and width; sentences that decode alone are counted under the key (None, 0)."""
        loads = {running.batch: running.load() for running in self._running if running.may_join}
        alone = [running.cohort.num_rows for running in self._running if not running.may_join]
        return {**loads, (None, 0): Load(len(alone), sum(alone))} if alone else loads

    def _rows_of_owners(self) -> Counter[object]:
        """Rows of the sentences that decode, by the request they are a part of."""
        rows: Counter[object] = Counter()
        for running in self._running:
            for sentence in running.sentences.values():
                rows[sentence.owner] += sentence.width
        return rows

    def _make_call(self) -> None:
        with self._wake:
            call = self._calls.begin()
        if call is None:
            return
        hand_over = call.perform()
        with self._wake:
            wanted = self._calls.end(call)
        if wanted:
            _safely(hand_over)

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
        if finished is None:
            self._separate(running)
        else:
            self._hand_out(running, finished)

    def _step(self, running: RunningCohort) -> None:
        if running.sentences:
            began, num_rows = time.perf_counter(), running.cohort.num_rows
            finished = running.step()
            if finished is None:
                self._separate(running)
                return
            self._metrics.stepped(num_rows, time.perf_counter() - began)
            self._hand_out(running, finished)
        if not running.sentences:
            self._close(running)

    def _separate(self, running: RunningCohort) -> None:
        """After a failure: start each sentence again in a cohort of its own, so that the one at fault fails alone."""
        sentences = self._wanted(running.sentences.values())
        alone = not running.may_join
        num_held = len(running.sentences)
        self._close(running)
        running.release()
        if alone or num_held == 1:
            self._fail(sentences)
        else:
            self._suspects.extend(sentences)

    def _retry_alone(self) -> None:
        """Start the next suspect in a cohort of its own, one at a time: together they would need more memory still."""
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
        """Those whose caller still waits."""
        with self._wake:
            return [sentence for sentence in sentences if sentence.key in self._decoding]

    def _fail(self, sentences: Sequence[QueuedSentence]) -> None:
        with self._wake:
            failed = [sentence for sentence in sentences if self._decoding.pop(sentence.key, None) is not None]
        for sentence in failed:
            self._metrics.sentence_left(sentence.model_name, "failed")
            _deliver(sentence, InferenceFailed())

    def _hand_out(self, running: RunningCohort, finished: Sequence[Finished]) -> None:
        if not finished:
            return
        done: list[tuple[QueuedSentence, Finished]] = []
        with self._wake:
            for one in finished:
                running.sentences.pop(one.key, None)
                self._withdrawn.discard(one.key)
                sentence = self._decoding.pop(one.key, None)
                if sentence is not None:
                    done.append((sentence, one))
            self._scheduler.finished(len(finished))
        for sentence, one in done:
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
        with self._wake:
            self._stopping = True
            sentences = [*self._scheduler.clear(), *self._decoding.values()]
            calls = self._calls.clear()
            self._decoding, self._withdrawn = {}, set()
            self._running = []
            self._metrics.load_changed(0, 0)
        for sentence in sentences:
            self._metrics.sentence_left(sentence.model_name, "cancelled")
            _deliver(sentence, Dropped())
        for call in calls:
            _safely(partial(call.fail, Dropped()))


def _deliver(sentence: QueuedSentence, outcome: Outcome) -> None:
    _safely(partial(sentence.deliver, outcome))


def _safely(hand_over: Callable[[], None]) -> None:
    """Hand over an outcome; a callback that raises harms no other caller."""
    try:
        hand_over()
    except Exception:
        logger.exception("an outcome could not be delivered")
