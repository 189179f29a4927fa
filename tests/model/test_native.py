"""The compiled decoder compared with the eager model and torch's states: equal logits and outputs."""

from __future__ import annotations

import itertools
import logging
import platform
import random
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import pytest
import torch
from torch import nn

from model.artifacts.script import convert_in_place, script
from model.decoding.batch import decode_all
from model.decoding.cohort import Cohort
from model.decoding.eager.state import TorchState
from model.decoding.eager.teacher_forcing import attention_by_torch
from model.decoding.eager.torch_cohort import TorchCohort
from model.decoding.native import compiler, library
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import NativeModel, make_native_model, reason_not_native
from model.decoding.native.weights import Unsupported
from model.decoding.options import Hypothesis, Scoring, SearchTrace
from model.decoding.policy import DecodingPolicy
from model.decoding.search import NO_TOKEN
from model.decoding.sentence import DecodingRequest, Finished
from model.importing.importer import import_checkpoint
from model.network import quantised as quantised_module
from model.network.transformer import Transformer
from model.text.tokenizer import Tokenizer
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.importing.checkpoints import make_m2m100, make_marian
from tests.model.importing.checkpoints import random_sources as long_sources
from tests.model.searches import PREFIXES, check_search, same_searches
from tests.model.slots import requests, some_searches
from tests.model.tiny import DECODERS, VOCABULARY, TinyVocabulary, random_sources
from tests.model.torch_layers import randomise, small_config
from tests.pairwise import pairwise

pytestmark = pytest.mark.usefixtures("one_token_a_step")

needs_library = pytest.mark.skipif(library.load_library() is None, reason="no x86 processor, or no C++ compiler, here")

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "pre-norm": {"norm": "pre"},
    "post-norm, silu": {"norm": "post", "activation": "silu"},
    "gelu, narrow heads": {"activation": "gelu", "num_heads": 8, "decoder_num_heads": 4},
    "no width a multiple of 16": {
        "d_model": 54,
        "num_heads": 3,
        "d_ff": 45,
        "decoder_num_heads": 2,
        "decoder_d_ff": 51,
    },
    "one gain for all columns, no biases": {"layer_norm_gain": "scalar", "attention_bias": False},
    "recurrent decoder": {
        "decoder": "ssru",
        "start": "zero",
        "norm": "post",
        "positions": "tensor2tensor",
        "layer_norm_eps": 1e-6,
    },
    "recurrent decoder, pre-norm, no width a multiple of 16": {
        "decoder": "ssru",
        "norm": "pre",
        "d_model": 54,
        "num_heads": 3,
        "d_ff": 45,
        "decoder_num_heads": 2,
    },
    "zero start": {"start": "zero"},
    "untied, unscaled, halves": {
        "share_embeddings": False,
        "tie_output": False,
        "scale_embedding": False,
        "positions": "halves",
        "target_vocab_size": 37,
    },
    "other heads and width in the decoder, no biases": {
        "decoder_num_heads": 4,
        "decoder_d_ff": 40,
        "attention_bias": False,
        "output_bias": False,
        "positions": "tensor2tensor",
        "position_offset": 2,
    },
}


def transformer(**changes: Any) -> Transformer:
    config = small_config(**{"d_model": 64, "num_heads": 2, **changes})
    model = Transformer(config, 0).eval()
    randomise(model)
    return model


def native(module: Any, **changes: Any) -> NativeModel:
    return make_native_model(module, small_config(**{"d_model": 64, "num_heads": 2, **changes}))


def torch_cohort(module: Any, width: int, policy: DecodingPolicy = DecodingPolicy()) -> TorchCohort:  # noqa: B008
    device = torch.device("cpu")
    return TorchCohort(TorchState(module, width, 0, device), VOCABULARY, width, 30, device, policy)


