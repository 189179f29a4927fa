"""What the engine's thread shares with the threads that submit sentences and calls."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from app.engine.calls import CallQueue
from app.engine.joining import Budget
from app.engine.queued_sentence import QueuedSentence
from app.engine.scheduler import Scheduler
from app.telemetry.metrics import Ending, Metrics
from model.decoding.options import Outcome

logger = logging.getLogger("app.engine")

MIN_TOKENS = 1_024
"""Lack of memory never lowers the budget below this number of tokens."""

MEMORY_BACK_S = 60.0
"""Interval at which a budget that was lowered for lack of memory is doubled, until it is restored, in seconds."""


@dataclass(eq=False)
class EngineState:
    """Shared by threads; everything but the clock and the metrics is protected by the lock ``wake``.

    Only the code that removes a sentence from ``unanswered`` delivers its outcome, so that each sentence has exactly
    one outcome, whatever happens to a thread.

    Args:
        scheduler: The queue.
        metrics: The metrics to update.
        clock: The scheduler's clock, in seconds.
        calls: Function calls for the engine's thread.
        unanswered: Sentences whose callers wait, in the queue or decoding.
        withdrawn: Keys of cancelled sentences that a cohort may still contain.
        stopping: Whether the engine has stopped accepting work.
        num_works: Number of pieces of work, such as steps and calls, that the thread has begun. If it stays the same
            for too long, the thread hangs (:mod:`app.engine.watchdog`).
        is_asleep: Whether the thread waits for work.
    """

    scheduler: Scheduler
    metrics: Metrics
    clock: Callable[[], float]
    wake: threading.Condition = field(default_factory=threading.Condition)
    calls: CallQueue = field(default_factory=CallQueue)
    unanswered: dict[int, QueuedSentence] = field(default_factory=dict)
    withdrawn: set[int] = field(default_factory=set)
    stopping: bool = False
    num_works: int = 0
    is_asleep: bool = True
    _full_tokens: int | None = None  # the full budget, while it is lowered for lack of memory
    _lowered_at: float = 0.0

    def wanted(self, sentences: Collection[QueuedSentence]) -> list[QueuedSentence]:
        """The sentences whose callers still wait."""
        with self.wake:
            return [sentence for sentence in sentences if sentence.key in self.unanswered]

    def fail(
        self, sentences: Sequence[QueuedSentence], make_error: Callable[[], Exception], ending: Ending = "failed"
    ) -> None:
        """Deliver an error to each sentence without an outcome; every sentence gets an error object of its own."""
        with self.wake:
            failed = [sentence for sentence in sentences if self.unanswered.pop(sentence.key, None) is not None]
        ended_at = self.clock()
        for sentence in failed:
            sentence.ended_at = ended_at
            self.deliver(sentence, make_error(), ending)

    def deliver(self, sentence: QueuedSentence, outcome: Outcome, ending: Ending, num_target_tokens: int = 0) -> None:
        """Deliver the outcome of a sentence that was removed from ``unanswered``."""
        safely(partial(self.metrics.sentence_left, sentence.model_name, ending, num_target_tokens))
        safely(partial(sentence.deliver, outcome))

    def interrupt(self, not_begun: Collection[int]) -> tuple[list[QueuedSentence], list[QueuedSentence]]:
        """Collect the sentences that had left the queue when the thread failed. The lock must be acquired.

        Args:
            not_begun: Keys of sentences that had left the queue to be decoded alone, and were not decoding yet.

        Returns:
            The sentences to decode again, and those that were interrupted for the second time.
        """
        waiting = self.scheduler.waiting()
        self.withdrawn.clear()
        again: list[QueuedSentence] = []
        failed: list[QueuedSentence] = []
        for key, sentence in self.unanswered.items():
            if key in not_begun:
                again.append(sentence)
            elif key not in waiting:
                (failed if sentence.was_interrupted else again).append(sentence)
                sentence.was_interrupted = True
        self.scheduler.interrupted(again)
        return again, failed

    @property
    def budget(self) -> Budget:
        """The full budget, even while it is lowered for lack of memory. The lock must be acquired."""
        budget = self.scheduler.budget
        return budget if self._full_tokens is None else replace(budget, max_tokens=self._full_tokens)

    @budget.setter
    def budget(self, budget: Budget) -> None:
        self._full_tokens = None
        self._set_tokens(budget, budget.max_tokens)

    def lower_budget(self, num_tokens: int) -> None:
        """After running out of memory, allow half as many tokens for a while.

        Args:
            num_tokens: Tokens that were decoding when memory ran out: of the sources, or the most that the targets
                can have.
        """
        with self.wake:
            budget, full_tokens = self.scheduler.budget, self.budget.max_tokens
            max_tokens = min(budget.max_tokens, max(MIN_TOKENS, min(budget.max_tokens, num_tokens) // 2))
            self._full_tokens, self._lowered_at = full_tokens, self.clock()
            self._set_tokens(budget, max_tokens)
        fields = {"max_batch_tokens": max_tokens}
        logger.warning("out of memory: fewer rows decode at once for a while", extra={"fields": fields})

    def restore_budget(self) -> None:
        """Double a lowered budget if there has been enough memory for a while."""
        with self.wake:
            if self._full_tokens is None or self.clock() - self._lowered_at < MEMORY_BACK_S:
                return
            budget = self.scheduler.budget
            max_tokens = min(self._full_tokens, 2 * budget.max_tokens)
            self._lowered_at = self.clock()
            if max_tokens == self._full_tokens:
                self._full_tokens = None
            self._set_tokens(budget, max_tokens)

    def _set_tokens(self, budget: Budget, max_tokens: int) -> None:
        self.scheduler.budget = replace(budget, max_tokens=max_tokens)
        self.metrics.budget_changed(budget.max_rows, max_tokens)
        self.wake.notify_all()


def safely(deliver: Callable[[], object]) -> None:
    """Call a function whose failure must not affect other callers."""
    try:
        deliver()
    except Exception:
        logger.exception("an outcome could not be delivered")
