"""The line before the model, with a clock of its own; no thread, no torch, no waiting."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import QueueFull
from app.scheduler import OVERTAKE_S, Budget, Load, Scheduler, WaitingSentence
from model.decoding.options import DecodingOptions


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def nobody(outcome: object) -> None:
    """Takes an outcome that never comes."""


KEYS = itertools.count()


def sentence(length: int = 5, width: int = 1, longest_target: int = 10) -> WaitingSentence:
    options = DecodingOptions(
        decoding="greedy" if width == 1 else "beam", beam_size=max(width, 1), max_new_tokens=longest_target
    )
    return WaitingSentence(next(KEYS), [1] * length, options, nobody)


def scheduler(clock: Clock, max_tokens: int = 1000, max_rows: int = 100, max_waiting: int = 1000) -> Scheduler:
    return Scheduler(Budget(max_tokens, max_rows), max_waiting, clock)


def take_all(line: Scheduler) -> list[WaitingSentence]:
    return line.take({})


def test_sentences_join_in_the_order_they_came() -> None:
    clock = Clock()
    line = scheduler(clock, max_rows=2)
    first, second, third = sentence(), sentence(), sentence()
    for one in (first, second, third):
        line.admit([one])
        clock.now += 0.001
    assert take_all(line) == [first, second]
    assert take_all(line) == [third]
    assert take_all(line) == []


def test_a_long_document_does_not_keep_a_short_request_waiting() -> None:
    clock = Clock()
    line = scheduler(clock, max_rows=10)
    document = [sentence() for _ in range(100)]
    line.admit(document)
    clock.now += 0.05
    short = sentence()
    line.admit([short])
    assert short in take_all(line)
    assert line.num_waiting == 91


def test_a_request_is_admitted_whole_or_not_at_all() -> None:
    line = scheduler(Clock(), max_waiting=3)
    line.admit([sentence(), sentence()])
    with pytest.raises(QueueFull, match="2 sentences, 2 wait already and 3 may") as refused:
        line.admit([sentence(), sentence()])
    assert 1 <= (refused.value.retry_after_s or 0) <= 60
    assert line.num_waiting == 2
    line.admit([sentence()])


def test_padding_counts_against_the_budget() -> None:
    line = scheduler(Clock(), max_tokens=60)
    line.admit([sentence(20, longest_target=1), sentence(5, longest_target=1), sentence(5, longest_target=1)])
    line.admit([sentence(5, longest_target=1)])
    # 3 sentences padded to 20 are 60 tokens; a fourth would be 80.
    assert len(take_all(line)) == 3


def test_rows_times_longest_target_count_against_the_budget() -> None:
    line = scheduler(Clock(), max_tokens=100)
    line.admit([sentence(2, width=4, longest_target=10) for _ in range(4)])
    assert len(take_all(line)) == 2


def test_what_decodes_already_takes_its_share() -> None:
    line = scheduler(Clock(), max_rows=10)
    line.admit([sentence() for _ in range(8)])
    assert len(line.take({1: Load(6, 6, 5, 10)})) == 4
    assert line.take({1: Load(10, 10, 5, 10)}) == []
    # Another width decodes beside it, within the same rows.
    assert len(line.take({4: Load(2, 8, 5, 10)})) == 2


def test_one_sentence_alone_always_fits() -> None:
    line = scheduler(Clock(), max_tokens=1, max_rows=1)
    huge = sentence(500, width=16, longest_target=500)
    line.admit([huge])
    assert take_all(line) == [huge]


def test_those_who_join_together_have_one_width() -> None:
    line = scheduler(Clock())
    greedy, beam, other = sentence(), sentence(width=4), sentence()
    line.admit([greedy])
    line.admit([beam])
    line.admit([other])
    assert take_all(line) == [greedy, other]
    assert take_all(line) == [beam]


def test_smaller_ones_overtake_one_that_does_not_fit_for_a_while_only() -> None:
    clock = Clock()
    line = scheduler(clock, max_tokens=100)
    decoding = {1: Load(4, 4, 10, 10)}
    long = sentence(60)
    line.admit([long])
    small = [sentence() for _ in range(3)]
    clock.now += 0.01
    for one in small[:2]:
        line.admit([one])
    assert line.take(decoding) == small[:2]
    line.admit([small[2]])
    clock.now += OVERTAKE_S
    assert line.take(decoding) == []
    assert line.take({}) == [long]


def test_whoever_withdraws_is_in_the_line_no_more() -> None:
    line = scheduler(Clock())
    first, second = sentence(), sentence()
    line.admit([first, second])
    assert line.withdraw({first.key, 10**9}) == [first]
    assert take_all(line) == [second]
    assert line.withdraw({second.key}) == []


def test_the_time_a_sentence_waited_is_kept() -> None:
    clock = Clock()
    line = scheduler(clock)
    one = sentence()
    line.admit([one])
    clock.now += 3
    take_all(line)
    assert one.started_at - one.arrived_at == 3


def test_advice_follows_the_speed_and_stays_between_a_second_and_a_minute() -> None:
    clock = Clock()
    line = scheduler(clock)
    assert line.retry_after_s() == 1.0
    line.admit([sentence() for _ in range(900)])
    slow = line.retry_after_s()
    for _ in range(50):
        clock.now += 1
        line.finished(200)
    assert 1.0 <= line.retry_after_s() < slow <= 60.0


@given(
    requests=st.lists(
        st.lists(st.tuples(st.integers(1, 40), st.sampled_from([1, 2, 4])), min_size=1, max_size=8), max_size=10
    ),
    steps=st.lists(st.floats(0, 1), max_size=20),
)
def test_no_sentence_is_lost_or_taken_twice(requests: Sequence[list[tuple[int, int]]], steps: list[float]) -> None:
    clock = Clock()
    line = scheduler(clock, max_tokens=200, max_rows=8)
    admitted: set[int] = set()
    for request in requests:
        sentences = [sentence(length, width) for length, width in request]
        line.admit(sentences)
        admitted |= {one.key for one in sentences}
    taken: list[int] = []
    for step in [*steps, *[1.0] * (len(admitted) + 1)]:
        clock.now += step
        joined = take_all(line)
        assert len({one.width for one in joined}) <= 1
        load = Load()
        for one in joined:
            load = load.with_one_more(one)
        assert not joined or load.fits(line.budget)
        taken += [one.key for one in joined]
    assert sorted(taken) == sorted(admitted)
    assert line.num_waiting == 0
