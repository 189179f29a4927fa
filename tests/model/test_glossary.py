"""Glossary terms in a sentence and in its translation."""

from __future__ import annotations

import pytest

from model.text.glossary import GlossaryTerm, find_terms, term_in


def found(text: str, *sources: str, language: str = "en") -> list[str]:
    glossary = tuple(GlossaryTerm(source, source.upper()) for source in sources)
    return [text[slice(*span)] for span, _ in find_terms(text, glossary, language, ())]


@pytest.mark.parametrize(
    ("text", "source", "expected"),
    [
        ("The house is old.", "house", ["house"]),
        ("Houses and a HOUSE", "house", ["Houses", "HOUSE"]),
        ("a warehouse, housework", "house", []),
        ("the house's roof", "house", ["house"]),
        ("two boxes", "box", []),  # no endings for terms of three letters
        ("We use C++ and C.", "C++", ["C++"]),
        ("C++17", "C++", ["C++"]),
        ("an apple from Apple, APPLE", "Apple", ["Apple", "APPLE"]),
        ("read the user guide", "user guide", ["user guide"]),
    ],
)
def test_a_term_is_found_as_a_word_of_its_own_with_common_endings(text: str, source: str, expected: list[str]) -> None:
    assert found(text, source) == expected


def test_endings_are_those_of_the_language() -> None:
    assert found("den Kunden und des Kunden", "Kunde", language="de") == ["Kunden", "Kunden"]
    assert found("die Arbeiter", "Arbeit", language="de") == []
    assert found("les maisons", "maison", language="fr") == []


def test_of_overlapping_terms_the_longest_is_found() -> None:
    assert found("the user guide for a user", "user", "user guide") == ["user guide", "user"]


def test_a_longer_term_in_another_case_hides_no_shorter_one() -> None:
    assert found("from new york", "New York", "york") == ["york"]
    assert found("from New York", "New York", "york") == ["New York"]


def test_an_occurrence_that_is_taken_is_not_found_again() -> None:
    text = "Haus und Haus"
    assert term_in(text, "Haus") == (0, 4)
    assert term_in(text, "Haus", [(0, 4)]) == (9, 13)
    assert term_in(text, "Haus", [(0, 4), (9, 13)]) is None


def test_the_first_of_equal_terms_counts() -> None:
    glossary = (GlossaryTerm("cat", "Katze"), GlossaryTerm("cat", "Kater"))
    assert find_terms("a cat", glossary, "en", ()) == [((2, 5), "Katze")]


def test_no_term_is_found_in_a_protected_span() -> None:
    glossary = (GlossaryTerm("house", "Haus"),)
    assert find_terms("house {house}", glossary, "en", [(6, 13)]) == [((0, 5), "Haus")]


def test_signs_of_regular_expressions_are_characters_of_the_term() -> None:
    assert found("costs (5.0) or 5x0", "(5.0)") == ["(5.0)"]


@pytest.mark.parametrize(
    ("translation", "term", "expected"),
    [
        ("Das Gebäude ist alt.", "Gebäude", "Gebäude"),
        ("In den Gebäuden.", "Gebäude", "Gebäuden"),
        ("Die Häuser.", "Haus", "Häuser"),
        ("Die Bäume.", "Baum", "Bäume"),
        ("Ein Gebet.", "Gebäude", None),
        ("Lesen Sie die Benutzerhandbücher.", "Benutzerhandbuch", "Benutzerhandbücher"),
        ("mit dem neuen Vertrag", "neuer Vertrag", "neuen Vertrag"),
        ("der Vertrag ist neu", "neuer Vertrag", None),
        ("wir nutzen C++", "C++", "C"),
        ("es kostet 5 €", "€", "€"),
        ("", "Haus", None),
    ],
)
def test_a_term_is_found_in_a_translation_in_some_inflection(translation: str, term: str, expected: str | None) -> None:
    span = term_in(translation, term)
    assert (None if span is None else translation[slice(*span)]) == expected