@needs_library
@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_logits_are_those_of_the_eager_model(name: str) -> None:
    changes = ARCHITECTURES[name]
    eager = transformer(**changes)
    model = native(eager, **changes)
    targets = torch.randint(3, 20, (9, 19), generator=torch.Generator().manual_seed(0))
    for source, target in zip(random_sources(9, vocab_size=20, seed=1, longest=35), targets, strict=True):
        expected = eager(torch.tensor([source]), target.unsqueeze(0))[0]
        torch.testing.assert_close(model.logits(source, target.tolist()), expected, atol=1e-4, rtol=1e-4)


@pytest.mark.sampled(3)
@needs_library
@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_attention_is_that_of_the_eager_model_for_many_pairs_and_one_alone(name: str) -> None:
    changes = ARCHITECTURES[name]
    eager = transformer(**changes)
    model = native(eager, **changes)
    sources = random_sources(50, vocab_size=20, seed=1, longest=35)
    targets = random_sources(50, vocab_size=20, seed=2, longest=35)
    together = model.attention(sources, targets)
    by_torch = attention_by_torch(eager, sources, targets, 0, torch.device("cpu"))
    for source, target, actual, alike in zip(sources, targets, together, by_torch, strict=True):
        *_, cross = eager.attend(torch.tensor([source]), torch.tensor([target]))
        expected = cross[0, -1].mean(dim=0)
        torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(alike, expected, atol=1e-5, rtol=1e-4)
        (alone,) = model.attention([source], [target])
        assert torch.equal(actual, alone), "the other pairs change nothing"


@needs_library
def test_attention_of_a_token_or_a_length_that_the_model_does_not_have_is_refused() -> None:
    model = native(transformer())
    for source, target in (([3, 20], [1]), ([3], [1, -1]), ([], [1]), ([3], []), ([3] * 500, [1])):
        with pytest.raises(IndexError, match="token id or a length"):
            model.attention([[3, 4], source], [[1, 3], target])


@needs_library
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@torch.inference_mode()
def test_int8_products_equal_those_of_torch(monkeypatch: pytest.MonkeyPatch, decoder: dict[str, Any]) -> None:
    # Without VNNI torch's product of bytes has half as many levels; what it does without such a product has all.
    monkeypatch.setattr(quantised_module, "torch_multiplies_bytes", lambda: False)
    scripted = script(transformer(**decoder), "int8")
    model = native(scripted, **decoder)
    targets = torch.randint(3, 20, (9, 12), generator=torch.Generator().manual_seed(0))
    for source, target in zip(random_sources(9, vocab_size=20, seed=1), targets, strict=True):
        state = TorchState(scripted, 1, 0, torch.device("cpu"))
        steps = [state.join([source], target[None, :1]), *(state.step(token.view(1, 1)) for token in target[1:])]
        expected = torch.cat(steps)[:, 0]
        difference = (model.logits(source, target.tolist()) - expected).square().mean().sqrt()
        assert float(difference) < 0.02 * float(expected.std()), "few values may be rounded differently"


@needs_library
@pytest.mark.parametrize("name", ARCHITECTURES)
@torch.inference_mode()
def test_bfloat16_products_round_their_inputs_and_add_in_float32(name: str) -> None:
    changes = ARCHITECTURES[name]
    model = native(convert_in_place(transformer(**changes), "bfloat16"), **changes)
    eager = transformer(**changes).bfloat16().float()
    for layer in eager.modules():
        if isinstance(layer, nn.Linear):
            layer.register_forward_pre_hook(lambda layer, inputs: (inputs[0].bfloat16().float(),))
    targets = torch.randint(3, 20, (9, 19), generator=torch.Generator().manual_seed(0))
    for source, target in zip(random_sources(9, vocab_size=20, seed=1, longest=35), targets, strict=True):
        expected = eager(torch.tensor([source]), target.unsqueeze(0))[0]
        difference = (model.logits(source, target.tolist()) - expected).square().mean().sqrt()
        assert float(difference) < 0.005 * float(expected.std()), "few numbers may be rounded differently"


def answers(outcome: Finished) -> list[Hypothesis]:
    assert outcome.hypothesis is not None
    return [outcome.hypothesis, *outcome.hypothesis.alternatives]


