from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model import DecodingOptions, Translator
from model.bundle import load_bundle
from model.decoding.options import Hypothesis
from model.repetition import guarded, loops, may_loop


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("no no no no", True),
        ("No, no, no!", False),
        ("to learn how to learn how to learn how to learn how to learn", True),
        ("ich weiß, dass ich weiß, dass ich weiß", False),
        ("a b c d e f", False),
        ("", False),
        ("... ... ... ...", True),
        ("das ist Vorg-Vorg-Vorg-Vorg-Vorg", True),
    ],
)
def test_a_loop_is_a_stretch_of_words_four_times_in_a_row(text: str, is_one: bool) -> None:
    assert loops(text) == is_one


def test_what_loops_in_the_source_may_loop() -> None:
    assert not loops("nein nein nein nein", "no no no no")


@pytest.mark.parametrize("ids", [[5, 5, 5, 5], [1, 2, 1, 2, 1, 2, 1, 2], [9, 5, 7, 5, 7, 5, 7, 5, 7, 3]])
def test_what_loops_has_tokens_enough_more_than_once(ids: list[int]) -> None:
    assert may_loop(ids)
    assert not may_loop(sorted(set(ids)))


def test_a_guard_that_is_there_is_kept() -> None:
    assert guarded(DecodingOptions()).no_repeat_ngram_size == 2
    assert guarded(DecodingOptions(no_repeat_ngram_size=4)).no_repeat_ngram_size == 4


SOURCE = "cat cat cat cat cat cat cat."
"""The toy answers it word by word: what loops in the source is no loop, unless the source is made out to be another."""


class Forgetful(Translator):
    """Takes every answer for one to a source without loops, as if the model had made its loop up."""

    def _loops(self, part: str, hypothesis: Hypothesis, options: DecodingOptions) -> bool:
        return super()._loops("cat.", hypothesis, options)


@pytest.fixture(scope="module", params=["compiled", "torch"])
def translator(toy_bundle: Path, request: pytest.FixtureRequest) -> Translator:
    bundle = load_bundle(toy_bundle, "cpu")
    asking = replace(bundle, manifest=replace(bundle.manifest, retry_loops=True))
    return Forgetful(asking, native=request.param == "compiled")


def test_an_answer_that_loops_is_decoded_again_and_its_neighbours_are_not(translator: Translator) -> None:
    texts = ["red cat sees old dog.", SOURCE, "old tree likes red house."]
    found = translator.translate(texts, target="de")
    again = translator.translate(texts, guarded(DecodingOptions()), target="de")
    assert loops(translator.translate([SOURCE], DecodingOptions(no_repeat_ngram_size=100), target="de")[0].text)
    assert not loops(found[1].text)
    assert found[1] == again[1]
    assert [found[0].text, found[2].text] == ["rot Katze sieht alt Hund.", "alt Baum mag rot Haus."]


def test_attention_is_that_of_the_second_answer(translator: Translator) -> None:
    assert translator.attention(SOURCE, target="de").translation == translator.translate([SOURCE], target="de")[0].text


def test_models_that_do_not_ask_for_it_may_loop(toy_bundle: Path) -> None:
    plain = Forgetful(load_bundle(toy_bundle, "cpu"))
    assert loops(plain.translate([SOURCE], target="de")[0].text)
