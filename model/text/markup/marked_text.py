"""A text of a document and the marks in it: tags and other kept source at positions of the text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property
from itertools import accumulate

from model.text.symbols import Span


class MarkKind(Enum):
    """What a mark covers."""

    ELEMENT = auto()
    """An element with its tags before and after ``text[start:end]``, which may be empty."""
    OPENING = auto()
    """An opening tag whose closing tag is in another text, is missing, or overlaps another element."""
    CLOSING = auto()
    """A closing tag whose opening tag is in another text, is missing, or overlaps another element."""
    POINT = auto()
    """Kept source without text, such as an image or a comment."""
    BREAK = auto()
    """Kept source, such as a line break, in place of the whitespace ``text[start:end]``, which may be empty."""
    CONTENT = auto()
    """A kept element with the text ``text[start:end]``, which must come back unchanged."""


@dataclass(frozen=True)
class Mark:
    """Markup at a position of a text.

    Args:
        kind: The kind of markup.
        start: Index of the first character it covers.
        end: Index after the last one; equal to ``start`` if it covers none.
        opening: Its source; for an element, the opening tag.
        parent: Index of the innermost element around it among the marks of the text, or -1.
        partner: For an opening tag of an element that overlaps another, the index of its closing tag, else -1.
    """

    kind: MarkKind
    start: int
    end: int
    opening: str
    parent: int = -1
    partner: int = -1

    @property
    def span(self) -> Span:
        """The characters it covers."""
        return self.start, self.end


@dataclass(frozen=True)
class MarkedText:
    """A text to translate, without its markup.

    Args:
        text: The text, with character references decoded and line breaks of the source turned into spaces.
        marks: Its marks, in the order of their sources.
    """

    text: str
    marks: tuple[Mark, ...] = ()

    @property
    def protected(self) -> list[Span]:
        """The spans of the text that must come back unchanged, in order."""
        return [mark.span for mark in self.marks if mark.kind is MarkKind.CONTENT]

    @cached_property
    def with_words(self) -> frozenset[int]:
        """The elements with letters to translate, so that none of them may be without words in a translation."""
        letters = list(map(str.isalpha, self.text))
        for start, end in self.protected:
            letters[start:end] = [False] * (end - start)
        before = [0, *accumulate(letters)]
        return frozenset(
            index
            for index, mark in enumerate(self.marks)
            if mark.kind is MarkKind.ELEMENT and before[mark.end] > before[mark.start]
        )


@dataclass(frozen=True)
class PlacedText:
    """A translation of a marked text.

    Args:
        text: The translation.
        spans: For each mark of the text, in order, the characters of the translation that it covers.
    """

    text: str
    spans: tuple[Span, ...] = ()


def unchanged(marked: MarkedText) -> PlacedText:
    """The text as its own translation."""
    return PlacedText(marked.text, tuple(mark.span for mark in marked.marks))


def element_without_words(marked: MarkedText, placed: PlacedText) -> int:
    """The first element with words in a text and none in its translation, or -1.

    Args:
        marked: A text.
        placed: Its translation with all marks.
    """
    if not marked.with_words:
        return -1
    before = [0, *accumulate(map(str.isalnum, placed.text))]
    spans = ((index, *placed.spans[index]) for index in sorted(marked.with_words))
    return next((index for index, start, end in spans if before[end] <= before[start]), -1)
