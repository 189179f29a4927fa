"""The layout of texts: list markers, cells, unusual whitespace, repeated punctuation."""

from __future__ import annotations

import pytest

from model.text.layout import (
    after_marker,
    dashes_of_source,
    is_numbered,
    lost_hyphens,
    unusual_spaces,
    with_cells_as_lines,
    without_unpaired,
)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("- item", "item"),
        ("* item", "item"),
        ("•\u00a0item", "item"),
        ("a) item", "item"),
        ("12) item", "item"),
        ("(3) item", "item"),
        ("[x] done", "done"),
        ("- [ ] to do", "to do"),
        ("## Heading", "Heading"),
        ("> quoted", "quoted"),
        ("– Hello", "Hello"),
        ("3. Oktober", "3. Oktober"),
        ("I. Newton", "I. Newton"),
        ("-5 degrees", "-5 degrees"),
        ("24 hours", "24 hours"),
        ("-", "-"),
        ("a cat - b", "a cat - b"),
    ],
)
def test_a_list_marker_belongs_to_no_sentence(text: str, rest: str) -> None:
    assert text[after_marker(text, 0, len(text), numbered=is_numbered(text)) :] == rest


def test_numbers_are_markers_where_there_are_several() -> None:
    text = "1. First\n  2. Second"
    assert is_numbered(text)
    results = [text[after_marker(text, start, end, numbered=True) : end] for start, end in ((0, 8), (11, 20))]
    assert results == ["First", "Second"]


@pytest.mark.parametrize("line_break", ["\n", "\r", "\u2028"])
def test_any_line_break_begins_a_line(line_break: str) -> None:
    text = f"One{line_break}- two"
    assert text[after_marker(text, 4, len(text), numbered=False) :] == "two"


def test_only_the_beginning_of_a_line_has_a_marker() -> None:
    text = "One. - two"
    assert after_marker(text, 5, len(text), numbered=False) == 5


def test_tabs_and_wide_gaps_separate_cells() -> None:
    assert with_cells_as_lines("a\tb  c   d\t\te") == "a\nb  c\n\n\nd\n\ne"
    assert with_cells_as_lines("| a | b|c || d |") == "\n a \n b|c || d \n"


@pytest.mark.parametrize(
    ("sentence", "spaces"),
    [
        ("a b c", []),
        ("a  b", ["  "]),
        ("a\u00a0b c\u2009d", ["\u00a0", "\u2009"]),
        ("a \u00a0 b", [" \u00a0 "]),
        ("ä b", []),
        (" a b ", []),
    ],
)
def test_white_space_other_than_one_space_is_unusual(sentence: str, spaces: list[str]) -> None:
    assert [sentence[slice(*span)] for span in unusual_spaces(sentence)] == spaces


@pytest.mark.parametrize(
    ("source", "translation", "signs"),
    [
        ("a - b", "a \u2013 b", ["-"]),
        ("a - b -- c", "a \u2014 b \u2013 c", ["-", "--"]),
        ("a - b - c", "a \u2013 b", ["-"]),
        ("a - b -- c", "a \u2013 b", []),
        ("a - b", "a - b", []),
        ("a -- b", "a \u2013 -- b", ["--", ""]),
        ("well-known", "a \u2013 b", []),
    ],
)
def test_dashes_are_those_of_the_source(source: str, translation: str, signs: list[str]) -> None:
    assert [sign for _, sign in dashes_of_source(source, translation)] == signs


def test_hyphens_are_lost_if_a_translation_has_fewer_dashes() -> None:
    assert lost_hyphens("a - b \u2013 c", "a \u2013 b") == [(2, 3)]
    assert lost_hyphens("a - b", "a \u2014 b") == []


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("(File", "File"),
        ("Open)", "Open"),
        ("Open).", "Open"),
        ("She stayed.)", "She stayed."),
        ("thanks))", "thanks"),
        ("(both)", "(both)"),
        ("a (b) c", "a (b) c"),
        (")(", ")("),
    ],
)
def test_brackets_without_a_counterpart_stay_outside_of_a_sentence(text: str, inside: str) -> None:
    start, end = without_unpaired(text, 0, len(text))
    assert text[start:end] == inside
