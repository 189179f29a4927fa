"""A simulated model behind the real queue, with a simulated clock: the same results on any machine.

It decodes one token of each row in a step. A step takes a fixed time, and more for each row. Estimates are judged in
several situations: other callers make load for a while, and then a request arrives.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from app.engine.caller import Caller
from app.engine.joining import Budget, Load
from app.engine.queued_sentence import BatchKey, QueuedSentence
from app.engine.scheduler import Scheduler
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest

MODEL: Any = "a model"
BEAM = DecodingOptions()

TOKENS = (5, 20)
"""Minimal and maximal source tokens of a sentence; its translation has as many."""


@dataclass(frozen=True)
class Speed:
    """The speed of a model.

    Args:
        step_s: Seconds of a step without rows.
        row_s: Seconds of a step for each row.
        max_rows: Most rows at once.
    """

    step_s: float
    row_s: float
    max_rows: int

    @property
    def sentences_per_s(self) -> float:
        """Mean sentences per second with all rows in use."""
        step_s = self.step_s + self.max_rows * self.row_s
        return self.max_rows / BEAM.width / statistics.mean(TOKENS) / step_s


CPU = Speed(0.002, 0.0003, 64)
"""With 48 rows it does as much per second as with 64, almost."""

GPU = Speed(0.005, 0.000_01, 256)
"""A step takes about as long with all rows as with one."""

LARGE = Speed(0.02, 0.002, 32)
"""A large model on few cores."""


@dataclass(eq=False)
class Request:
    """A request, with its estimate and its duration once it is finished."""

    began: float
    num_left: int
    estimate_s: float | None = None
    took_s: float | None = None
    and_then: Callable[[], None] | None = None
    num_sentences: int = 1


@dataclass
class Simulation:
    """A model that decodes, and its queue.

    Args:
        speed: How fast the model is.
        now: The simulated clock time.
        rng: Source of randomness.
        decoding: Sentences that decode, each with the number of tokens left.
        before_step: Called before each step.
    """

    speed: Speed = CPU
    now: float = 100.0
    rng: random.Random = field(default_factory=lambda: random.Random(3))
    decoding: list[tuple[QueuedSentence, list[int]]] = field(default_factory=list)
    before_step: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        """Nothing waits."""
        budget = Budget(1_000_000, self.speed.max_rows, token_s=self.speed.row_s)
        self.scheduler = Scheduler(budget, 100_000, lambda: self.now)
        self.requests: dict[object, Request] = {}
        self.keys = itertools.count()

    def sentences(self, caller: Caller, number: int, options: DecodingOptions = BEAM) -> list[QueuedSentence]:
        """The sentences of a request."""
        owner = object()
        return [
            QueuedSentence(
                DecodingRequest(next(self.keys), [1] * self.rng.randint(*TOKENS), options),
                MODEL,
                lambda _: None,
                owner=owner,
                caller=caller,
            )
            for _ in range(number)
        ]

    def ask(
        self,
        caller: Caller,
        num_sentences: int = 1,
        within_s: float | None = None,
        and_then: Callable[[], None] | None = None,
    ) -> Request:
        """Submit a request; with its estimate."""
        sentences = self.sentences(caller, num_sentences)
        estimate_s = self.scheduler.estimate_s(sentences)
        self.scheduler.admit(sentences, within_s)
        request = Request(self.now, num_sentences, estimate_s, and_then=and_then, num_sentences=num_sentences)
        self.requests[sentences[0].owner] = request
        return request

    def keep_asking(self, caller: Caller, latencies: list[float], num_sentences: int = 1) -> None:
        """Submit requests, each when the one before is finished."""

        def again() -> None:
            if request.took_s is not None:
                latencies.append(request.took_s)
            self.keep_asking(caller, latencies, num_sentences)

        request = self.ask(caller, num_sentences, and_then=again)

    def keep_arriving(self, num_callers: int, share: float, sizes: Sequence[int]) -> None:
        """Let requests arrive, whether or not earlier ones are answered.

        Args:
            num_callers: Number of callers who send them.
            share: Their work, as a share of the throughput.
            sizes: Possible numbers of sentences.
        """
        rate = share * self.speed.sentences_per_s / statistics.mean(sizes)
        due = self.now

        def arrive() -> None:
            nonlocal due
            while due <= self.now:
                self.ask(caller(self.rng.randrange(num_callers)), self.rng.choice(sizes))
                due += self.rng.expovariate(rate)

        self.before_step = arrive

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self.now < end:
            self.step()

    def finish(self, request: Request, at_most_s: float = 1_000.0) -> float:
        """Let time pass until a request is finished; returns how long it took.

        Args:
            request: The request.
            at_most_s: Seconds after which it is given up.
        """
        end = self.now + at_most_s
        while request.took_s is None:
            if self.now > end:
                raise TimeoutError
            self.step()
        return request.took_s

    def step(self) -> None:
        """Sentences join, all get one token more, and some are finished."""
        self.before_step()
        loads: dict[BatchKey, Load] = {}
        rows: Counter[object] = Counter()
        for sentence, _ in self.decoding:
            loads[sentence.batch] = loads.get(sentence.batch, Load()).with_one_more(sentence)
            rows[sentence.owner] += sentence.width
            rows[sentence.caller] += sentence.width
            rows[sentence.caller.priority] += sentence.width
        if self.scheduler.num_waiting:
            joining = self.scheduler.take(loads, rows)
            self.decoding += [(sentence, [sentence.likely_target]) for sentence in joining]
        self.now += self.speed.step_s + self.speed.row_s * sum(sentence.width for sentence, _ in self.decoding)
        for _, remaining in self.decoding:
            remaining[0] -= 1
        finished = [sentence for sentence, remaining in self.decoding if not remaining[0]]
        self.decoding = [(sentence, remaining) for sentence, remaining in self.decoding if remaining[0]]
        if finished:
            self.scheduler.finished(finished)
        for sentence in finished:
            request = self.requests[sentence.owner]
            request.num_left -= 1
            if not request.num_left:
                del self.requests[sentence.owner]
                request.took_s = self.now - request.began
                if request.and_then is not None:
                    request.and_then()


def caller(number: int) -> Caller:
    """One of several callers."""
    return Caller(f"caller {number}")


def warm(speed: Speed = CPU, seed: int = 3) -> Simulation:
    """A simulation with a measured throughput, and without load."""
    simulation = Simulation(speed, rng=random.Random(seed))
    simulation.finish(simulation.ask(caller(999), round(6 * speed.sentences_per_s)))
    simulation.run(20.0)
    return simulation


Situation: TypeAlias = Callable[[Simulation], None]


def no_load(simulation: Simulation) -> None:
    """No other caller."""


def queues(num_callers: int, seconds: float) -> Situation:
    """Each of some callers has sent one large request.

    Args:
        num_callers: Number of callers.
        seconds: The time that the model would take for each of the requests.
    """

    def situation(simulation: Simulation) -> None:
        for number in range(num_callers):
            simulation.ask(caller(number), round(seconds * simulation.speed.sentences_per_s))
        simulation.run(2.0)

    return situation


def one_after_another(num_callers: int, num_sentences: int = 1) -> Situation:
    """Callers who send a request when the one before is answered."""

    def situation(simulation: Simulation) -> None:
        for number in range(num_callers):
            simulation.keep_asking(caller(number), [], num_sentences)
        simulation.run(15.0)

    return situation


def arrivals(num_callers: int, share: float, sizes: Sequence[int]) -> Situation:
    """Requests that arrive as a Poisson process; the arguments are those of :meth:`Simulation.keep_arriving`."""

    def situation(simulation: Simulation) -> None:
        simulation.keep_arriving(num_callers, share, sizes)
        simulation.run(20.0)

    return situation


def both(first: Situation, second: Situation) -> Situation:
    """Two situations, begun one after the other."""

    def situation(simulation: Simulation) -> None:
        first(simulation)
        second(simulation)

    return situation


MIXED = (1, 20, 50, 100, 200)
"""Sentences of mixed requests."""

SITUATIONS: dict[str, Situation] = {
    "alone": no_load,
    "1 large queue": queues(1, 10.0),
    "3 queues": queues(3, 3.0),
    "20 queues": queues(20, 2.0),
    **{f"{number} who wait, single": one_after_another(number) for number in (1, 2, 5, 10, 20, 64)},
    **{f"{number} who wait, 20 each": one_after_another(number, 20) for number in (2, 10)},
    **{f"40 arriving, single, {share:.0%}": arrivals(40, share, (1,)) for share in (0.3, 0.6, 0.9)},
    **{f"6 arriving, mixed, {share:.0%}": arrivals(6, share, MIXED) for share in (0.5, 0.8, 1.3)},
    "10 who wait, 6 arriving": both(one_after_another(10), arrivals(6, 0.5, MIXED)),
    "64 who wait, 6 arriving": both(one_after_another(64), arrivals(6, 1.0, MIXED)),
}
"""The load when the request arrives."""


def estimate_errors(situation: Situation, speed: Speed, sizes_s: Sequence[float], seeds: Sequence[int]) -> list[float]:
    """Errors of estimates: how much larger an estimate was than what the request took, as a share of that.

    Args:
        situation: The load.
        speed: The model.
        sizes_s: Seconds that the model would take for the request alone.
        seeds: For each a simulation.
    """
    errors = []
    for seed in seeds:
        for size_s in sizes_s:
            simulation = warm(speed, seed)
            situation(simulation)
            request = simulation.ask(Caller("the caller"), max(1, round(size_s * speed.sentences_per_s)))
            assert request.estimate_s is not None
            errors.append(request.estimate_s / simulation.finish(request) - 1.0)
    return errors