def check_same_in_any_batch(
    make: Callable[[int], Cohort], sources: list[list[int]], options: TranslationOptions
) -> None:
    inputs = some_searches(requests(sources, options, prefix_ids=PREFIXES))
    together = {outcome.key: outcome for outcome in decode_all(make, inputs, max_batch_tokens=100_000)}
    assert len(together) == len(inputs)
    for request in inputs:
        (alone,) = decode_all(make, [request])
        assert answers(alone) == answers(together[request.key])  # scores and searches, too


@needs_library
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
def test_a_sentence_is_bit_identical_in_any_batch(precision: str, width: int, decoder: dict[str, Any]) -> None:
    model = native(convert_in_place(transformer(**decoder), precision), **decoder)  # type: ignore[arg-type]
    sources = random_sources(80, vocab_size=20, seed=2)
    options = TranslationOptions(
        decoding="greedy" if width == 1 else "beam", beam_size=width, num_hypotheses=width, return_scores=True
    )

    def make(width: int) -> Cohort:
        return NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy())

    check_same_in_any_batch(make, sources, options)


@needs_library
@pytest.mark.parametrize("width", [1, 4])
def test_threads_may_be_divided_in_any_way(width: int) -> None:
    """Weights of more than 16 MB, so that groups of threads share the products of few rows."""
    changes = {"target_vocab_size": 63_000, "share_embeddings": False}
    model = native(transformer(**changes), **changes)
    sources = random_sources(9, vocab_size=20, seed=2)
    options = TranslationOptions(
        "beam" if width > 1 else "greedy", beam_size=width, max_new_tokens=4, return_scores=True
    )
    by_division, before = [], torch.get_num_threads()
    try:
        for num_threads, together in ((1, 9), (2, 3), (3, 9), (7, 9), (7, 1)):
            torch.set_num_threads(num_threads)
            outcomes: dict[int, Finished] = {}
            for begin in range(0, len(sources), together):
                group = NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy())
                request = requests(sources, options)[begin : begin + together]
                outcomes |= {outcome.key: outcome for outcome in group.join(request)}
                while group.num_sentences:
                    outcomes |= {outcome.key: outcome for outcome in group.step()}
            by_division.append([answers(outcomes[key]) for key in range(len(sources))])
    finally:
        torch.set_num_threads(before)
    assert by_division == by_division[:1] * len(by_division)


def decode_together(
    group: Cohort,
    sources: list[list[int]],
    options: list[TranslationOptions],
    forced_ids: tuple[int, ...] = (),
    required_ids: Sequence[tuple[int, ...]] = ((),),
    prefix_ids: Sequence[tuple[int, ...]] = ((),),
) -> dict[int, Finished]:
    """Sentences that join at different times, while some are removed."""
    outcomes: dict[int, Finished] = {}
    waiting = list(range(len(sources)))
    turn = 0
    while waiting or group.num_sentences:
        joining, waiting = waiting[: 1 + turn % 5], waiting[1 + turn % 5 :]
        finished = group.join(
            [
                DecodingRequest(
                    key,
                    sources[key],
                    options[key],
                    forced_ids,
                    required_ids[key % len(required_ids)],
                    prefix_ids[key % len(prefix_ids)],
                )
                for key in joining
            ]
        )
        if turn % 7 == 3 and 10 + turn in group.keys:
            group.leave([10 + turn, 9999])
            assert 10 + turn not in group.keys
        finished += group.step()
        outcomes.update((outcome.key, outcome) for outcome in finished)
        turn += 1
    return outcomes


CLOSE = 1e-5
"""Candidates whose scores differ by less may be ranked either way: sums of float32 in another order."""


def is_close_call(search: SearchTrace) -> bool:
    """Whether another order of the same sums could have led to another answer."""
    return any(
        better.log_prob - worse.log_prob < CLOSE for step in search for better, worse in itertools.pairwise(step)
    )


