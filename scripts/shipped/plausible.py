"""Why a back-translated pair is probably no sentence and its translation."""

from __future__ import annotations

from collections import Counter
from enum import Enum

from model.decoding.repetition_guard import loops
from model.training.corpus import bare_words


class Reason(Enum):
    """Why a pair is left out; the value explains it in a report."""

    EMPTY = "a side has no word"
    TOO_LONG = "the sentence has more than 60 words"
    LENGTH_RATIO = "a side has over 1.7 times as many words as the other, and over three more"
    COPY = "over 60 % of the words of the shorter side are in the other"
    LOOP = "the translation repeats itself"
    UNKNOWN = "the translation has a character that the model cannot write"
    HELD_OUT = "the sentence is in a development set"
    REPEATED = "the sentence occurs earlier"
    ROUND_TRIP = "the translation, translated back, is another sentence"


_MAX_WORDS = 60
_MAX_LENGTH_RATIO = 1.7
_LENGTH_TOLERANCE = 3
_MAX_COPIED = 0.6
_MIN_WORDS_OF_COPY = 4
"""Shorter sentences may be names and words that both languages share."""

_MAX_TRIGRAMS = 2
_UNKNOWN = ("\ufffd", "\u2047")
"""The replacement character, and what SentencePiece writes for the unknown token."""


def fault(natural: str, synthetic: str) -> Reason | None:
    """Why a pair is implausible; None if it is not.

    Args:
        natural: A sentence written by people.
        synthetic: Its translation by a model.
    """
    words, translation = bare_words(natural).split(), bare_words(synthetic).split()
    shorter, longer = sorted((len(words), len(translation)))
    if not shorter:
        return Reason.EMPTY
    if len(words) > _MAX_WORDS:
        return Reason.TOO_LONG
    if longer > _MAX_LENGTH_RATIO * shorter + _LENGTH_TOLERANCE:
        return Reason.LENGTH_RATIO
    copied = (Counter(words) & Counter(translation)).total()
    if copied > _MAX_COPIED * shorter and len(words) >= _MIN_WORDS_OF_COPY:
        return Reason.COPY
    if _repeats_words(translation, words) or loops(synthetic, natural):
        return Reason.LOOP
    if any(character in synthetic for character in _UNKNOWN):
        return Reason.UNKNOWN
    return None


def _repeats_words(translation: list[str], words: list[str]) -> bool:
    """Whether a word stands three times in a row, or three words occur more often than any three of the sentence.

    A translation that is served may say "no, no, no" with its source, so :func:`loops` allows more; there is enough
    text to leave such pairs out of training.
    """
    if any(first == second == third for first, second, third in _trigrams(translation)):
        return True
    most = _most_frequent(translation)
    return most > _MAX_TRIGRAMS and most > _most_frequent(words)


def _trigrams(words: list[str]) -> list[tuple[str, str, str]]:
    return list(zip(words, words[1:], words[2:], strict=False))


def _most_frequent(words: list[str]) -> int:
    return max(Counter(_trigrams(words)).values(), default=0)
