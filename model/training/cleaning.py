"""Cleaning of parallel text: what is repaired in a sentence, how lines are split, and why pairs are left out."""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

from model.text.segmentation import split_text
from model.training.corpus import Pair, bare_words, is_lopsided

MAX_CHARACTERS = 600
"""Longest side of a pair; some 120 tokens of most languages, the limit of the trainer's default."""

MAX_REPETITIONS = 10
"""Pairs that may have the same side, up to case and punctuation."""

_REPLACEMENT = "\ufffd"
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
# Soft hyphen, zero-width space, byte order mark, marks of direction. Joiners belong to the spelling of some languages.
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


class Reason(Enum):
    """Why a pair is left out; the value explains it in a report."""

    NOT_UTF8 = "a side is not UTF-8"
    TOO_FEW_COLUMNS = "the line of the table has too few columns"
    EMPTY = "a side is empty"
    DAMAGED = "a side contains U+FFFD, where a character was lost"
    FEW_LETTERS = "less than a quarter of a side is letters"
    COPY = "both sides have the same words"
    TOO_LONG = f"a side has more than {MAX_CHARACTERS} characters"
    LOPSIDED = "a side is over three times longer than its translation suggests"
    DUPLICATE = "the pair occurs earlier"
    REPEATED = f"a side occurs {MAX_REPETITIONS} times earlier"


def clean_side(text: str) -> str:
    """A sentence in NFC, without control and invisible characters, with single spaces."""
    text = _INVISIBLE.sub("", _CONTROLS.sub("", unicodedata.normalize("NFC", text)))
    return " ".join(text.split())


def incomplete(pair: Pair) -> Reason | None:
    """Why a pair cannot be used at all, whatever the other pairs are; None if it can."""
    if not all(pair):
        return Reason.EMPTY
    if any(_REPLACEMENT in side for side in pair):
        return Reason.DAMAGED
    return None


def fault(pair: Pair, length_ratio: float) -> Reason | None:
    """Why a pair is probably no sentence and its translation; None if it may be.

    Args:
        pair: A cleaned pair, neither side empty.
        length_ratio: Characters of the second language for each character of the first.
    """
    if any(map(_has_few_letters, pair)):
        return Reason.FEW_LETTERS
    if bare_words(pair[0]) == bare_words(pair[1]):
        return Reason.COPY
    if max(map(len, pair)) > MAX_CHARACTERS:
        return Reason.TOO_LONG
    if is_lopsided(*pair, length_ratio):
        return Reason.LOPSIDED
    return None


def split_pair(pair: Pair, languages: tuple[str, str], length_ratio: float) -> list[Pair]:
    """The sentence pairs of a line that has the same number of sentences on both sides.

    Args:
        pair: A cleaned line.
        languages: The two languages.
        length_ratio: Characters of the second language for each character of the first.

    Returns:
        The sentence pairs; the line as it is if the numbers differ, or if the lengths suggest that the sentences do not
        correspond.
    """
    sides = [
        [text[segment.start : segment.end] for segment in split_text(text, language, lambda start, end: True)]
        for text, language in zip(pair, languages, strict=True)
    ]
    if len(sides[0]) != len(sides[1]):
        return [pair]
    pairs = list(zip(*sides, strict=True))
    return pairs if all(_may_correspond(first, second, length_ratio) for first, second in pairs) else [pair]


def _may_correspond(first: str, second: str, length_ratio: float) -> bool:
    """A stricter bound than of whole lines, because a wrong split makes two wrong pairs of a right one."""
    lengths = (len(first) * length_ratio, len(second))
    return max(lengths) <= 2 * min(lengths) + 10


def _has_few_letters(text: str) -> bool:
    visible = len(text) - text.count(" ")
    letters = sum(map(str.isalpha, text))
    if 4 * letters < visible:  # vowel signs of Indic scripts are marks
        letters += sum(unicodedata.category(character).startswith("M") for character in text)
    return 4 * letters < visible
