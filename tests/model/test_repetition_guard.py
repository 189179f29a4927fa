from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model import TranslationOptions, Translator
from model.artifacts.bundle import Bundle, load_bundle
from model.decoding.options import DecodingOptions, Hypothesis
from model.decoding.repetition_guard import guarded, is_empty, is_suspect, loops
from model.translation.reading import SourceSentence
from model.translation.verification import Findings, Verifier


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


@pytest.mark.parametrize("num_words", range(1, 7))
@pytest.mark.parametrize("before", ["", "und dann "])
def test_up_to_six_words_four_times_in_a_row_are_a_loop_and_three_times_are_none(num_words: int, before: str) -> None:
    sequence = " ".join(["eins", "zwei", "drei", "vier", "fünf", "sechs"][:num_words])
    assert loops(before + " ".join([sequence] * 4))
    assert not loops(before + " ".join([sequence] * 3))


def test_seven_words_in_a_row_are_no_loop() -> None:
    assert not loops(" ".join(["eins zwei drei vier fünf sechs sieben"] * 4))


def test_a_loop_in_the_source_is_allowed_in_the_output() -> None:
    assert not loops("nein nein nein nein", "no no no no")


@pytest.mark.parametrize(
    "ids", [[5, 5, 5, 5], [1, 2, 1, 2, 1, 2, 1, 2], [9, 5, 7, 5, 7, 5, 7, 5, 7, 3], [8, 9, 5, 5, 5, 3]]
)
def test_a_repetition_loop_has_enough_repeated_tokens(ids: list[int]) -> None:
    assert is_suspect(ids)
    assert not is_suspect([1, 2, 3, *range(10, 20), 3])


@pytest.mark.parametrize(
    ("text", "source", "empty"), [("", "cat", True), ("?", "42", True), ("", "?!", False), ("Katze", "cat", False)]
)
def test_no_output_for_a_source_with_words_is_empty(text: str, source: str, empty: bool) -> None:
    assert is_empty(text, source) == empty


@pytest.mark.parametrize("ids", [[], [4], [4, 5]])
def test_an_output_of_two_tokens_may_be_empty(ids: list[int]) -> None:
    assert is_suspect(ids)


def test_a_guard_respects_the_maximal_number_of_tokens() -> None:
    assert guarded(DecodingOptions()).min_new_tokens == 3
    assert guarded(DecodingOptions(min_new_tokens=7)).min_new_tokens == 7
    assert guarded(DecodingOptions(max_new_tokens=2)).min_new_tokens == 2


def test_an_existing_guard_is_kept() -> None:
    assert guarded(DecodingOptions()).no_repeat_ngram_size == 2
    assert guarded(DecodingOptions(no_repeat_ngram_size=4)).no_repeat_ngram_size == 4


SOURCE = "cat cat cat cat cat cat cat."
"""The toy translates it word by word. A loop that is in the source is allowed, unless the source is ignored."""


class Forgetful(Verifier):
    """Treats every source as one without loops, as if the model had generated the loop."""

    def verify(
        self, sentence: SourceSentence, hypothesis: Hypothesis, *, may_loop: bool = False, may_lack: bool = False
    ) -> Findings:
        return super().verify(replace(sentence, text="cat."), hypothesis, may_loop=may_loop, may_lack=may_lack)


def forgetful(bundle: Bundle, *, retry_loops: bool, native: bool = True) -> Translator:
    translator = Translator(bundle, native=native)
    pipeline = translator.pipeline
    pipeline.verifier = Forgetful(pipeline.reader, pipeline.writer, retry_loops=retry_loops)
    return translator


@pytest.fixture(scope="module", params=["compiled", "torch"])
def translator(toy_bundle: Path, request: pytest.FixtureRequest) -> Translator:
    bundle = load_bundle(toy_bundle, "cpu")
    return forgetful(bundle, retry_loops=True, native=request.param == "compiled")


def test_a_repetition_loop_is_decoded_again_and_its_neighbours_are_not(translator: Translator) -> None:
    texts = ["red cat sees old dog.", SOURCE, "old tree likes red house."]
    translations = translator.translate(texts, target="de")
    again = translator.translate(texts, TranslationOptions(no_repeat_ngram_size=2, min_new_tokens=3), target="de")
    assert loops(translator.translate([SOURCE], TranslationOptions(no_repeat_ngram_size=100), target="de")[0].text)
    assert not loops(translations[1].text)
    assert translations[1].text == again[1].text
    assert [translations[0].text, translations[2].text] == ["rot Katze sieht alt Hund.", "alt Baum mag rot Haus."]


def test_attention_is_that_of_the_retry(translator: Translator) -> None:
    assert translator.attention(SOURCE, target="de").translation == translator.translate([SOURCE], target="de")[0].text


def test_a_retry_begins_with_the_given_prefix(translator: Translator) -> None:
    options = TranslationOptions(target_prefix="Katze Katze")
    (translation,) = translator.translate([SOURCE], options, target="de")
    assert translation.text.startswith("Katze Katze") and not loops(translation.text)
    unguarded = replace(options, no_repeat_ngram_size=100)
    assert loops(translator.translate([SOURCE], unguarded, target="de")[0].text)
    assert [translation] == translator.translate(
        [SOURCE], replace(options, no_repeat_ngram_size=2, min_new_tokens=3), target="de"
    )


def test_models_without_retries_may_loop(toy_bundle: Path) -> None:
    plain = forgetful(load_bundle(toy_bundle, "cpu"), retry_loops=False)
    assert loops(plain.translate([SOURCE], target="de")[0].text)


def test_a_run_of_signs_much_longer_than_that_of_the_source_is_a_loop() -> None:
    assert loops("Vater" + "-" * 60, "father----------")
    assert not loops("Vater" + "-" * 12, "father----------")
    assert not loops("Vater" + "-" * 40, "father" + "-" * 30)
    assert loops("ja" + "!" * 16, "yes!")
