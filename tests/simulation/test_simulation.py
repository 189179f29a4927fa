"""Seeds of the simulation, and faults that it must notice."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.mutants import MUTANTS, Mutant, noticed
from tests.simulation.simulation import draw, quiet, shrink, simulate

NUM_SEEDS = 300
_BLOCK = 30


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with quiet():
        yield


@pytest.mark.parametrize("first", range(0, NUM_SEEDS, _BLOCK))
def test_every_sentence_has_one_right_outcome_whatever_happens(first: int) -> None:
    failures = {
        seed: str(report.error)
        for seed in range(first, first + _BLOCK)
        if (report := simulate(draw(seed))).error is not None
    }
    assert not failures, f"repeat one with: python -m tests.simulation {min(failures)}"


def test_a_seed_repeats_everything() -> None:
    for seed in (11, 23, 52, 148):
        assert simulate(draw(seed)).trace.digest == simulate(draw(seed)).trace.digest


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.what for mutant in MUTANTS])
def test_every_planted_fault_is_noticed(mutant: Mutant) -> None:
    assert noticed(mutant) is not None


def test_a_failing_seed_is_reduced_to_the_events_that_make_it_fail() -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.what == "withdrawn sentences are not counted")
    report = noticed(mutant)
    assert report is not None
    with mutant.planted():
        fewest = shrink(report.scenario, lambda scenario: simulate(scenario).summary == report.summary)
        assert simulate(fewest).summary == report.summary
    assert len(fewest.events) <= 3 < len(report.scenario.events)
    assert simulate(fewest).error is None
