"""The order in which callers take turns."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.caller import Caller, Priority
from app.engine.fair_queue import BULK_SHARE, DEBT, QUANTUM, Choice, FairQueue

KEYS = itertools.count()


@dataclass(eq=False)
class Sentence:
    caller: Caller
    cost: float = 10.0
    owner: object = None
    key: int = field(default_factory=lambda: next(KEYS))


def interactive(number: int) -> Caller:
    return Caller(f"caller {number}")


BULK = Caller("bulk", Priority.BULK)


def queue_of(sentences: Sequence[Sentence]) -> FairQueue[Sentence]:
    queue: FairQueue[Sentence] = FairQueue()
    for position, sentence in enumerate(sentences):
        queue.add(float(position), sentence)
    return queue


def take(queue: FairQueue[Sentence], number: int, a_turn: int = 1) -> list[Sentence]:
    """Take some sentences, at most ``a_turn`` of them in one turn."""
    drawn: list[Sentence] = []
    while len(drawn) < number and len(queue):
        drawn += take_at_once(queue, min(a_turn, number - len(drawn)))
    return drawn


def take_at_once(queue: FairQueue[Sentence], number: int) -> list[Sentence]:
    """Take some sentences in one turn."""
    num_offered = 0

    def decide(_: Sentence) -> Choice:
        nonlocal num_offered
        num_offered += 1
        return Choice.TAKE

    return queue.choose(decide, lambda: num_offered == number)


def choose(queue: FairQueue[Sentence], *choices: Choice) -> list[Sentence]:
    """The sentences that are offered, as long as there are choices."""
    offered: list[Sentence] = []

    def decide(sentence: Sentence) -> Choice:
        offered.append(sentence)
        return choices[len(offered) - 1]

    queue.choose(decide, lambda: len(offered) == len(choices))
    return offered


costs = st.sampled_from([1.0, 9.0, 32.0, 64.0, 80.0, 500.0])
arriving = st.lists(st.tuples(st.integers(0, 3), costs), max_size=60)


@given(arriving, st.integers(1, 5))
@settings(max_examples=100)
def test_nothing_is_lost_and_the_sentences_of_a_caller_stay_in_order(
    arrivals: list[tuple[int, float]], a_turn: int
) -> None:
    sentences = [Sentence(interactive(number) if number else BULK, cost) for number, cost in arrivals]
    queue = queue_of(sentences)
    outcomes = take(queue, len(sentences) + 1, a_turn)
    assert len(queue) == queue.num_waiting(Priority.INTERACTIVE) == queue.num_waiting(Priority.BULK) == 0
    assert sorted(item.key for item in outcomes) == [item.key for item in sentences]
    for caller in {sentence.caller for sentence in sentences}:
        keys = [item.key for item in outcomes if item.caller == caller]
        assert keys == sorted(keys)


@given(st.lists(st.lists(costs, min_size=30, max_size=30), min_size=2, max_size=5), st.integers(1, 4))
@settings(max_examples=100)
def test_callers_that_wait_all_the_time_get_the_same_amount_of_work_done(
    of_callers: list[list[float]], a_turn: int
) -> None:
    queue = queue_of([Sentence(interactive(number), cost) for number, item in enumerate(of_callers) for cost in item])
    work: Counter[str] = Counter({interactive(number).id: 0 for number in range(len(of_callers))})
    while all(queue.queue_of(interactive(number)) for number in range(len(of_callers))):
        for sentence in take(queue, 1, a_turn):
            work[sentence.caller.id] += int(sentence.cost)
        # Shreedhar and Varghese 1996, lemma 2: a caller's turns differ by the largest sentence and a quantum.
        assert max(work.values()) - min(work.values()) <= 2 * 500 + QUANTUM


@given(st.lists(st.sampled_from([1.0, 32.0, 64.0, 80.0]), min_size=1, max_size=4), st.integers(1, 6))
@settings(max_examples=50)
def test_a_new_caller_waits_for_a_bounded_amount_of_work(expected: list[float], num_others: int) -> None:
    crowd = [Sentence(interactive(1 + number), 10.0) for number in range(num_others) for _ in range(100)]
    queue = queue_of(crowd)
    take(queue, 50)
    new = [Sentence(interactive(0), cost) for cost in expected]
    for position, sentence in enumerate(new):
        queue.add(float(position), sentence)
    before: list[Sentence] = []
    while queue.queue_of(interactive(0)):
        before += take(queue, 1)
    theirs = sum(sentence.cost for sentence in before if sentence.caller != interactive(0))
    assert theirs <= num_others * (sum(expected) + 2 * QUANTUM)


def test_a_single_sentence_waits_for_no_more_than_a_turn_of_a_caller_with_ten_thousand() -> None:
    queue = queue_of([Sentence(interactive(1)) for _ in range(10_000)])
    take(queue, 100, 3)
    single = Sentence(interactive(2))
    queue.add(0.0, single)
    assert single in take(queue, 1 + int(QUANTUM / 10.0))


def test_a_caller_saves_nothing_while_it_does_not_wait() -> None:
    queue: FairQueue[Sentence] = FairQueue()
    for _ in range(100):
        queue.add(0.0, Sentence(interactive(1), 1.0))
        take(queue, 1)
    for number in (1, 2):
        for _ in range(100):
            queue.add(0.0, Sentence(interactive(number)))
    work = Counter(sentence.caller.id for sentence in take(queue, 60))
    assert abs(work["caller 1"] - work["caller 2"]) <= QUANTUM / 10.0 + 1


def test_interactive_callers_go_before_bulk_callers_which_do_not_starve() -> None:
    queue = queue_of([Sentence(BULK) for _ in range(500)] + [Sentence(interactive(1)) for _ in range(500)])
    outcomes = take(queue, 500)
    assert {sentence.caller for sentence in outcomes[: int(DEBT / BULK_SHARE / 10.0)]} == {interactive(1)}
    num_bulk = sum(item.caller == BULK for item in outcomes)
    assert 0 <= (500 - num_bulk) * BULK_SHARE - num_bulk <= DEBT / 10.0 + 1


def test_what_bulk_callers_did_alone_does_not_count_against_them() -> None:
    queue = queue_of([Sentence(BULK) for _ in range(1000)])
    take(queue, 500)
    for _ in range(500):
        queue.add(0.0, Sentence(interactive(1)))
    assert BULK in {sentence.caller for sentence in take(queue, 2 + round(DEBT / BULK_SHARE / 10.0))}


def test_bulk_callers_are_owed_nothing_for_the_time_before_they_came() -> None:
    queue = queue_of([Sentence(interactive(1)) for _ in range(1000)])
    take(queue, 500)
    queue.add(0.0, Sentence(BULK))
    assert {sentence.caller for sentence in take(queue, 1)} == {interactive(1)}


def test_a_caller_whose_sentence_could_not_begin_is_first_in_the_next_turn() -> None:
    blocked = Sentence(interactive(1))
    queue = queue_of([blocked, *(Sentence(interactive(2)) for _ in range(20))])
    offered = choose(queue, Choice.PASS_OVER, *[Choice.TAKE] * 10)
    assert offered[0] is blocked and len(offered) == 11
    assert take(queue, 1) == [blocked]


def test_sentences_behind_one_that_was_passed_over_are_offered() -> None:
    first, second = Sentence(interactive(1)), Sentence(interactive(1))
    queue = queue_of([first, second])
    assert choose(queue, Choice.PASS_OVER, Choice.PASS_OVER) == [first, second]
    assert take(queue, 2) == [first, second]


def test_a_request_that_was_passed_over_is_out_of_the_way_of_others() -> None:
    large = [Sentence(interactive(1), owner="large") for _ in range(100)]
    small = Sentence(interactive(1), owner="small")
    other = [Sentence(interactive(2), owner="other") for _ in range(100)]
    queue = queue_of([*large, small, *other])
    passed_over: list[Sentence] = []

    def decide(sentence: Sentence) -> Choice:
        if sentence is small:
            return Choice.TAKE
        passed_over.append(sentence)
        return Choice.PASS_OVER_REQUEST

    assert queue.choose(decide) == [small]
    assert passed_over == [large[0], other[0]]
    assert {first.key for first in take(queue, 201)} == {first.key for first in (*large, *other)}, "until the next turn"


def test_removed_sentences_are_not_offered_and_empty_queues_have_no_turn() -> None:
    stored, removed = Sentence(interactive(1)), Sentence(interactive(2))
    queue = queue_of([stored, removed])
    assert queue.remove({removed.key, 10**9}) == [removed]
    assert queue.queue_of(interactive(2)) is None
    assert queue.remove({removed.key}) == []
    assert take(queue, 2) == [stored]


def test_what_bulk_callers_are_owed_is_forgotten_when_none_of_them_waits() -> None:
    removed = Sentence(BULK)
    many = round(0.9 * DEBT / BULK_SHARE / 10.0)  # sentences of 10 tokens each: bulk is owed nearly enough to go first
    queue = queue_of([removed, *(Sentence(interactive(1)) for _ in range(1000))])
    assert removed not in take(queue, many)
    queue.remove([removed.key])
    queue.add(0.0, Sentence(BULK))
    assert {sentence.caller for sentence in take(queue, many)} == {interactive(1)}
