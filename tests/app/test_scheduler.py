"""The scheduler's queue, with an injected clock; no thread, no torch, no waiting."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.caller import UNKNOWN_CALLER, Caller, Priority
from app.engine.joining import CALLER_SHARE, OVERTAKE_S, Budget, Load, fits
from app.engine.queued_sentence import BatchKey, QueuedSentence
from app.engine.scheduler import INTERACTIVE_S, MAX_PASSED_OVER, MAX_SIZE_PENALTY_S, OTHERS_S, Admission, Scheduler
from app.errors import QueueFull
from model.decoding.options import DecodingOptions
from model.decoding.sentence import DecodingRequest
from tests.waiting import Clock


def ignore(outcome: object) -> None:
    """Receives an outcome that is never delivered."""


KEYS = itertools.count()


MODEL: Any = "a model"
OTHER: Any = "another model"


def sentence(length: int = 5, width: int = 1, longest_target: int = 10, model: Any = MODEL) -> QueuedSentence:
    options = DecodingOptions(
        decoding="greedy" if width == 1 else "beam", beam_size=max(width, 1), max_new_tokens=longest_target
    )
    return QueuedSentence(DecodingRequest(next(KEYS), [1] * length, options), model, ignore)


def decoded(number: int) -> list[QueuedSentence]:
    """Sentences that joined a cohort at the beginning of the test."""
    sentences = [sentence() for _ in range(number)]
    for item in sentences:
        item.started_at = 100.0
    return sentences


def scheduler(
    clock: Clock, max_tokens: int = 1000, max_rows: int = 100, max_waiting: int = 1000, **budget: Any
) -> Scheduler:
    return Scheduler(Budget(max_tokens, max_rows, **budget), max_waiting, clock)


def take_all(queue: Scheduler) -> list[QueuedSentence]:
    return queue.take({})


def test_sentences_join_in_order_of_arrival() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=2)
    first, second, third = sentence(), sentence(), sentence()
    for item in (first, second, third):
        queue.admit([item])
        clock.now += 0.001
    assert take_all(queue) == [first, second]
    assert take_all(queue) == [third]
    assert take_all(queue) == []


def test_a_long_document_does_not_delay_a_short_request() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=10)
    document = [sentence() for _ in range(100)]
    queue.admit(document)
    clock.now += 0.05
    short = sentence()
    queue.admit([short])
    assert short in take_all(queue)
    assert queue.num_waiting == 91


def test_a_request_is_admitted_whole_or_not_at_all() -> None:
    queue = scheduler(Clock(), max_waiting=3)
    queue.admit([sentence(), sentence()])
    with pytest.raises(QueueFull, match="2 of 3 sentences are waiting, and the request has 2") as refused:
        queue.admit([sentence(), sentence()])
    assert 1 <= (refused.value.retry_after_s or 0) <= 60
    assert queue.num_waiting == 2
    queue.admit([sentence()])


def test_padding_counts_against_the_budget() -> None:
    queue = scheduler(Clock(), max_tokens=60)
    queue.admit([sentence(20, longest_target=1), sentence(5, longest_target=1), sentence(5, longest_target=1)])
    queue.admit([sentence(5, longest_target=1)])
    # 3 sentences padded to 20 are 60 tokens; with a fourth there would be 80.
    assert len(take_all(queue)) == 3


def test_rows_times_longest_target_count_against_the_budget() -> None:
    queue = scheduler(Clock(), max_tokens=100)
    queue.admit([sentence(2, width=4, longest_target=10) for _ in range(4)])
    assert len(take_all(queue)) == 2


def test_running_sentences_count_against_the_budget() -> None:
    queue = scheduler(Clock(), max_rows=10)
    queue.admit([sentence() for _ in range(8)])
    assert len(queue.take({(MODEL, 1): Load(6, 6, 5, 10)})) == 4
    assert queue.take({(MODEL, 1): Load(10, 10, 5, 10)}) == []
    # Another width decodes concurrently, within the same rows.
    assert len(queue.take({(MODEL, 4): Load(2, 8, 5, 10)})) == 2


def test_one_sentence_alone_always_fits() -> None:
    queue = scheduler(Clock(), max_tokens=1, max_rows=1)
    huge = sentence(500, width=16, longest_target=500)
    queue.admit([huge])
    assert take_all(queue) == [huge]


def test_sentences_that_join_together_have_one_width() -> None:
    queue = scheduler(Clock())
    greedy, beam, other = sentence(), sentence(width=4), sentence()
    queue.admit([greedy])
    queue.admit([beam])
    queue.admit([other])
    assert take_all(queue) == [greedy, other]
    assert take_all(queue) == [beam]


def test_sentences_that_join_together_are_for_one_model() -> None:
    queue = scheduler(Clock())
    first, other, second = sentence(), sentence(model=OTHER), sentence()
    for item in (first, other, second):
        queue.admit([item])
    assert take_all(queue) == [first, second]
    assert take_all(queue) == [other]


def test_models_share_rows_and_tokens_but_not_padding() -> None:
    decoding = {(MODEL, 1): Load(8, 8, 10, 10)}
    for max_tokens, max_rows, joining in ((1000, 10, 2), (180, 100, 2), (179, 100, 1), (100, 100, 0)):
        queue = scheduler(Clock(), max_tokens=max_tokens, max_rows=max_rows)
        queue.admit([sentence(50, model=OTHER) for _ in range(3)])
        assert len(queue.take(decoding)) == joining, "padded to 50 each, in addition to 80 tokens without padding"


def test_short_sentences_precede_long_ones_that_arrived_slightly_earlier() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=1, token_s=0.001)
    long, short, late = sentence(50, longest_target=50), sentence(5), sentence(5)
    queue.admit([long])
    clock.now += 0.3
    queue.admit([short])
    clock.now += 0.2
    queue.admit([late])
    # 100 tokens take 0.1 s and count as 0.4 s, 10 tokens as 0.04 s.
    assert [queue.take({})[0] for _ in range(3)] == [short, long, late]


def test_the_size_penalty_counts_every_row_of_a_beam() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=4, token_s=0.001)
    wide, narrow = sentence(10, width=4), sentence(10)
    queue.admit([wide])
    clock.now += 0.1
    queue.admit([narrow])
    assert queue.take({}) == [narrow]


def test_the_penalty_for_size_is_bounded() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=1, token_s=10.0)
    endless, short = sentence(500, longest_target=500), sentence(1)
    queue.admit([endless])
    clock.now += MAX_SIZE_PENALTY_S
    queue.admit([short])
    assert queue.take({}) == [endless]


def test_a_single_sentence_goes_before_its_callers_large_request_also_where_the_model_is_slower_than_measured() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=1, token_s=0.0001)
    large = [sentence(10, longest_target=10) for _ in range(400)]  # 2 ms each by the probe, and 50 ms by what happens
    queue.admit([sentence(10, longest_target=10) for _ in range(60)])
    for _ in range(40):
        queue.take({})
        clock.now += 0.05
    queue.admit(large)
    for _ in range(100):
        queue.take({})
        clock.now += 0.05
    single = sentence(10, longest_target=10)
    queue.admit([single])
    batch = [queue.take({})[0] for _ in range(20)]
    assert single in batch
    assert queue.num_waiting > 300


@pytest.mark.parametrize("long", [(60, 1), (5, 8), (60, 8), (500, 1)])
def test_a_stream_of_short_sentences_cannot_starve_a_long_one(long: tuple[int, int]) -> None:
    """Short sentences fill all free rows continuously; each decodes for 0.05 s."""
    clock = Clock()
    queue = scheduler(clock, max_tokens=240, max_rows=8, token_s=0.001)
    decoding: list[tuple[float, QueuedSentence]] = []
    slow = sentence(long[0], long[1], longest_target=30)
    came_at = math.inf
    overtook: list[QueuedSentence] = []
    for turn in range(600):
        clock.now += 0.01
        decoding = [(end, item) for end, item in decoding if end > clock.now]
        queue.admit([sentence(5) for _ in range(4)])  # twice as many as fit
        if turn == 100:
            # Private: the order of the queue is visible only by taking sentences out of it.
            queue.withdraw({item.key for item in list(queue._queue)[8:]})
            queue.admit([slow])
            came_at = clock.now
        loads: dict[BatchKey, Load] = {}
        for _, item in decoding:
            loads[item.batch] = loads.get(item.batch, Load()).with_one_more(item)
        outcomes = queue.take(loads)
        overtook += [item for item in outcomes if item.arrived_at > came_at]
        decoding += [(clock.now + 0.05, item) for item in outcomes]
        if slow in outcomes:
            break
    bound_s = MAX_SIZE_PENALTY_S + OVERTAKE_S
    assert all(item.arrived_at <= came_at + bound_s for item in overtook)
    assert slow.started_at - came_at <= 2 * bound_s + 0.05, "it waits only for the sentences before it"


def test_encoding_in_one_turn_is_bounded() -> None:
    queue = scheduler(Clock(), max_join_tokens=40)
    queue.admit([sentence(10) for _ in range(3)])
    queue.admit([sentence(30)])
    queue.admit([sentence(5) for _ in range(2)])
    batch = [[item.num_source_tokens for item in take_all(queue)] for _ in range(4)]
    assert batch == [[10, 5, 10, 5], [30], [10], []], "a longer one would pad the others; it is first in the next turn"


def test_hastening_moves_a_sentence_ahead_and_never_back() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=1)
    document = [sentence() for _ in range(50)]
    queue.admit(document)
    clock.now += 0.015
    queue.hasten([document[40], document[0], sentence()], UNKNOWN_CALLER)
    assert [queue.take({})[0] for _ in range(4)] == [document[0], document[1], document[40], document[2]]
    assert queue.num_waiting == 46


def test_a_sentence_that_a_more_urgent_caller_waits_for_goes_with_those_of_that_caller() -> None:
    queue = scheduler(Clock(), max_rows=4)
    document = [sentence() for _ in range(50)]
    for first in document:
        first.caller, first.owner = Caller("documents", Priority.BULK), "a document"
    other = sentence()
    other.caller = Caller("b")
    queue.admit(document)
    queue.admit([other])
    queue.hasten([document[40]], Caller("a"))
    assert queue.num_waiting_of(Priority.INTERACTIVE) == 2
    assert queue.take({(MODEL, 1): Load(2, 2, 5, 10)}, {"a document": 3}) == [other, document[40]]


def test_a_less_urgent_caller_does_not_delay_a_sentence() -> None:
    queue = scheduler(Clock(), max_rows=1)
    mine = sentence()
    queue.admit([mine])
    queue.admit([sentence()])
    queue.hasten([mine], Caller("documents", Priority.BULK))
    assert take_all(queue) == [mine]


def test_a_single_sentence_does_not_wait_for_the_many_of_another_caller_that_submitted_it_before() -> None:
    queue = scheduler(Clock(), max_rows=1)
    many = [sentence() for _ in range(100)]
    for item in many:
        queue.admit([item])
    queue.hasten([many[90]], Caller("b"))
    assert many[90] in [queue.take({})[0] for _ in range(3)]


def test_hastening_takes_a_sentence_over_only_if_that_brings_it_forward() -> None:
    queue = scheduler(Clock(), max_rows=1)
    many = [sentence() for _ in range(10)]
    for item in many:
        queue.admit([item])
    # The first would have as many ahead of it as now. The fourth has fewer, and is then ahead of the second.
    queue.hasten([many[0], many[3], many[1]], Caller("b"))
    assert [item.caller.id for item in many] == ["", "", "", "b", *[""] * 6]


def test_hastened_sentences_go_in_the_order_of_the_request_that_waits_for_them() -> None:
    queue = scheduler(Clock(), max_rows=1)
    many = [sentence() for _ in range(20)]
    for item in many:
        queue.admit([item])
    hastened = [many[15], many[9], many[12]]
    queue.hasten(hastened, Caller("b"))
    drawn = [queue.take({})[0] for _ in range(20)]
    assert [item for item in drawn if item.caller == Caller("b")] == hastened
    assert max(map(drawn.index, hastened)) < 9


def test_smaller_sentences_overtake_one_that_does_not_fit_for_a_limited_time() -> None:
    clock = Clock()
    queue = scheduler(clock, max_tokens=100)
    decoding = {(MODEL, 1): Load(4, 4, 10, 10)}
    long = sentence(60)
    queue.admit([long])
    small = [sentence() for _ in range(3)]
    clock.now += 0.01
    for item in small[:2]:
        queue.admit([item])
    assert queue.take(decoding) == small[:2]
    queue.admit([small[2]])
    clock.now += OVERTAKE_S
    assert queue.take(decoding) == []
    assert queue.take({}) == [long]


def test_withdrawn_sentences_leave_the_queue() -> None:
    queue = scheduler(Clock())
    first, second = sentence(), sentence()
    queue.admit([first, second])
    assert queue.withdraw({first.key, 10**9}) == [first]
    assert take_all(queue) == [second]
    assert queue.withdraw({second.key}) == []


@pytest.mark.parametrize(("rate", "expected_s"), [(10, 45), (30, 15), (90, 5)])
@pytest.mark.parametrize("interval_s", [0.5, 1.0, 5.0])
def test_retry_after_is_the_time_for_half_of_the_queue_at_the_measured_rate(
    rate: int, expected_s: float, interval_s: float
) -> None:
    clock = Clock()
    queue = scheduler(clock)
    queue.admit([sentence() for _ in range(900)])
    queue.finished([])
    for _ in range(round(100.0 / interval_s)):
        clock.now += interval_s
        queue.finished(decoded(round(rate * interval_s)))
    assert queue.retry_after_s() == pytest.approx(expected_s, abs=1.0)


def test_the_measured_rate_forgets_what_was_ten_seconds_ago_by_about_two_thirds() -> None:
    clock = Clock()
    queue = scheduler(clock)
    queue.admit([sentence() for _ in range(900)])
    queue.finished([])
    clock.now += 10.0
    queue.finished(decoded(400))  # 40 each second, and 20 were assumed: 20 + (1 - 1 / e) * 20 is 32.6
    assert queue.retry_after_s() == math.ceil(450 / 32.6)


def test_idle_time_does_not_count_as_slowness() -> None:
    clock = Clock()
    queue = scheduler(clock)
    queue.admit([sentence()])
    first = take_all(queue)
    clock.now += 0.05
    queue.finished(first)
    clock.now += 3600.0
    queue.admit([sentence()])
    second = take_all(queue)
    clock.now += 0.05
    queue.finished(second)
    queue.admit([sentence() for _ in range(100)])
    assert queue.retry_after_s() < 5.0


def test_retry_after_is_bounded_even_if_nothing_finishes() -> None:
    clock = Clock()
    queue = scheduler(clock, max_waiting=100_000)
    queue.admit([sentence()])
    queue.finished(queue.take({(MODEL, 1): Load(1, 1, 5, 10)}))
    clock.now += 10_000
    queue.finished([])
    queue.admit([sentence() for _ in range(1000)])
    assert queue.retry_after_s() == 60.0


def test_rows_are_bounded_by_width_times_sentences() -> None:
    queue = scheduler(Clock(), max_tokens=100_000, max_rows=10)
    queue.admit([sentence(width=4) for _ in range(5)])
    assert len(take_all(queue)) == 2
    assert len(queue.take({(MODEL, 4): Load(2, 8, 5, 10)})) == 0
    assert len(queue.take({(MODEL, 4): Load(1, 4, 5, 10)})) == 1


def test_a_longer_source_that_joins_pads_the_running_sentences() -> None:
    queue = scheduler(Clock(), max_tokens=100)
    queue.admit([sentence(30, longest_target=1)])
    # Four sentences of 10 tokens would become five of 30.
    assert queue.take({(MODEL, 1): Load(4, 4, 10, 1)}) == []
    assert len(queue.take({(MODEL, 1): Load(2, 2, 10, 1)})) == 1


def test_a_sentence_too_wide_for_the_free_rows_waits_until_nothing_decodes() -> None:
    queue = scheduler(Clock(), max_rows=4)
    wide = sentence(width=8)
    queue.admit([wide])
    assert queue.take({(MODEL, 1): Load(1, 1, 5, 10)}) == []
    assert queue.take({}) == [wide]


def test_no_sentence_overtakes_the_head_even_with_another_width() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=8)
    wide = sentence(width=8)
    queue.admit([wide])
    clock.now += 0.01
    narrow = sentence()
    queue.admit([narrow])
    clock.now += OVERTAKE_S - 0.01
    assert queue.take({(MODEL, 1): Load(1, 1, 5, 10)}) == [narrow], "exactly at the bound it is allowed"
    queue.admit([sentence()])
    clock.now += 0.01
    assert queue.take({(MODEL, 1): Load(1, 1, 5, 10)}) == []


def test_withdrawing_the_head_unblocks_the_others() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=8)
    wide, narrow = sentence(width=8), sentence()
    queue.admit([wide])
    queue.admit([narrow])
    clock.now += 2 * OVERTAKE_S
    assert queue.take({(MODEL, 1): Load(1, 1, 5, 10)}) == []
    queue.withdraw({wide.key})
    assert queue.take({(MODEL, 1): Load(1, 1, 5, 10)}) == [narrow]


def test_a_target_is_never_longer_than_the_model_allows() -> None:
    asks = QueuedSentence(
        DecodingRequest(0, [1] * 5, DecodingOptions(max_new_tokens=90_000)), MODEL, ignore, max_target_tokens=200
    )
    assert asks.longest_target == 200
    silent = QueuedSentence(DecodingRequest(1, [1] * 150, DecodingOptions()), MODEL, ignore, max_target_tokens=200)
    assert silent.longest_target == 200
    short = QueuedSentence(DecodingRequest(2, [1] * 5, DecodingOptions()), MODEL, ignore, max_target_tokens=200)
    assert short.longest_target == 30
    for num_prefix, longest_target in ((7, 37), (190, 200)):
        request = DecodingRequest(3, [1] * 5, DecodingOptions(), prefix_ids=(1,) * num_prefix)
        assert QueuedSentence(request, MODEL, ignore, max_target_tokens=200).longest_target == longest_target


@given(
    requests=st.lists(st.lists(st.sampled_from([1, 2, 4]), max_size=5), max_size=12),
    events=st.lists(
        st.tuples(st.sampled_from(["admit", "take", "withdraw", "finish"]), st.integers(0, 7)), max_size=40
    ),
)
@settings(max_examples=50)
def test_every_admitted_sentence_is_taken_withdrawn_or_waiting(
    requests: list[list[int]], events: list[tuple[str, int]]
) -> None:
    clock = Clock()
    queue = scheduler(clock, max_tokens=300, max_rows=8, max_waiting=12)
    coming = iter(requests)
    admitted: set[int] = set()
    drawn: list[QueuedSentence] = []
    decoding: list[QueuedSentence] = []
    withdrawn: list[int] = []
    for event, number in events:
        clock.now += number / 10
        if event == "admit":
            request = [sentence(5 + number, width) for width in next(coming, [])]
            room = queue.max_waiting - queue.num_waiting
            if len(request) > room:
                with pytest.raises(QueueFull):
                    queue.admit(request)
            else:
                queue.admit(request)
                admitted |= {item.key for item in request}
        elif event == "take":
            loads: dict[BatchKey, Load] = {}
            for item in decoding:
                loads[item.batch] = loads.get(item.batch, Load()).with_one_more(item)
            outcomes = queue.take(loads)
            drawn += outcomes
            decoding += outcomes
            assert len(decoding) <= 1 or sum(item.width for item in decoding) <= queue.budget.max_rows
        elif event == "withdraw":
            withdrawn += [item.key for item in queue.withdraw(set(sorted(admitted)[number::3]))]
        else:
            queue.finished(decoding[number:])
            decoding = decoding[:number]
        assert 1.0 <= queue.retry_after_s() <= 60.0
        assert queue.num_waiting <= queue.max_waiting
    waiting = [item.key for item in queue.clear()]
    assert sorted([*waiting, *withdrawn, *(item.key for item in drawn)]) == sorted(admitted)


def test_one_request_never_has_all_rows_and_its_sentences_stay_in_order() -> None:
    queue = scheduler(Clock(), max_rows=8)
    document = [sentence(width=2) for _ in range(10)]
    for first in document:
        first.owner = "a document"
    queue.admit(document)
    assert queue.take({}) == document[:3]
    decoding = {(MODEL, 2): Load(3, 6, 5, 10)}
    assert queue.take(decoding, {"a document": 6}) == []
    other = sentence(width=2)
    queue.admit([other])
    assert queue.take(decoding, {"a document": 6}) == [other]
    assert queue.take({(MODEL, 2): Load(2, 4, 5, 10)}, {"a document": 4}) == [document[3]]


def test_a_caller_has_all_rows_only_while_it_is_alone() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=8)
    for _ in range(50):
        queue.admit([sentence()])
    assert len(take_all(queue)) == 8, "it is alone"
    clock.now += 10
    single = sentence()
    single.caller = Caller("b")
    queue.admit([single])
    drawn = take_all(queue)
    assert single in drawn
    assert len(drawn) == 1 + CALLER_SHARE * 8
    assert queue.take({(MODEL, 1): Load(3, 3, 5, 10)}, {UNKNOWN_CALLER: 2, Caller("b"): 1}) == []
    clock.now += OTHERS_S + 0.01
    assert len(queue.take({(MODEL, 1): Load(3, 3, 5, 10)}, {UNKNOWN_CALLER: 2, Caller("b"): 1})) == 5, (
        "it is alone again"
    )


def test_a_bulk_caller_takes_no_rows_from_an_interactive_one() -> None:
    queue = scheduler(Clock(), max_rows=8)
    for caller in (UNKNOWN_CALLER, Caller("documents", Priority.BULK)):
        for _ in range(20):
            item = sentence()
            item.caller = caller
            queue.admit([item])
    assert {item.caller for item in take_all(queue)} == {UNKNOWN_CALLER}


def admit_bulk(queue: Scheduler, number: int, num_callers: int = 2) -> None:
    """Admit sentences of bulk callers, each in a request of its own."""
    for index in range(number):
        item = sentence()
        item.caller = Caller(f"bulk {index % num_callers}", Priority.BULK)
        queue.admit([item])


def num_by_priority(sentences: Sequence[QueuedSentence]) -> tuple[int, int]:
    counts = Counter(sentence.caller.priority for sentence in sentences)
    return counts[Priority.INTERACTIVE], counts[Priority.BULK]


@pytest.mark.parametrize(("num_interactive", "num_bulk"), [(1, 1), (16, 1), (32, 2), (48, 3)])
def test_bulk_callers_together_have_a_share_of_the_rows_of_interactive_ones_and_one_sentence_at_least(
    num_interactive: int, num_bulk: int
) -> None:
    queue = scheduler(Clock(), max_rows=100)
    queue.admit([sentence() for _ in range(num_interactive)])
    admit_bulk(queue, 20)
    assert num_by_priority(take_all(queue)) == (num_interactive, num_bulk)


def test_bulk_callers_leave_room_for_the_next_request_of_an_interactive_one_and_not_for_long() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=100)
    queue.admit([sentence()])
    assert num_by_priority(take_all(queue)) == (1, 0)
    admit_bulk(queue, 20)
    assert num_by_priority(take_all(queue)) == (0, 1)
    load = {(MODEL, 1): Load(1, 1, 5, 10)}
    rows: Counter[object] = Counter({Caller("bulk 0", Priority.BULK): 1, Priority.BULK: 1})
    assert queue.take(load, rows) == []
    clock.now += INTERACTIVE_S + 0.01
    assert num_by_priority(queue.take(load, rows)) == (0, 19)


def test_a_request_of_one_wide_sentence_may_have_all_rows() -> None:
    queue = scheduler(Clock(), max_rows=4)
    wide = [sentence(width=4) for _ in range(2)]
    for item in wide:
        item.owner = "a request"
    queue.admit(wide)
    assert queue.take({}) == wide[:1]
    assert queue.take({}) == wide[1:]


def test_the_sentences_of_a_document_are_spaced_by_their_duration() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=1, token_s=0.001)
    document = [sentence(10, longest_target=10) for _ in range(6)]  # 0.02 s each, and four times that apart
    queue.admit(document)
    clock.now += 0.2
    short = sentence(1)
    queue.admit([short])
    assert [queue.take({})[0] for _ in range(4)] == [*document[:2], short, document[2]]


@pytest.mark.parametrize(
    "load", [Load(127, 510, 5, 10), Load(200, 200, 500, 10)], ids=["rows are full", "tokens are full"]
)
@pytest.mark.parametrize("num_callers", [1, 64, 4096])
def test_the_work_of_a_turn_does_not_grow_with_the_sentences_that_do_not_fit(
    num_callers: int, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def counted(loads: Iterable[Load], budget: Budget) -> bool:
        nonlocal looks
        looks += 1
        return fits(loads, budget)

    monkeypatch.setattr("app.engine.joining.fits", counted)
    queue = scheduler(Clock(), max_tokens=100_000, max_rows=512, max_waiting=10_000)
    for number in range(4096):
        item = sentence(width=4)
        item.caller = Caller(str(number % num_callers))
        queue.admit([item])
    assert queue.take({(MODEL, 4): load}) == []
    assert looks <= MAX_PASSED_OVER
    assert queue.num_waiting == 4096


def keys_of(sentences: Iterable[QueuedSentence]) -> list[int]:
    return [sentence.key for sentence in sentences]


def request_of(number: int) -> list[QueuedSentence]:
    """The sentences of one request."""
    sentences = [sentence() for _ in range(number)]
    owner = object()
    for item in sentences:
        item.owner = owner
    return sentences


def test_requests_that_wait_for_room_enter_the_queue_in_order_and_before_those_that_come_later() -> None:
    clock = Clock()
    queue = scheduler(clock, max_rows=2, max_waiting=4)
    queue.admit(request_of(4))
    waiting = [request_of(3), request_of(1), request_of(2)]
    for item in waiting:
        queue.admit(item, admission=Admission.WAIT)
    assert (queue.num_waiting, queue.num_for_room) == (4, 6)
    assert queue.waiting() >= {item.key for request in waiting for item in request}
    clock.now += 1.0
    assert len(take_all(queue)) == 2
    assert (queue.num_waiting, queue.num_for_room) == (4, 4), "what has room enters at once"
    with pytest.raises(QueueFull, match="8 of 4 sentences are waiting"):
        queue.admit([sentence()])
    drawn: list[int] = []
    while queue.num_waiting:
        clock.now += 1.0
        drawn += keys_of(take_all(queue))
    assert drawn[2:] == keys_of(item for request in waiting for item in request)


def test_a_request_that_may_wait_enters_at_once_where_there_is_room() -> None:
    queue = scheduler(Clock(), max_waiting=4)
    queue.admit([sentence()], admission=Admission.WAIT)
    assert (queue.num_waiting, queue.num_for_room) == (1, 0)


def test_a_request_that_waits_for_room_can_be_withdrawn_and_makes_way() -> None:
    queue = scheduler(Clock(), max_waiting=2)
    first, second, third = request_of(2), request_of(2), request_of(1)
    queue.admit(first)
    for item in (second, third):
        queue.admit(item, admission=Admission.WAIT)
    assert queue.withdraw(keys_of(second)) == second
    assert queue.withdraw(keys_of(first)) == first
    assert (queue.num_waiting, queue.num_for_room) == (1, 0)
    assert queue.clear() == third


def test_clearing_the_queue_clears_what_waits_for_room() -> None:
    queue = scheduler(Clock(), max_waiting=1)
    first, second = request_of(1), request_of(1)
    queue.admit(first)
    queue.admit(second, admission=Admission.WAIT)
    assert queue.clear() == [*first, *second]
    assert (queue.num_waiting, queue.num_for_room) == (0, 0)


def test_sentences_that_are_decoded_again_are_admitted_to_a_full_queue() -> None:
    queue = scheduler(Clock(), max_waiting=1)
    queue.admit([sentence()])
    queue.admit([sentence(), sentence()], 0.0, Admission.ALWAYS)
    assert queue.num_waiting == 3
