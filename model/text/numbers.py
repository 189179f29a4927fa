"""The numbers of a text, and those that its translation lacks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from model.text.symbols import Span

# A word with a digit. Separators are between digits: 1,984 and 3.5 and 10:30, and thousands with a no-break space.
_NUMBER = re.compile(r"(?<!\w)[^\W\d]*+\d(?:\w|[.,:'\u2019\u00a0\u202f](?=\d))*+")
_DIGITS = re.compile(r"\d+")
# Numbers that a translation may spell out, or write with other digits: ordinals and decades (3rd, 90s,
# "der 2. Weltkrieg"), and hours with a.m. or p.m.
_FREE_ENDING = re.compile(r"\d(?:st|nd|rd|th|s|[ap]m|ern?|st?e[nrs]?|te[nrs]?)\Z", re.IGNORECASE)
_FREE_FOLLOWER = re.compile(r"\.\s+\w|\s?[ap]\.?m\b", re.IGNORECASE)
_AFTERNOON = re.compile(r"(?<=\dpm)|\s?p\.?m\b", re.IGNORECASE)


def find_numbers(text: str) -> list[Span]:
    """The words of a text that have a digit, with the separators of a number: ``1,984``, ``10:30``, ``5kg``, ``B2B``.

    Args:
        text: Any text.
    """
    # Most texts have none; the search for a digit takes half the time.
    return [match.span() for match in _NUMBER.finditer(text)] if _DIGITS.search(text) else []


def lost_numbers(source: str, numbers: Sequence[Span], answer: str) -> list[Span]:
    """The numbers whose digits a translation does not contain as often as the source does.

    Separators may differ (``1.984`` for ``1,984``), and hours may be in p.m. (``7:10 pm`` for ``19:10``). A number that
    the translation spells out also counts as lost. Ordinals, decades, and hours with a.m. or p.m. in the source are
    never lost: translations spell them out, or write them with other digits.

    Args:
        source: A sentence.
        numbers: The spans of its numbers.
        answer: Its translation.
    """
    lost, written = list(numbers), find_numbers(answer)
    for reading in (_digits, _digits_of_afternoon):
        lost, written = _unmatched(source, lost, answer, written, reading)
    # The parts of a date may be separated by words: 01.02.2024.
    parts = Counter(part for span in written for part in _parts(answer, span))
    missing: list[Span] = []
    for span in lost:
        needed = Counter(_parts(source, span))
        if needed <= parts:
            parts -= needed
        elif not _is_free(source, span):
            missing.append(span)
    return missing


def _unmatched(
    source: str, numbers: Sequence[Span], answer: str, written: Sequence[Span], reading: Callable[[str, Span], str]
) -> tuple[list[Span], list[Span]]:
    """The numbers of a source and those of its translation without a counterpart in the other."""
    unused = defaultdict[str, list[Span]](list)
    for span in written:
        unused[reading(answer, span)].append(span)
    lost: list[Span] = []
    for span in numbers:
        same = unused[_digits(source, span)]
        if same:
            same.pop()
        else:
            lost.append(span)
    return lost, [span for spans in unused.values() for span in spans]


def _parts(text: str, number: Span) -> list[str]:
    """The parts of a number: 8 and 30 of 08:30."""
    parts = _DIGITS.findall(text, *number)
    return [part[1:] if len(part) == 2 and part[0] == "0" else part for part in parts]


def _digits(text: str, number: Span) -> str:
    return "".join(_parts(text, number))


def _digits_of_afternoon(text: str, number: Span) -> str:
    """The digits of a time, in 24 hours if it is in p.m."""
    hour, *rest = _parts(text, number)
    is_afternoon = len(hour) <= 2 and int(hour) < 12 and _AFTERNOON.match(text, number[1])
    return "".join([str(int(hour) + 12) if is_afternoon else hour, *rest])


def _is_free(text: str, number: Span) -> bool:
    return _FREE_ENDING.search(text[slice(*number)]) is not None or _FREE_FOLLOWER.match(text, number[1]) is not None
