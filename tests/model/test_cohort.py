from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, get_args

import pytest

from model.decoding.options import DecodingOptions, Hypothesis, Scoring
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from tests.model.searches import PREFIXES, check_search
from tests.model.slots import (
    LONGEST_TARGET,
    all_same,
    check_required,
    drive,
    drive_at_random,
    plain_cohort,
    ranked,
    requests,
    some_searches,
)
from tests.model.slots import same as same_outcome
from tests.model.tiny import DECODERS, cohort, decode, log_probs, random_sources, tiny_transformer
from tests.pairwise import pairwise

GREEDY = DecodingOptions(decoding="greedy", return_scores=True, max_new_tokens=20)
BEAM = DecodingOptions(beam_size=3, num_hypotheses=3, return_scores=True, max_new_tokens=20)


def same(actual: Hypothesis | None, expected: Hypothesis | None) -> None:
    assert actual is not None
    assert expected is not None
    for first, other in zip([actual, *actual.alternatives], [expected, *expected.alternatives], strict=True):
        assert first.token_ids == other.token_ids
        assert first.finish_reason == other.finish_reason
        assert first.score == pytest.approx(other.score, abs=1e-5)


@pytest.mark.parametrize("prefixes", [[()], PREFIXES], ids=["no prefix", "prefixes"])
@pytest.mark.parametrize("options", [GREEDY, BEAM])
def test_a_batch_of_n_gives_the_outputs_of_n_single_sentences(
    options: DecodingOptions, prefixes: list[tuple[int, ...]]
) -> None:
    transformer = tiny_transformer()
    inputs = some_searches(requests(random_sources(10), options, prefix_ids=prefixes))
    together = drive(plain_cohort(transformer, options.width), inputs)
    for request in inputs:
        same_outcome(together[request.key], drive(plain_cohort(transformer, options.width), [request])[request.key])


@pytest.mark.sampled(5)
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@pytest.mark.parametrize("prefixes", [[()], PREFIXES], ids=["no prefix", "prefixes"])
@pytest.mark.parametrize("options", [GREEDY, BEAM])
@pytest.mark.parametrize("seed", range(2))
def test_sentences_that_join_and_leave_change_no_output(
    options: DecodingOptions, seed: int, prefixes: list[tuple[int, ...]], decoder: dict[str, Any]
) -> None:
    transformer = tiny_transformer(**decoder)
    rng = random.Random(seed)
    inputs = some_searches(requests(random_sources(30, seed=seed), options, prefix_ids=prefixes))
    expected = drive(plain_cohort(transformer, options.width), inputs)
    group = cohort(transformer, options.width)
    waiting = list(inputs)
    dropped: set[int] = set()
    outcomes = {}
    while waiting or group.num_sentences:
        if waiting and rng.random() < 0.5:
            number = rng.randint(1, 4)
            joining, waiting = waiting[:number], waiting[number:]
            for outcome in group.join(joining):
                outcomes[outcome.key] = outcome
        if group.num_sentences and rng.random() < 0.1:
            removed = rng.choice(group.keys)
            dropped.add(removed)
            group.leave({removed, 999})
            assert removed not in group.keys
        for outcome in group.step():
            outcomes[outcome.key] = outcome
    assert dropped
    assert set(outcomes) == set(range(len(inputs))) - dropped
    for key, outcome in outcomes.items():
        same_outcome(outcome, expected[key])
        assert outcome.hypothesis is not None
        check_search(outcome.hypothesis, inputs[key], DecodingPolicy(), LONGEST_TARGET)


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


RESERVED = DecodingPolicy(forbidden=(0, 1, 8, 9, 10, 11))
"""Tokens that come only where a sentence requires them."""

