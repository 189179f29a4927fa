"""The positions of the characters of texts in their document."""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from model.text.symbols import Span

_REFERENCE = re.compile("&#?[A-Za-z0-9]+;?")
_LONGEST_REFERENCE = 40


class Part(NamedTuple):
    """Characters of a text, and their source.

    Args:
        num_characters: Number of characters of the text.
        start: Index of the first character of the source.
        end: Index after its last one. If source and text have equally many characters, each is the source of one;
            otherwise all are the source of each character, as in ``&amp;``.
    """

    num_characters: int
    start: int
    end: int


class OffsetMap:
    """The position of each character of a text in a document. Not thread-safe."""

    def __init__(self) -> None:
        self._firsts: list[int] = []  # for each part, the index in the text of its first character
        self._parts: list[tuple[Part, int]] = []
        self._num_characters = 0

    def add(self, part: Part, position: int = 0) -> None:
        """Add the next characters of the text.

        Args:
            part: The characters and their source.
            position: Index of the beginning of this source in the document.
        """
        if part.num_characters:
            self._firsts.append(self._num_characters)
            self._parts.append((part, position))
            self._num_characters += part.num_characters

    def span(self, span: Span) -> Span:
        """The characters of the document from the first to the last one of a span, markup between them included.

        Args:
            span: Characters of the text, at least one.
        """
        return self._of(span[0])[0], self._of(span[1] - 1)[1]

    def _of(self, index: int) -> Span:
        number = bisect_right(self._firsts, index) - 1
        part, position = self._parts[number]
        if part.end - part.start != part.num_characters:
            return position + part.start, position + part.end
        start = position + part.start + index - self._firsts[number]
        return start, start + 1


def unescaped_parts(source: str, text: str) -> Iterator[Part]:
    """The parts of the value of an attribute, whose source may have characters as references.

    Args:
        source: Its source, without quotation marks.
        text: The value.
    """
    parts: list[Part] = []
    done = position = 0  # in the source, in the text
    for match in _REFERENCE.finditer(source):
        # Python refuses numbers of thousands of digits; no reference is that long.
        decoded = html.unescape(match[0]) if len(match[0]) <= _LONGEST_REFERENCE else match[0]
        start = position + match.start() - done
        if decoded != match[0] and text.startswith(decoded, start):
            parts += [Part(start - position, done, match.start()), Part(len(decoded), *match.span())]
            done, position = match.end(), start + len(decoded)
    parts.append(Part(len(text) - position, done, len(source)))
    is_whole = parts[-1].num_characters == len(source) - done
    yield from parts if is_whole else [Part(len(text), 0, len(source))]
