"""A model whose answers are a function of the sentence, with a duration, and with faults when they are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal

from app.engine.calls import DeviceLost
from model.artifacts.manifest import Manifest
from model.decoding.options import DecodingOptions, FinishReason, Hypothesis
from model.decoding.sentence import DecodingRequest, Finished
from model.errors import DecodingError
from tests.app.fakes import MANIFEST, CohortOfRequests, FakeTranslator

FaultKind = Literal["error", "memory", "death", "lost", "slow", "hang"]
CallKind = Literal["cohort", "join", "step", "leave", "call"]

FAILS = "nan"
"""A sentence with this word fails alone."""

BREAKS = "boom"
"""A sentence with this word makes each step of its cohort fail."""

TOKENS_PER_STEP = 3
"""Tokens of each sentence that a step computes: back-ends may compute several, and seeds then take half the time."""

SLOW_S = 3.0
HANG_S = 1_000.0


class Death(BaseException):
    """An error that is not a model's: it ends the engine's thread."""


@dataclass
class Fault:
    """A fault that is due.

    Args:
        kind: What happens.
        call: At which call of the back-end.
        after: Calls of this kind that still succeed.
    """

    kind: FaultKind
    call: CallKind
    after: int = 0


@dataclass
class Machine:
    """What the stand-ins of one process share: the time that calls take, the faults, and those who watch.

    Args:
        sleep: Lets time pass.
        step_s: Seconds of a step without rows.
        row_s: Seconds of a step for each row.
        watch: Called at each call of the back-end, with its kind, its model, and the keys of its sentences.
        opening: Returns the keys of the sentences that a cohort is made for.
        in_work: Returns the keys of all sentences that have left the queue.
        faults: Faults that are due.
    """

    sleep: Callable[[float], None]
    step_s: float
    row_s: float
    watch: Callable[[CallKind, StandIn, Collection[int]], None]
    opening: Callable[[], Collection[int]]
    in_work: Callable[[], Collection[int]]
    faults: list[Fault] = field(default_factory=list)
    failures: dict[int, list[tuple[FaultKind, int]]] = field(default_factory=dict)
    """By key: the faults that a sentence took part in, each with the number of sentences."""
    num_faults: Counter[str] = field(default_factory=Counter)

    def call(self, call: CallKind, keys: Collection[int], seconds: float, *, breaks: bool = False) -> None:
        """Let a call of the back-end take its time, and fail if a fault is due."""
        fault = next((fault for fault in self.faults if fault.call == call), None)
        if fault is not None:
            fault.after -= 1
        if fault is None or fault.after >= 0:
            self.sleep(seconds)
            if breaks:
                self.note("error", keys)
                raise RuntimeError("a tensor of the wrong shape")
            return
        self.faults.remove(fault)
        self.num_faults[fault.kind] += 1
        if fault.kind in ("slow", "hang"):
            self.sleep(SLOW_S if fault.kind == "slow" else HANG_S)
            return
        self.sleep(seconds)
        if fault.kind == "death":
            keys = self.in_work()  # all of them are interrupted
        # A single sentence for which no cohort can be made is not tried again.
        self.note("error" if call == "cohort" and fault.kind == "memory" else fault.kind, keys)
        if fault.kind == "memory":
            raise MemoryError("out of memory")
        if fault.kind == "death":
            raise Death
        if fault.kind == "lost":
            raise DeviceLost
        raise RuntimeError("a tensor of the wrong shape")

    def note(self, kind: FaultKind, keys: Collection[int]) -> None:
        """Sentences take part in a fault."""
        for key in keys:
            self.failures.setdefault(key, []).append((kind, len(keys)))

    def may_fail(self, key: int) -> bool:
        """Whether a sentence may have failed: it was alone with a fault, or interrupted twice."""
        faults = self.failures.get(key, [])
        return len(faults) > 1 or any(kind == "error" and number == 1 for kind, number in faults)


class StandIn(FakeTranslator):
    """The real text pipeline around a cohort that needs no model.

    The answer for a sentence is the sentence, after a letter of the model.

    Args:
        letter: The letter.
        manifest: The manifest of its bundle.
    """

    machine: Machine

    def __init__(self, letter: str, manifest: Manifest) -> None:
        super().__init__(manifest=manifest, sha256=letter * 64)
        self.letter = letter

    def answer(self, request: DecodingRequest) -> Hypothesis | DecodingError:
        """The answer for a sentence."""
        text = self.text_of(request)
        if FAILS in text:
            return DecodingError("NaN")
        options = request.options
        token_ids = [*request.prefix_ids, *map(ord, self.letter + text)]
        length = options.longest_answer(len(request.source_ids), self.manifest.max_target_tokens)
        reason: FinishReason = "stop" if len(token_ids) < length else "length"
        token_ids = token_ids[:length]
        score = _score_of(options) if options.return_scores else None
        others = tuple(Hypothesis([*token_ids, number], score, "stop") for number in range(1, options.num_hypotheses))
        return Hypothesis(token_ids, score, reason, others)

    def cohort(self, width: int) -> Any:
        """See :class:`model.translator.Translator`."""
        self.machine.call("cohort", self.machine.opening(), 0.0)
        return StandInCohort(width, self, self.machine)

    def free_memory(self) -> None:
        """See :class:`model.translator.Translator`."""

    def tidy(self) -> None:
        """See :class:`model.translator.Translator`."""


class StandInCohort(CohortOfRequests):
    """A cohort that chooses a few tokens of each sentence in a step.

    Args:
        width: Rows of each sentence.
        model: The stand-in.
        machine: Its process.
    """

    def __init__(self, width: int, model: StandIn, machine: Machine) -> None:
        super().__init__(width)
        self._model = model
        self._machine = machine
        self._left: dict[int, int] = {}  # steps of each sentence that are left
        self._breaking: set[int] = set()  # sentences that make each step fail

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        for request in requests:
            assert request.key not in self._requests
            self._requests[request.key] = request
            if BREAKS in self._model.text_of(request):
                self._breaking.add(request.key)
            answer = self._model.answer(request)
            self._left[request.key] = (
                2 if isinstance(answer, Exception) else 2 + len(answer.token_ids) // TOKENS_PER_STEP
            )
        self._machine.watch("join", self._model, [request.key for request in requests])
        self._call("join", sum(len(request.source_ids) for request in requests))
        return self._advance([request.key for request in requests])

    def step(self) -> list[Finished]:
        self._machine.watch("step", self._model, self.keys)
        self._call("step", self.num_rows)
        return self._advance(self.keys)

    def leave(self, keys: Collection[int]) -> None:
        self._call("leave", 0)
        for key in keys:
            self._requests.pop(key, None)

    def _call(self, kind: CallKind, num_rows: int) -> None:
        breaks = kind == "step" and not self._breaking.isdisjoint(self._requests)
        seconds = 0.0 if kind == "leave" else self._machine.step_s + self._machine.row_s * num_rows
        self._machine.call(kind, self.keys, seconds, breaks=breaks)

    def _advance(self, keys: Sequence[int]) -> list[Finished]:
        return list(self._finished(keys))

    def _finished(self, keys: Sequence[int]) -> Iterator[Finished]:
        for key in keys:
            self._left[key] -= 1
            if not self._left[key]:
                answer = self._model.answer(self._requests.pop(key))
                if isinstance(answer, Exception):
                    yield Finished(key, None, answer)
                else:
                    yield Finished(key, answer)


@cache
def _score_of(options: DecodingOptions) -> float:
    """A number for options, so that answers for others are noticed."""
    return float(sum(map(ord, repr(options)))) / 7


@cache
def model_named(name: str, *pairs: str) -> StandIn:
    """A stand-in; making one takes a millisecond, so that simulations share them.

    Args:
        name: Its name; its first letter is that of its answers.
        pairs: Its language pairs, such as ``en-de``.
    """
    split = tuple((pair[:2], pair[3:]) for pair in pairs)
    return StandIn(name[0], replace(MANIFEST, name=name, pairs=split))