REQUIRED_IDS = [(), (9,), (11, 8, 10), (), (10, 9, 8, 11)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
@pytest.mark.parametrize("seed", range(2))
def test_sentences_with_and_without_required_tokens_decode_together(options: DecodingOptions, seed: int) -> None:
    transformer = tiny_transformer()
    sources = random_sources(20, seed=seed)
    inputs = some_searches(requests(sources, options, required_ids=REQUIRED_IDS, prefix_ids=[(), (4, 9), (), (5,)]))
    outcomes, remaining = drive_at_random(plain_cohort(transformer, options.width, RESERVED), inputs, seed)
    for key, outcome in outcomes.items():
        check_required(outcome, inputs[key].required_ids)
        same_outcome(outcome, drive(plain_cohort(transformer, options.width, RESERVED), [inputs[key]])[key])
    assert len(outcomes) > 13
    free = [request for request in inputs if not request.required_ids and request.key not in remaining]
    others = drive(plain_cohort(transformer, options.width, RESERVED), free)
    all_same({key: outcomes[key] for key in others}, others)


@pytest.mark.parametrize(("seed", "width", "force_end"), pairwise(range(3), (1, 2, 4), (False, True)))
def test_every_hypothesis_holds_the_required_tokens_whatever_the_options(
    seed: int, width: int, force_end: bool
) -> None:
    transformer = tiny_transformer(seed=seed)
    rng = random.Random(f"{seed} {width} {force_end}")
    inputs = []
    for key, source in enumerate(random_sources(20, seed=seed)):
        required_ids = tuple(rng.sample(range(8, 12), rng.randint(1, 4)))
        options = DecodingOptions(
            decoding="greedy" if width == 1 else "beam",
            beam_size=width,
            num_hypotheses=width,
            scoring=rng.choice(get_args(Scoring)),
            length_penalty=rng.choice([None, 0.0, 0.6]),
            early_stopping=rng.choice([None, True]),
            max_new_tokens=rng.choice([None, len(required_ids) + 1, len(required_ids) + rng.randint(1, 6)]),
            min_new_tokens=rng.choice([0, len(required_ids)]),
            no_repeat_ngram_size=rng.choice([0, 0, 1, 2]),
        )
        inputs.append(DecodingRequest(key, source, options, (5,), required_ids))
    policy = DecodingPolicy(forbidden=RESERVED.forbidden, force_end=force_end, renormalise=seed == 2)
    outcomes = drive(plain_cohort(transformer, width, policy), inputs)
    for request in inputs:
        check_required(outcomes[request.key], request.required_ids)
    reasons = {hypothesis.finish_reason for outcome in outcomes.values() for hypothesis in ranked(outcome)}
    assert reasons == {"stop", "length"}


@pytest.mark.parametrize("force_end", [False, True])
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_more_required_tokens_than_fit_do_not_fail_a_sentence(options: DecodingOptions, force_end: bool) -> None:
    policy = DecodingPolicy(forbidden=RESERVED.forbidden, force_end=force_end)
    short = replace(options, max_new_tokens=3, num_hypotheses=1)
    inputs = requests(random_sources(8), short, required_ids=[(8, 9, 10, 11)])
    for outcome in drive(plain_cohort(tiny_transformer(), options.width, policy), inputs).values():
        (cut,) = ranked(outcome)
        assert len(cut.token_ids) == 3 - force_end
        assert cut.finish_reason == "length"
        assert len(set(cut.token_ids) & {8, 9, 10, 11}) == sum(token >= 8 for token in cut.token_ids)


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_sentence_may_consist_of_required_tokens(options: DecodingOptions) -> None:
    nothing_else = DecodingPolicy(forbidden=(0, 1, *range(3, 12)))
    inputs = requests(random_sources(4), options, required_ids=[(9,), (11, 8, 10), (9, 10)])
    for key, outcome in drive(plain_cohort(tiny_transformer(), options.width, nothing_else), inputs).items():
        for hypothesis in ranked(outcome):
            assert sorted(hypothesis.token_ids) == sorted(inputs[key].required_ids)
            assert hypothesis.finish_reason == "stop"


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_a_cohort_that_is_joined_continuously_drops_old_columns(decoder: dict[str, Any]) -> None:
    transformer = tiny_transformer(**decoder)
    options = DecodingOptions(decoding="greedy", min_new_tokens=6, max_new_tokens=6)
    group = cohort(transformer, 1)
    sources = random_sources(2)
    expected = [outcome.hypothesis for _, outcome in sorted(decode(transformer, sources, options).items())]
    finished = 0
    for turn in range(150):
        if turn % 3 == 0:
            group.join([DecodingRequest(turn, sources[turn % 2], options)])
        for outcome in group.step():
            assert outcome.hypothesis == expected[outcome.key % 2]
            finished += 1
    assert finished > 45
    assert group.longest_target <= 6 + 2 * 32


@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_forced_tokens_may_outnumber_the_columns_added_at_once(decoder: dict[str, Any]) -> None:
    transformer = tiny_transformer(**decoder)
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


def test_a_small_budget_changes_no_output() -> None:
    transformer = tiny_transformer()
    sources = random_sources(9)
    plain = decode(transformer, sources, BEAM)
    tight = decode(transformer, sources, BEAM, max_batch_tokens=1, max_rows=1)
    for number in range(len(sources)):
        same(tight[number].hypothesis, plain[number].hypothesis)
