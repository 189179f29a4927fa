"""The layout of a text: cells, list markers, repeated punctuation and unusual whitespace.

Tabs, wide gaps and single bars separate cells. The model does not read list markers and numbers of lists, as it might
change or drop them. Repeated punctuation at the end of a sentence, and unusual whitespace inside it, are restored in
its translation.
"""

from __future__ import annotations

import re
from itertools import islice

from model.text.protected_kinds import LINE_BREAKS
from model.text.symbols import Span

_BAR = re.compile(r"(?<!\S)\|(?!\S)")
_GAP = re.compile(rf"\t+| {{3,}}|{_BAR.pattern}")
_SPACE = "[ \u00a0]"
_MARKER = re.compile(
    rf"(?:(?:[-*+•‣▪◦–—>#|]{{1,6}}|\d{{1,3}}\)|[A-Za-z]\)|\((?:\d{{1,3}}|[A-Za-z])\)|\[[ xX]?\]){_SPACE}+)+(?=\S)"
)
_NUMBER = re.compile(rf"^{_SPACE}*\d{{1,3}}\.{_SPACE}+(?=\S)", re.MULTILINE)
_ENDING_SIGNS = ".!?…"
_OTHER_ENDING_SIGNS = "。．！？؟।｡"
_UNUSUAL_SPACES = re.compile(rf"(?<=\S)(?! \S)[^\S{LINE_BREAKS}]+(?=\S)")


def with_cells_as_lines(text: str) -> str:
    """A text of the same length with line breaks in place of tabs, wide gaps and bars between spaces."""
    if not any(sign in text for sign in ("\t", "   ", "|")):
        return text  # faster than the expression
    return _GAP.sub(lambda gap: "\n" * len(gap[0]), text)


def is_numbered(text: str) -> bool:
    """Whether several lines of a text begin with a number and a full stop; one may be a date: "3. Oktober"."""
    return "\n" in text and len(list(islice(_NUMBER.finditer(text), 2))) > 1


def single_bars(text: str) -> list[Span]:
    """Bars between spaces, which separate cells."""
    return [match.span() for match in _BAR.finditer(text)] if "|" in text else []


def after_marker(text: str, start: int, end: int, *, numbered: bool) -> int:
    """Index of the first character of a segment after its list marker, if it begins a line with one.

    Args:
        text: The text.
        start: Index of the segment's first character.
        end: Index after its last character.
        numbered: Whether a number with a full stop is a marker (:func:`is_numbered`).
    """
    line = start
    while line > 0 and text[line - 1] in " \u00a0":
        line -= 1
    if line > 0 and text[line - 1] not in LINE_BREAKS:
        return start
    if numbered and (number := _NUMBER.match(text, line, end)):
        return number.end()
    marker = _MARKER.match(text, start, end)
    return marker.end() if marker else start


def repeated_ending(sentence: str) -> str:
    """Punctuation of several signs at the end of a sentence, such as "?!"; empty if there is none."""
    ending = sentence[len(sentence.rstrip(_ENDING_SIGNS)) :]
    return ending if len(ending) > 1 else ""


def start_of_ending(translation: str) -> int:
    """Index of the first character of the punctuation at the end of a translation."""
    return len(translation.rstrip(_ENDING_SIGNS + _OTHER_ENDING_SIGNS))


def unusual_spaces(sentence: str) -> list[Span]:
    """Whitespace inside a sentence that is not one plain space."""
    if sentence.isascii() and "  " not in sentence and sentence.isprintable():
        return []
    return [match.span() for match in _UNUSUAL_SPACES.finditer(sentence)]
