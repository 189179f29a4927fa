"""Protected spans: parts of a text that come back unchanged, such as URLs, placeholders, tags and emoji.

:func:`find_spans` returns the spans of the default kinds or of the caller's patterns. :func:`unknown_spans` returns
words with characters that a model does not know. Their spans are in order, do not overlap and contain no line break.
The kinds are the table in :mod:`model.text.spans`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Literal, Protocol

from model.errors import InvalidPattern
from model.text.pieces import encodable
from model.text.spans import LINE_BREAKS, Role, default_spans
from model.text.symbols import Span

Protect = Literal["auto", "none"] | tuple[str, ...]
"""Which spans are protected: those of the default kinds, none, or the matches of a list of patterns.

``"auto"`` as an element of the list adds those of the default kinds.
"""

MAX_PATTERNS = 50
MAX_PATTERN_CHARACTERS = 500
MAX_MATCHES = 10_000
"""The most matches of all patterns in one text: a bound on the time of a request."""

_MAX_PATTERN_MEMORY_BYTES = 1 << 18
"""Memory of one compiled pattern; the library caches up to 128 of them."""

_WINDOW_BYTES = 2000
"""Longer matches may be cut (:func:`_byte_matches`)."""

_LINE = re.compile(rf"[^{LINE_BREAKS}]+")
_LINE_BREAK = re.compile(rf"[{LINE_BREAKS}]")
_CHUNK = re.compile(r"\S+")
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
_INSIDE_SIGNS = re.compile(r"\w(?:.*\w)?", re.DOTALL)
_DIGITS = re.compile(r"\d[\d.,]*")
_LAST_DIGITS = re.compile(r"\d[\d.,]*$")
_RANGE_SIGNS = "-\u2013/:.@"
_JOINERS = "-'\u2019\u2010\u2011"


def find_spans(text: str, protect: Protect | Sequence[str] = "auto") -> list[Span]:
    """The protected spans of a text.

    Of overlapping candidates, the one that begins first is chosen, then the longest. Adjacent spans stay separate.

    Args:
        text: Any text.
        protect: Which spans. Patterns have the syntax of RE2. A match ends with its line, and one of more than 2,000
            bytes may be cut.

    Raises:
        InvalidPattern: A pattern is invalid, or there are too many patterns or matches.
    """
    return list(spans_with_roles(text, protect))


def spans_with_roles(text: str, protect: Protect | Sequence[str] = "auto") -> dict[Span, Role]:
    """The spans of :func:`find_spans`, in order, with their roles; the matches of a caller's patterns are ``inside``.

    Args:
        text: Any text.
        protect: As in :func:`find_spans`.

    Raises:
        InvalidPattern: As in :func:`find_spans`.
    """
    if protect == "none":
        return {}
    if isinstance(protect, str):
        return _with_ranges(_without_overlaps(default_spans(text)), text)
    patterns = compile_patterns(tuple(pattern for pattern in protect if pattern != "auto"))
    candidates: list[tuple[Span, Role]] = []
    for pattern in patterns:
        matches = islice(_matches(pattern, text), MAX_MATCHES + 1 - len(candidates))
        candidates += ((span, "inside") for span in matches)
        if len(candidates) > MAX_MATCHES:
            raise InvalidPattern(pattern.pattern, f"more than {MAX_MATCHES} matches in one text are not allowed")
    if "auto" in protect:
        candidates += default_spans(text)
    return _without_overlaps(candidates)


def check_patterns(patterns: Sequence[str]) -> None:
    """Refuse invalid patterns.

    Args:
        patterns: The caller's patterns, and possibly ``"auto"``.

    Raises:
        InvalidPattern: A pattern is invalid, or there are too many.
    """
    compile_patterns(tuple(pattern for pattern in patterns if pattern != "auto"))


class _Match(Protocol):
    def start(self) -> int: ...

    def end(self) -> int: ...


class _Pattern(Protocol):
    @property
    def pattern(self) -> str: ...

    def search(self, text: bytes, pos: int, endpos: int) -> _Match | None: ...


@lru_cache(maxsize=8)
def compile_patterns(patterns: tuple[str, ...]) -> tuple[_Pattern, ...]:
    """Compile patterns with RE2, whose matching takes linear time.

    Args:
        patterns: At most ``MAX_PATTERNS`` of at most ``MAX_PATTERN_CHARACTERS`` characters each.

    Raises:
        InvalidPattern: There are too many, or one is too long, has an error or matches the empty text.
    """
    if len(patterns) > MAX_PATTERNS:
        raise InvalidPattern(
            patterns[MAX_PATTERNS], f"there are {len(patterns)} patterns and {MAX_PATTERNS} are allowed"
        )
    # Imported here: it takes 10 ms and 4 MB, which only texts with patterns need.
    import re2

    options = re2.Options()
    options.max_mem = _MAX_PATTERN_MEMORY_BYTES
    options.never_capture = True
    options.log_errors = False
    compiled = []
    for pattern in patterns:
        if len(pattern) > MAX_PATTERN_CHARACTERS:
            raise InvalidPattern(pattern, f"it has {len(pattern)} characters and {MAX_PATTERN_CHARACTERS} are allowed")
        try:
            expression = re2.compile(pattern, options)
        except re2.error as error:
            reason = error.args[0]
            raise InvalidPattern(pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from None
        except UnicodeEncodeError:
            raise InvalidPattern(pattern, "it has an unpaired surrogate") from None
        if any(match.start() == match.end() for match in map(expression.search, ("", "a")) if match):
            raise InvalidPattern(pattern, "it matches the empty text, so it would match everywhere")
        compiled.append(expression)
    return tuple(compiled)


def unknown_spans(text: str, is_known: Callable[[str], bool]) -> list[Span]:
    """The words of a text with characters that a model does not know.

    A word with such a letter, or with such a sign inside, is one span. If a word has such signs only at its ends,
    the signs are spans, with the digits beside them. Spans in one line with only spaces, punctuation and digits between
    them are merged, so that a phrase in another script stays together.

    Args:
        text: Any text.
        is_known: Whether the model knows a character; called once for each distinct character.
    """
    unknown = {character for character in set(text) if not character.isspace() and not is_known(character)}
    if not unknown:
        return []
    spans: list[Span] = []
    for start, end in _unknown_parts(text, unknown):
        if spans and _is_gap(text[spans[-1][1] : start]):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
    return spans


def merge_spans(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """Merge two lists of spans; spans that overlap become one.

    Args:
        spans: Spans in order that do not overlap.
        others: Other spans, likewise.
    """
    merged: list[Span] = []
    for start, end in sorted([*spans, *others]):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def _without_overlaps(candidates: Iterable[tuple[Span, Role]]) -> dict[Span, Role]:
    """The leftmost of overlapping spans, the longest of those that begin at the same index, the first of equal ones."""
    spans: dict[Span, Role] = {}
    position = 0
    for (start, end), role in sorted(candidates, key=lambda candidate: (candidate[0][0], -candidate[0][1])):
        if start >= position:
            spans[start, end] = role
            position = end
    return spans


def _with_ranges(spans: dict[Span, Role], text: str) -> dict[Span, Role]:
    """The same spans; two with nothing but a sign between them are one: ``{min}-{max}``, ``%s:%d``."""
    result: dict[Span, Role] = {}
    last: Span | None = None
    for span, role in spans.items():
        is_range = last is not None and span[0] - last[1] == 1 and text[last[1]] in _RANGE_SIGNS
        if last is not None and is_range and role == result[last] == "inside":
            del result[last]
            span = last[0], span[1]
        result[span] = role
        last = span
    return result


def _matches(pattern: _Pattern, text: str) -> Iterator[Span]:
    """The matches of a pattern, line by line."""
    for line in _LINE.finditer(text):
        start = line.start()
        encoded = encodable(line[0]).encode()
        if len(encoded) == len(line[0]):
            yield from ((start + first, start + last) for first, last in _byte_matches(pattern, encoded))
            continue
        position = 0  # in bytes
        for first, last in _byte_matches(pattern, encoded):
            begin = start + _num_characters(encoded[position:first])
            start = begin + _num_characters(encoded[first:last])
            position = last
            if begin < start:
                yield begin, start


def _byte_matches(pattern: _Pattern, line: bytes) -> Iterator[Span]:
    """The matches in an encoded line, in bytes.

    One search takes linear time, but each match begins a new search, which may run to the end of the line. A search
    therefore ends after two windows, and its match is used if it begins in the first one.
    """
    position = 0
    while position < len(line):
        match = pattern.search(line, position, position + 2 * _WINDOW_BYTES)
        if match is None:
            position += _WINDOW_BYTES if position + 2 * _WINDOW_BYTES < len(line) else len(line)
        elif match.start() >= position + _WINDOW_BYTES and position + 2 * _WINDOW_BYTES < len(line):
            position = match.start()
        elif match.start() == match.end():
            position = match.end() + 1
        else:
            yield match.start(), match.end()
            position = match.end()


def _num_characters(encoded: bytes) -> int:
    """The number of characters that begin in a slice of UTF-8."""
    return len(encoded.translate(None, _CONTINUATION_BYTES))


def _unknown_parts(text: str, unknown: set[str]) -> Iterator[Span]:
    """The words with an unknown character, or only their ends (see :func:`unknown_spans`)."""
    for start, end in _words(text, unknown):
        word = text[start:end]
        if unknown.isdisjoint(word):
            continue
        inner = _INSIDE_SIGNS.search(word)
        if inner is None or not unknown.isdisjoint(inner[0]):
            yield start, end
            continue
        before, digits = inner.start(), _DIGITS.match(inner[0])
        if before:
            yield start, start + before + (digits.end() if digits else 0)
        if inner.end() < len(word):
            digits = _LAST_DIGITS.search(inner[0])
            yield start + inner.end() - (len(digits[0]) if digits else 0), end


def _words(text: str, unknown: set[str]) -> Iterator[Span]:
    """The words of all chunks with an unknown character; known punctuation ends a word."""
    for chunk in _CHUNK.finditer(text):
        if unknown.isdisjoint(chunk[0]):
            continue
        start = -1
        for index in range(chunk.start(), chunk.end()):
            if _ends_word(text, index, unknown):
                if start >= 0:
                    yield start, index
                start = -1
            elif start < 0:
                start = index
        if start >= 0:
            yield start, chunk.end()


def _is_gap(between: str) -> bool:
    """Whether two words belong to one phrase: there is no letter and no line break between them."""
    return not any(character.isalpha() for character in between) and not _LINE_BREAK.search(between)


def _ends_word(text: str, index: int, unknown: set[str]) -> bool:
    character = text[index]
    if character in unknown or unicodedata.category(character)[0] not in "PS":
        return False
    if not 0 < index < len(text) - 1:
        return True
    before, after = text[index - 1], text[index + 1]
    joins_words = character in _JOINERS and before.isalnum() and after.isalnum()
    joins_digits = character in ".," and before.isdigit() and after.isdigit()
    return not (joins_words or joins_digits)
