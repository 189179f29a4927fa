from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from model import TranslationOptions, Translator
from model.artifacts.bundle import load_bundle
from model.text.case_folding import (
    begins_sentence,
    capitals_of_source,
    in_capitals,
    in_lower_case,
    index_to_capitalise,
    is_in_capitals,
    spans_in_capitals,
)


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    """The toy with case folding; its training text has capitals only at the beginning of German nouns."""
    bundle = load_bundle(toy_bundle, "cpu")
    return Translator(replace(bundle, manifest=replace(bundle.manifest, fold_capitals=True)))


@pytest.mark.parametrize("text", ["HELLO", "WO IST DIE STRAßE?", "A 42-PAGE BOOK!", "ÜBER UNS", "ПРИВЕТ МИР"])
def test_a_text_without_lower_case_letters_is_in_capitals(text: str) -> None:
    assert is_in_capitals(text)


@pytest.mark.parametrize("text", ["", "NATO", "Hello", "HELLo", "42", "USA 4", "straße", "日本語の文章です"])
def test_abbreviations_ordinary_text_and_scripts_without_case_are_not(text: str) -> None:
    assert not is_in_capitals(text)


@pytest.mark.parametrize("text", ["WHERE IS IT?", "„ÜBER ALLEM“", "İSTANBUL CITY", "12 MONKEYS", "!"])
def test_lower_case_keeps_every_character_at_its_position(text: str) -> None:
    small = in_lower_case(text)
    assert len(small) == len(text)
    assert small.upper() == text.upper()


def test_the_first_letter_is_unchanged() -> None:
    assert in_lower_case("„ÜBER ALLEM“ 2") == "„Über allem“ 2"


def test_spans_move_if_capitals_are_longer() -> None:
    text = "Straße, weiß"
    spans = spans_in_capitals(text, [(0, 6), (6, 7), (8, 12)])
    capitals = in_capitals(text)
    assert [capitals[start:end] for start, end in spans] == ["STRASSE", ",", "WEISS"]


@pytest.mark.parametrize("text", ["The cat", "The cat sees it.", '"The cat', "¿Qué?", "I"])
def test_a_text_that_begins_with_a_capital_begins_a_sentence(text: str) -> None:
    assert begins_sentence(text, 0, len(text), "en")


@pytest.mark.parametrize("text", ["the cat", "3 Cats", "", "...", "iPhone", "ßtraße", "猫"])
def test_a_text_that_begins_otherwise_begins_none(text: str) -> None:
    assert not begins_sentence(text, 0, len(text), "en")


def test_a_noun_begins_a_german_sentence_only_if_the_sentence_ends() -> None:
    assert begins_sentence("Hunde bellen.", 0, 13, "de")
    assert begins_sentence("Hunde bellen!»", 0, 14, "de")
    assert not begins_sentence("Tisch am Fenster", 0, 16, "de")


@pytest.mark.parametrize(
    ("before", "expected"), [("He said, ", False), ("word ", False), ("Yes. ", True), ("a,\n", True)]
)
def test_the_later_part_of_a_long_sentence_begins_none(before: str, expected: bool) -> None:
    text = before + "I think."
    assert begins_sentence(text, len(before), len(text), "en") is expected


@pytest.mark.parametrize(
    ("text", "kept", "index"),
    [
        ("hallo", [], 0),
        ('"hallo"', [], 1),
        ("Hallo", [], None),
        ("iPhones sind", [], None),
        ("pH-Wert", [], None),
        ("3 katzen", [], None),
        ("{name} hallo", [(0, 6)], None),
        ("hallo {name}", [(6, 12)], 0),
        ("\ufb01nden", [], None),
        ("", [], None),
    ],
)
def test_the_letter_to_capitalise_is_the_first(text: str, kept: list[tuple[int, int]], index: int | None) -> None:
    assert index_to_capitalise(text, kept) == index


def test_a_sentence_in_capitals_gets_a_translation_in_capitals_and_its_neighbour_does_not(
    translator: Translator,
) -> None:
    text = "THE CAT SEES OLD DOG. red house likes tree."
    small, plain = translator.translate(["The cat sees old dog.", "red house likes tree."], target="de")
    (translation,) = translator.translate([text], target="de")
    assert translation.text == f"{small.text.upper()} {plain.text}"


def test_models_without_case_folding_read_capitals_unchanged(toy_bundle: Path) -> None:
    plain = Translator(load_bundle(toy_bundle, "cpu"))
    (sentence,) = plain.prepare("CAT SEES DOG.", "en", "de").sentences
    assert not sentence.in_capitals
    assert sentence.token_ids != plain.prepare("Cat sees dog.", "en", "de").sentences[0].token_ids


def test_alternatives_and_alignment_are_in_capitals_too(translator: Translator) -> None:
    text = "RED CAT. old dog likes tree."
    options = TranslationOptions(num_hypotheses=2)
    (translation,) = translator.translate([text], options, target="de", return_alignment=True)
    small, plain = translator.translate(["Red cat.", "old dog likes tree."], options, target="de")
    assert translation.alternatives[0].text == f"{small.alternatives[0].text.upper()} {plain.alternatives[0].text}"
    assert translation.alignment is not None
    for link in translation.alignment:
        assert text[slice(*link.source)].strip() == text[slice(*link.source)] != ""
        assert translation.text[slice(*link.target)] != ""
    assert translation.alignment[-1].target[1] == len(translation.text)


def test_attention_shows_the_lower_case_tokens(translator: Translator) -> None:
    attention = translator.attention("RED CAT SEES DOG.", target="de")
    assert attention.source_tokens == translator.attention("Red cat sees dog.", target="de").source_tokens
    assert attention.translation == translator.translate(["RED CAT SEES DOG."], target="de")[0].text
    arguments = translator.attention("RED CAT SEES DOG.", target="de", target_text="ROT KATZE.")
    assert arguments.translation == "ROT KATZE."
    assert (
        arguments.target_tokens == translator.attention("red cat.", target="de", target_text="Rot katze.").target_tokens
    )


def test_a_capital_x_comes_back_in_words_of_the_source() -> None:
    source, translation = "Take size XL, XXL or GX-55b, not the box.", "Nimm xL, xxL oder Gx-55b, nicht die box XL."
    changes = capitals_of_source(source, translation)
    assert [(translation[slice(*span)], word) for span, word in changes] == [
        *[("xL", "XL"), ("xxL", "XXL"), ("Gx-55b", "GX-55b")],
    ]
