"""Fairness and estimates, with a simulated model and a simulated clock."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from app.engine.caller import Caller, Priority
from app.engine.scheduler import BatchKey, Budget, Load, QueuedSentence, Scheduler
from app.errors import DeadlineUnreachable
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest

IDLE_STEP_S = 0.002
ROW_S = 0.0003
"""Seconds of a step, and of each row in it: with 48 rows the model does as much per second as with 64, almost."""

MODEL: Any = "a model"
BEAM = DecodingOptions()
BULK = Caller("bulk", Priority.BULK)


@dataclass(eq=False)
class Asked:
    """A request on its way."""

    began: float
    num_left: int
    estimate_s: float | None = None
    took_s: float | None = None
    and_then: Callable[[], None] | None = None


@dataclass
class Simulation:
    """A model that decodes 64 rows at once, one token of each in a step."""

    now: float = 100.0
    rng: random.Random = field(default_factory=lambda: random.Random(3))
    decoding: list[tuple[QueuedSentence, list[int]]] = field(default_factory=list)
    before_step: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        budget = Budget(1_000_000, 64, token_s=ROW_S)
        self.scheduler = Scheduler(budget, 100_000, lambda: self.now)
        self.requests: dict[object, Asked] = {}
        self.keys = itertools.count()

    def sentences(self, caller: Caller, number: int) -> list[QueuedSentence]:
        """The sentences of a request."""
        owner = object()
        return [
            QueuedSentence(
                DecodingRequest(next(self.keys), [1] * self.rng.randint(5, 20), BEAM),
                MODEL,
                lambda _: None,
                owner=owner,
                caller=caller,
            )
            for _ in range(number)
        ]

    def estimate_s(self, sentences: list[QueuedSentence]) -> float | None:
        """The estimate for a request, which changes nothing."""
        try:
            self.scheduler.admit(sentences, within_s=0.0)
        except DeadlineUnreachable as refused:
            return refused.estimate_s
        self.scheduler.withdraw({one.key for one in sentences})
        return None

    def ask(
        self,
        caller: Caller,
        num_sentences: int = 1,
        within_s: float | None = None,
        and_then: Callable[[], None] | None = None,
    ) -> Asked:
        sentences = self.sentences(caller, num_sentences)
        estimate_s = self.estimate_s(sentences)
        self.scheduler.admit(sentences, within_s)
        asked = self.requests[sentences[0].owner] = Asked(self.now, num_sentences, estimate_s, and_then=and_then)
        return asked

    def keep_asking(self, caller: Caller, latencies: list[float]) -> None:
        """One sentence after the other."""

        def again() -> None:
            if asked.took_s is not None:
                latencies.append(asked.took_s)
            self.keep_asking(caller, latencies)

        asked = self.ask(caller, and_then=again)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.step()

    def step(self) -> None:
        self.before_step()
        loads: dict[BatchKey, Load] = {}
        rows: Counter[object] = Counter()
        for one, _ in self.decoding:
            loads[one.batch] = loads.get(one.batch, Load()).with_one_more(one)
            rows[one.owner] += one.width
            rows[one.caller] += one.width
        if self.scheduler.num_waiting:
            joined = self.scheduler.take(loads, rows)
            self.decoding += [(one, [one.likely_target]) for one in joined]
        self.now += IDLE_STEP_S + ROW_S * sum(one.width for one, _ in self.decoding)
        for _, left in self.decoding:
            left[0] -= 1
        finished = [one for one, left in self.decoding if not left[0]]
        self.decoding = [(one, left) for one, left in self.decoding if left[0]]
        if finished:
            self.scheduler.finished(finished)
        for one in finished:
            asked = self.requests[one.owner]
            asked.num_left -= 1
            if not asked.num_left:
                asked.took_s = self.now - asked.began
                if asked.and_then is not None:
                    asked.and_then()


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


def caller(number: int) -> Caller:
    return Caller(f"caller {number}")


def latency_in_a_crowd() -> float:
    """The p95 of a caller of single sentences beside 64 others."""
    crowd = Simulation()
    latencies: list[float] = []
    for number in range(65):
        crowd.keep_asking(caller(number), latencies if number == 0 else [])
    crowd.run(60.0)
    return p95(latencies)


@pytest.mark.parametrize("a_request", [1, 50, 10_000])
def test_ten_thousand_sentences_of_a_caller_delay_another_less_than_a_crowd_does(a_request: int) -> None:
    simulation = Simulation()
    for _ in range(10_000 // a_request):
        simulation.ask(caller(1), a_request)
    simulation.run(1.0)
    latencies: list[float] = []
    simulation.keep_asking(caller(0), latencies)
    simulation.run(30.0)
    assert simulation.scheduler.num_waiting > 5_000
    assert p95(latencies) < latency_in_a_crowd(), "twice that is allowed"


def test_without_callers_the_ten_thousand_would_delay_everybody() -> None:
    simulation = Simulation()
    for _ in range(1_000):
        simulation.ask(caller(0))
    simulation.run(1.0)
    asked = simulation.ask(caller(0))
    while asked.took_s is None:
        simulation.step()
    assert asked.took_s > 5 * latency_in_a_crowd()


def warm() -> Simulation:
    """A simulation with a measured throughput, and without load."""
    simulation = Simulation()
    simulation.ask(caller(99), 300)
    simulation.run(60.0)
    assert not simulation.scheduler.num_waiting
    return simulation


def alone(simulation: Simulation) -> Asked:
    return simulation.ask(caller(1), 300)


def beside_small_requests(simulation: Simulation) -> Asked:
    for number in range(5):
        simulation.ask(caller(number), 50)
    return simulation.ask(caller(9), 500)


def beside_large_requests(simulation: Simulation) -> Asked:
    for number in range(5):
        simulation.ask(caller(number), 300)
    simulation.run(1.0)
    return simulation.ask(caller(9), 300)


def beside_ten_thousand(simulation: Simulation) -> Asked:
    simulation.ask(caller(1), 10_000)
    simulation.run(3.0)
    return simulation.ask(caller(2), 100)


def behind_its_own_request(simulation: Simulation) -> Asked:
    simulation.ask(caller(1), 500)
    simulation.run(3.0)
    return simulation.ask(caller(1), 300)


def in_a_crowd(simulation: Simulation) -> Asked:
    for number in range(64):
        simulation.keep_asking(caller(number), [])
    simulation.run(20.0)
    return simulation.ask(caller(99), 100)


def beside_arrivals(share: float) -> Callable[[Simulation], Asked]:
    """Single sentences of 40 callers arrive, whatever becomes of them; their share of the throughput is given."""

    def situation(simulation: Simulation) -> Asked:
        per_s = share * 64 / (IDLE_STEP_S + 64 * ROW_S) / (12.5 * BEAM.width)
        due = simulation.now

        def arrive() -> None:
            nonlocal due
            while due <= simulation.now:
                simulation.ask(caller(simulation.rng.randrange(40)))
                due += simulation.rng.expovariate(per_s)

        simulation.before_step = arrive
        simulation.run(30.0)
        return simulation.ask(caller(99), 300)

    return situation


def bulk_behind_interactive(simulation: Simulation) -> Asked:
    simulation.ask(caller(1), 300)
    simulation.run(1.0)
    return simulation.ask(BULK, 100)


SITUATIONS = {
    "alone": alone,
    "beside small requests": beside_small_requests,
    "beside large requests": beside_large_requests,
    "beside ten thousand": beside_ten_thousand,
    "behind its own request": behind_its_own_request,
    "in a crowd": in_a_crowd,
    "beside arrivals, 30 %": beside_arrivals(0.3),
    "beside arrivals, 60 %": beside_arrivals(0.6),
    "bulk behind interactive": bulk_behind_interactive,
}


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS.keys())
def test_an_estimate_is_off_by_less_than_a_quarter(situation: Callable[[Simulation], Asked]) -> None:
    simulation = warm()
    asked = situation(simulation)
    assert asked.estimate_s is not None
    while asked.took_s is None:
        simulation.step()
    assert abs(asked.estimate_s / asked.took_s - 1.0) < 0.25


def test_a_request_that_would_miss_its_deadline_is_refused_at_once() -> None:
    simulation = warm()
    for _ in range(20):
        simulation.ask(caller(1), 50)
    simulation.run(1.0)
    num_waiting = simulation.scheduler.num_waiting
    with pytest.raises(DeadlineUnreachable) as refused:
        simulation.ask(caller(1), 100, within_s=10.0)
    assert refused.value.estimate_s > 10.0
    assert refused.value.retry_after_s is not None
    assert simulation.scheduler.num_waiting == num_waiting, "a refused request changes nothing"
    other = simulation.ask(caller(2), 100, within_s=10.0)
    simulation.run(10.0)
    assert other.took_s is not None, "the queue of the other caller is not in its way"


def test_after_the_time_that_a_refusal_names_there_is_room() -> None:
    simulation = warm()
    for _ in range(20):
        simulation.ask(caller(1), 50)
    simulation.run(1.0)
    with pytest.raises(DeadlineUnreachable) as refused:
        simulation.ask(caller(1), 100, within_s=10.0)
    simulation.run((refused.value.retry_after_s or 0.0) + 1.0)
    late = simulation.ask(caller(1), 100, within_s=10.0)
    simulation.run(10.0)
    assert late.took_s is not None


def test_a_request_that_is_too_large_at_any_time_is_not_to_be_retried() -> None:
    with pytest.raises(DeadlineUnreachable, match="send less at once") as refused:
        warm().ask(caller(1), 1_000, within_s=5.0)
    assert refused.value.retry_after_s is None


def test_without_a_measured_throughput_nothing_is_refused() -> None:
    simulation = Simulation()
    asked = simulation.ask(caller(1), 10_000, within_s=0.001)
    assert asked.estimate_s is None
    simulation.run(0.5)
    assert simulation.ask(caller(1), 10_000, within_s=0.001).estimate_s is None, "half a second is no evidence"


def test_few_sentences_at_a_time_do_not_count_as_slowness() -> None:
    simulation = warm()
    before = simulation.estimate_s(simulation.sentences(caller(2), 300))
    for _ in range(100):
        simulation.ask(caller(1))
        simulation.run(1.0)
    after = simulation.estimate_s(simulation.sentences(caller(2), 300))
    assert before is not None and after is not None
    assert after == pytest.approx(before, rel=0.1)


def test_interactive_sentences_go_before_bulk_ones() -> None:
    simulation = Simulation()
    simulation.ask(BULK, 5_000)
    simulation.run(5.0)
    latencies: list[float] = []
    for number in range(8):
        simulation.keep_asking(caller(number), latencies)
    simulation.run(30.0)
    alone: list[float] = []
    other = Simulation()
    for number in range(8):
        other.keep_asking(caller(number), alone)
    other.run(30.0)
    assert p95(latencies) < 2 * p95(alone)
    assert simulation.scheduler.num_waiting_of(Priority.BULK) < 5_000
