"""Decoding in slots gives the outputs of an ordinary cohort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from model.artifacts.bundle import load_bundle
from model.artifacts.script import script
from model.decoding.options import DecodingOptions
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import MAX_REQUIRED_IDS, DecodingRequest
from model.decoding.slots.cohort import SlotCohort
from model.decoding.slots.model import SlotModel
from model.decoding.slots.step import has_slot_step
from model.errors import DecodingError
from model.network.transformer import Transformer
from tests.model.searches import PREFIXES, check_search
from tests.model.slots import (
    BEAM,
    GREEDY,
    LONGEST_TARGET,
    all_same,
    check_required,
    drive,
    drive_at_random,
    idle_steps,
    plain_cohort,
    ranked,
    requests,
    same,
    slot_cohort,
    slot_model,
    some_searches,
    step_of,
)
from tests.model.tiny import DECODERS, VOCABULARY, Poisoned, random_sources, tiny_transformer
from tests.model.torch_layers import randomise, small_config
from tests.pairwise import pairwise

STEPPING: list[dict[str, Any]] = [{}, {"steps_per_call": 3}]
"""One step per call; several."""


def compare(
    options: DecodingOptions,
    policy: DecodingPolicy | None = None,
    forced_ids: tuple[int, ...] = (),
    required_ids: Sequence[tuple[int, ...]] = ((),),
    decoder: Mapping[str, Any] = DECODERS[0],
    **changes: Any,
) -> None:
    """Decode a dozen sentences in both ways, half of them with prefixes and some with their search."""
    transformer = tiny_transformer(**decoder)
    inputs = some_searches(
        requests(random_sources(12, seed=options.width), options, forced_ids, required_ids, prefix_ids=PREFIXES)
    )
    outcomes = drive(slot_cohort(transformer, options.width, policy, **changes), inputs)
    all_same(outcomes, drive(plain_cohort(transformer, options.width, policy), inputs))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("width", "scoring", "changes", "decoder"),
    pairwise(
        (2, 4, 6),
        ("hf", "ct2", "marian", "wu"),
        ({}, {"length_penalty": 0.0}, {"length_penalty": 1.7}, {"early_stopping": True}),
        DECODERS,
    ),
)
def test_beams_are_those_of_a_cohort(
    width: int, scoring: Any, changes: dict[str, Any], decoder: dict[str, Any]
) -> None:
    compare(replace(BEAM, beam_size=width, num_hypotheses=width, scoring=scoring, **changes), decoder=decoder)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@pytest.mark.parametrize("stepping", STEPPING, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        GREEDY,
        replace(GREEDY, return_scores=False),
        replace(GREEDY, length_penalty=0.3),
        replace(GREEDY, min_new_tokens=7, max_new_tokens=9),
        replace(GREEDY, max_new_tokens=1),
        replace(GREEDY, max_new_tokens=None),
        replace(GREEDY, no_repeat_ngram_size=1, max_new_tokens=8),
        replace(GREEDY, no_repeat_ngram_size=2),
        replace(BEAM, min_new_tokens=5),
        replace(BEAM, max_new_tokens=1),
        replace(BEAM, num_hypotheses=2, return_scores=False),
        replace(BEAM, no_repeat_ngram_size=1, max_new_tokens=6),
        replace(BEAM, no_repeat_ngram_size=3),
        replace(BEAM, scoring="ct2", length_penalty=0.0, num_hypotheses=1),
    ],
    ids=str,
)
def test_every_option_is_respected_as_in_a_cohort(
    options: DecodingOptions, stepping: dict[str, Any], decoder: dict[str, Any]
) -> None:
    compare(options, decoder=decoder, **stepping)


@pytest.mark.parametrize(
    ("policy", "options", "forced_ids"),
    pairwise(
        (
            DecodingPolicy(),
            DecodingPolicy(force_end=True),
            DecodingPolicy(renormalise=True, forbidden=(0, 1, 7)),
            DecodingPolicy(scoring="marian", length_penalty=0.6, renormalise=True, force_end=True),
        ),
        (GREEDY, replace(BEAM, no_repeat_ngram_size=2)),
        ((), (5,), (5, 9, 4)),
    ),
)
def test_policies_and_forced_ids_are_respected(
    policy: DecodingPolicy, options: DecodingOptions, forced_ids: tuple[int, ...]
) -> None:
    compare(replace(options, max_new_tokens=6), policy, forced_ids)


REQUIRED_IDS = [(), (9,), (11, 8, 10), (), (10, 9, 8, 11)]


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "options",
    [
        GREEDY,
        replace(GREEDY, return_scores=False, no_repeat_ngram_size=1),
        replace(GREEDY, max_new_tokens=4),
        BEAM,
        replace(BEAM, max_new_tokens=5, min_new_tokens=3),
        replace(BEAM, no_repeat_ngram_size=2, scoring="marian"),
        replace(BEAM, max_new_tokens=4, scoring="wu"),
        replace(BEAM, max_new_tokens=2, scoring="ct2"),
    ],
    ids=str,
)
@pytest.mark.parametrize("forced_ids", [(), (5, 9)])
@pytest.mark.parametrize(
    "policy",
    [
        DecodingPolicy(),
        DecodingPolicy(forbidden=(0, 1, 8, 9, 10, 11)),
        DecodingPolicy(forbidden=(0, 1, 8, 9, 10, 11), force_end=True, renormalise=True),
    ],
    ids=["generated otherwise, too", "reserved", "forced end, renormalised"],
)
def test_required_tokens_are_placed_as_in_a_cohort(
    policy: DecodingPolicy, options: DecodingOptions, forced_ids: tuple[int, ...]
) -> None:
    compare(options, policy, forced_ids, REQUIRED_IDS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stepping", STEPPING, ids=str)
@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_sentences_with_and_without_required_tokens_decode_together(
    options: DecodingOptions, stepping: dict[str, Any]
) -> None:
    transformer = tiny_transformer()
    policy = DecodingPolicy(forbidden=(0, 1, 8, 9, 10, 11))
    # The first sentences decode in steps that leave the rules of required tokens out.
    inputs = some_searches(
        requests(
            random_sources(20),
            options,
            required_ids=[*[()] * 9, *REQUIRED_IDS, *REQUIRED_IDS],
            prefix_ids=[(), (9,), (), (4, 8)],
        )
    )
    outcomes, _ = drive_at_random(slot_cohort(transformer, options.width, policy, **stepping), inputs, seed=2)
    for key, outcome in outcomes.items():
        check_required(outcome, inputs[key].required_ids)
        same(outcome, drive(plain_cohort(transformer, options.width, policy), [inputs[key]])[key])


@pytest.mark.parametrize("options", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_as_many_tokens_as_allowed_may_be_required(options: DecodingOptions) -> None:
    transformer = tiny_transformer(vocab_size=30)
    reserved = tuple(range(30 - MAX_REQUIRED_IDS, 30))
    policy = DecodingPolicy(forbidden=(0, 1, *reserved))
    for max_new_tokens in (MAX_REQUIRED_IDS, 20):
        bounded = replace(options, max_new_tokens=max_new_tokens)
        inputs = requests(random_sources(6), bounded, required_ids=[reserved, reserved[3:]])
        outcomes = drive(slot_cohort(transformer, options.width, policy), inputs)
        all_same(outcomes, drive(plain_cohort(transformer, options.width, policy), inputs))
        for key, outcome in outcomes.items():
            check_required(outcome, inputs[key].required_ids)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "seed", "stepping", "decoder"), pairwise((GREEDY, BEAM), range(2), STEPPING, DECODERS)
)
def test_sentences_that_join_and_leave_change_no_output(
    options: DecodingOptions, seed: int, stepping: dict[str, Any], decoder: dict[str, Any]
) -> None:
    transformer = tiny_transformer(**decoder)
    # Seed 0: steps that record nothing and have no prefix to feed.
    inputs = requests(random_sources(40, seed=seed), options, prefix_ids=PREFIXES if seed else [()])
    inputs = some_searches(inputs) if seed else inputs
    expected = drive(plain_cohort(transformer, options.width), inputs)
    outcomes, remaining = drive_at_random(slot_cohort(transformer, options.width, **stepping), inputs, seed)
    assert outcomes.keys() | remaining == expected.keys()
    for key, outcome in outcomes.items():
        same(outcome, expected[key])
        check_search(ranked(outcome)[0], inputs[key], DecodingPolicy(), LONGEST_TARGET)


@pytest.mark.parametrize("stepping", STEPPING, ids=str)
def test_options_of_one_cohort_may_differ_from_sentence_to_sentence(stepping: dict[str, Any]) -> None:
    transformer = tiny_transformer()
    several = [
        BEAM,
        replace(BEAM, length_penalty=0.0, scoring="ct2", num_hypotheses=1),
        replace(BEAM, scoring="marian", max_new_tokens=5),
        replace(BEAM, scoring="wu", min_new_tokens=9, early_stopping=True),
        replace(BEAM, no_repeat_ngram_size=2, return_scores=False),
        replace(BEAM, no_repeat_ngram_size=3),
    ]
    inputs = [
        DecodingRequest(key, source, several[key % len(several)]) for key, source in enumerate(random_sources(18))
    ]
    outcomes, _ = drive_at_random(slot_cohort(transformer, 4, **stepping), inputs, seed=1, most=7)
    for key, outcome in outcomes.items():
        same(outcome, drive(plain_cohort(transformer, 4), [inputs[key]])[key])


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_a_source_or_target_longer_than_the_bucket_moves_all_sentences_to_a_larger_one(
    width: int, decoder: dict[str, Any]
) -> None:
    transformer = tiny_transformer(**decoder)
    options = DecodingOptions(beam_size=width, max_new_tokens=15, min_new_tokens=12, return_scores=True)
    long_source = [*([4, 5, 6, 7] * 10), 2]
    group = slot_cohort(transformer, width)
    group.join([DecodingRequest(0, [4, 5, 2], options), DecodingRequest(1, [6, 2], options)])
    group.step()
    assert group.tensors.bucket.target == 32
    group.step()
    far = replace(options, max_new_tokens=50, min_new_tokens=45)
    inputs = [DecodingRequest(2, long_source, options), DecodingRequest(3, [8, 9, 2], far)]
    group.join(inputs)
    assert group.tensors.bucket.target == 64
    assert group.longest_source == len(long_source)
    outcomes = drive(group, [])
    plain = [DecodingRequest(0, [4, 5, 2], options), DecodingRequest(1, [6, 2], options), *inputs]
    all_same(outcomes, drive(plain_cohort(transformer, width), plain))


def test_a_source_of_the_maximal_length_is_decoded_in_a_longer_bucket() -> None:
    transformer = Transformer(small_config(max_positions=40), VOCABULARY.pad_id).eval()
    randomise(transformer)
    inputs = requests([[*([4, 5, 6, 7] * 9), 2], [8, 2]], replace(GREEDY, max_new_tokens=None))
    outcomes = drive(slot_cohort(transformer, 1, longest_target=40), inputs)
    all_same(outcomes, drive(plain_cohort(transformer, 1, longest_target=40), inputs))


def test_slots_shrink_when_most_are_free() -> None:
    transformer = tiny_transformer()
    model = slot_model(transformer)
    group = SlotCohort(model, 2)
    long = DecodingOptions(beam_size=2, min_new_tokens=15, max_new_tokens=16, return_scores=True)
    short = replace(long, min_new_tokens=0, max_new_tokens=2)
    sources = random_sources(16)
    inputs = [DecodingRequest(key, source, short if key else long) for key, source in enumerate(sources)]
    group.join(inputs)
    assert step_of(group).tensors.bucket.slots == 16
    outcomes = {outcome.key: outcome for _ in range(2) for outcome in group.step()}
    assert len(outcomes) == 15
    assert step_of(group).tensors.bucket.slots == 1
    outcomes |= drive(group, [])
    all_same(outcomes, drive(plain_cohort(transformer, 2), inputs))


def test_slots_are_reused_by_the_next_cohort() -> None:
    model = slot_model(tiny_transformer())
    expected = None
    drawn = []
    for _ in range(3):
        group = SlotCohort(model, 4)
        inputs = requests(random_sources(5), BEAM)
        group.join(inputs)
        drawn.append(step_of(group))
        outcomes = drive(group, [])
        assert expected is None or outcomes == expected
        expected = outcomes
    assert drawn[0] is drawn[1] is drawn[2]


def test_the_memory_of_idle_slots_is_bounded() -> None:
    transformer = tiny_transformer()
    small, large = requests(random_sources(1), BEAM), requests(random_sources(16), BEAM)
    model = slot_model(transformer, idle_bytes=0)
    drive(SlotCohort(model, 4), small)
    assert idle_steps(model) == []
    model = slot_model(transformer)
    drive(SlotCohort(model, 4), large)
    num_bytes = sum(step.tensors.num_bytes for step in idle_steps(model))
    model = slot_model(transformer, idle_bytes=num_bytes)
    drive(SlotCohort(model, 4), large)
    drive(SlotCohort(model, 4), small)
    assert sum(step.tensors.num_bytes for step in idle_steps(model)) <= num_bytes
    assert idle_steps(model)[-1].tensors.bucket.slots == 1, "the most recently used one is kept"


def test_a_prefix_that_leaves_no_room_is_refused_and_no_sentence_joins() -> None:
    group = slot_cohort(tiny_transformer(), 1, longest_target=20)
    with pytest.raises(ValueError, match="20 tokens; the limit is 19"):
        group.join([DecodingRequest(0, [4, 2], GREEDY), DecodingRequest(1, [4, 2], GREEDY, (3,), (), (5,) * 19)])
    assert group.keys == []


def test_the_cohort_reports_its_load() -> None:
    group = slot_cohort(tiny_transformer(), 3)

    def counts() -> tuple[int, int, int, list[int]]:
        return group.num_sentences, group.num_rows, group.longest_source, group.keys

    nothing: tuple[int, int, int, list[int]] = (0, 0, 0, [])
    assert group.width == 3
    assert counts() == nothing
    assert group.step() == []
    assert group.join([]) == []
    group.leave({7})
    options = DecodingOptions(beam_size=3, min_new_tokens=5)
    group.join([DecodingRequest(7, [4, 5, 2], options), DecodingRequest(8, [4, 5, 6, 7, 2], options)])
    assert counts() == (2, 6, 5, [7, 8])
    group.leave([8, 9])
    assert counts() == (1, 3, 3, [7])
    group.leave([7])
    assert counts() == nothing


@pytest.mark.parametrize("stepping", STEPPING, ids=str)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_a_sentence_whose_output_is_nan_fails_alone_and_does_not_affect_its_slot(
    width: int, stepping: dict[str, Any], decoder: dict[str, Any]
) -> None:
    transformer = tiny_transformer(**decoder)
    options = DecodingOptions(beam_size=width, max_new_tokens=8, return_scores=True)
    inputs = requests([[5, 6, 2], [9, 6, 2], [7, 2], [9, 9, 9, 2]] * 3, options)
    expected = drive(plain_cohort(transformer, width), inputs)
    group = slot_cohort(Poisoned(transformer, bad=9), width, **stepping)
    for _ in range(2):  # the second time in slots that contained NaN
        outcomes = drive(group, inputs[:4])
        outcomes |= drive(group, inputs[4:])
        for key, outcome in outcomes.items():
            if inputs[key].source_ids[0] == 9:
                assert isinstance(outcome.error, DecodingError)
            else:
                same(outcome, expected[key])


@pytest.mark.parametrize("width", [1, 3])
def test_a_sentence_without_allowed_tokens_fails(width: int) -> None:
    everything = DecodingPolicy(forbidden=tuple(range(12)))
    options = DecodingOptions(beam_size=width, max_new_tokens=4)
    outcomes = drive(slot_cohort(tiny_transformer(), width, everything), requests([[4, 2]], options))
    assert isinstance(outcomes[0].error, DecodingError)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@pytest.mark.parametrize("precision", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("width", [1, 4])
def test_scripted_models_of_any_precision_decode_in_slots(width: int, precision: Any, decoder: dict[str, Any]) -> None:
    scripted = script(tiny_transformer(**decoder), precision)
    options = GREEDY if width == 1 else BEAM
    inputs = requests(random_sources(20), options)
    outcomes = drive(slot_cohort(scripted, width), inputs)
    expected = drive(plain_cohort(scripted, width), inputs)
    if precision == "float32":
        all_same(outcomes, expected)
        return
    # Rounded sums run in another order, which may change the order of close tokens.
    alike = [key for key in outcomes if ranked(outcomes[key])[0].token_ids == ranked(expected[key])[0].token_ids]
    assert len(alike) >= 16
    for key in alike:
        assert ranked(outcomes[key])[0].score == pytest.approx(ranked(expected[key])[0].score, abs=0.02)


def test_a_bundle_contains_the_step_for_slots(toy_bundle: Path) -> None:
    bundle = load_bundle(toy_bundle)
    assert has_slot_step(bundle.module)
    model = SlotModel(bundle.module, bundle.tokenizer, 64, bundle.device, bundle.manifest.policy)
    inputs = requests([bundle.tokenizer.encode("the red cat sees the old tree", "de", "en")], GREEDY)
    assert ranked(drive(SlotCohort(model, 1), inputs)[0])[0].token_ids


def test_an_older_model_has_no_slot_step() -> None:
    class Old:
        encode = project_memory = step = Transformer.encode

    assert not has_slot_step(cast(Transformer, Old()))
