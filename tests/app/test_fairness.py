"""Fairness and estimates, with a simulated model and a simulated clock."""

from __future__ import annotations

import functools
import statistics

import pytest

from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE
from app.errors import DeadlineUnreachable
from benchmarks.simulated_engine import CPU, GPU, LARGE, SITUATIONS, Simulation, Speed, caller, estimate_errors, warm
from model.decoding.options import DecodingOptions

BULK = Caller("bulk", Priority.BULK)


def p95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]


@functools.cache
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
    assert simulation.finish(simulation.ask(caller(0))) > 5 * latency_in_a_crowd()


@pytest.mark.parametrize("name", ["alone", "1 large queue", "3 queues", "20 queues", "10 who wait, 20 each"])
def test_an_estimate_beside_queues_is_off_by_less_than_a_quarter(name: str) -> None:
    (error,) = estimate_errors(SITUATIONS[name], CPU, [3.0], [1])
    assert abs(error) < 0.25


@pytest.mark.parametrize("name", ["1 who wait, single", "10 who wait, single", "40 arriving, single, 60%"])
def test_an_estimate_beside_callers_without_a_queue_is_not_too_high(name: str) -> None:
    """It counts nothing for them: a request may get 504 instead of an early 429, and is never refused in vain."""
    (error,) = estimate_errors(SITUATIONS[name], CPU, [3.0], [1])
    assert error < 0.25


def test_an_estimate_counts_what_is_ahead_of_the_same_caller() -> None:
    simulation = warm()
    simulation.ask(caller(1), 500)
    simulation.run(3.0)
    request = simulation.ask(caller(1), 300)
    assert request.estimate_s == pytest.approx(simulation.finish(request), rel=0.25)


def test_an_estimate_for_bulk_counts_what_is_interactive() -> None:
    simulation = warm()
    simulation.ask(caller(1), 300)
    simulation.run(1.0)
    request = simulation.ask(BULK, 100)
    assert request.estimate_s == pytest.approx(simulation.finish(request), rel=0.25)


def test_an_estimate_for_bulk_is_finite_where_interactive_callers_use_the_whole_model() -> None:
    simulation = warm()
    simulation.keep_arriving(40, 1.2, [1])
    for _ in range(200):
        simulation.run(0.1)
        estimate_s = simulation.scheduler.estimate_s(simulation.sentences(BULK, 50))
        assert estimate_s is not None and estimate_s < 1_000.0


def test_an_estimate_for_bulk_is_no_larger_while_a_large_interactive_request_is_worked_off() -> None:
    """The demand, which falls slowly, then equals the throughput for a moment."""
    simulation = warm(Speed(0.002, 0.0003, max_rows=256))
    simulation.ask(caller(1))
    large = simulation.ask(caller(1), 400)
    estimates = []
    while large.took_s is None:
        simulation.run(0.05)
        sentences = simulation.sentences(BULK, 4, DecodingOptions(decoding="greedy"))
        estimates.append(simulation.scheduler.estimate_s(sentences) or 0.0)
    assert len(estimates) > 50
    assert max(estimates) < 2 * statistics.median(estimates)


def test_an_estimate_does_not_count_rows_that_are_free_again() -> None:
    simulation = warm()
    before = simulation.ask(caller(1), 100).estimate_s
    simulation.run(60.0)
    assert simulation.ask(caller(2), 100).estimate_s == pytest.approx(before, rel=0.1)


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
    request = simulation.ask(caller(1), 10_000, within_s=0.001)
    assert request.estimate_s is None
    simulation.run(0.5)
    assert simulation.ask(caller(1), 10_000, within_s=0.001).estimate_s is None, "half a second is no evidence"


def test_few_sentences_at_a_time_do_not_count_as_slowness() -> None:
    simulation = warm()
    before = simulation.scheduler.estimate_s(simulation.sentences(caller(2), 300))
    for _ in range(100):
        simulation.ask(caller(1))
        simulation.run(1.0)
    after = simulation.scheduler.estimate_s(simulation.sentences(caller(2), 300))
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


@pytest.mark.slow
@pytest.mark.parametrize("speed", [CPU, GPU, LARGE], ids=["CPU", "GPU", "large"])
@pytest.mark.parametrize("num_callers", [1, 2, 20])
def test_bulk_gets_a_sixteenth_of_the_work_beside_steady_callers_and_hardly_delays_them(
    num_callers: int, speed: Speed
) -> None:
    def steady(simulation: Simulation) -> list[float]:
        latencies: list[float] = []
        for number in range(num_callers):
            simulation.keep_asking(caller(number), latencies)
        simulation.run(20.0)
        return latencies

    alone = steady(Simulation(speed))
    simulation = Simulation(speed)
    batches: list[float] = []
    simulation.keep_asking(BULK, batches, 16)
    beside = steady(simulation)
    (remaining,) = [request.num_left for request in simulation.requests.values() if request.num_sentences > 1]
    assert 16 * len(batches) + 16 - remaining > 0.9 * BULK_SHARE * len(beside)
    assert p95(beside) < 1.6 * p95(alone)
    assert len(beside) > 0.6 * len(alone)


def test_bulk_has_the_whole_model_between_requests_that_come_now_and_then() -> None:
    def batches_done(pause_s: float) -> int:
        simulation = Simulation()
        batches: list[float] = []
        simulation.keep_asking(BULK, batches, 16)
        for _ in range(round(30.0 / pause_s)):
            simulation.ask(caller(0))
            simulation.run(pause_s)
        return len(batches)

    assert batches_done(1.0) > 0.7 * batches_done(30.0)