def like_torch(
    own: Cohort,
    torchs: Cohort,
    sources: list[list[int]],
    options: list[TranslationOptions],
    forced_ids: tuple[int, ...] = (),
    required_ids: Sequence[tuple[int, ...]] = ((),),
    prefix_ids: Sequence[tuple[int, ...]] = ((),),
) -> dict[int, Finished]:
    """Outputs of compiled code, compared with torch's; close calls are not.

    A removed sentence may have finished before its removal in one of them.
    """
    outcomes = decode_together(own, sources, options, forced_ids, required_ids, prefix_ids)
    # Every search of torch is returned, which changes no answer, and tells the close calls.
    searching = [replace(each, return_search=True) for each in options]
    expected = decode_together(torchs, sources, searching, forced_ids, required_ids, prefix_ids)
    common = outcomes.keys() & expected.keys()
    assert len(common) >= len(expected) - 10
    compared = [key for key in common if not is_close_call(answers(expected[key])[0].search)]
    assert len(compared) >= len(common) - 6
    for key in compared:
        for ours, theirs in zip(answers(outcomes[key]), answers(expected[key]), strict=True):
            assert ours.token_ids == theirs.token_ids
            assert ours.finish_reason == theirs.finish_reason
            assert (ours.score is None) == (theirs.score is None)
            if ours.score is not None:
                assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            same_searches(ours.search, theirs.search if options[key].return_search else ())
    return outcomes


POLICIES = {
    "own": DecodingPolicy(),
    "forbidden tokens lend their share": DecodingPolicy(forbidden=(0, 1, 7), renormalise=True),
    "the end is forced": DecodingPolicy(force_end=True, forbidden=(0,)),
}


SEARCHES = pairwise((1, 2, 5), get_args(Scoring), list(POLICIES))
"""Width, scoring rule and policy."""


def random_options(rng: random.Random, width: int, scoring: Scoring) -> TranslationOptions:
    return TranslationOptions(
        decoding="greedy" if width == 1 else "beam",
        beam_size=width,
        num_hypotheses=rng.randint(1, width),
        return_scores=rng.random() < 0.7,
        length_penalty=rng.choice([None, 0.0, 0.6, 2.0]),
        early_stopping=rng.choice([None, True]),
        scoring=scoring,
        min_new_tokens=rng.choice([0, 0, 4]),
        max_new_tokens=rng.choice([None, 4, 9]),
        no_repeat_ngram_size=rng.choice([0, 0, 1, 2, 3]),
        return_search=rng.random() < 0.5,
    )


@pytest.mark.sampled(7)
@needs_library
@pytest.mark.parametrize("decoder", DECODERS, ids=str)
@pytest.mark.parametrize(("width", "scoring", "policy"), SEARCHES)
def test_a_compiled_cohort_gives_the_outputs_of_torch(
    width: int, scoring: Scoring, policy: str, decoder: dict[str, Any]
) -> None:
    eager = transformer(**decoder)
    with torch.no_grad():
        eager.output.bias[VOCABULARY.end_id] += 1.0  # some sentences end before the limit
    model = native(eager, **decoder)
    rng = random.Random(f"{width} {scoring} {policy}")
    sources = random_sources(48, vocab_size=20, seed=3)
    options = [random_options(rng, width, scoring) for _ in sources]
    forced_ids = (5, 6) if width == 2 else ()
    own = NativeCohort(model, VOCABULARY, width, 30, POLICIES[policy])
    prefixes = [*PREFIXES, (), (5, 9) * 13]  # the last one leaves room for few tokens
    torchs = torch_cohort(eager, width, POLICIES[policy])
    outcomes = like_torch(own, torchs, sources, options, forced_ids, prefix_ids=prefixes)
    for key, outcome in outcomes.items():
        request = DecodingRequest(key, sources[key], options[key], forced_ids, prefix_ids=prefixes[key % len(prefixes)])
        check_search(answers(outcome)[0], request, POLICIES[policy], 30)


SEVERAL_BLOCKS: dict[str, Any] = {"source_vocab_size": 80, "target_vocab_size": 80}
"""Logits of more than one block."""

