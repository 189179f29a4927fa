"""What a seed draws: the settings of a process, and the events of the world around it."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Literal

from app.engine.caller import Caller, Priority
from app.engine.joining import Budget
from app.engine.scheduler import Admission
from model.decoding.options import DecodingOptions
from tests.simulation.stand_in import BREAKS, FAILS, CallKind, Fault, FaultKind

GREEDY = DecodingOptions(decoding="greedy")
OPTIONS = (
    GREEDY,
    GREEDY,
    DecodingOptions(decoding="greedy", return_scores=True),
    DecodingOptions(decoding="greedy", max_new_tokens=3),
    DecodingOptions(beam_size=2),
    DecodingOptions(beam_size=4, num_hypotheses=3, return_scores=True),
)
"""Options of sentences; most have a width of 1."""

_WORDS = ("ab", "cde", "fghij", "klm", "no", "pqrstu", "vwxyz" * 4)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a request.

    Args:
        text: Its text.
        model: The index of its model.
        options: How it is decoded.
    """

    text: str
    model: int
    options: DecodingOptions


@dataclass(frozen=True)
class Request:
    """A request of a client.

    Args:
        number: Its number.
        deadline_s: Seconds after which it is given up.
        leaves_s: Seconds after which the client leaves; None if it stays.
        reads_s: Seconds that the client takes to read a part of the answer.
        num_retries: How often it is sent again if it is refused, or if its process has ended.
    """

    number: int
    deadline_s: float
    leaves_s: float | None
    reads_s: float
    num_retries: int

    @property
    def longest_s(self) -> float:
        """Seconds after which it must have ended."""
        return self.deadline_s

    @property
    def loses_answer(self) -> bool:
        """Whether its first answer is lost on the way, so that it is sent again."""
        return False


@dataclass(frozen=True)
class Ask(Request):
    """Sentences, or a function call, for an engine.

    Args:
        caller: The caller.
        sentences: Its sentences.
        how: Whether it waits for all outcomes, reads each, or calls a function.
        admission: Whether it may be refused.
    """

    caller: Caller
    sentences: tuple[Sentence, ...]
    how: Literal["all", "each", "call"]
    admission: Admission


@dataclass(frozen=True)
class FaultDue:
    """A fault of the back-end."""

    kind: FaultKind
    call: CallKind
    after: int

    def fault(self) -> Fault:
        """The fault, which the back-end counts down."""
        return Fault(self.kind, self.call, self.after)


@dataclass(frozen=True)
class Jump:
    """The machine is suspended: the monotonic clock jumps."""

    seconds: float


@dataclass(frozen=True)
class Restart:
    """The process ends, and another one starts.

    Args:
        kills: Whether it is killed; otherwise it stops in order.
        down_s: Seconds until the next one starts.
        cuts_power: Whether it is killed by a power cut, after which its disk lacks what was not synced.
    """

    kills: bool
    down_s: float
    cuts_power: bool = False


@dataclass(frozen=True)
class Forget:
    """The cache drops the entries of a model."""

    model: int


What = object
"""What can happen: a :class:`Request`, or one of the other events."""


@dataclass(frozen=True)
class Event:
    """Something that happens at a time.

    Args:
        at_s: Seconds after the beginning.
        what: What happens.
    """

    at_s: float
    what: What


@dataclass(frozen=True)
class Scenario:
    """All that a seed draws, but the order of threads.

    Args:
        seed: The seed.
        budget: What decodes at once.
        max_waiting: Sentences in the queue.
        cache_bytes: Size of the cache.
        coalesce: Whether equal sentences share a decoding.
        preempts: The probability that a thread is preempted at a lock.
        step_s: Seconds of a step without rows.
        row_s: Seconds of a step for each row.
        events: The events, ordered by time.
    """

    seed: int
    budget: Budget
    max_waiting: int
    cache_bytes: int
    coalesce: bool
    preempts: float
    step_s: float
    row_s: float
    events: tuple[Event, ...] = field(default=(), repr=False)

    @property
    def begins(self) -> random.Random:
        """The generator that orders threads."""
        return random.Random(self.seed + 1_000_003)


