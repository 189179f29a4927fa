"""Texts that are made to be slow to read or to punctuate."""

from __future__ import annotations

import pytest

from model.text.character_edits import find_edits
from model.text.numbers import find_numbers, wrong_numbers
from model.text.punctuation import certain_changes, find_signs, quotes_to_read, wrong_signs
from model.text.quantities.agreement import find_agreement
from model.text.quantities.reading import read_quantities
from model.text.segmentation import split_text
from tests.hostile.test_requests import LEAST_S, assert_linear, processor_s

SIZE = 30_000
EDITS = ["a''", "e\u0301", "&uuml", "Aa*", "a\\'", "e_r", "`t", "d:", "Aa(", "a\u0301\u0301", "ein*", "&#", "1 Jan. "]
SIGNS = ["(", "([", '"', "'a", " '", "((a))", "! ", "».«", "a'"]
LINES = ["“a", "(", "`a", "A. ", "«", "a! ", "'"]
NUMBERS = ["1.", "1(1)", "1,000 ", "a1", "12:"]
QUANTITIES = [
    *NUMBERS,
    "1 ",
    "1-",
    "+1 1",
    "1 000 ",
    "May 5 ",
    "5. Mai ",
    "Montag, ",
    "$1 m ",
    "9 a.m. ",
    "9 bis ",
    "Aa 1.5 ",
]


@pytest.mark.parametrize("part", EDITS)
def test_the_time_to_find_edits_grows_with_the_size_of_a_text(part: str) -> None:
    assert_linear(
        lambda size: processor_s(lambda: find_edits.__wrapped__(part * (size // len(part)), "de")), SIZE, LEAST_S
    )


@pytest.mark.parametrize("part", SIGNS)
def test_the_time_to_compare_signs_grows_with_the_size_of_a_text(part: str) -> None:
    def compare(text: str) -> None:
        quotes_to_read(text, find_signs(text).pairs[:1])
        certain_changes(text, (), text[:-1], (), ("en", "de"))
        wrong_signs(text, (), text[1:], ())

    assert_linear(lambda size: processor_s(lambda: compare(part * (size // len(part)))), SIZE // 10, LEAST_S)


@pytest.mark.parametrize("part", NUMBERS)
def test_the_time_to_compare_numbers_grows_with_the_size_of_a_text(part: str) -> None:
    def compare(text: str, answer: str) -> None:
        wrong_numbers(text, find_numbers(text), answer, find_numbers(answer))

    assert_linear(lambda size: processor_s(lambda: compare(part * (size // len(part)), part * 9)), SIZE // 10, LEAST_S)


@pytest.mark.parametrize("part", QUANTITIES)
def test_the_time_to_compare_quantities_grows_with_the_size_of_a_text(part: str) -> None:
    def compare(text: str, answer: str) -> None:
        read_quantities.cache_clear()
        find_agreement.__wrapped__(text, (), answer, (), ("en", "de"))
        find_agreement.__wrapped__(answer, (), text, (), ("de", "en"))

    assert_linear(lambda size: processor_s(lambda: compare(part * (size // len(part)), part * 9)), SIZE, LEAST_S)


@pytest.mark.parametrize("part", LINES)
def test_the_time_to_split_a_line_grows_with_its_length(part: str) -> None:
    def split(text: str) -> None:
        split_text(text, "de", lambda start, end: True)

    assert_linear(lambda size: processor_s(lambda: split(part * (size // len(part)))), SIZE * 2, LEAST_S)
