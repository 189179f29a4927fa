"""Numbers that a translation must contain as its source does, and those that it lacks."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from model.text.symbols import Span

# A word with a digit. Separators stand between digits: 1,984 and 3.5 and 10:30, and thousands with a space that joins.
_NUMBER = re.compile(r"(?<!\w)[^\W\d]*+\d(?:\w|[.,:'\u2019\u00a0\u202f](?=\d))*+")
_DIGITS = re.compile(r"\d+")
# What a translation may write as a word, or with other digits: ordinals and decades (3rd, 90s, "der 2. Weltkrieg"),
# and hours before and after noon (7 pm).
_FREE_ENDING = re.compile(r"\d(?:st|nd|rd|th|s|[ap]m|ern?|st?e[nrs]?|te[nrs]?)\Z", re.IGNORECASE)
_FREE_FOLLOWER = re.compile(r"\.\s+\w|\s?[ap]\.?m\b", re.IGNORECASE)
_AFTERNOON = re.compile(r"(?<=\dpm)|\s?p\.?m\b", re.IGNORECASE)


def find_numbers(text: str) -> list[Span]:
    """The words of a text that have a digit, with the separators of a number: ``1,984``, ``10:30``, ``5kg``, ``B2B``.

    Args:
        text: Any text.
    """
    # Most texts have none, which is seen in half the time.
    return [match.span() for match in _NUMBER.finditer(text)] if _DIGITS.search(text) else []


def lost_numbers(source: str, numbers: Sequence[Span], answer: str) -> list[Span]:
    """The numbers whose digits a translation does not contain, each as often as the source does.

    Separators may be others (``1.984`` for ``1,984``), and hours those of an afternoon (``7:10 pm`` for ``19:10``). A
    number that the translation spells out is lost, too. Ordinals, decades, and hours with a.m. or p.m. in the source
    are never lost: translations write them as words, or with other digits.

    Args:
        source: A sentence.
        numbers: Spans of it.
        answer: Its translation.
    """
    lost, written = list(numbers), find_numbers(answer)
    for reading in (_digits, _digits_of_afternoon):
        lost, written = _unmatched(source, lost, answer, written, reading)
    # The parts of a date may be separated by words: 01.02.2024.
    parts = Counter(part for span in written for part in _parts(answer, span))
    found: list[Span] = []
    for span in lost:
        needed = Counter(_parts(source, span))
        if needed <= parts:
            parts -= needed
        elif not _is_free(source, span):
            found.append(span)
    return found


def _unmatched(
    source: str, numbers: Sequence[Span], answer: str, written: Sequence[Span], reading: Callable[[str, Span], str]
) -> tuple[list[Span], list[Span]]:
    """The numbers of a source and of an answer that have no counterpart in the other."""
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
    """The digits of an hour after noon in the count of 24 hours."""
    hour, *rest = _parts(text, number)
    is_afternoon = len(hour) <= 2 and int(hour) < 12 and _AFTERNOON.match(text, number[1])
    return "".join([str(int(hour) + 12) if is_afternoon else hour, *rest])


def _is_free(text: str, number: Span) -> bool:
    return _FREE_ENDING.search(text[slice(*number)]) is not None or _FREE_FOLLOWER.match(text, number[1]) is not None
