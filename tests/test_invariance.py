"""Batching changes no translation: the shipped model's outputs alone, in any batch, and joining a running cohort.

The compiled decoder sums every row in one order, independent of the batch: outputs are bit-identical. Torch's kernels
sum in an order that depends on the shapes, so that its float32 outputs may differ if two tokens, or two hypotheses,
are closer than ``TIE_MARGIN``, also where one of them just leaves the beam. In int8 the last bit moves an activation to
the next of its 127 levels.
Run with ``-s`` to see the figures.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from model.artifacts.bundle import Bundle
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.compare import TIE_MARGIN
from model.artifacts.loaded_network import LoadedNetwork
from model.artifacts.manifest import Manifest, Precision
from model.artifacts.pretrained import PRETRAINED
from model.artifacts.script import script
from model.decoding.eager.state import TorchState
from model.decoding.native.library import load_library
from model.decoding.options import Candidate, Hypothesis
from model.decoding.sentence import DecodingRequest, Finished
from model.network.quantised import int8_is_supported
from model.network.transformer import Transformer
from model.translation.options import TranslationOptions
from model.translator import Translator

pytestmark = pytest.mark.thorough

NUM_SENTENCES = 1_000
SCORE_BOUND = 1e-4
INT8_SCORE_BOUND = 0.02
GREEDY = TranslationOptions(decoding="greedy", return_scores=True)
BEAM = TranslationOptions(return_scores=True, num_hypotheses=2)
PAIRS = (("en", "de"), ("de", "en"))

WHO = {
    "en": "I, my neighbour, the old teacher, Anna, the two engineers, nobody, our cat, the woman in the red coat",
    "de": "ich, mein Nachbar, die alte Lehrerin, Peter, die beiden Ingenieure, niemand, unser Hund, das Kind",
}
DOES = {
    "en": "sees, remembers, will buy, has lost, wanted to repair, cannot find, is painting, sold",
    "de": "sieht, vergisst, kauft, verliert, repariert, findet, malt, verkauft, sucht, bringt",
}
WHAT = {
    "en": "the key, a new bicycle, three letters, the broken lamp, his brother's house, nothing, the map",
    "de": "den Schlüssel, ein neues Fahrrad, drei Briefe, die kaputte Lampe, das Haus seines Bruders",
}
WHERE = {
    "en": "in the garden, near the station, on Monday, before the rain came, at 7:30, behind the museum",
    "de": "im Garten, am Bahnhof, am Montag, vor dem Regen, um 7:30 Uhr, hinter dem Museum",
}
LINK = {"en": "and, but, because, although, while", "de": "und, aber, denn, oder, sondern"}


def sentences(language: str, number: int, seed: int) -> list[str]:
    """Distinct sentences of one to six clauses, mostly short, reproducible by seed."""
    rng = random.Random(seed)

    def one_of(words: dict[str, str]) -> str:
        return rng.choice(words[language].split(", "))

    result: dict[str, None] = {}
    while len(result) < number:
        text = ""
        for clause in range(rng.choice([1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3, 6])):
            link = f", {one_of(LINK)} " if clause else ""
            text += f"{link}{one_of(WHO)} {one_of(DOES)} {one_of(WHAT)}"
            text += f" {one_of(WHERE)}" if rng.random() < 0.5 else ""
        result[text[0].upper() + text[1:] + rng.choice(".!?")] = None
    return list(result)


@functools.cache
def module(precision: Precision) -> Transformer:
    """The shipped model, scripted."""
    return script(load_checkpoint(PRETRAINED).build(), precision)


@functools.cache
def translator(precision: Precision, native: bool) -> Translator:
    """The shipped translator as in its bundle, without writing a file."""
    checkpoint = load_checkpoint(PRETRAINED)
    manifest = Manifest.of_checkpoint(checkpoint.facts, checkpoint.config, precision)
    network = LoadedNetwork(module(precision))
    return Translator(Bundle(network, checkpoint.tokenizer, manifest, torch.device("cpu"), ""), native=native)


def sources(model: Translator, number: int) -> list[list[int]]:
    """Token ids of sentences, half in each direction, shuffled."""
    results: list[list[int]] = []
    for seed, (source, target) in enumerate(PAIRS):
        for text in sentences(source, number // 2, seed):
            (sentence,) = model.prepare(text, source, target).sentences
            results.append(sentence.token_ids)
    random.Random(7).shuffle(results)
    return results


def hypotheses(outcomes: Iterator[Finished], number: int) -> list[Hypothesis]:
    """The outputs by key; negative keys are additional sentences and are ignored."""
    result = {outcome.key: outcome.hypothesis for outcome in outcomes if outcome.key >= 0}
    assert sorted(result) == list(range(number))
    answers = [result[key] for key in range(number)]
    assert None not in answers
    return [answer for answer in answers if answer is not None]


def alone(model: Translator, ids: Sequence[list[int]], options: TranslationOptions) -> list[Hypothesis]:
    """Each sentence in its own cohort."""
    cohort = model.cohort(options.width)

    def decode() -> Iterator[Finished]:
        for key, source in enumerate(ids):
            yield from cohort.join([DecodingRequest(key, source, options)])
            while cohort.num_sentences:
                yield from cohort.step()

    return hypotheses(decode(), len(ids))


def in_batches(model: Translator, ids: Sequence[list[int]], options: TranslationOptions) -> list[Hypothesis]:
    """Batches of random composition and size, whose sentences start together."""
    rng = random.Random(11)
    order = rng.sample(range(len(ids)), len(ids))
    cohort = model.cohort(options.width)

    def decode() -> Iterator[Finished]:
        while order:
            batch = [order.pop() for _ in range(min(len(order), rng.choice([2, 3, 7, 16, 33, 64])))]
            yield from cohort.join([DecodingRequest(key, ids[key], options) for key in batch])
            while cohort.num_sentences:
                yield from cohort.step()

    return hypotheses(decode(), len(ids))


def on_the_way(model: Translator, ids: Sequence[list[int]], options: TranslationOptions) -> list[Hypothesis]:
    """A few sentences at a time join a running cohort; additional sentences join, and leave before they finish."""
    rng = random.Random(13)
    order = rng.sample(range(len(ids)), len(ids))
    cohort = model.cohort(options.width)
    extra_keys: list[int] = []

    def decode() -> Iterator[Finished]:
        turn = 0
        while order or cohort.num_sentences:
            turn += 1
            if order and cohort.num_sentences < 40 and rng.random() < 0.6:
                joining = [order.pop() for _ in range(min(len(order), rng.randint(1, 6)))]
                yield from cohort.join([DecodingRequest(key, ids[key], options) for key in joining])
                if rng.random() < 0.3:
                    yield from cohort.join([DecodingRequest(-turn, rng.choice(ids), options)])
                    extra_keys.append(-turn)
            if extra_keys and rng.random() < 0.3:
                cohort.leave({extra_keys.pop(0)})
            yield from cohort.step()

    return hypotheses(decode(), len(ids))


@dataclass
class Difference:
    """How outputs differ from those of sentences decoded alone.

    Args:
        ties: Sentences whose tokens differ at a tie.
        others: Sentences whose tokens differ otherwise.
        score: Largest difference of a score where tokens are the same.
    """

    ties: int
    others: list[int]
    score: float


def compare(
    model: Translator,
    ids: Sequence[list[int]],
    expected: Sequence[Hypothesis],
    actual: Sequence[Hypothesis],
    options: TranslationOptions,
) -> Difference:
    difference = Difference(0, [], 0.0)
    for key, (first, other) in enumerate(zip(expected, actual, strict=True)):
        both = [(first, other), *zip(first.alternatives, other.alternatives, strict=True)]
        if all(a.token_ids == b.token_ids and a.finish_reason == b.finish_reason for a, b in both):
            difference.score = max(difference.score, *(abs((a.score or 0.0) - (b.score or 0.0)) for a, b in both))
        elif all(is_tie(model, ids[key], a, b) for a, b in both) or has_tie_at_the_edge(model, ids[key], options):
            difference.ties += 1
        else:
            difference.others.append(key)
    return difference


def is_tie(model: Translator, source: list[int], first: Hypothesis, other: Hypothesis) -> bool:
    """Whether two outputs are equally good up to rounding: by score, or at the first different token."""
    if abs((first.score or 0.0) - (other.score or 0.0)) < TIE_MARGIN:
        return True
    end = model.bundle.tokenizer.end_id
    remaining, right = [*first.token_ids, end], [*other.token_ids, end]
    position = next((n for n, (a, b) in enumerate(zip(remaining, right, strict=False)) if a != b), None)
    if position is None:
        return False
    state = TorchState(model.bundle.module, 1, model.bundle.tokenizer.pad_id, torch.device("cpu"))
    with torch.inference_mode():
        logits = state.join([source], torch.tensor([[model.bundle.tokenizer.start_id]]))
        for token in remaining[:position]:
            logits = state.step(torch.tensor([[token]]))
    logits = logits[0, 0]
    return abs(float(logits[remaining[position]] - logits[right[position]])) < TIE_MARGIN


def has_tie_at_the_edge(model: Translator, source: list[int], options: TranslationOptions) -> bool:
    """Whether the search for a sentence once kept a candidate up to rounding as good as one that it dropped."""
    if options.width == 1:
        return False
    (alone_again,) = alone(model, [source], replace(options, return_search=True))
    return any(
        min(outcome.log_prob for outcome in unfinished if outcome.kept)
        - max(item.log_prob for item in unfinished if not item.kept)
        < TIE_MARGIN
        for unfinished in map(_unfinished, alone_again.search)
        if len({item.kept for item in unfinished}) == 2
    )


def _unfinished(step: Sequence[Candidate]) -> list[Candidate]:
    return [item for item in step if not item.finished]


Batching = Callable[[Translator, Sequence[list[int]], TranslationOptions], list[Hypothesis]]
BATCHINGS: dict[str, Batching] = {"in batches": in_batches, "on the way": on_the_way}


def check(precision: Precision, native: bool, options: TranslationOptions, number: int) -> None:
    """Decode alone and in every kind of batch, and print the differences; only torch may have ties."""
    model = translator(precision, native)
    ids = sources(model, number)
    expected = alone(model, ids, options)
    for name, batching in BATCHINGS.items():
        difference = compare(model, ids, expected, batching(model, ids, options), options)
        engine, search = "compiled" if native else "torch", "greedy" if options.width == 1 else f"beam {options.width}"
        print(
            f"{precision}, {engine}, {search}, {name}: {number} sentences, {difference.ties} differ at a tie, "
            f"{len(difference.others)} otherwise; scores to {difference.score:.1e}"
        )
        is_rounded = precision == "int8" and not native
        assert len(difference.others) <= (1 + number // 100 if is_rounded else 0), name
        assert difference.score <= (0.0 if native else INT8_SCORE_BOUND if is_rounded else SCORE_BOUND), name
        assert difference.ties <= (0 if native else number // 500), name


needs_library = pytest.mark.skipif(load_library() is None, reason="no x86 processor, or no C++ compiler, here")
precisions = pytest.mark.parametrize("precision", ["float32", *(["int8"] if int8_is_supported() else [])])


def test_the_sentences_are_distinct_and_of_many_lengths() -> None:
    model = translator("float32", False)
    result = sources(model, NUM_SENTENCES)
    assert len({tuple(ids) for ids in result}) == NUM_SENTENCES
    lengths = sorted(map(len, result))
    assert lengths[0] < 12 < 50 < lengths[-1] <= model.manifest.max_source_tokens


@needs_library
@precisions
@pytest.mark.parametrize("number", [60, pytest.param(NUM_SENTENCES, marks=pytest.mark.slow)])
def test_sentences_are_the_same_in_any_batch(precision: Precision, number: int) -> None:
    check(precision, True, GREEDY, number)


@pytest.mark.sampled(1)
@needs_library
@precisions
def test_a_beam_of_four_is_the_same_in_any_batch(precision: Precision) -> None:
    check(precision, True, BEAM, 40)


torch_precisions = precisions
"""In int8, rounding of torch's attention moves an activation to the next level now and then: 6 of 1,000 sentences
differed on the way, mostly ones that run in circles, and scores by up to 0.008."""


@pytest.mark.sampled(1)
@torch_precisions
def test_torch_gives_the_same_in_any_batch(precision: Precision) -> None:
    check(precision, False, GREEDY, 8)
    check(precision, False, BEAM, 4)


@pytest.mark.slow
@torch_precisions
def test_torch_gives_a_thousand_sentences_the_same_in_any_batch(precision: Precision) -> None:
    check(precision, False, GREEDY, NUM_SENTENCES)
    check(precision, False, BEAM, 500)
