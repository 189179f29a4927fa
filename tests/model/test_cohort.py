from __future__ import annotations

import math
import random

import pytest

from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.sentence import DecodingRequest
from tests.model.tiny import cohort, decode, log_probs, random_sources, tiny_transformer

GREEDY = DecodingOptions(decoding="greedy", return_scores=True, max_new_tokens=20)
BEAM = DecodingOptions(beam_size=3, num_hypotheses=3, return_scores=True, max_new_tokens=20)


def same(found: Hypothesis | None, expected: Hypothesis | None) -> None:
    assert found is not None
    assert expected is not None
    for one, other in zip([found, *found.alternatives], [expected, *expected.alternatives], strict=True):
        assert one.token_ids == other.token_ids
        assert one.finish_reason == other.finish_reason
        assert one.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("options", [GREEDY, BEAM])
def test_a_batch_of_n_gives_the_outputs_of_n_single_sentences(options: DecodingOptions) -> None:
    transformer = tiny_transformer()
    sources = random_sources(17)
    together = decode(transformer, sources, options)
    for number, source in enumerate(sources):
        same(together[number].hypothesis, decode(transformer, [source], options)[0].hypothesis)


@pytest.mark.parametrize("options", [GREEDY, BEAM])
@pytest.mark.parametrize("seed", range(4))
def test_sentences_that_join_and_leave_change_no_output(options: DecodingOptions, seed: int) -> None:
    transformer = tiny_transformer()
    rng = random.Random(seed)
    sources = random_sources(40, seed=seed)
    expected = decode(transformer, sources, options)
    group = cohort(transformer, options.width)
    waiting = list(range(len(sources)))
    dropped: set[int] = set()
    outcomes = {}
    while waiting or group.num_sentences:
        if waiting and rng.random() < 0.5:
            number = rng.randint(1, 4)
            joining, waiting = waiting[:number], waiting[number:]
            for outcome in group.join([DecodingRequest(key, sources[key], options) for key in joining]):
                outcomes[outcome.key] = outcome
        if group.num_sentences and rng.random() < 0.1:
            gone = rng.choice(group.keys)
            dropped.add(gone)
            group.leave({gone, 999})
            assert gone not in group.keys
        for outcome in group.step():
            outcomes[outcome.key] = outcome
    assert dropped
    assert set(outcomes) == set(range(len(sources))) - dropped
    for key, outcome in outcomes.items():
        same(outcome.hypothesis, expected[key].hypothesis)


def test_options_of_one_cohort_may_differ_from_sentence_to_sentence() -> None:
    transformer = tiny_transformer()
    sources = random_sources(4)
    several = [
        DecodingOptions(beam_size=3, length_penalty=0.0, return_scores=True),
        DecodingOptions(beam_size=3, num_hypotheses=3, max_new_tokens=5),
        DecodingOptions(beam_size=3, min_new_tokens=9, early_stopping=True),
        DecodingOptions(beam_size=3, no_repeat_ngram_size=2, return_scores=True),
    ]
    group = cohort(transformer, 3)
    finished = group.join([DecodingRequest(key, sources[key], several[key]) for key in range(4)])
    while group.num_sentences:
        finished += group.step()
    for outcome in finished:
        alone = decode(transformer, [sources[outcome.key]], several[outcome.key])[0].hypothesis
        assert outcome.hypothesis is not None
        assert alone is not None
        assert outcome.hypothesis.token_ids == alone.token_ids
        assert len(outcome.hypothesis.alternatives) == several[outcome.key].num_hypotheses - 1
        assert (outcome.hypothesis.score is None) == (not several[outcome.key].return_scores)


def test_a_cohort_that_is_joined_continuously_drops_old_columns() -> None:
    transformer = tiny_transformer()
    options = DecodingOptions(decoding="greedy", min_new_tokens=6, max_new_tokens=6)
    group = cohort(transformer, 1)
    sources = random_sources(2)
    expected = [outcome.hypothesis for _, outcome in sorted(decode(transformer, sources, options).items())]
    done = 0
    for turn in range(300):
        if turn % 3 == 0:
            group.join([DecodingRequest(turn, sources[turn % 2], options)])
        for outcome in group.step():
            assert outcome.hypothesis == expected[outcome.key % 2]
            done += 1
    assert done > 90
    assert group.longest_target <= 6 + 2 * 32


def test_forced_tokens_may_outnumber_the_columns_added_at_once() -> None:
    transformer = tiny_transformer()
    (source,) = random_sources(1)
    forced = tuple(3 + number % 9 for number in range(40))
    group = cohort(transformer, 1)
    finished = group.join([DecodingRequest(0, source, GREEDY, forced)])
    while not finished:
        finished = group.step()
    assert finished[0].hypothesis is not None
    first = finished[0].hypothesis.token_ids[0]
    expected = log_probs(transformer, source, list(forced))
    expected[[0, 1]] = -math.inf
    assert first == int(expected.argmax())


def test_the_cohort_reports_its_load() -> None:
    transformer = tiny_transformer()
    group = cohort(transformer, 3)
    assert (group.num_sentences, group.num_rows, group.longest_source, group.keys) == (0, 0, 0, [])
    assert group.step() == []
    assert group.join([]) == []
    options = DecodingOptions(beam_size=3, min_new_tokens=5)
    group.join([DecodingRequest(7, [4, 5, 2], options), DecodingRequest(8, [4, 5, 6, 7, 2], options)])
    assert (group.num_sentences, group.num_rows, group.longest_source, group.keys) == (2, 6, 5, [7, 8])
    group.leave([8])
    assert (group.num_sentences, group.num_rows, group.longest_source, group.keys) == (1, 3, 3, [7])


def test_a_small_budget_changes_no_output() -> None:
    transformer = tiny_transformer()
    sources = random_sources(9)
    plain = decode(transformer, sources, BEAM)
    tight = decode(transformer, sources, BEAM, max_batch_tokens=1, max_rows=1)
    for number in range(len(sources)):
        same(tight[number].hypothesis, plain[number].hypothesis)