RESERVED = (16, 17, 70, 71)
REQUIRED_IDS: list[tuple[int, ...]] = [(), (17,), (71, 16, 70), (), (15, 16), RESERVED]
"""Required tokens of sentences, in turn. Token 15 may be generated otherwise, too."""


def with_reserved(policy: DecodingPolicy, reserved: Sequence[int]) -> DecodingPolicy:
    """The same policy; reserved tokens come only where a sentence requires them."""
    return replace(policy, forbidden=(*(policy.forbidden or VOCABULARY.never_generated), *reserved))


@pytest.mark.sampled(5)
@needs_library
@pytest.mark.parametrize(("width", "scoring", "policy"), SEARCHES)
def test_required_tokens_are_placed_as_by_torch(width: int, scoring: Scoring, policy: str) -> None:
    eager = transformer(**SEVERAL_BLOCKS)
    with torch.no_grad():
        eager.output.bias[VOCABULARY.end_id] += 4.0  # some sentences end before the limit
    model = native(eager, **SEVERAL_BLOCKS)
    rng = random.Random(f"{width} {scoring} {policy}")
    sources = random_sources(48, vocab_size=80, seed=3)
    options = [random_options(rng, width, scoring) for _ in sources]
    forced_ids = (5, 17) if width == 2 else ()
    reserved = with_reserved(POLICIES[policy], RESERVED)
    own = NativeCohort(model, VOCABULARY, width, 30, reserved)
    prefixes = [(), (17, 9), (71,), (), (4,), (9, 16, 9)]  # they hold tokens that are required, and one that is not
    outcomes = like_torch(
        own, torch_cohort(eager, width, reserved), sources, options, forced_ids, REQUIRED_IDS, prefixes
    )
    for key, outcome in outcomes.items():
        required_ids, prefix = REQUIRED_IDS[key % len(REQUIRED_IDS)], prefixes[key % len(prefixes)]
        for answer in answers(outcome):
            assert set(answer.token_ids) & set(RESERVED) <= {*required_ids, *prefix}
            if (options[key].max_new_tokens or 30) > len(required_ids):
                assert [answer.token_ids.count(token) for token in required_ids] == [1] * len(required_ids)


@needs_library
@pytest.mark.parametrize("width", [1, 3])
def test_required_tokens_change_no_other_sentence(width: int) -> None:
    model = native(convert_in_place(transformer(**SEVERAL_BLOCKS), "int8"), **SEVERAL_BLOCKS)
    sources = random_sources(60, vocab_size=80, seed=2)
    options = [random_options(random.Random(key), width, "hf") for key in range(60)]
    policy = with_reserved(DecodingPolicy(), RESERVED)

    def decode(keys: Sequence[int], required_ids: Sequence[tuple[int, ...]]) -> dict[int, Finished]:
        group = NativeCohort(model, VOCABULARY, width, 30, policy)
        group.join(
            [
                DecodingRequest(
                    key,
                    sources[key],
                    options[key],
                    (),
                    required_ids[key % len(required_ids)],
                    PREFIXES[key % len(PREFIXES)],
                )
                for key in keys
            ]
        )
        return {outcome.key: outcome for _ in range(31) for outcome in group.step()}

    mixed = decode(range(60), REQUIRED_IDS)
    free = decode([key for key in range(60) if not REQUIRED_IDS[key % len(REQUIRED_IDS)]], [()])
    assert len(mixed) == 60
    for key, outcome in mixed.items():
        expected = decode([key], REQUIRED_IDS)[key] if key not in free else free[key]
        assert answers(outcome) == answers(expected)  # scores, too


@needs_library
def test_a_beam_wider_than_the_vocabulary_is_allowed() -> None:
    eager = transformer()
    sources = random_sources(6, vocab_size=20, seed=3)
    options = [TranslationOptions(beam_size=24, num_hypotheses=24, return_scores=True, max_new_tokens=3)] * 6
    outcomes = decode_together(NativeCohort(native(eager), VOCABULARY, 24, 30, DecodingPolicy()), sources, options)
    expected = decode_together(torch_cohort(eager, 24), sources, options)
    assert outcomes.keys() == expected.keys()
    for key, outcome in outcomes.items():
        assert [answer.score for answer in answers(outcome)] == pytest.approx(
            [answer.score for answer in answers(expected[key])], abs=1e-4
        )


