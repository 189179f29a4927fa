"""Runs the models in turns, on the engine's thread: leave, join, calls, one step of each cohort."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

from app.engine.caller import Caller, Priority
from app.engine.joining import Load
from app.engine.queued_sentence import BatchKey, QueuedSentence
from app.engine.running import RunningCohort
from app.engine.state import EngineState, safely
from app.errors import InferenceFailed

if TYPE_CHECKING:
    from model.decoding.sentence import Finished

logger = logging.getLogger("app.engine")

_CALLS_S = 0.002
"""Seconds after which no further call is made before the next step."""

_caller_of: Callable[[QueuedSentence], Caller] = attrgetter("caller")
_owner_of: Callable[[QueuedSentence], object] = attrgetter("owner")

PRIORITIES = {priority.label: priority for priority in Priority}
"""By their name in the metrics."""


class Runner:
    """The cohorts that decode, and the loop that steps them. After an error, another runner starts without cohorts.

    Args:
        state: What the engine's thread shares with other threads.
        suspects: Sentences to decode each alone.
    """

    def __init__(self, state: EngineState, suspects: Iterable[QueuedSentence] = ()) -> None:
        self._state = state
        self._running: list[RunningCohort] = []
        self._suspects = deque(suspects)  # also the sentences of failed cohorts

    @property
    def is_idle(self) -> bool:
        """Whether it decodes nothing."""
        return not self._running and not self._suspects

    @property
    def not_begun(self) -> set[int]:
        """Keys of the sentences that will be decoded alone."""
        return {sentence.key for sentence in self._suspects}

    def run(self) -> None:
        """Take turns until the engine stops.

        Raises:
            DeviceLost: A GPU has failed for good.
        """
        while self._turn():
            pass

    def _turn(self) -> bool:
        """One iteration. Returns False when the engine stops."""
        state = self._state
        with state.wake:
            while not (
                state.stopping
                or state.calls
                or state.withdrawn
                or self._running
                or self._suspects
                or state.scheduler.num_waiting
            ):
                state.is_asleep = True
                state.wake.wait()
            state.is_asleep = False
            state.num_works += 1
            if state.stopping:
                return False
            withdrawn, state.withdrawn = state.withdrawn, set()
        self._leave(withdrawn)
        self._retry_alone()
        with state.wake:
            waiting = state.scheduler.num_waiting > 0
            joining = state.scheduler.take(self._loads(), self._rows_of_owners()) if waiting else []
        if joining:
            self._join(joining)
        self._make_calls()
        for running in list(self._running):
            self._step(running)
        with state.wake:
            state.metrics.load_changed(
                {name: state.scheduler.num_waiting_of(priority) for name, priority in PRIORITIES.items()},
                sum(len(running.sentences) for running in self._running),
            )
        return True

    def _loads(self) -> dict[BatchKey, Load]:
        """The load by model and beam width; sentences that decode alone are counted under the key (None, 0)."""
        loads = {running.batch: running.load() for running in self._running if running.may_join}
        alone = [running.cohort.num_rows for running in self._running if not running.may_join]
        return {**loads, (None, 0): Load(len(alone), sum(alone))} if alone else loads

    def _rows_of_owners(self) -> dict[object, int]:
        """Number of decoding rows by owner, the request they belong to, by caller, and by priority."""
        rows: dict[object, int] = {}
        for running in self._running:
            # Most turns of a busy engine count every sentence: those of one owner and caller are counted in C.
            sentences, width = running.sentences.values(), running.width
            callers = Counter(map(_caller_of, sentences))
            for owner, number in (*Counter(map(_owner_of, sentences)).items(), *callers.items()):
                rows[owner] = rows.get(owner, 0) + number * width
            for caller, number in callers.items():
                rows[caller.priority] = rows.get(caller.priority, 0) + number * width
        return rows

    def _make_calls(self) -> None:
        """Make the next call, and more while they are short: sentences wait no longer than for a step."""
        until = self._state.clock() + _CALLS_S
        while True:
            with self._state.wake:
                call = self._state.calls.begin()
            if call is None:
                return
            self._state.num_works += 1
            deliver = call.perform()
            with self._state.wake:
                is_awaited = self._state.calls.end(call)
            if is_awaited:
                safely(deliver)
            if self._state.clock() >= until:
                return

    def _leave(self, keys: set[int]) -> None:
        for running in list(self._running):
            leaving = keys & running.sentences.keys()
            if not leaving:
                continue
            if not running.leave(leaving):
                self._separate(running)
            elif not running.sentences:
                self._running.remove(running)

    def _join(self, joining: list[QueuedSentence]) -> None:
        batch = joining[0].batch
        running = next((cohort for cohort in self._running if cohort.may_join and cohort.batch == batch), None)
        if running is None:
            running = self._open(joining[0], may_join=True)
        if running is None:
            self._decode_alone(joining)
            return
        self._state.metrics.joined(
            [sentence.num_source_tokens for sentence in joining],
            [sentence.started_at - sentence.arrived_at for sentence in joining],
        )
        self._admit(running, joining)

    def _admit(self, running: RunningCohort, joining: list[QueuedSentence]) -> None:
        joining = self._state.wanted(joining)
        if not joining:
            return
        self._state.num_works += 1
        finished = running.join(joining)
        encoded_at = self._state.clock()
        for sentence in joining:
            sentence.encoded_at = encoded_at
        if finished is None:
            self._separate(running)
        else:
            self._settle(running, finished)

    def _step(self, running: RunningCohort) -> None:
        if running.sentences:
            began, num_rows = self._state.clock(), running.cohort.num_rows
            self._state.num_works += 1
            finished = running.step()
            if finished is None:
                self._separate(running)
                return
            self._state.metrics.stepped(num_rows, self._state.clock() - began)
            self._settle(running, finished)
        if not running.sentences:
            self._running.remove(running)

    def _separate(self, running: RunningCohort) -> None:
        """After a failure, schedule each sentence to be decoded again alone, so that only the faulty sentence fails."""
        if running.is_out_of_memory:
            self._state.lower_budget(running.num_tokens)
        sentences = list(running.sentences.values())
        self._running.remove(running)
        running.release()
        if running.is_out_of_memory:
            running.free_memory()
        if running.may_join and running.is_out_of_memory:
            self._suspects.extend(self._state.wanted(sentences))  # a single one, too: there is more memory now
        elif running.may_join:
            self._decode_alone(sentences)
        else:
            self._state.fail(sentences, InferenceFailed)

    def _decode_alone(self, sentences: Sequence[QueuedSentence]) -> None:
        """Schedule sentences to be decoded again, each in a cohort of its own; a single one would fail again."""
        if len(sentences) == 1:
            self._state.fail(sentences, InferenceFailed)
        else:
            self._suspects.extend(self._state.wanted(sentences))

    def _retry_alone(self) -> None:
        """Decode the next suspect in its own cohort. One at a time: several cohorts would need even more memory."""
        while self._suspects and all(running.may_join for running in self._running):
            wanted = self._state.wanted([self._suspects.popleft()])
            if not wanted:
                continue
            own = self._open(wanted[0], may_join=False)
            if own is None:
                self._state.fail(wanted, InferenceFailed)
            else:
                self._admit(own, wanted)
                if not own.sentences and own in self._running:
                    self._running.remove(own)

    def _settle(self, running: RunningCohort, finished: Sequence[Finished]) -> None:
        """Deliver the outcomes of finished sentences."""
        if not finished:
            return
        state = self._state
        done: list[tuple[QueuedSentence, Finished]] = []
        with state.wake:
            gone = [left for result in finished if (left := running.sentences.pop(result.key, None)) is not None]
            state.scheduler.finished(gone)
            for result in finished:
                state.withdrawn.discard(result.key)
                sentence = state.unanswered.pop(result.key, None)
                if sentence is not None:
                    done.append((sentence, result))
        ended_at = state.clock()
        for sentence, result in done:
            sentence.ended_at = ended_at
            if result.hypothesis is not None:
                state.deliver(sentence, result.hypothesis, "finished", len(result.hypothesis.token_ids))
            else:
                logger.error("a sentence failed", extra={"fields": {"error": str(result.error)}})
                state.deliver(sentence, result.error or InferenceFailed(), "failed")

    def _open(self, first: QueuedSentence, *, may_join: bool) -> RunningCohort | None:
        running = RunningCohort.open(first, may_join=may_join)
        if running is not None:
            self._running.append(running)
        return running
