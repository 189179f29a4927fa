"""The one thread that runs all models, so that they share the processors: it drives their cohorts in turn.

Everybody else hands in sentences, or calls to be made on this thread, and gets outcomes back through callbacks.
Between two decoding steps the thread drops sentences nobody waits for any more and lets waiting ones join; it sleeps
when there is nothing to do, and starts at once when there is. Exceptions of torch end here.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.engine.scheduler import BatchKey, Budget, Load, Scheduler, SourceSentence, WaitingSentence
from app.errors import InferenceFailed, QueueFull
from app.telemetry.metrics import Metrics
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
    run: Callable[[], Any]
    deliver: Callable[[object], None]


@dataclass(eq=False)
class _Running:
    """A cohort of a model and the sentences in it."""

    model: Translator
    cohort: Cohort
    sentences: dict[int, WaitingSentence] = field(default_factory=dict)
    may_join: bool = True

    @property
    def batch(self) -> BatchKey:
        return self.model, self.cohort.width

    def load(self) -> Load:
        return Load(
            self.cohort.num_sentences,
            self.cohort.num_rows,
            self.cohort.longest_source,
            max((sentence.longest_target for sentence in self.sentences.values()), default=0),
        )


class Engine:
    """Runs the models on a thread of its own.

    Args:
        scheduler: The line; guarded by this engine's lock from here on.
        metrics: Told what happens.
    """

    def __init__(self, scheduler: Scheduler, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._metrics = metrics
        self._wake = threading.Condition()
        self._calls: deque[_Call] = deque()
        # Guarded by the lock. Whoever takes a sentence out of _decoding settles it, so that it is settled once.
        self._decoding: dict[int, WaitingSentence] = {}  # left the line, and somebody waits for them
        self._calling: _Call | None = None  # is being run, and somebody waits for it
        self._withdrawn: set[int] = set()  # nobody waits for them, but a cohort may still hold them
        self._stopping = False
        self._keys = itertools.count()
        self._running: list[_Running] = []
        self._suspects: deque[WaitingSentence] = deque()  # of a cohort that failed; each starts again alone
        # A daemon, so that a step that never ends does not hold the process.
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
        """Sentences in the line."""
        with self._wake:
            return self._scheduler.num_waiting

    def retry_after_s(self) -> float:
        """When trying again may help."""
        with self._wake:
            return self._scheduler.retry_after_s()

    def submit(
        self,
        sources: Sequence[SourceSentence],
        options: DecodingOptions,
        deliver: Callable[[int, object], None],
    ) -> list[WaitingSentence]:
        """Hand in a request's sentences.

        Args:
            sources: What they are.
            options: How to decode them.
            deliver: Takes a sentence's place and its Hypothesis or exception, on the engine's thread.

        Returns:
            The sentences; their keys are for :meth:`withdraw`.

        Raises:
            Dropped: The engine has stopped.
            QueueFull: They do not fit into the line.
        """
        request = object()
        sentences = [
            WaitingSentence(
                next(self._keys),
                source,
                options,
                _deliver_at(place, deliver),
                max_target_tokens=source.model.manifest.max_target_tokens,
                request=request,
            )
            for place, source in enumerate(sources)
        ]
        with self._wake:
            self._refuse_if_stopping()
            self._scheduler.admit(sentences)
            self._wake.notify_all()
        return sentences

    def hasten(self, sentences: Sequence[WaitingSentence]) -> None:
        """Let sentences stand in the line where they would if they came now, if that is further ahead.

        Args:
            sentences: What :meth:`submit` gave; those that wait no more are ignored.
        """
        with self._wake:
            self._scheduler.hasten(sentences)

    def call(self, run: Callable[[], Any], deliver: Callable[[object], None]) -> int:
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
            if self._calling is not None and self._calling.key in keys:
                self._calling = None
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
            joining = self._scheduler.take(self._loads(), self._rows_of_requests()) if waiting else []
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
        """What decodes, by model and width; under those of nobody, the sentences that decode alone."""
        loads = {running.batch: running.load() for running in self._running if running.may_join}
        alone = [running.cohort.num_rows for running in self._running if not running.may_join]
        return {**loads, (None, 0): Load(len(alone), sum(alone))} if alone else loads

    def _rows_of_requests(self) -> Counter[object]:
        rows: Counter[object] = Counter()
        for running in self._running:
            for sentence in running.sentences.values():
                rows[sentence.request] += sentence.width
        return rows

    def _make_call(self) -> None:
        with self._wake:
            call = self._calling = self._calls.popleft() if self._calls else None
        if call is None:
            return
        outcome = self._guarded(call.run)
        with self._wake:
            wanted, self._calling = self._calling is call, None
        if wanted:
            _deliver(call, outcome)

    def _leave(self, keys: set[int]) -> None:
        for running in list(self._running):
            leaving = keys & running.sentences.keys()
            if not leaving:
                continue
            intact = True
            try:
                running.cohort.leave(leaving)
            except Exception:
                logger.exception("leaving failed", extra={"fields": {"sentences": len(leaving)}})
                intact = False
            if not intact:
                self._separate(running)
                continue
            for key in leaving:
                del running.sentences[key]
            if not running.sentences:
                self._close(running)

    def _join(self, joining: list[WaitingSentence]) -> None:
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

    def _admit(self, running: _Running, joining: list[WaitingSentence]) -> None:
        joining = self._wanted(joining)
        if not joining:
            return
        running.sentences.update((sentence.key, sentence) for sentence in joining)
        requests = [
            DecodingRequest(sentence.key, sentence.source.token_ids, sentence.options, sentence.source.forced_ids)
            for sentence in joining
        ]
        finished: list[Finished] | None = None
        try:
            finished = running.cohort.join(requests)
        except Exception:
            logger.exception("joining failed", extra={"fields": {"sentences": len(joining)}})
        # Out here, so that no exception holds on to tensors whose memory is needed.
        if finished is None:
            self._separate(running)
        else:
            self._hand_out(running, finished)

    def _step(self, running: _Running) -> None:
        if not running.sentences:
            self._close(running)
            return
        began = time.perf_counter()
        num_rows = running.cohort.num_rows
        finished: list[Finished] | None = None
        try:
            finished = running.cohort.step()
        except Exception:
            logger.exception("a step failed", extra={"fields": {"rows": num_rows}})
        if finished is None:
            self._separate(running)
            return
        self._metrics.stepped(num_rows, time.perf_counter() - began)
        self._hand_out(running, finished)
        if not running.sentences:
            self._close(running)

    def _separate(self, running: _Running) -> None:
        """After a failure: give each sentence a cohort of its own, so that the one at fault fails alone.

        The failed cohort's tensors cannot be trusted any more: its sentences start again.
        """
        sentences = self._wanted(running.sentences.values())
        alone = not running.may_join
        num_held = len(running.sentences)
        self._close(running)
        running.sentences = {}
        del running.cohort  # frames below still hold `running`; its tensors' memory is needed now
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

    def _wanted(self, sentences: Iterable[WaitingSentence]) -> list[WaitingSentence]:
        """Those somebody still waits for."""
        with self._wake:
            return [sentence for sentence in sentences if sentence.key in self._decoding]

    def _fail(self, sentences: Sequence[WaitingSentence]) -> None:
        with self._wake:
            failed = [sentence for sentence in sentences if self._decoding.pop(sentence.key, None) is not None]
        for sentence in failed:
            self._metrics.sentence_left(sentence.model_name, "failed")
            _deliver(sentence, InferenceFailed())

    def _hand_out(self, running: _Running, finished: Sequence[Finished]) -> None:
        if not finished:
            return
        done: list[tuple[WaitingSentence, Finished]] = []
        with self._wake:
            for outcome in finished:
                running.sentences.pop(outcome.key, None)
                self._withdrawn.discard(outcome.key)
                sentence = self._decoding.pop(outcome.key, None)
                if sentence is not None:
                    done.append((sentence, outcome))
            self._scheduler.finished(len(finished))
        for sentence, outcome in done:
            name = sentence.model_name
            if outcome.hypothesis is not None:
                self._metrics.sentence_left(name, "finished", len(outcome.hypothesis.token_ids))
                _deliver(sentence, outcome.hypothesis)
            else:
                logger.error("a sentence failed", extra={"fields": {"error": str(outcome.error)}})
                self._metrics.sentence_left(name, "failed")
                _deliver(sentence, outcome.error or InferenceFailed())

    def _open(self, first: WaitingSentence, *, may_join: bool) -> _Running | None:
        """A cohort for a sentence to join, or None where its model cannot make one, for want of memory perhaps."""
        model = first.source.model
        try:
            running = _Running(model, model.cohort(first.width), may_join=may_join)
        except Exception:
            logger.exception("a cohort could not be made", extra={"fields": {"width": first.width}})
            return None
        with self._wake:
            self._running.append(running)
        return running

    def _close(self, running: _Running) -> None:
        with self._wake:
            self._running.remove(running)

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
            sentences = [*self._scheduler.clear(), *self._decoding.values()]
            calls = [*self._calls] if self._calling is None else [self._calling, *self._calls]
            self._decoding, self._calls, self._calling = {}, deque(), None
            self._withdrawn = set()
            self._running = []
            self._metrics.load_changed(0, 0)
        for sentence in sentences:
            self._metrics.sentence_left(sentence.model_name, "cancelled")
            _deliver(sentence, Dropped())
        for call in calls:
            _deliver(call, Dropped())


def _deliver(to: WaitingSentence | _Call, outcome: object) -> None:
    """Hand over an outcome; a callback that raises harms nobody else."""
    try:
        to.deliver(outcome)
    except Exception:
        logger.exception("an outcome could not be delivered")


def _deliver_at(place: int, deliver: Callable[[int, object], None]) -> Callable[[object], None]:
    return lambda outcome: deliver(place, outcome)