@needs_library
@pytest.mark.parametrize("width", [1, 3])
def test_a_sentence_whose_logits_are_not_numbers_fails_alone(width: int) -> None:
    eager = transformer(share_embeddings=False, tie_output=False)
    with torch.no_grad():
        eager.source_embedding.tokens.weight[9] = float("nan")
    model = native(eager, share_embeddings=False, tie_output=False)
    group = NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy())
    options = [TranslationOptions(decoding="greedy" if width == 1 else "beam", beam_size=width)] * 3
    outcomes = decode_together(group, [[5, 2], [9, 2], [6, 2]], options)
    assert outcomes[0].hypothesis is not None
    assert outcomes[2].hypothesis is not None
    assert outcomes[1].hypothesis is None
    assert str(outcomes[1].error) == NO_TOKEN


@needs_library
@pytest.mark.parametrize("column", [3, 20], ids=["whole vector", "rest"])
def test_an_activation_that_is_no_number_is_not_lost_in_int8(column: int) -> None:
    eager = transformer()
    with torch.no_grad():
        eager.decoder[0].feed_forward.wide.bias[column] = float("nan")  # type: ignore[union-attr,operator]
    group = NativeCohort(native(convert_in_place(eager, "int8")), VOCABULARY, 1, 30, DecodingPolicy())
    outcome = decode_together(group, [[5, 2]], [TranslationOptions(decoding="greedy")])[0]
    assert str(outcome.error) == NO_TOKEN


@needs_library
def test_forbidden_tokens_that_the_model_does_not_have_change_nothing() -> None:
    model, options = native(transformer()), [TranslationOptions(beam_size=3, return_scores=True)]
    for width in (1, 3):
        plain, others = (
            decode_together(
                NativeCohort(model, VOCABULARY, width, 30, DecodingPolicy(forbidden=ids)), [[5, 2]], options
            )
            for ids in ((0, 1), (-(2**31), -1, 0, 1, 20, 2**31 - 1, 2**40))
        )
        assert answers(plain[0]) == answers(others[0])


@needs_library
@pytest.mark.parametrize("end_id", [-1, 20])
def test_a_closing_token_that_the_model_does_not_have_is_refused(end_id: int) -> None:
    vocabulary = cast(Tokenizer, TinyVocabulary(end_id=end_id))
    with pytest.raises(IndexError, match=f"closing token is {end_id}"):
        NativeCohort(native(transformer()), vocabulary, 1, 30, DecodingPolicy())


@needs_library
def test_a_sentence_with_all_tokens_forbidden_fails() -> None:
    policy = DecodingPolicy(forbidden=tuple(range(20)))
    for width in (1, 3):
        group = NativeCohort(native(transformer()), VOCABULARY, width, 30, policy)
        options = [TranslationOptions(decoding="greedy" if width == 1 else "beam", beam_size=width)]
        assert decode_together(group, [[5, 2]], options)[0].hypothesis is None


@needs_library
@pytest.mark.parametrize("family", ["marian", "m2m100"])
def test_an_imported_model_gives_the_outputs_of_torch(family: str, tmp_path: Path) -> None:
    (make_marian if family == "marian" else make_m2m100)(tmp_path, d_model=64)
    import_checkpoint(tmp_path, tmp_path / "bundle.verso", "float32", report=lambda line: None)
    translator = Translator.load(tmp_path / "bundle.verso")
    assert translator.backend.name == "native"
    vocabulary = translator.bundle.tokenizer
    sources = long_sources(60, translator.manifest.architecture["source_vocab_size"], vocabulary.end_id)
    options = TranslationOptions(num_hypotheses=4, max_new_tokens=15, return_scores=True)
    target = "de" if family == "m2m100" else None
    outputs = translator.translate_tokens(sources, options, target)
    with_torch = Translator(translator.bundle, native=False)
    ties = 0
    for first, other in zip(outputs, with_torch.translate_tokens(sources, options, target), strict=True):
        for ours, theirs in zip((first, *first.alternatives), (other, *other.alternatives), strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-4)
            ties += ours.token_ids != theirs.token_ids
    assert ties <= 1


