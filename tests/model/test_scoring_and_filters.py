from __future__ import annotations

import itertools

import pytest
import torch

from model.decoding.eager.filters import TokenFilter, tokens_that_repeat
from model.decoding.eager.step import Past
from model.decoding.options import DecodingOptions
from model.decoding.policy import DecodingPolicy
from model.decoding.scoring import RULES
from model.decoding.sentence import DecodingRequest, Sentence
from tests.model.tiny import VOCABULARY, decode, random_sources, tiny_transformer


def test_the_length_penalty_equals_the_hand_computed_one() -> None:
    assert RULES["hf"].rule(0.0).score(-6.0, 3) == -6.0
    assert RULES["hf"].rule(1.0).score(-6.0, 3) == -2.0
    assert RULES["marian"].rule(0.5).score(-6.0, 4) == -3.0
    assert RULES["ct2"].rule(1.0).score(-6.0, 3) == -2.0
    assert RULES["wu"].rule(1.0).score(-6.0, 7) == -3.0, "(5 + 7) / 6 is 2"


@pytest.mark.parametrize(
    ("tokens", "size", "expected"),
    [
        ([], 2, []),
        ([5, 6, 7], 2, []),
        ([5, 6, 5], 2, [6]),
        ([5, 6, 7, 5, 6], 3, [7]),
        ([5, 6, 5, 7, 5], 2, [6, 7]),
        ([5, 6], 1, [5, 6]),
    ],
)
def test_tokens_that_would_repeat_equal_the_hand_computed_ones(
    tokens: list[int], size: int, expected: list[int]
) -> None:
    assert tokens_that_repeat(tokens, size) == expected


def test_the_filter_forbids_special_tokens_and_an_early_end() -> None:
    options = DecodingOptions(min_new_tokens=2)
    sentence = Sentence.of(DecodingRequest(0, [4, 5, 2], options), DecodingPolicy(), 10)
    history = torch.tensor([[[1, 5, 0]]])
    logits = torch.zeros(1, 1, 8)
    TokenFilter((0, 1), 2, torch.device("cpu")).forbid(logits, Past([sentence], [0], history, 2))
    assert torch.isinf(logits[0, 0]).tolist() == [True, True, True, *[False] * 5]


@pytest.mark.parametrize(
    ("generated", "force_end", "allowed"),
    [
        ([], False, [3, 4, 5, 6, 7]),
        ([7], False, [3, 4, 5, 6]),
        ([7, 5], False, [3, 4, 5, 6]),
        ([7, 6], False, [2, 3, 4, 5]),
        ([7, 6, 5, 5], False, [2, 3, 4, 5]),
        ([5, 5, 5], False, [6, 7]),
        ([5, 5, 6, 5], False, [7]),
        ([5, 5, 5, 5], False, [3, 4, 5, 6, 7]),
        ([5, 5], True, [6, 7]),
        ([5, 5, 6], True, [7]),
        ([5, 5, 6, 7], True, [2, 3, 4, 5]),
    ],
    ids=str,
)
def test_required_tokens_come_once_and_before_the_end(
    generated: list[int], force_end: bool, allowed: list[int]
) -> None:
    request = DecodingRequest(0, [4, 5, 2], DecodingOptions(max_new_tokens=5), (3,), (7, 6))
    sentence = Sentence.of(request, DecodingPolicy(force_end=force_end), 10)
    inputs = [1, 3, *generated]
    before = torch.arange(8.0).view(1, 1, 8)
    logits = before.clone()
    past = Past([sentence], [0], torch.tensor([[inputs]]), len(inputs))
    TokenFilter((0, 1, 6, 7), 2, torch.device("cpu")).forbid(logits, past)
    assert torch.isfinite(logits[0, 0]).nonzero().flatten().tolist() == allowed
    assert torch.equal(logits[0, 0, allowed], before[0, 0, allowed])


def test_too_many_or_equal_required_tokens_are_refused() -> None:
    options = DecodingOptions()
    with pytest.raises(ValueError, match="17 tokens"):
        DecodingRequest(0, [4, 2], options, required_ids=tuple(range(17)))
    with pytest.raises(ValueError, match="all be different"):
        DecodingRequest(0, [4, 2], options, required_ids=(5, 6, 5))


@pytest.mark.parametrize("options", [DecodingOptions(decoding="greedy"), DecodingOptions(beam_size=3)])
def test_no_bigram_occurs_twice_with_the_guard(options: DecodingOptions) -> None:
    guarded = DecodingOptions(
        decoding=options.decoding,
        beam_size=options.beam_size,
        no_repeat_ngram_size=2,
        min_new_tokens=20,
        max_new_tokens=30,
    )
    transformer = tiny_transformer()
    repeats = 0
    for outcome in decode(transformer, random_sources(6), guarded).values():
        assert outcome.hypothesis is not None
        tokens = outcome.hypothesis.token_ids
        pairs = list(itertools.pairwise(tokens))
        repeats += len(pairs) - len(set(pairs))
        assert len(tokens) >= 20
    assert repeats == 0
    free = DecodingOptions(decoding=options.decoding, beam_size=options.beam_size, min_new_tokens=20, max_new_tokens=30)
    unguarded = [o.hypothesis.token_ids for o in decode(transformer, random_sources(6), free).values() if o.hypothesis]
    assert any(len(set(itertools.pairwise(t))) < len(t) - 1 for t in unguarded), (
        "without repetitions the guard is not tested"
    )


def test_special_tokens_are_never_generated() -> None:
    transformer = tiny_transformer()
    with torch.no_grad():
        transformer.output.bias[[0, 1]] += 50.0
    for outcome in decode(transformer, random_sources(5), DecodingOptions()).values():
        assert outcome.hypothesis is not None
        assert not set(outcome.hypothesis.token_ids) & {VOCABULARY.pad_id, VOCABULARY.start_id}
