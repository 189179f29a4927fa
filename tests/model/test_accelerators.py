"""The signs of accelerators: which texts have one, and where it goes in a translation."""

from __future__ import annotations

import pytest

from model.text.accelerators import find_accelerator, place_of_accelerator


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("&Edit", 0),
        ("_Open the file", 0),
        ("Save &as", 5),
        ("E&xit", 1),
        ("E_xit", 1),
        ("Fo_rmat of files", 2),
        ("Schlie_ßen", 6),
        ("Abbre_chen", 5),
        *[(text, None) for text in ("User_id", "Total_count", "Leser_in", "Datei_name")],
        ("~Print", 0),
        *[(text, None) for text in ("R&D", "AT&T", "Copy && paste", "snake_case", "a & b", "&amp; b", "_very_ good")],
        ("&Edit" + " more" * 20, None),
    ],
)
def test_a_short_text_with_one_sign_before_a_letter_has_an_accelerator(text: str, index: int | None) -> None:
    assert find_accelerator(text) == (None if index is None else (index, index + 1))


@pytest.mark.parametrize(
    ("letter", "translation", "index"),
    [("e", "Bearbeiten", 1), ("o", "Datei \u00f6ffnen oder", 13), ("x", "{x} Hilfe", 4), ("q", "42", None)],
)
def test_the_sign_goes_before_the_same_letter_or_the_first_one(
    letter: str, translation: str, index: int | None
) -> None:
    assert place_of_accelerator(letter, translation, [(0, 3)] if "{" in translation else []) == index