@needs_library
@pytest.mark.parametrize("source", [[20, 2], [-1, 2], [3] * 41, []], ids=["beyond", "negative", "too long", "empty"])
def test_token_ids_beyond_the_vocabulary_are_refused_without_affecting_others(source: list[int]) -> None:
    group = NativeCohort(native(transformer()), VOCABULARY, 1, 30, DecodingPolicy())
    options = TranslationOptions(decoding="greedy")
    group.join([DecodingRequest(0, [5, 2], options)])
    with pytest.raises(IndexError, match="the model does not have"):
        group.join([DecodingRequest(1, [6, 2], options), DecodingRequest(2, source, options)])
    for more in ({"required_ids": (5, 20)}, {"forced_ids": (20,)}, {"prefix_ids": (5, -1)}):
        with pytest.raises(IndexError, match="the model does not have"):
            group.join([DecodingRequest(3, [6, 2], options, **more)])
    with pytest.raises(ValueError, match="30 tokens; the limit is 29"):
        group.join([DecodingRequest(4, [6, 2], options), DecodingRequest(5, [6, 2], options, (), (), (5,) * 30)])
    assert group.keys == [0]
    finished = []
    while group.num_sentences:
        finished += group.step()
    assert [outcome.key for outcome in finished] == [0]


@needs_library
def test_a_target_longer_than_the_position_table_is_refused() -> None:
    group = NativeCohort(native(transformer(max_positions=4), max_positions=4), VOCABULARY, 1, 30, DecodingPolicy())
    with pytest.raises(IndexError, match="the model does not have"):
        group.join([DecodingRequest(0, [3, 2], TranslationOptions(decoding="greedy", max_new_tokens=5))])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"norm": "residual-post"}, "norm is residual-post"),
    ],
    ids=str,
)
def test_an_unsupported_architecture_is_decoded_by_torch(changes: dict[str, Any], reason: str) -> None:
    config = small_config(**{"d_model": 64, "num_heads": 2, **changes})
    assert reason in str(reason_not_native(config))


