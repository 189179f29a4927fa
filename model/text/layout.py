"""The layout of a text: cells, list markers, repeated punctuation and unusual whitespace.

Tabs, wide gaps and single bars separate cells. The model does not read list markers and numbers of lists, as it might
change or drop them, nor spans that stay at an edge of a sentence. Repeated punctuation at the end of a sentence,
unusual whitespace inside it, and hyphens between spaces are restored in its translation.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

from model.text.spans import LINE_BREAKS, Role
from model.text.symbols import Span

_BAR = re.compile(r"(?<!\S)\|(?!\S)")
_GAP = re.compile(rf"\t+| {{3,}}|{_BAR.pattern}")
_SPACE = "[ \u00a0]"
_MARKER = re.compile(
    rf"(?:(?:[-*+•‣▪◦–—>#|]{{1,6}}|\d{{1,3}}\)|[A-Za-z]\)|\((?:\d{{1,3}}|[A-Za-z])\)|\[[ xX]?\]){_SPACE}+)+(?=\S)"
)
_NUMBER = re.compile(rf"^{_SPACE}*\d{{1,3}}\.{_SPACE}+(?=\S)", re.MULTILINE)
_BRACKETS = {"(": ")", "[": "]"}
_OPENING = {closing: opening for opening, closing in _BRACKETS.items()}
_HYPHENS_BETWEEN_SPACES = re.compile(r"(?<=\s)(?:-{1,2}|[\u2013\u2014]|&[mn]dash;|&#821[12];)(?=\s)")
_ENDING_SIGNS = ".!?…"
_OTHER_SPACE = re.compile(rf"[^\S {LINE_BREAKS}]")
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


def without_edges(text: str, start: int, end: int, spans: Sequence[Span], roles: Mapping[Span, Role]) -> Span:
    """A segment without the spans that stay at its edges, and without two spans that enclose all of its words.

    Spans at the end may stand before the punctuation of the sentence, which then stays with them.

    Args:
        text: The text.
        start: Index of the segment's first character.
        end: Index after its last character.
        spans: The protected spans of the text, in order.
        roles: Their roles.
    """
    first, last = bisect_left(spans, (start, start)), bisect_left(spans, (end, end))
    while first < last and not text[start : spans[first][0]].strip():
        if roles.get(spans[first]) != "edge" and not _closes_sentence(text, spans, first):
            break
        start = _after_space(text, spans[first][1], end)
        first += 1
    stop = end
    while first < last and roles.get(spans[last - 1]) in ("edge", "end"):
        if text[spans[last - 1][1] : stop].strip(_ENDING_SIGNS + " \u00a0" if stop == end else None):
            break
        stop = spans[last - 1][0]
        last -= 1
    end = max(start, stop)
    while start < end and text[end - 1].isspace():
        end -= 1
    if last - first > 1 and spans[first][0] == start and spans[last - 1][1] == end:
        inside = spans[first][1], spans[last - 1][0]
        if text[inside[0]].isalpha() and not text[inside[1] - 1].isspace():
            return inside
    return start, end


def _closes_sentence(text: str, spans: Sequence[Span], number: int) -> bool:
    """Whether a span belongs to the sentence before it, after whose end mark it stands: ``_Stop._ Go``."""
    start, end = spans[number]
    is_sentence = start > 0 and text[start - 1] in _ENDING_SIGNS and not (number and spans[number - 1][1] == start)
    return is_sentence and text[end : end + 1].isspace()


def without_unpaired(text: str, start: int, end: int) -> Span:
    """A segment without brackets at its ends whose counterpart is in another segment, or nowhere.

    Args:
        text: The text, with protected spans masked.
        start: Index of the segment's first character.
        end: Index after its last character.
    """
    while start < end and (closing := _BRACKETS.get(text[start])) and text.find(closing, start, end) < 0:
        start += 1
    stop = len(text[start:end].rstrip(_ENDING_SIGNS)) + start
    while stop > start and (opening := _OPENING.get(text[stop - 1])) and text.find(opening, start, stop) < 0:
        stop = end = stop - 1
    return start, end


def dashes_of_source(source: str, translation: str) -> list[tuple[Span, str]]:
    """The dashes between spaces of a translation that differ from those of its source, and what the source has.

    Args:
        source: A sentence.
        translation: Its translation, in which models write one dash for another.
    """
    expected = _HYPHENS_BETWEEN_SPACES.findall(source)
    dashes = [dash.span() for dash in _HYPHENS_BETWEEN_SPACES.finditer(translation)]
    changes: list[tuple[Span, str]] = []
    if len(dashes) > len(expected):
        # The model may write a dash beside a hyphen that was protected.
        doubles = [second for first, second in pairwise(dashes) if second[0] - first[1] == 1]
        changes = [((start - 1, end), "") for start, end in doubles]
        dashes = [dash for dash in dashes if dash not in doubles]
    if len(dashes) != len(expected):
        if len(set(expected)) != 1:
            return sorted(changes)
        expected = expected[:1] * len(dashes)
    changes += ((dash, sign) for dash, sign in zip(dashes, expected, strict=True) if translation[slice(*dash)] != sign)
    return sorted(changes)


def lost_hyphens(source: str, translation: str) -> list[Span]:
    """The hyphens between spaces of a sentence if its translation has fewer dashes; otherwise none.

    Args:
        source: A sentence.
        translation: Its translation.
    """
    if not has_hyphens(source):
        return []
    dashes = list(_HYPHENS_BETWEEN_SPACES.finditer(source))
    if len(_HYPHENS_BETWEEN_SPACES.findall(translation)) >= len(dashes):
        return []
    return [dash.span() for dash in dashes if dash[0][0] in "-&"]


def has_hyphens(sentence: str) -> bool:
    """Whether a sentence has a hyphen or a reference after a space, which a model may write as a dash."""
    return " -" in sentence or " &" in sentence


def _after_space(text: str, start: int, end: int) -> int:
    """The index of the first character that is not whitespace."""
    while start < end and text[start].isspace():
        start += 1
    return start


def unusual_spaces(sentence: str) -> list[Span]:
    """Whitespace inside a sentence that is not one plain space."""
    if "  " not in sentence and not _OTHER_SPACE.search(sentence):
        return []
    return [match.span() for match in _UNUSUAL_SPACES.finditer(sentence)]
