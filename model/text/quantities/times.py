"""The times of day of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from model.text.quantities.quantity import Quantity, digits_of

_CLOCK = re.compile(r"([01]?\d|2[0-4])(?:([.:])([0-5]\d))?")
# The last full stop may also be that of the sentence: the first one tells whether it is of the word.
_HALF = re.compile(r"[ \u00a0\u202f]?([apAP])(?:\.[ \u00a0]?[mM]\.?|[mM])(?!\w)")
_CLOCK_WORD = re.compile(r" ?(?:Uhr(?!\w)(?: ([0-5]\d)(?![\w,:%]|\.\d))?|o['\u2019]clock)")
_PART_OF_DAY = re.compile(
    r" (?:(morgens|vormittags|früh|am (?:Morgen|Vormittag)|in the morning)"
    r"|(nachmittags|abends|nachts|mittags|am (?:Nachmittag|Abend)|in the (?:afternoon|evening)|at night))\b"
)
_ENGLISH_PART_OF_DAY = re.compile(r" (?:in the (?:morning|afternoon|evening)|at night)\b")
_RANGE = re.compile(r" ?[-\u2013\u2014] ?| (?:bis|und|oder|to|until|till|and|or) ")
_NOON = 12 * 60


def time_of(text: str, start: int, end: int, language: str) -> Quantity | None:
    """The time of a run of digits and separators; None if it is none.

    Args:
        text: A text.
        start: Index of its first digit.
        end: Index after its last digit.
        language: The language of the text, which has names.
    """
    match = _CLOCK.fullmatch(text, start, end)
    if match is None:
        return None
    hour, minute, is_proper = int(match[1]), int(match[3] or 0), True
    stop, half, is_certain = end, "", True
    if word := _HALF.match(text, end):
        half, stop, is_proper = word[1].lower(), word.end(), language == "en" and match[2] != "."
    elif word := _CLOCK_WORD.match(text, end):
        if word[1] and not match[2]:
            minute = int(word[1])
        stop = end + len(word[0]) if word[1] is None or not match[2] else word.start(1) - 1
        is_proper = "Uhr" in word[0] if language == "de" else "clock" in word[0] and hour <= 12
    elif match[2] == ":":
        is_certain = hour > 12 or match[1][0] == "0"
    elif not (language == "en" and hour <= 12 and _ENGLISH_PART_OF_DAY.match(text, end)):
        return None
    if not half and (part := _PART_OF_DAY.match(text, stop)):
        half = "a" if part[1] else "p"
        stop = part.end() if language == "en" and "in the" in part[0] else stop
    elif not half:
        is_certain = hour > 12
    elif language == "en" and (part := _ENGLISH_PART_OF_DAY.match(text, stop)):
        stop, is_proper = part.end(), False  # 3 a.m. in the morning
    if half == "p" and hour < 12:
        hour += 12
    elif half == "a" and hour == 12:
        hour = 0
    elif half and hour > 12:
        is_proper = is_proper and language == "de"
    digits = digits_of(text[start:stop])
    return Quantity((start, stop), (start, end), "time", 60 * hour + minute, digits, is_proper, is_certain=is_certain)


def with_ranges(text: str, quantities: Sequence[Quantity], language: str) -> list[Quantity]:
    """The quantities of a text; the first number of a range of times is a time, too: ``9`` of ``9-17 Uhr``.

    Args:
        text: The text.
        quantities: Its quantities, in order.
        language: Its language.
    """
    others = list(quantities)
    for index, (first, second) in enumerate(pairwise(quantities)):
        if (
            second.kind != "time"
            or first.span != first.core
            or not _RANGE.fullmatch(text, first.span[1], second.span[0])
        ):
            continue
        match, last = _CLOCK.fullmatch(text, *first.core), _CLOCK.fullmatch(text, *second.core)
        if match is None or last is None or not isinstance(second.value, int) or second.core == second.span:
            continue
        minutes = 60 * int(match[1]) + int(match[3] or 0)
        is_of_half = language == "en" and minutes <= _NOON < second.value and int(last[1]) <= 12
        if is_of_half and minutes % _NOON < second.value % _NOON:
            minutes = minutes % _NOON + _NOON  # 2-4 p.m.
        is_proper = language != "en" or (match[2] != "." and int(match[1]) <= 12)
        is_certain = second.is_certain or minutes > _NOON
        others[index] = replace(
            first, kind="time", value=minutes, is_proper=is_proper, is_certain=is_certain, is_bare=True
        )
    return others
