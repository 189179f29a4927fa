"""Positions of marks in a translation that follow from the words beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from model.text.markup.marked_text import MarkedText, MarkKind
from model.text.markup.word_links import REACH, WordLinks
from model.text.symbols import Span


@dataclass(frozen=True)
class Region:
    """Where an element is in the translation.

    Args:
        start: Index of its first character.
        end: Index after its last character.
        first: Index of the first word that starts in it.
        last: Index after its last word.
        depth: Number of elements around it.
    """

    start: int
    end: int
    first: int
    last: int
    depth: int


class Positions:
    """Finds positions of marks.

    Args:
        marked: The text.
        links: Its words and those of its translation.
    """

    def __init__(self, marked: MarkedText, links: WordLinks) -> None:
        self._marked = marked
        self._links = links

    def position(self, index: int, parent: int, region: Region) -> int:
        """The position of a mark without words: at the word next to it, else at the nearest aligned one.

        Args:
            index: The mark.
            parent: The element around it, or -1.
            region: Where this element is in the translation.
        """
        mark = self._marked.marks[index]
        position = mark.start
        around = self._links.source_around(position, position)
        if targets := self.targets_in(around, region):
            return self.scaled(position, around, targets[0])
        text = self._marked.text
        at_next = mark.end < len(text) and not text[mark.end].isspace()
        at_previous = position > 0 and not text[position - 1].isspace()
        prefers_next = mark.kind is MarkKind.OPENING or (
            mark.kind in (MarkKind.POINT, MarkKind.ELEMENT) and at_next and not at_previous
        )
        source = self.source(parent)
        before = (self._end_of(word, region) for word in self._before(position, source[0]))
        after = (self._start_of(word, region) for word in self._after(mark.end, source[1]))
        ordered = (*after, *before) if prefers_next else (*before, *after)
        nearest = next((aligned for aligned in ordered if aligned is not None), None)
        if nearest is not None:
            return nearest
        return region.start if position - source[0] <= source[1] - position else region.end

    def scaled(self, position: int, source_word: int, target_word: int) -> int:
        """The index in a word of the translation that corresponds to one in a word of the text."""
        (source_start, source_end), (start, end) = self._links.source[source_word], self._links.target[target_word]
        return start + round((position - source_start) / (source_end - source_start) * (end - start))

    def targets_in(self, source_word: int, region: Region) -> list[int]:
        """The words of a region that belong to a word of the text."""
        return [word for word in self._links.targets_of.get(source_word, ()) if region.first <= word < region.last]

    def source(self, parent: int) -> Span:
        """The characters of an element in the text; of all for -1."""
        return self._marked.marks[parent].span if parent >= 0 else (0, len(self._marked.text))

    def _before(self, position: int, first: int) -> Iterator[int]:
        """The words of the text before a position, the nearest first."""
        word = self._links.source_before(position)
        for near in range(word, max(-1, word - REACH), -1):
            if self._links.source[near][0] < first:
                return
            yield near

    def _after(self, position: int, last: int) -> Iterator[int]:
        """The words of the text after a position, the nearest first."""
        word = self._links.source_after(position)
        for near in range(word, min(len(self._links.source), word + REACH)):
            if self._links.source[near][1] > last:
                return
            yield near

    def _end_of(self, source_word: int, region: Region) -> int | None:
        targets = self.targets_in(source_word, region)
        return self._links.target[targets[-1]][1] if targets else None

    def _start_of(self, source_word: int, region: Region) -> int | None:
        targets = self.targets_in(source_word, region)
        return self._links.target[targets[0]][0] if targets else None


def needed_words(marked: MarkedText, links: WordLinks) -> list[int]:
    """For each mark, the fewest words that it and the elements in it need; a part of a word needs none of its own.

    Args:
        marked: The text.
        links: Its words.
    """
    needed = [0] * len(marked.marks)
    for index in range(len(marked.marks) - 1, -1, -1):
        mark = marked.marks[index]
        if index in marked.with_words:
            needed[index] = max(1, needed[index])
            if mark.parent >= 0 and links.source_around(*mark.span) < 0:
                needed[mark.parent] += needed[index]
    return needed
