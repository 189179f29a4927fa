"""The one thread that owns the model: it loads it, warms it up, and drives its cohorts.

Everybody else hands in sentences, or calls to be made on this thread, and gets outcomes back through callbacks.
Between two decoding steps the thread drops sentences nobody waits for any more and lets waiting ones join; it sleeps
when there is nothing to do, and starts at once when there is. Exceptions of torch end here.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.errors import InferenceFailed, QueueFull
from app.metrics import Metrics
from app.scheduler import Load, Scheduler, WaitingSentence
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest, Finished
from model.errors import ModelError

if TYPE_CHECKING:
    from model.decoding.cohort import Cohort
    from model.translator import Translator

logger = logging.getLogger("app.engine")

MAX_CALLS = 256
"""Calls, such as attention, that may wait for the thread."""


class Dropped(Exception):
    """The sentence or call was given up: its caller left, or the engine stops."""


@dataclass(eq=False)
class _Call:
    key: int
    run: Callable[[Translator], Any]
    deliver: Callable[[object], None]


@dataclass(eq=False)
class _Running:
    """A cohort and the sentences in it."""

    cohort: Cohort
    sentences: dict[int, WaitingSentence] = field(default_factory=dict)
    may_join: bool = True

    def load(self) -> Load:
        return Load(
            self.cohort.num_sentences,
            self.cohort.num_rows,
            self.cohort.longest_source,
            max((sentence.longest_target for sentence in self.sentences.values()), default=0),
        )


class Engine:
    """Owns the model on a thread of its own.

    Args:
        load: Gives the translator; called on the thread.
        scheduler: The line; guarded by this engine's lock from here on.
        metrics: Told what happens.
        warm_up_widths: Beam widths to prepare for.
        on_loaded: Told, on the thread, that the model is warm, or why it is not.
    """

    def __init__(
        self,
        load: Callable[[], Translator],
        scheduler: Scheduler,
        metrics: Metrics,
        warm_up_widths: Sequence[int],
        on_loaded: Callable[[Translator | BaseException], None],
    ) -> None:
        self._load = load
        self._scheduler = scheduler
        self._metrics = metrics
        self._warm_up_widths = warm_up_widths
        self._on_loaded = on_loaded
        self._wake = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._withdrawn: set[int] = set()
        self._stopping = False
        self._keys = itertools.count()
        self._running: list[_Running] = []
        # A daemon, so that a start given up while the model still loads does not hold the process.
        self._thread = threading.Thread(target=self._run, name="verso-engine", daemon=True)

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the thread; whoever still waits gets :class:`Dropped`."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    @property
    def num_waiting(self) -> int:
        """Sentences in the line."""
        with self._wake:
            return self._scheduler.num_waiting

    def retry_after_s(self) -> float:
        """When trying again may help."""
        with self._wake:
            return self._scheduler.retry_after_s()

    def submit(
        self, sources: Sequence[list[int]], options: DecodingOptions, deliver: Callable[[int, object], None]
    ) -> list[WaitingSentence]:
        """Hand in a request's sentences.

        Args:
            sources: Tokens of each.
            options: How to decode them.
            deliver: Takes a sentence's place and its Hypothesis or exception, on the engine's thread.

        Returns:
            The sentences; their keys are for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: They do not fit into the line.
        """
        sentences = [
            WaitingSentence(next(self._keys), source_ids, options, _deliver_at(place, deliver))
            for place, source_ids in enumerate(sources)
        ]
        with self._wake:
            self._refuse_if_stopping()
            self._scheduler.admit(sentences)
            self._wake.notify_all()
        return sentences

    def call(self, run: Callable[[Translator], Any], deliver: Callable[[object], None]) -> int:
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
        call = _Call(next(self._keys), run, deliver)
        with self._wake:
            self._refuse_if_stopping()
            if len(self._calls) >= MAX_CALLS:
                raise QueueFull(self._scheduler.retry_after_s(), 1, len(self._calls), MAX_CALLS)
            self._calls.append(call)
            self._wake.notify_all()
        return call.key

    def withdraw(self, keys: Collection[int], expired: bool = False) -> None:
        """Give up sentences or calls; those that decode leave at the next step. Nothing is delivered for them.

        Args:
            keys: Their keys; those that are done already are ignored.
            expired: Whether their time was up, rather than their caller gone.
        """
        with self._wake:
            waiting = self._scheduler.withdraw(keys)
            self._calls = deque(call for call in self._calls if call.key not in keys)
            running = {key for running in self._running for key in running.sentences if key in keys}
            self._withdrawn |= running
            for _ in range(len(waiting) + len(running)):
                self._metrics.sentence_left("expired" if expired else "cancelled")
            self._wake.notify_all()

    def _refuse_if_stopping(self) -> None:
        if self._stopping:
            raise Dropped

    def _run(self) -> None:
        try:
            translator = self._load()
            translator.warm_up(self._warm_up_widths)
        except BaseException as error:
            logger.debug("the model could not be loaded", exc_info=True)
            self._on_loaded(error)
            return
        self._on_loaded(translator)
        try:
            while self._turn(translator):
                pass
        finally:
            self._abandon()

    def _turn(self, translator: Translator) -> bool:
        """One round: leave, join, one call, one step for each cohort. False when it is time to end."""
        with self._wake:
            while not (
                self._stopping or self._calls or self._withdrawn or self._running or self._scheduler.num_waiting
            ):
                self._wake.wait()
            if self._stopping:
                return False
            withdrawn, self._withdrawn = self._withdrawn, set()
            call = self._calls.popleft() if self._calls else None
        self._leave(withdrawn)
        with self._wake:
            loads = {running.cohort.width: running.load() for running in self._running if running.may_join}
            joining = self._scheduler.take(loads)
        if joining:
            self._join(translator, joining)
        if call is not None:
            call.deliver(self._guarded(lambda: call.run(translator)))
        for running in list(self._running):
            self._step(translator, running)
        with self._wake:
            self._metrics.load_changed(
                self._scheduler.num_waiting, sum(len(running.sentences) for running in self._running)
            )
        return True

    def _leave(self, keys: set[int]) -> None:
        if not keys:
            return
        for running in list(self._running):
            running.cohort.leave(keys)
            self._forget(running, keys)

    def _join(self, translator: Translator, joining: list[WaitingSentence]) -> None:
        width = joining[0].width
        running = next((one for one in self._running if one.may_join and one.cohort.width == width), None)
        if running is None:
            running = self._open(translator, width, may_join=True)
        if running is None:
            self._fail(joining)
            return
        self._metrics.joined(
            [len(sentence.source_ids) for sentence in joining],
            [sentence.started_at - sentence.arrived_at for sentence in joining],
        )
        self._admit(translator, running, joining)

    def _admit(self, translator: Translator, running: _Running, joining: list[WaitingSentence]) -> None:
        with self._wake:
            running.sentences.update((sentence.key, sentence) for sentence in joining)
        requests = [DecodingRequest(sentence.key, sentence.source_ids, sentence.options) for sentence in joining]
        try:
            finished = running.cohort.join(requests)
        except Exception:
            logger.exception("joining failed", extra={"fields": {"sentences": len(joining)}})
            # The cohort's tensors cannot be trusted any more.
            self._separate(translator, running)
            return
        self._hand_out(running, finished)

    def _step(self, translator: Translator, running: _Running) -> None:
        if not running.sentences:
            self._close(running)
            return
        began = time.perf_counter()
        num_rows = running.cohort.num_rows
        try:
            finished = running.cohort.step()
        except Exception:
            logger.exception("a step failed", extra={"fields": {"rows": num_rows}})
            self._separate(translator, running)
            return
        self._metrics.stepped(num_rows, time.perf_counter() - began)
        self._hand_out(running, finished)
        if not running.sentences:
            self._close(running)

    def _separate(self, translator: Translator, running: _Running) -> None:
        """After a failure: give each sentence a cohort of its own, so that the one at fault fails alone."""
        sentences = list(running.sentences.values())
        alone = not running.may_join
        self._close(running)
        if alone or len(sentences) == 1:
            self._fail(sentences)
            return
        for sentence in sentences:
            own = self._open(translator, sentence.width, may_join=False)
            if own is None:
                self._fail([sentence])
            else:
                self._admit(translator, own, [sentence])

    def _fail(self, sentences: Sequence[WaitingSentence]) -> None:
        for sentence in sentences:
            self._metrics.sentence_left("failed")
            sentence.deliver(InferenceFailed())

    def _hand_out(self, running: _Running, finished: Sequence[Finished]) -> None:
        if not finished:
            return
        done: list[tuple[WaitingSentence, Finished]] = []
        with self._wake:
            for outcome in finished:
                sentence = running.sentences.pop(outcome.key)
                if outcome.key in self._withdrawn:
                    self._withdrawn.discard(outcome.key)
                else:
                    done.append((sentence, outcome))
            self._scheduler.finished(len(finished))
        for sentence, outcome in done:
            if outcome.hypothesis is not None:
                self._metrics.sentence_left("finished", len(outcome.hypothesis.token_ids))
                sentence.deliver(outcome.hypothesis)
            else:
                logger.error("a sentence failed", extra={"fields": {"error": str(outcome.error)}})
                self._metrics.sentence_left("failed")
                sentence.deliver(outcome.error or InferenceFailed())

    def _open(self, translator: Translator, width: int, *, may_join: bool) -> _Running | None:
        """A cohort to join, or None where the model cannot make one, for want of memory perhaps."""
        try:
            running = _Running(translator.cohort(width), may_join=may_join)
        except Exception:
            logger.exception("a cohort could not be made", extra={"fields": {"width": width}})
            return None
        with self._wake:
            self._running.append(running)
        return running

    def _close(self, running: _Running) -> None:
        with self._wake:
            self._running.remove(running)

    def _forget(self, running: _Running, keys: Collection[int]) -> None:
        with self._wake:
            for key in keys:
                running.sentences.pop(key, None)

    def _guarded(self, run: Callable[[], Any]) -> object:
        """The result, or the exception as clients may see it."""
        try:
            return run()
        except ModelError as error:
            return error
        except Exception:
            logger.exception("a call failed")
            return InferenceFailed()

    def _abandon(self) -> None:
        with self._wake:
            self._stopping = True
            waiting = self._scheduler.clear()
            calls, self._calls = list(self._calls), deque()
            decoding = [sentence for running in self._running for sentence in running.sentences.values()]
            self._running = []
        for sentence in [*waiting, *decoding]:
            sentence.deliver(Dropped())
        for call in calls:
            call.deliver(Dropped())


def _deliver_at(place: int, deliver: Callable[[int, object], None]) -> Callable[[object], None]:
    return lambda outcome: deliver(place, outcome)
