"""Quotation marks, brackets and the end marks of a sentence, and the same in its translation.

:func:`find_signs` pairs them. :func:`certain_changes` gives the changes of a translation that leave no doubt: the style
of its quotation marks, the mark at its end, a sign at its edge, and signs around text that is the same in both.
:func:`wrong_signs` gives what is still wrong then. An apostrophe is not a quotation mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from model.text.symbols import Span, overlaps

_PAIRS = re.findall(r"\S+", '() [] {} （） 【】 ""”“ “”"“ „“”" ””" \'\'’ ‘’\' ‚‘’\' ’’ «» »«» ‹› ›‹› 「」 『』 《》')
_CLOSING = {pair[0]: pair[1:] for pair in _PAIRS}
"""The signs that close a pair, by the sign that opens it."""

_BRACKETS = "()[]{}（）【】"
_OTHER_SCRIPTS = "（）【】「」『』《》"
_OF_WORDS = "'’‘"
"""Quotation marks that are apostrophes inside words and beside them."""

_AMBIGUOUS = "\"'’‘”“»›"
"""Signs that open or close; they open before a word and close after one."""

_UNUSUAL_QUOTES = "'‘’‚«»‹›"
_TYPOGRAPHIC = "“„”"
_USUAL_QUOTES = '"' + _TYPOGRAPHIC
QUOTES = _USUAL_QUOTES + _UNUSUAL_QUOTES
"""The quotation marks of languages with Latin letters."""

_QUOTE = re.compile(f"[{QUOTES}]")
_SIGN = re.compile(f"[{re.escape(''.join(_PAIRS))}]")
_ASCII_SIGN = re.compile(r"[()\[\]{}\"']")
_MAX_DEPTH = 8
"""Signs that may be open at once; of more, the first ones count as single."""

STYLES = {("de", "en"): str.maketrans("„‚“‘", "“‘”’"), ("en", "de"): str.maketrans("“‘”’", "„‚“‘")}
"""Typographic quotation marks of a language, and those of the other; pairs of other styles are kept."""

_OWN_PAIRS = {"de": ("„“", "‚‘"), "en": ("“”", "‘’")}

_MAX_ADDED = 8
"""The most pairs that are added to a translation."""

_END_MARKS = ".!?…:;,"
_OTHER_END_MARKS = str.maketrans("。．｡।！？؟：；，、", "....!??:;,,")
_ALL_END_MARKS = _END_MARKS + "。．｡।！？؟：；，、"
_OTHER_MARKS = {"el", "hy", "th", "lo", "km", "my", "am", "bo", "dz"}
"""Languages whose sentences end with other signs."""

_LAST_WITH_SPACE = 0x590
"""Letters up to Cyrillic and Armenian: their sentences end with a full stop."""

_WORD_WITH_FULL_STOP = re.compile(r"(?:^|[\s(])[^\W\d_][a-zäöüß]{4,}\.$")
Change = tuple[int, int, str]
"""Characters of a translation, from a start to an end, and what replaces them."""


class Signs(NamedTuple):
    """The quotation marks and brackets of a text.

    Args:
        pairs: Index of the opening and the closing sign, by the opening one.
        single: Those without a counterpart.
    """

    pairs: list[Span]
    single: list[int]


class _Ending(NamedTuple):
    """The end marks of a text, in front of the signs that close it and after them, with single signs."""

    inner: Span
    outer: Span
    marks: str


def find_signs(text: str, kept: Sequence[Span] = ()) -> Signs:
    """The quotation marks and brackets of a text, outside of some spans.

    Args:
        text: A sentence.
        kept: Spans in order that do not overlap.
    """
    return _find_signs(text, tuple(kept))


@lru_cache(maxsize=16)  # those of a sentence and of its translation are needed several times
def _find_signs(text: str, kept: tuple[Span, ...]) -> Signs:
    pairs: list[Span] = []
    single: list[int] = []
    is_open: list[int] = []
    for match in _SIGN.finditer(text):
        index, sign = match.start(), match[0]
        before, after = text[index - 1 : index] if index else "", text[index + 1 : index + 2]
        if (kept and overlaps((index, index + 1), kept)) or (
            sign in _OF_WORDS and before.isalnum() and after.isalnum()
        ):
            continue
        may_close = sign not in _AMBIGUOUS or bool(before.strip()) or (sign in "»›" and not after.isalnum())
        opener = _opener(text, is_open, sign) if may_close else None
        if opener is not None:
            pairs.append((is_open[opener], index))
            single += (other for other in is_open[opener + 1 :] if text[other] not in _OF_WORDS)
            del is_open[opener:]
        elif sign in _CLOSING and (sign not in _AMBIGUOUS or not (before.isalnum() or after.isspace() or not after)):
            is_open.append(index)
            if len(is_open) > _MAX_DEPTH:
                single.append(is_open.pop(0))
        elif sign not in _OF_WORDS:
            single.append(index)
    single += (index for index in is_open if text[index] not in _OF_WORDS)
    return Signs(sorted(pairs), sorted(single))


def quotes_to_read(text: str, kept: Sequence[Span]) -> list[tuple[int, str]]:
    """The paired quotation marks that a model reads in another form, as it knows straight double ones best.

    Args:
        text: A sentence.
        kept: Its spans that are not read, in order.

    Returns:
        The index of each, and what a model reads: a double mark, a single one in a sentence with double ones, or
        nothing for a pair around the whole sentence. Typographic double marks are read as they are.
    """
    if len(_QUOTE.findall(text)) < 2:
        return []
    pairs = [pair for pair in find_signs(text, kept).pairs if text[pair[0]] in QUOTES]
    around, inner = (pairs[:1], pairs[1:]) if pairs and _is_around(text, pairs[0]) else ([], pairs)
    around = [pair for pair in around if text[pair[0]] not in _TYPOGRAPHIC]
    other = "'" if any(text[opening] in _USUAL_QUOTES for opening, _ in inner) else '"'
    forms = [(pair, other) for pair in inner if text[pair[0]] in _UNUSUAL_QUOTES]
    forms += [(pair, "") for pair in around]
    return sorted((index, form) for pair, form in forms for index in pair)


def certain_changes(
    source: str, kept: Sequence[Span], text: str, spans: Sequence[Span], languages: tuple[str, str]
) -> list[Change]:
    """The changes of a translation that leave no doubt, from right to left; they do not overlap.

    Args:
        source: A sentence.
        kept: Its spans that are not read, in order.
        text: Its translation.
        spans: These spans in it, in order.
        languages: The language of the sentence and that of its translation, without regions.
    """
    if not has_signs(source) and not has_signs(text):
        if _marks(source) == _marks(text):  # most sentences
            return []
        before = after = Signs([], [])
    else:
        before, after = find_signs(source, kept), find_signs(text, spans)
        source = _in_style(source, before, languages)
    changes = [*_pair_changes(source, before, text, after)]
    changes += _edge_changes(source, before, text, after, spans)
    if languages[1] not in _OTHER_MARKS:
        changes += _ending_changes(source, before, kept, text, after, spans)
    chosen: list[Change] = []
    for change in sorted(changes, key=lambda change: change[:2], reverse=True):
        if not chosen or change[1] <= chosen[-1][0]:
            chosen.append(change)
    return chosen


def has_signs(text: str) -> bool:
    """Whether a text has quotation marks or brackets; most texts have none."""
    # The first expression takes a third of the time.
    return (_ASCII_SIGN if text.isascii() else _SIGN).search(text) is not None


def wrong_signs(source: str, kept: Sequence[Span], text: str, spans: Sequence[Span]) -> tuple[list[Span], bool]:
    """The signs of a sentence without a counterpart in its translation, and whether the translation has others.

    Args:
        source: The sentence.
        kept: Its spans that are not read, in order.
        text: Its translation.
        spans: These spans in it, in order.
    """
    if not has_signs(source) and not has_signs(text):
        return [], False
    before, after = find_signs(source, kept), find_signs(text, spans)
    wrong: list[int] = []
    has_stray = len(after.single) > len(before.single)
    has_more = len(_SIGN.findall(text)) > len(_SIGN.findall(source))
    for are_brackets in (False, True):
        pairs = _with_words(source, _of_kind(source, before.pairs, are_brackets))
        num_written = len(_with_words(text, _of_kind(text, after.pairs, are_brackets)))
        has_stray = has_stray or (has_more and num_written > len(pairs) > 0)
        if len(pairs) > num_written:
            wrong += (index for pair in pairs for index in pair)
        single = [index for index in before.single if (source[index] in _BRACKETS) == are_brackets]
        if len(single) > sum((text[index] in _BRACKETS) == are_brackets for index in after.single):
            wrong += single
    return [(index, index + 1) for index in sorted(wrong)], has_stray


def _marks(text: str) -> str:
    """The end marks of a text without signs."""
    return text[len(text.rstrip(_ALL_END_MARKS)) :]


def _opener(text: str, is_open: Sequence[int], sign: str) -> int | None:
    """The number of the last open sign that a sign closes."""
    return next((n for n in reversed(range(len(is_open))) if sign in _CLOSING[text[is_open[n]]]), None)


def _with_words(text: str, pairs: Sequence[Span]) -> list[Span]:
    """The pairs that are not empty."""
    return [(start, end) for start, end in pairs if any(map(str.isalnum, text[start:end]))]


def _of_kind(text: str, pairs: Sequence[Span], are_brackets: bool) -> list[Span]:
    return [pair for pair in pairs if (text[pair[0]] in _BRACKETS) == are_brackets]


def _in_style(source: str, signs: Signs, languages: tuple[str, str]) -> str:
    """A sentence with the quotation marks of the target language in place of those of its own."""
    style = STYLES.get(languages)
    if style is None or source.isascii():
        return source
    own = _OWN_PAIRS[languages[0]]
    indices = [index for pair in signs.pairs if source[pair[0]] + source[pair[1]] in own for index in pair]
    indices += [index for index in signs.single if any(source[index] in pair for pair in own)]
    characters = list(source)
    for index in indices:
        characters[index] = source[index].translate(style)
    return "".join(characters)


def _pair_changes(source: str, before: Signs, text: str, after: Signs) -> Iterator[Change]:
    """Pairs in the style of the source, and lost pairs around the whole sentence or around text that is unchanged."""
    for are_brackets in (False, True):
        pairs, written = (_of_kind(source, before.pairs, are_brackets), _of_kind(text, after.pairs, are_brackets))
        lost = len(pairs) - len(written)
        added: list[tuple[Span, Span]] = []
        for pair in pairs if 0 < lost <= _MAX_ADDED else ():
            span = _content(source, pair, text, after)
            if span is not None and not any(span[0] <= start + 1 and end <= span[1] for start, end in written):
                added.append((pair, span))
        if len(added) == lost and lost > 0:
            remaining = [pair for pair in pairs if all(pair is not other for other, _ in added)]
            for (opening, closing), (start, end) in added:
                yield _with_stray(text, after, start, start, source[opening])
                yield _with_stray(text, after, end, end, source[closing])
        else:
            remaining = pairs
        if len(remaining) == len(written):
            for pair, other in zip(remaining, written, strict=True):
                for index, sign in zip(other, (source[pair[0]], source[pair[1]]), strict=True):
                    if not _is_same(sign, text[index]):
                        yield index, index + 1, sign


def _is_around(text: str, pair: Span) -> bool:
    """Whether a pair stands around the whole sentence, without its end marks."""
    return pair[0] == 0 and not text[pair[1] + 1 :].strip(_END_MARKS)


def _is_same(sign: str, written: str) -> bool:
    """Whether a sign stands for one of the source: typographic double marks may become those of any style."""
    is_double = sign in _TYPOGRAPHIC and written in _USUAL_QUOTES
    return sign == written or is_double or sign in _OTHER_SCRIPTS or written in _OTHER_SCRIPTS


def _with_stray(text: str, signs: Signs, start: int, end: int, sign: str) -> Change:
    """A new sign at an index; it replaces a single sign of its kind beside it."""
    for index in (start - 1, start):
        is_stray = index in signs.single or text[index : index + 1] in ("'", "’", "‘")
        is_inside = text[index - 1 : index].isalnum() and text[index + 1 : index + 2].isalnum()
        if index >= 0 and is_stray and not is_inside and (text[index] in _BRACKETS) == (sign in _BRACKETS):
            return index, index + 1, sign
    return start, end, sign


def _content(source: str, pair: Span, text: str, signs: Signs) -> Span | None:
    """The characters of a translation that a pair of the source stands around; None if that is not certain."""
    opening, closing = pair
    content = source[opening + 1 : closing]
    if _is_around(source, pair):
        start = 1 if signs.single[:1] == [0] else 0
        body = text.rstrip(_END_MARKS) if source[closing + 1 :].strip() else text
        end = len(body) - 1 if body and len(body) - 1 in signs.single else len(body)
        return (start, end) if start < end else None
    if not any(map(str.isalnum, content)) or text.count(content) != 1:
        return None
    start = text.index(content)
    end = start + len(content)
    is_word = not text[start - 1 : start].isalnum() if start else True
    return (start, end) if is_word and not text[end : end + 1].isalnum() else None


def _edge_changes(source: str, before: Signs, text: str, after: Signs, spans: Sequence[Span]) -> Iterator[Change]:
    """The single sign that a sentence begins with: the end of its quotation is in another sentence."""
    if before.single[:1] == [0] and not (spans and spans[0][0] == 0):
        if after.single[:1] == [0]:
            if not _is_same(source[0], text[0]):
                yield 0, 1, source[0]
        elif len(after.single) < len(before.single):
            yield 0, 0, source[0]


def _ending(text: str, signs: Signs, kept: Sequence[Span]) -> _Ending:
    single, closing = set(signs.single), {end for _, end in signs.pairs}
    last = kept[-1][1] if kept else 0

    def back(end: int) -> int:
        while end > last and (text[end - 1] in _ALL_END_MARKS or (end - 1 in single and end > 1)):
            end -= 1
        return end

    outer = back(len(text))
    end = outer
    while end > last and end - 1 in closing:
        end -= 1
    inner = back(end) if end < outer else end
    return _Ending((inner, end), (outer, len(text)), text[inner:end] + text[outer:])


def _ending_changes(
    source: str, before: Signs, kept: Sequence[Span], text: str, after: Signs, spans: Sequence[Span]
) -> Iterator[Change]:
    """The end marks of the source, and its single signs among them."""
    expected, actual = _ending(source, before, kept), _ending(text, after, sorted(spans))
    written = actual.marks.translate(_OTHER_END_MARKS)
    if not text or (len(written) == len(expected.marks) and all(map(_is_same, expected.marks, written))):
        return
    if kept and kept[-1][1] == len(source):
        return  # the end of the source is not read
    last = text[actual.inner[0] - 1 : actual.inner[0]]
    if not last or (not actual.marks and ord(last) > _LAST_WITH_SPACE):
        return
    if not expected.marks and (actual.marks not in "!?" and not _WORD_WITH_FULL_STOP.search(text)):
        return
    is_inner = actual.inner[0] < actual.inner[1]
    is_outer = actual.outer[0] < actual.outer[1]
    inside = is_inner or (not is_outer and expected.inner[0] < expected.inner[1])
    if inside and is_outer:
        yield actual.outer[0], actual.outer[1], ""
    start, end = actual.inner if inside else actual.outer
    follows_space = source[expected.outer[0] - 1 : expected.outer[0]].isspace() and not text[start - 1].isspace()
    yield start, end, f" {expected.marks}" if follows_space and not inside else expected.marks