def draw_engine(seed: int, num_requests: int = 25) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    callers = [
        Caller(f"caller {number}", Priority.BULK if rng.random() < 0.3 else Priority.INTERACTIVE)
        for number in range(rng.randint(1, 6))
    ]
    texts = [_text(rng) for _ in range(rng.choice((3, 12, 60)))]
    if rng.random() < 0.3:
        texts += [f"ab {FAILS}", f"{BREAKS} ab"]
    events: list[Event] = []
    is_rush = rng.random() < 0.1
    time_s, pace_s = 0.0, 0.001 if is_rush else rng.choice((0.001, 0.02, 0.1))
    for number in range(num_requests):
        time_s += rng.expovariate(1 / pace_s)
        ask = _ask(rng, number, callers, texts)
        events.append(Event(time_s, _patient(ask, rng) if is_rush else ask))
    faults_at_s = rng.uniform(0.0, time_s)
    spread_s = rng.choice((0.01, time_s))
    for _ in range(rng.choice((0, 0, 1, 3, 8))):
        events.append(Event(max(0.0, faults_at_s + rng.uniform(-spread_s, spread_s)), draw_fault(rng)))
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        kills = rng.random() < 0.5
        events.append(Event(rng.uniform(0.0, 1.2 * time_s), Restart(kills, rng.choice((0.0, 0.1, 5.0)))))
    if rng.random() < 0.1:
        events.append(Event(rng.uniform(0.0, time_s), Jump(rng.choice((0.5, 20.0, 3600.0)))))
    if rng.random() < 0.1:
        events.append(Event(rng.uniform(0.0, time_s), Forget(rng.randrange(2))))
    return Scenario(
        seed,
        Budget(
            max_tokens=rng.choice((60, 400, 100_000)),
            max_rows=rng.choice((4, 8, 64)),
            max_join_tokens=rng.choice((8, 100, 100_000)),
            token_s=rng.choice((0.0, 0.001)),
        ),
        max_waiting=1_000 if is_rush else rng.choice((4, 20, 200)),
        cache_bytes=rng.choice((0, 2_000, 100_000)),
        coalesce=rng.random() < 0.8,
        preempts=rng.choice((0.0, 0.05, 0.3)),
        step_s=rng.choice((0.003, 0.03)),
        row_s=rng.choice((0.0003, 0.006)),
        events=tuple(sorted(events, key=lambda event: event.at_s)),
    )


def _text(rng: random.Random) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(rng.randint(1, 4)))


def _ask(rng: random.Random, number: int, callers: list[Caller], texts: list[str]) -> Ask:
    num_sentences = rng.choice((1, 1, 1, 2, 3, 8))
    model = rng.randrange(2)
    options = rng.choice(OPTIONS)
    return Ask(
        number,
        deadline_s=rng.choice((0.05, 1.0, 30.0, 30.0)),
        leaves_s=rng.choice((None, None, None, 0.0, 0.01, 0.3)),
        reads_s=rng.choice((0.0, 0.0, 0.05, 2.0)),
        num_retries=rng.choice((0, 2, 5)),
        caller=rng.choice(callers),
        sentences=tuple(Sentence(rng.choice(texts), model, options) for _ in range(num_sentences)),
        how=rng.choice(("all", "all", "all", "each", "each", "call")),
        admission=rng.choice((Admission.REFUSE, Admission.REFUSE, Admission.WAIT, Admission.ALWAYS)),
    )


def _patient(ask: Ask, rng: random.Random) -> Ask:
    """A long request of a caller who waits."""
    chosen = [rng.choice(ask.sentences) for _ in range(4)]
    sentences = tuple(  # each is different, so that none is shared or cached
        replace(sentence, text=f"{sentence.text} {ask.number} {index}", options=OPTIONS[-1])
        for index, sentence in enumerate(chosen)
    )
    how: Literal["all", "each"] = "all" if ask.how == "call" else ask.how
    return replace(ask, sentences=sentences, how=how, deadline_s=300.0, leaves_s=None)


def draw_fault(rng: random.Random) -> FaultDue:
    """A fault of the model."""
    kind: FaultKind = rng.choice(("error", "error", "memory", "memory", "death", "death", "slow", "hang", "lost"))
    call: CallKind = rng.choice(("step", "step", "step", "join", "leave", "cohort"))
    return FaultDue(kind, call, rng.choice((0, 0, 3, 10)))
