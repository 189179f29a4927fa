"""Limits in memory: requests a minute, sentences at a time."""

from __future__ import annotations

import random

import pytest

from app.accounts.addresses import subscriber_of
from app.accounts.rates import WINDOW_S, RequestRates, RunningSentences
from app.errors import ConcurrencyExceeded, LimitExceeded
from tests.waiting import Clock


def test_a_minute_may_be_used_at_once_and_then_comes_back_bit_by_bit() -> None:
    clock = Clock()
    rates = RequestRates(clock)
    assert [rates.take("a", 3).remaining for _ in range(3)] == [2, 1, 0]
    refused = rates.take("a", 3)
    assert refused.retry_after_s == pytest.approx(20.0)
    assert refused.reset_s == pytest.approx(60.0)
    assert rates.take("b", 3).retry_after_s is None
    clock.now += 19.9
    assert rates.take("a", 3).retry_after_s == pytest.approx(0.1)
    clock.now += 0.1
    assert rates.take("a", 3).retry_after_s is None
    assert rates.take("a", 3).retry_after_s is not None
    clock.now += 60.0
    assert rates.take("a", 3).remaining == 2


@pytest.mark.parametrize("limit", [1, 7, 60, 1_000_000])
def test_whoever_waits_as_told_is_let_in(limit: int) -> None:
    clock = Clock()
    rates = RequestRates(clock)
    rng = random.Random(limit)
    accepted = 0
    for _ in range(300):
        rate = rates.take("a", limit)
        accepted += rate.retry_after_s is None
        if rate.retry_after_s is not None:
            clock.now += rate.retry_after_s
            assert rates.take("a", limit).retry_after_s is None
            accepted += 1
        clock.now += rng.random() * WINDOW_S / limit
    assert accepted <= limit + limit * (clock.now - 1_000.0) / WINDOW_S + 1e-3


def test_sentences_are_counted_while_they_run() -> None:
    running = RunningSentences()
    with running.hold("a", 6, 10):
        with pytest.raises(ConcurrencyExceeded) as refused, running.hold("a", 5, 10):
            pass
        assert refused.value.retry_after_s == 1.0
        with running.hold("a", 4, 10), running.hold("b", 10, 10):
            pass
    with running.hold("a", 10, 10):
        pass
    with pytest.raises(LimitExceeded), running.hold("a", 11, 10):
        pass


def test_sentences_are_given_back_when_the_request_fails() -> None:
    running = RunningSentences()
    with pytest.raises(RuntimeError), running.hold("a", 10, 10):
        raise RuntimeError
    with running.hold("a", 10, 10):
        pass


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("", ""),
        ("unknown" * 100, ("unknown" * 100)[:64]),
    ],
)
def test_an_address_is_that_of_a_subscriber(host: str, expected: str) -> None:
    assert subscriber_of(host) == expected