class OtherLinear(nn.Module):
    """An unknown layer with a weight and a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(64, 64))
        self.bias = nn.Parameter(torch.zeros(64))


def float16(model: Transformer) -> Any:
    return script(model, "float16")


def with_another_linear(model: Transformer) -> Any:
    model.encoder[1].feed_forward.wide = OtherLinear()  # type: ignore[union-attr]
    return model


def without_a_layer(model: Transformer) -> Any:
    del model.decoder[2]
    return model


def with_a_norm_without_gain(model: Transformer) -> Any:
    model.decoder_norm = nn.LayerNorm(64, elementwise_affine=False)
    return model


@pytest.mark.slow
@needs_library
@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"source_vocab_size": 19, "share_embeddings": False, "tie_output": False}, "source_embedding.tokens.weight"),
        ({"target_vocab_size": 19, "share_embeddings": False, "tie_output": False}, "output.bias"),
        ({"target_vocab_size": 19, "share_embeddings": False, "output_bias": False}, "output.weight"),
        ({"max_positions": 39}, "source_embedding.positions"),
        ({"d_ff": 23, "decoder_d_ff": 24}, "encoder.0.feed_forward.wide.bias"),
        ({"decoder_d_ff": 23}, "decoder.0.feed_forward.wide.bias"),
        ({"d_model": 32, "num_heads": 1}, "encoder.0.self_attention.query_key_value.bias"),
    ],
    ids=str,
)
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])
def test_weights_smaller_than_the_architecture_says_are_not_packed(
    changes: dict[str, Any], path: str, precision: Any
) -> None:
    module = script(transformer(**changes), precision)
    config = small_config(d_model=64, num_heads=2)
    with pytest.raises(Unsupported, match=re.escape(path.removesuffix(".weight"))):
        make_native_model(module, config)


@needs_library
def test_an_int8_product_whose_sum_may_not_fit_is_not_packed() -> None:
    changes = {"d_model": 16, "num_heads": 1, "d_ff": 2**16 + 1, "encoder_layers": 1, "decoder_layers": 1}
    module, config = Transformer(small_config(**changes), 0).eval(), small_config(**changes)
    make_native_model(module, config)
    with pytest.raises(Unsupported, match="has 65537 inputs in int8"):
        make_native_model(script(module, "int8"), config)


@needs_library
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (float16, "encoder.0.self_attention.query_key_value.bias is float16 on cpu"),
        (with_another_linear, "encoder.1.feed_forward.wide is a OtherLinear"),
        (without_a_layer, "the model has no module decoder.2.self_attention.query_key_value"),
        (with_a_norm_without_gain, "the model has no tensor decoder_norm.weight"),
    ],
    ids=["float16", "another linear layer", "missing layer", "norm without gain"],
)
def test_an_unsupported_module_is_not_packed(change: Callable[[Transformer], Any], reason: str) -> None:
    with pytest.raises(Unsupported, match=re.escape(reason)):
        make_native_model(change(transformer()), small_config(d_model=64, num_heads=2))


@pytest.fixture
def _fresh_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """A supported processor on a machine without a compiled library."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(library, "processor_reason", lambda: None)
    monkeypatch.setattr(library, "build_library", compiler.build_library)
    monkeypatch.setattr(compiler, "INSTALLATION", ("-DANOTHER",))
    monkeypatch.setattr(compiler, "ZIG", "no_such_package")
    monkeypatch.delenv("CXX", raising=False)
    library.find_library.cache_clear()
    yield
    library.find_library.cache_clear()


@pytest.mark.usefixtures("_fresh_library")
def test_without_a_compiler_torch_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert library.load_library() is None
    assert "no C++ compiler" in str(reason_not_native(small_config(d_model=64, num_heads=2)))


def failing_compiler(folder: Path) -> str:
    path = folder / "c++"
    path.write_text(
        "#!/bin/sh\necho 'In file included from here:' >&2\necho 'x.h:1: error: no such header' >&2\nexit 1\n"
    )
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("_fresh_library")
def test_a_compiler_that_fails_is_named_and_torch_decodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    path = failing_compiler(tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: path)
    with caplog.at_level(logging.WARNING, logger="model.native"):
        assert library.load_library() is None
    assert f"torch decodes, more slowly: {path} failed: x.h:1: error: no such header" in caplog.text
    assert library.find_library().reason == f"{path} failed: x.h:1: error: no such header"


@pytest.mark.usefixtures("_fresh_library")
def test_a_library_that_cannot_be_loaded_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "build_library", lambda: tmp_path / "missing.so")
    assert library.load_library() is None
    assert "missing.so" in str(library.find_library().reason)


@pytest.mark.usefixtures("_fresh_library")
@pytest.mark.parametrize(
    ("machine", "has_compiler", "message"),
    [
        ("riscv64", True, "this is riscv64"),
        ("x86_64", True, "failed: x.h:1: error: no such header"),
        ("x86_64", False, "no C++"),
    ],
)
@pytest.mark.parametrize("arguments", [[], ["--check"]], ids=["install", "check"])
def test_installation_succeeds_without_the_compiled_decoder_and_only_the_check_fails(
    arguments: list[str],
    machine: str,
    has_compiler: bool,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    path = failing_compiler(tmp_path)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(shutil, "which", lambda name: path if has_compiler else None)
    if arguments and "failed" in message:
        with pytest.raises(SystemExit, match="no such header"):
            compiler.main(arguments)
        return
    compiler.main(arguments)
    out = capsys.readouterr().out
    assert message in out
    assert "torch decodes" in out
