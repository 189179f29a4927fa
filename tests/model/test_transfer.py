"""Translations by the stored translation of a similar sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.translation.transfer import steered, transferred


@pytest.mark.parametrize(
    ("stored", "before", "after", "expected"),
    [
        ("Mach den Deckel zu.", "Schließe den Deckel.", "Schließe den Kasten.", "Mach den Kasten zu."),
        ("Nimm die Tür, bitte.", "Die Tür ist offen.", "Das Tor ist offen.", None),  # "Die" has no place
        ("Nimm die alte Tür.", "Nimm die Tür.", "Nimm das Tor.", None),  # "die Tür" is not together
        ("Er kam am Montag an.", "Er kam am Montag.", "Er kam am frühen Montag.", "Er kam am frühen Montag an."),
        ("Sehr schön, sehr gut.", "Sehr schön.", "Sehr alt.", "Sehr alt, sehr gut."),
        ("Nein, nein.", "Nein.", "Ja.", "Ja, nein."),
        ("Nein und Nein!", "Nein.", "Ja.", None),  # it has two places
        ("a b c d", "a b c d", "a b c d", None),
        ("x y", "p q r s", "t u v w", None),
    ],
)
def test_words_that_differ_replace_those_of_the_stored_translation(
    stored: str, before: str, after: str, expected: str | None
) -> None:
    assert transferred(stored, before, after) == expected


def test_a_number_is_replaced_without_the_model() -> None:
    assert steered("Turn 3 times.", "3 Mal drehen.", "Turn 25 times.", "Dreh dreimal.", "Anders.") == "25 Mal drehen."
    assert steered("Turn 3 to 3.", "3 Mal drehen.", "Turn 3 to 4.", "x", "y") is None


def test_a_single_word_is_replaced_although_the_order_differs() -> None:
    stored, before, after = "Montags kommt der Mann.", "Der Mann kommt am Montag.", "Am Montag kommt der Hund."
    assert steered("The man.", stored, "The dog.", before.lower(), after.lower()) is None  # a word is in lower case
    before, after = "der Mann kommt Montags.", "Montags kommt der Hund."
    assert steered("The man.", stored, "The dog.", before, after) == "Montags kommt der Hund."


def test_hostile_translations_take_little_time() -> None:
    words = "a b " * 400
    assert transferred(words, "b a " * 400, words) is None
    assert transferred("x " * 2_000, "x", "y") is None


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_any_texts_are_accepted(stored: str, before: str, after: str) -> None:
    assert isinstance(transferred(stored, before, after), str | None)
    assert isinstance(steered(before, stored, after, before, after), str | None)
