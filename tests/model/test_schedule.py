"""The learning rate, compared with hand-computed values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.training.schedule import learning_rate


def rate(step: int, cooldown_steps: int = 50) -> float:
    return learning_rate(step, peak=2.0, warmup_steps=100, cooldown_steps=cooldown_steps, max_steps=500)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (0, 2.0 / 100),
        (49, 1.0),
        (99, 2.0),  # the peak, at the end of the warm-up
        (399, 1.0),  # four times as many updates, half the rate
        (449, 2.0 * math.sqrt(100 / 450)),
        (450, 2.0 * math.sqrt(100 / 451)),  # fifty steps left of fifty: the cool-down begins
        (475, 2.0 * math.sqrt(100 / 476) / 2),  # half way down
        (499, 2.0 * math.sqrt(100 / 500) / 50),
    ],
)
def test_the_rate_rises_linearly_falls_with_the_root_and_cools_down(step: int, expected: float) -> None:
    assert rate(step) == pytest.approx(expected, rel=1e-12)


def test_without_a_cooldown_the_inverse_root_continues_to_the_end() -> None:
    assert rate(499, cooldown_steps=0) == pytest.approx(2.0 * math.sqrt(100 / 500))


def test_the_schedule_is_that_of_the_paper_with_an_explicit_peak() -> None:
    # d_model^-0.5 * min(step^-0.5, step * warmup^-1.5) for d_model 512, 4000 warm-up steps, steps counted from 1.
    peak = 512**-0.5 * 4000**-0.5
    for step in (1, 1000, 4000, 4001, 90_000):
        expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
        actual = learning_rate(step - 1, peak=peak, warmup_steps=4000, cooldown_steps=0, max_steps=100_000)
        assert actual == pytest.approx(expected, rel=1e-12)


@given(st.integers(1, 300), st.integers(0, 300), st.integers(1, 300))
def test_the_rate_is_above_zero_and_never_above_the_peak(warmup: int, cooldown: int, max_steps: int) -> None:
    for step in range(0, max_steps, 7):
        result = learning_rate(
            step, peak=0.5, warmup_steps=warmup, cooldown_steps=min(cooldown, max_steps), max_steps=max_steps
        )
        assert 0 < result <= 0.5
