"""Glossary terms in translations."""

from __future__ import annotations

import torch

from model.text.placeholders import TargetSentence
from model.text.symbols import Span
from model.translation.reading import SourceTerm
from model.translation.terms import TermUse, find_uses, put_terms


def words(text: str) -> list[Span]:
    spans, position = [], 0
    for word in text.split():
        start = text.index(word, position)
        spans.append((start, start + len(word)))
        position = start + len(word)
    return spans


SOURCE = "the old house and the dog"
TARGET = TargetSentence("das alte Haus und der Hund", tuple(words("das alte Haus und der Hund")))
WORD_BY_WORD = torch.eye(6)


def test_terms_are_looked_for_in_the_translation() -> None:
    terms = [SourceTerm((8, 13), "Haus"), SourceTerm((22, 25), "Köter")]
    assert find_uses(terms, TARGET) == [
        TermUse((8, 13), (9, 13), "used"),
        TermUse((22, 25), None, "missing"),
    ]


def test_missing_terms_replace_the_aligned_words() -> None:
    terms = [SourceTerm((8, 13), "Gebäude"), SourceTerm((22, 25), "Köter")]
    result, uses = put_terms(terms, TARGET, WORD_BY_WORD, words(SOURCE))
    assert result.text == "das alte Gebäude und der Köter"
    assert [(use.status, use.target and result.text[slice(*use.target)]) for use in uses] == [
        ("replaced", "Gebäude"),
        ("replaced", "Köter"),
    ]
    assert [result.text[slice(*span)] for span in result.tokens] == result.text.split()


def test_a_term_of_several_words_replaces_all_of_theirs() -> None:
    result, uses = put_terms([SourceTerm((4, 13), "Altbau")], TARGET, WORD_BY_WORD, words(SOURCE))
    assert result.text == "das Altbau und der Hund"
    assert uses == [TermUse((4, 13), (4, 10), "replaced")]


def test_a_term_with_no_aligned_word_is_missing_and_nothing_changes() -> None:
    rows = torch.zeros(6, 6)
    rows[:, 0] = 1.0
    result, uses = put_terms([SourceTerm((8, 13), "Gebäude")], TARGET, rows, words(SOURCE))
    assert result == TARGET
    assert uses == [TermUse((8, 13), None, "missing")]


def test_a_term_replaces_neither_another_term_nor_a_protected_span() -> None:
    rows = WORD_BY_WORD.clone()
    rows[5] = torch.tensor([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])  # "Hund" is aligned with "house", too
    rows[2] = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    protected = TargetSentence(TARGET.text, TARGET.tokens, ((22, 26),))
    result, uses = put_terms([SourceTerm((8, 13), "Gebäude")], protected, rows, words(SOURCE))
    assert result == protected
    assert uses[0].status == "missing"
    both = [SourceTerm((22, 25), "Hund"), SourceTerm((8, 13), "Gebäude")]
    result, uses = put_terms(both, TARGET, rows, words(SOURCE))
    assert (result.text, [use.status for use in uses]) == (TARGET.text, ["used", "missing"])


def test_each_occurrence_counts_for_one_term_and_spans_for_none() -> None:
    translation = TargetSentence("Haus und Garten {Haus}", ((0, 4), (5, 8), (9, 15), (16, 22)), ((16, 22),))
    terms = [SourceTerm((0, 5), "Haus"), SourceTerm((10, 15), "Haus")]
    assert [use.status for use in find_uses(terms, translation)] == ["used", "missing"]
    in_other_order = [SourceTerm((0, 6), "Garten"), SourceTerm((7, 12), "Haus"), SourceTerm((13, 19), "Garten")]
    assert [use.status for use in find_uses(in_other_order, translation)] == ["used", "used", "missing"]
