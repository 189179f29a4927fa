"""The cache of translations, without an engine."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import fields, replace
from typing import Any

import pytest

from app.engine.translation_cache import SentenceKey, TranslationCache
from model.decoding.options import Candidate, DecodingOptions, Hypothesis
from model.decoding.sentence import DecodingRequest
from model.text.glossary import GlossaryTerm

OPTIONS = DecodingOptions()
ANSWER = Hypothesis([7, 8, 70_000], -0.25, "stop", (Hypothesis([7], -0.5, "length"), Hypothesis([], None, "stop")))


class Model:
    sha256 = "a" * 64


class Other:
    sha256 = "b" * 64


def key(
    *ids: int,
    options: DecodingOptions = OPTIONS,
    forced_ids: tuple[int, ...] = (),
    required_ids: tuple[int, ...] = (),
    prefix_ids: tuple[int, ...] = (),
    model: Any = Model,
) -> SentenceKey:
    return SentenceKey.of(model, DecodingRequest(0, list(ids), options, forced_ids, required_ids, prefix_ids))


def test_a_cached_result_is_returned_unchanged() -> None:
    cache = TranslationCache(10_000)
    assert cache.get(key(1, 2)) is None
    cache.put(key(1, 2), ANSWER)
    assert cache.get(key(1, 2)) == ANSWER
    assert len(cache) == 1


@pytest.mark.parametrize(
    "other",
    [
        key(1, 3),
        key(1),
        key(1, 2, 2),
        key(1, 2, forced_ids=(5,)),
        key(1, 2, prefix_ids=(5,)),
        key(1, 2, required_ids=(5,)),
        key(1, 2, model=Other),
        key(1, 2, options=replace(OPTIONS, return_scores=True)),
    ],
)
def test_a_different_sentence_is_a_miss(other: SentenceKey) -> None:
    cache = TranslationCache(10_000)
    cache.put(key(1, 2), ANSWER)
    assert cache.get(other) is None


@pytest.mark.parametrize("name", [field.name for field in fields(DecodingOptions)])
def test_every_option_is_part_of_the_key(name: str) -> None:
    other: dict[str, Any] = {
        "decoding": "greedy",
        "beam_size": 5,
        "length_penalty": 0.5,
        "num_hypotheses": 2,
        "min_new_tokens": 1,
        "max_new_tokens": 9,
        "return_scores": True,
        "early_stopping": True,
        "scoring": "wu",
        "no_repeat_ngram_size": 3,
        "formality": "formal",
        "glossary": (GlossaryTerm("a", "b"),),
        "protect": "none",
        "format": "html",
        "ignore_tags": ("b",),
        "target_prefix": "a",
        "return_search": True,
        "return_alignment": True,
        "return_confidence": True,
    }
    cache = TranslationCache(10_000)
    cache.put(key(1), ANSWER)
    more: dict[str, Any] = {"format": "html"} if name == "ignore_tags" else {}
    assert cache.get(key(1, options=replace(OPTIONS, **{name: other[name]}, **more))) is None


def test_the_least_recently_used_entries_are_evicted() -> None:
    cache = TranslationCache(3 * 600)
    for number in range(3):
        cache.put(key(number), Hypothesis([1], None, "stop"))
    assert cache.get(key(0)) is not None
    cache.put(key(3), Hypothesis([1], None, "stop"))
    assert [cache.get(key(number)) is not None for number in range(4)] == [True, False, True, True]
    assert cache.num_bytes <= 3 * 600


def test_results_larger_than_the_cache_are_not_kept_and_a_cache_of_size_0_keeps_nothing() -> None:
    cache = TranslationCache(2_000)
    cache.put(key(1), ANSWER)
    cache.put(key(2), Hypothesis([1] * 1000, None, "stop"))
    assert len(cache) == 1 and cache.get(key(2)) is None
    off = TranslationCache(0)
    off.put(key(1), ANSWER)
    assert (off.is_on, len(off), off.num_bytes) == (False, 0, 0)


def test_answers_with_their_search_are_not_kept() -> None:
    cache = TranslationCache(10_000)
    search = ((Candidate(1, 0, 7, -0.25, kept=True, finished=True),),)
    hypothesis = Hypothesis([7], None, "length", search=search)
    request = key(1, options=replace(OPTIONS, return_search=True))
    cache.put(request, hypothesis)
    assert (len(cache), cache.get(request)) == (0, None)


def test_forgetting_a_bundle_removes_only_its_results() -> None:
    cache = TranslationCache(10_000)
    for model in (Model, Other):
        for number in range(3):
            cache.put(key(number, model=model), ANSWER)
    cache.forget(Model.sha256)
    assert len(cache) == 3
    assert cache.get(key(1)) is None and cache.get(key(1, model=Other)) == ANSWER
    cache.forget(Other.sha256)
    assert cache.num_bytes == 0


def test_the_counted_memory_is_close_to_the_allocated_memory() -> None:
    cache = TranslationCache(2_000_000)
    gc.collect()
    tracemalloc.start()
    try:
        number = 0
        while cache.num_bytes < 1_990_000:
            options = DecodingOptions(beam_size=4 + number % 3)  # a separate object for each request, as in the service
            cache.put(key(*range(number, number + 25), options=options), Hypothesis([5] * 25, -1.0, "stop"))
            number += 1
        drawn, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.7 < drawn / cache.num_bytes < 1.1, f"{drawn / len(cache):.0f} bytes an entry"


def test_the_memory_of_alternatives_counts() -> None:
    def num_bytes(*alternatives: Hypothesis) -> int:
        cache = TranslationCache(1_000_000)
        cache.put(key(1), Hypothesis([7] * 100, -0.5, "stop", alternatives))
        return cache.num_bytes

    other = Hypothesis([8] * 100, -0.75, "stop")
    alone, first, two = num_bytes(), num_bytes(other), num_bytes(other, other)
    assert first - alone >= len(other.token_ids) * 4
    assert two - first == first - alone
    assert num_bytes(replace(other, alternatives=(other,))) > first
