"""What must hold at every step, and the account of what has happened."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from app.engine.caller import Caller, Priority
from app.engine.calls import Call
from app.engine.engine import Dropped, Engine
from app.engine.fair_queue import BULK_SHARE, DEBT, QUANTUM
from app.engine.joining import OVERTAKE_S
from app.engine.queued_sentence import QueuedSentence
from app.engine.scheduler import Admission
from app.errors import InferenceFailed
from model.decoding.options import Hypothesis, Outcome
from model.errors import DecodingError
from tests.simulation.kernel import SimulatedThread
from tests.simulation.locks import SimulatedCondition
from tests.simulation.stand_in import FAILS, CallKind, Machine, StandIn

if TYPE_CHECKING:
    from app.engine.coalescing import PendingRequest, SharedDecoding
    from app.engine.queued_sentence import ModelRequest


class Broken(AssertionError):
    """Something that must hold does not.

    The engine survives errors on its thread, this one too, so it is also noted.
    """

    noted: ClassVar[list[Broken]] = []

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.noted.append(self)


def require(holds: bool, what: str, *details: object) -> None:
    """Check that something holds.

    Raises:
        Broken: It does not.
    """
    if not holds:
        raise Broken(f"{what}: {', '.join(map(str, details))}" if details else what)


class Trace:
    """The digest and the counts of what has happened.

    Args:
        keeps_lines: Whether to keep what has happened.
    """

    def __init__(self, keeps_lines: bool = False) -> None:
        self._digest = hashlib.sha256()
        self.counts: Counter[str] = Counter()
        self.is_muted = False
        self.lines: list[str] = []
        self._keeps_lines = keeps_lines

    def note(self, now: float, what: str, *details: object) -> None:
        """Something has happened."""
        if self.is_muted:
            return
        self._digest.update(repr((now, what, details)).encode())
        self.counts[what] += 1
        if self._keeps_lines:
            self.lines.append(f"{now:.6f} {what} {' '.join(map(str, details))}")

    @property
    def digest(self) -> str:
        """The digest of all lines."""
        return self._digest.hexdigest()[:16]


class EngineLedger:
    """Watches one engine: each sentence has one outcome, the right one, and nothing exceeds its bound.

    Args:
        engine: The engine.
        machine: Its back-end.
        trace: Records what happens.
    """

    def __init__(self, engine: Engine, machine: Machine, trace: Trace) -> None:
        self.engine = engine
        self.machine = machine
        self.trace = trace
        self.submitted: dict[int, QueuedSentence] = {}
        self.outcomes: dict[int, Outcome] = {}
        self.failed: set[tuple[str, str]] = set()
        """Models and sources of the sentences that may have failed."""
        self.num_steps = 0
        self.num_asked = 0
        """Sentences that were asked for: decoded, cached, or shared with an equal one."""
        self._always: set[int] = set()  # keys of sentences that were not refused
        self._withdrawn: set[int] = set()
        self._left_since: dict[int, int] = {}
        self._starved: dict[Caller, float] = {}
        self._callers: set[Caller] = set()
        self._largest = 0.0
        self._most_at_once = 0.0
        self._models: set[object] = set()
        self._state = engine._state
        self._watch()

    def _watch(self) -> None:
        state = self._state
        deliver, scheduler = state.deliver, state.scheduler
        admit, take = scheduler.admit, scheduler.take
        wanted, begin, withdraw = state.wanted, state.calls.begin, self.engine.withdraw

        def watched_admit(
            sentences: Sequence[QueuedSentence],
            within_s: float | None = None,
            admission: Admission = Admission.REFUSE,
        ) -> None:
            admit(sentences, within_s, admission)
            self.submitted.update((sentence.key, sentence) for sentence in sentences)
            if admission is Admission.ALWAYS:
                self._always.update(sentence.key for sentence in sentences)

        def watched_deliver(sentence: QueuedSentence, outcome: Outcome, *args: Any) -> None:
            self._check_outcome(sentence, outcome)
            deliver(sentence, outcome, *args)

        def watched_wanted(sentences: Collection[QueuedSentence]) -> list[QueuedSentence]:
            gone = {sentence.key for sentence in sentences} - state.unanswered.keys()
            result = wanted(sentences)
            joins = sorted(sentence.key for sentence in result if sentence.key in gone)
            require(not joins, "sentences join that nobody waits for", *joins)
            return result

        def watched_withdraw(keys: Collection[int], expired: bool = False) -> None:
            withdraw(keys, expired)
            self._withdrawn.update(keys)

        def watched_begin() -> Call | None:
            call = begin()
            require(call is None or call.key not in self._withdrawn, "a call is made that nobody waits for")
            return call

        def watched_take(*args: Any) -> list[QueuedSentence]:
            chosen = take(*args)
            if chosen:
                self._check_turns(chosen, args[1])
            return chosen

        vars(scheduler)["admit"] = watched_admit
        vars(state)["deliver"] = watched_deliver
        vars(state)["wanted"] = watched_wanted
        vars(state.calls)["begin"] = watched_begin
        vars(self.engine)["withdraw"] = watched_withdraw
        vars(scheduler)["take"] = watched_take
        self.machine.watch = self._check_back_end
        self.machine.opening = self._opening
        self.machine.in_work = lambda: self._state.unanswered.keys() - self._state.scheduler.waiting()

    def watch_shared(self, shared: SharedDecoding) -> None:
        """Count what is asked for."""
        submit = shared.submit

        def watched_submit(requests: Sequence[ModelRequest], *args: Any, **options: Any) -> PendingRequest:
            pending = submit(requests, *args, **options)
            self.num_asked += len(requests)
            return pending

        vars(shared)["submit"] = watched_submit

    def check(self) -> None:
        """What must hold after each turn of a thread."""
        state = self._state
        queue = state.scheduler._queue
        bound = state.scheduler.max_waiting
        if len(queue) > bound:
            num_always = sum(sentence.key in self._always for sentence in queue)
            require(len(queue) - num_always <= bound, "the queue exceeds its bound", len(queue), bound)
        if not state.is_asleep:
            return
        thread, wake = self.engine._thread, state.wake
        assert isinstance(wake, SimulatedCondition)
        if isinstance(thread, SimulatedThread) and thread.is_blocked and wake.is_free:
            has_work = len(queue) or state.unanswered or state.calls or state.withdrawn or state.stopping
            require(not has_work, "the engine sleeps and has work")

    def check_idle(self, shared: SharedDecoding) -> None:
        """What must hold when nothing is left to do."""
        state = self._state
        require(not state.unanswered, "sentences without an outcome", *state.unanswered)
        require(not state.withdrawn, "withdrawn sentences stay", *state.withdrawn)
        require(not len(state.scheduler._queue), "sentences stay in the queue", len(state.scheduler._queue))
        require(not state.scheduler._for_room, "sentences wait for room", *state.scheduler._for_room)
        require(not shared._in_engine and not shared._of_request, "equal sentences stay", len(shared._in_engine))
        require(not state.calls or state.stopping, "calls stay", len(state.calls))

    def check_metrics(self, samples: Mapping[tuple[str, ...], float], *, caches: bool) -> None:
        """The metrics agree with what has happened; nothing is in work.

        Args:
            samples: The metrics, by their names and labels.
            caches: Whether the cache is on.
        """
        expected: Counter[tuple[str, str]] = Counter()
        num_tokens = 0
        for key, sentence in self.submitted.items():
            outcome = self.outcomes.get(key)
            name = sentence.model_name
            if isinstance(outcome, Hypothesis):
                expected[name, "finished"] += 1
                num_tokens += len(outcome.token_ids)
            elif outcome is None or isinstance(outcome, Dropped):
                expected[name, "left"] += 1
            else:
                expected[name, "failed"] += 1
        for name in {sentence.model_name for sentence in self.submitted.values()}:
            counted = {
                ending: samples.get(("verso_sentences_total", name, ending), 0.0)
                for ending in ("finished", "failed", "cancelled", "expired")
            }
            counted["left"] = counted.pop("cancelled") + counted.pop("expired")
            for ending, number in counted.items():
                require(number == expected[name, ending], "metrics", name, ending, number, expected[name, ending])
        require(samples["verso_target_tokens_total",] == num_tokens, "target tokens", num_tokens)
        require(samples["verso_decode_steps_total",] <= self.num_steps, "steps", self.num_steps)
        hits, misses = samples["verso_cache_hits_total",], samples["verso_cache_misses_total",]
        num_shared = samples["verso_coalesced_sentences_total",]
        require(hits + num_shared + len(self.submitted) == self.num_asked, "cached", hits, num_shared, self.num_asked)
        require(hits + misses == (self.num_asked if caches else 0), "looked up", hits, misses, self.num_asked)
        for gauge in ("verso_queue_sentences", "verso_running_sentences"):
            require(not samples[gauge,], "a gauge is not zero", gauge, samples[gauge,])

    def _opening(self) -> list[int]:
        """The sentences that a cohort is made for: they are neither in the queue nor in a cohort."""
        state, runner = self._state, self.engine._runner
        others = state.scheduler.waiting() | runner.not_begun
        for running in runner._running:
            others |= running.sentences.keys()
        return [key for key in state.unanswered if key not in others]

    def _check_outcome(self, sentence: QueuedSentence, outcome: Outcome) -> None:
        key, model = sentence.key, sentence.model
        require(key not in self.outcomes, "a second outcome", key, outcome)
        self.outcomes[key] = outcome
        assert isinstance(model, StandIn)
        right = model.answer(sentence.request)
        if isinstance(outcome, Hypothesis):
            require(outcome == right, "a wrong outcome", key, outcome, right)
        elif isinstance(outcome, DecodingError):
            require(FAILS in model.text_of(sentence.request), "a sentence failed without reason", key)
        elif isinstance(outcome, InferenceFailed):
            require(self.machine.may_fail(key), "a sentence failed for others", key, self.machine.failures.get(key))
            self.failed.add((sentence.model_name, model.text_of(sentence.request)))
        else:
            require(isinstance(outcome, Dropped) and self._state.stopping, "an unexpected outcome", key, repr(outcome))
        self.trace.note(self._state.clock(), "outcome", key, type(outcome).__name__)

    def _check_back_end(self, call: CallKind, model: StandIn, keys: Collection[int]) -> None:
        state = self._state
        self.trace.note(state.clock(), call, model.letter, *keys)
        if call == "join":
            gone = [key for key in keys if key not in state.unanswered and key not in state.withdrawn]
            # An engine that is given up, because it does not end in time, has answered what it was about to encode.
            require(not gone or state.stopping, "sentences join that have ended", *gone)
            self._check_budget()
        if call == "step":
            self.num_steps += 1
            for key in keys:
                if key not in state.unanswered:
                    self._left_since[key] = self._left_since.get(key, 0) + 1
                    require(self._left_since[key] <= 1, "a sentence is decoded that nobody waits for", key)

    def _check_budget(self) -> None:
        """What decodes together is within the budget, but for a single sentence, and one that decodes alone."""
        runner, budget = self.engine._runner, self._state.budget  # the full one
        joined = [running for running in runner._running if running.may_join and running.sentences]
        num_rows = sum(running.batch[1] * len(running.sentences) for running in joined)
        num_sentences = sum(len(running.sentences) for running in joined)
        require(num_rows <= budget.max_rows or num_sentences <= 1, "too many rows", num_rows, budget.max_rows)
        tokens = sum(
            len(running.sentences) * max(sentence.num_source_tokens for sentence in running.sentences.values())
            for running in joined
        )
        require(tokens <= budget.max_tokens or num_sentences <= 1, "too many tokens", tokens, budget.max_tokens)
        alone = [running for running in runner._running if not running.may_join]
        require(len(alone) <= 1 and all(len(running.sentences) <= 1 for running in alone), "several decode alone")

    def _check_turns(self, chosen: list[QueuedSentence], rows: Mapping[object, int]) -> None:
        """No caller starves: what others get meanwhile is what the turns allow.

        Only callers without a sentence in work count, whose first one has waited longer than it may be overtaken.
        """
        now = self._state.clock()
        self.trace.note(now, "taken", *(sentence.key for sentence in chosen))
        costs = Counter[Caller]()
        for sentence in chosen:
            costs[sentence.caller] += round(sentence.cost)
            self._models.add(sentence.model)
        self._most_at_once = max(self._most_at_once, sum(costs.values()))
        first = {caller: queue.entries[0][2] for caller, queue in self._state.scheduler._queue._of_caller.items()}
        self._largest = max([self._largest, *(sentence.cost for sentence in (*chosen, *first.values()))])
        waiting = first.keys() | costs.keys()  # before these were chosen
        self._callers |= waiting
        self._starved = {caller: cost for caller, cost in self._starved.items() if caller in waiting}
        for caller, sentence in first.items():
            if caller in costs or rows.get(caller) or now - sentence.arrived_at <= OVERTAKE_S:
                self._starved[caller] = 0.0
                continue
            self._starved[caller] = self._starved.get(caller, 0.0) + sum(costs.values())
            require(
                self._starved[caller] <= self._starving(caller), "a caller starves", caller.id, self._starved[caller]
            )

    def _starving(self, caller: Caller) -> float:
        """What the others may get while a caller waits."""
        turn = 2 * self._largest + QUANTUM
        num_bulk = sum(other.priority is Priority.BULK for other in self._callers)
        share = 0.0 if caller.priority is Priority.INTERACTIVE else (DEBT + num_bulk * self._largest) / BULK_SHARE
        # Sentences of one model join together: a caller that waits for another one may be passed over once.
        other_model = self._most_at_once if len(self._models) > 1 else 0.0
        return len(self._callers) * turn + share + other_model
