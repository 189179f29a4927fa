"""Sampled segmentations: the distribution of the unigram model, and the same ones in every process."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from model.text.pieces import load_processor
from model.text.subword_sampling import SubwordSampler
from model.text.tokenizer_training import learn_tokenizer
from tests.model.vocabulary import SENTENCES

RNG = random.Random(1)
WORDS = [" ".join("".join(RNG.choices("abcd", k=RNG.randint(2, 6))) for _ in range(5)) for _ in range(500)]
PROCESSOR = load_processor(learn_tokenizer([*SENTENCES, *WORDS], 400, ["de", "en"]).model_proto)
SAMPLER = SubwordSampler(PROCESSOR)
ODD = ["", " ", "  cat\thouse ", "日本 🙂", "<2en> <0x41> </s>", "ﬁ ½", "Katze" * 40]


@pytest.mark.parametrize("text", [*SENTENCES[:10], *WORDS[:10], *ODD])
def test_a_large_alpha_gives_the_most_probable_segmentation(text: str) -> None:
    assert SAMPLER.sample(text, 500.0, seed=1) == PROCESSOR.EncodeAsIds(text)


@pytest.mark.parametrize("text", ODD)
def test_every_segmentation_is_one_of_the_text(text: str) -> None:
    for seed in range(20):
        assert PROCESSOR.DecodeIds(SAMPLER.sample(text, 0.1, seed)) == PROCESSOR.DecodeIds(PROCESSOR.EncodeAsIds(text))


def segmentations(text: str) -> dict[tuple[int, ...], float]:
    """Every segmentation and its log-probability, by exhaustive search."""
    if not text:
        return {(): 0.0}
    log_probs: dict[tuple[int, ...], float] = {}
    for end in range(1, len(text) + 1):
        number = PROCESSOR.PieceToId(text[:end])
        if number != PROCESSOR.unk_id():
            for rest, log_prob in segmentations(text[end:]).items():
                log_probs[number, *rest] = PROCESSOR.GetScore(number) + log_prob
    return log_probs


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5, 1.0])
def test_segmentations_are_as_frequent_as_their_probability_says(alpha: float) -> None:
    weights = {ids: math.exp(alpha * log_prob) for ids, log_prob in segmentations("\u2581cab\u2581cadb").items()}
    assert len(weights) > 10
    number = 4000
    drawn = Counter(tuple(SAMPLER.sample("cab cadb", alpha, seed)) for seed in range(number))
    assert drawn.keys() <= weights.keys()
    for ids, weight in weights.items():
        expected = number * weight / sum(weights.values())
        assert abs(drawn[ids] - expected) < 5 * math.sqrt(expected) + 1
