"""Placement of marks in a translation, by word alignment.

An element surrounds one piece of the translation: the piece with the most words that belong to its words, and the
fewest others. Elements stay inside the element that contains them and beside their neighbours. Any other mark goes to
the word next to it. A word is split only if the mark splits one in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain

from model.text.markup.marked_text import MarkedText, MarkKind, PlacedText
from model.text.markup.word_links import Pieces, WordLinks, words
from model.text.symbols import Span

_MAX_DEPTH = 30
_CONTENT_WEIGHT = 1000
_REACH = 8
"""Number of words on each side of a mark among which an aligned one is searched."""


def place_marks(marked: MarkedText, translation: str, links: Sequence[tuple[Span, Span]]) -> PlacedText:
    """Find the positions of a text's marks in its translation.

    Args:
        marked: The text.
        translation: Its translation, with the protected spans of the text.
        links: Spans of the text and of the translation that belong together: words, parts of words, or protected spans.

    Returns:
        The translation with a span for each mark, which :meth:`MarkedUp.render` accepts.
    """
    if not marked.marks:
        return PlacedText(translation)
    return _Placement(marked, translation, links).placed()


@dataclass(frozen=True)
class _Region:
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


class _Placement:
    def __init__(self, marked: MarkedText, translation: str, links: Sequence[tuple[Span, Span]]) -> None:
        self._marked = marked
        self._text = translation
        self._spans: list[Span | None] = [None] * len(marked.marks)
        self._placed_contents = Pieces([])  # by characters, of kept texts
        whole = self._place_contents(links)
        self._links = WordLinks(words(marked.text, marked.protected), words(translation, sorted(whole)), links)
        starts = {start: word for word, (start, _) in enumerate(self._links.target)}
        self._contents = {starts[span[0]]: mark for span, mark in whole.items()}  # by word
        for word, content in self._contents.items():
            self._links.source_of[word] = self._links.source_after(marked.marks[content].start)
        self._target_starts = [start for start, _ in self._links.target]
        self._visible = [0, *accumulate(not character.isspace() for character in marked.text)]
        self._split: dict[int, int] = {}  # by word with elements in it: the end of the last one
        self._used_spaces: set[int] = set()
        self._children: dict[int, list[int]] = {}
        for index, mark in enumerate(marked.marks):
            self._children.setdefault(mark.parent, []).append(index)
        self._weights = [0]  # of the aligned words before each word
        for word in range(len(self._links.target)):
            self._weights.append(self._weights[-1] + self._weight(word))

    def placed(self) -> PlacedText:
        """The positions of all marks."""
        self._place_line_ends()
        stack = [(-1, _Region(0, len(self._text), 0, len(self._links.target), 0))]
        while stack:
            parent, region = stack.pop()
            stack += self._place_children(parent, region)
        self._order_overlapping()
        return PlacedText(self._text, tuple(span or (0, 0) for span in self._spans))

    def _place_contents(self, links: Sequence[tuple[Span, Span]]) -> dict[Span, int]:
        """Find the kept texts in the translation: by their links, else the first free occurrence.

        A text that is missing has no span; its mark is then placed like an image.
        """
        linked: dict[Span, list[Span]] = {}
        for source, target in links:
            linked.setdefault(source, []).append(target)
        contents: dict[Span, int] = {}
        searches: dict[str, Iterator[re.Match[str]]] = {}
        for index, mark in enumerate(self._marked.marks):
            if mark.kind is not MarkKind.CONTENT:
                continue
            text = self._marked.text[mark.start : mark.end]
            search = searches.setdefault(text, _whole_words(text).finditer(self._text))
            occurrences = (match.span() for match in search)
            for span in chain(linked.get(mark.span, ()), occurrences):
                if self._text[span[0] : span[1]] == text and self._placed_contents.is_free(*span):
                    self._placed_contents.reserve(*span)
                    contents[span] = index
                    self._spans[index] = span
                    break
        return contents

    def _weight(self, word: int) -> int:
        if word in self._contents:
            return _CONTENT_WEIGHT
        return 1 if word in self._links.source_of else 0

    def _place_line_ends(self) -> None:
        """Place line ends in their order, because a text is translated line by line."""
        breaks = [
            index
            for index, mark in enumerate(self._marked.marks)
            if mark.kind is MarkKind.BREAK and self._marked.text[mark.start : mark.end] == "\n"
        ]
        ends = [index for index, character in enumerate(self._text) if character == "\n"]
        if len(breaks) == self._marked.text.count("\n") == len(ends):
            for mark, end in zip(breaks, ends, strict=True):
                self._spans[mark] = (end, end + 1)

    def _place_children(self, parent: int, region: _Region) -> list[tuple[int, _Region]]:
        """Place the marks directly in an element, and return the elements among them with their regions."""
        children = self._children.get(parent, [])
        marks = self._marked.marks
        pieces = Pieces(self._weights)
        regions: dict[int, _Region] = {}
        elements = [index for index in children if marks[index].kind is MarkKind.ELEMENT and self._has_text(index)]
        if region.first == region.last or region.depth == _MAX_DEPTH:
            self._place_in_order(parent, children, elements, region, regions)
        else:
            self._place_elements(parent, elements, region, pieces, regions)
            siblings = sorted((sibling.start, sibling.end, index) for index, sibling in regions.items())
            for index in children:
                if index not in regions and self._spans[index] is None:
                    position = self._position(index, parent, region)
                    span = self._beside(index, position, siblings, region)
                    self._spans[index] = span
                    if marks[index].kind is MarkKind.ELEMENT:
                        regions[index] = _Region(*span, 0, 0, region.depth + 1)
        for index, child in regions.items():
            self._spans[index] = (child.start, child.end)
        return list(regions.items())

    def _place_elements(
        self, parent: int, elements: Sequence[int], region: _Region, pieces: Pieces, regions: dict[int, _Region]
    ) -> None:
        marks = self._marked.marks
        if len(elements) == 1 and self._num_visible(*marks[elements[0]].span) == self._num_visible(
            *self._source(parent)
        ):
            regions[elements[0]] = replace(region, depth=region.depth + 1)
            return
        own: dict[int, list[int]] = {index: [] for index in elements}
        starts = [marks[index].start for index in elements]
        for word in range(region.first, region.last):
            if word in self._links.source_of:
                start, end = self._links.source[self._links.source_of[word]]
                child = bisect_right(starts, (start + end - 1) // 2) - 1
                if child >= 0 and (start + end - 1) // 2 < marks[elements[child]].end:
                    own[elements[child]].append(word)
        # Elements with few words first: they have fewer possible positions.
        for index in sorted(elements, key=lambda index: (not own[index], len(own[index]), index)):
            place = self._part_of_word(index, region, pieces) or self._piece(index, parent, own[index], region, pieces)
            if place:
                regions[index] = place

    def _piece(self, index: int, parent: int, own: Sequence[int], region: _Region, pieces: Pieces) -> _Region | None:
        """The words of an element, or one that belongs to no other if its own words have none."""
        piece = pieces.best(own)
        if piece is None and not own:
            position = self._position(index, parent, region)
            near = bisect_left(self._target_starts, position)
            word = pieces.nearest_unaligned(near, region.first, region.last, _REACH)
            piece = None if word is None else (word, word + 1)
        if piece is None:
            return None
        pieces.reserve(*piece)
        start, end = self._links.target[piece[0]][0], self._links.target[piece[1] - 1][1]
        return _Region(start, end, *piece, region.depth + 1)

    def _part_of_word(self, index: int, region: _Region, pieces: Pieces) -> _Region | None:
        """The region of an element that is a part of a word: the same part of the word's translation."""
        mark = self._marked.marks[index]
        around = self._links.source_around(*mark.span)
        word = next(iter(self._links.targets_of.get(around, ())), -1)
        if not region.first <= word < region.last or word in self._contents:
            return None
        if word not in self._split:
            if not pieces.is_free(word, word + 1):
                return None
            pieces.reserve(word, word + 1)
        start, end = (self._scaled(position, around, word) for position in mark.span)
        start = max(start, self._split.get(word, start))
        self._split[word] = max(end, start)
        return _Region(start, self._split[word], 0, 0, region.depth + 1)

    def _scaled(self, position: int, source_word: int, target_word: int) -> int:
        """The index in a word of the translation that corresponds to one in a word of the text."""
        (source_start, source_end), (start, end) = self._links.source[source_word], self._links.target[target_word]
        return start + round((position - source_start) / (source_end - source_start) * (end - start))

    def _place_in_order(
        self,
        parent: int,
        children: Sequence[int],
        elements: Sequence[int],
        region: _Region,
        regions: dict[int, _Region],
    ) -> None:
        """Place marks without alignment: an element with most of the text in the middle, the others around it."""
        marks = self._marked.marks
        source = self._source(parent)
        most = self._num_visible(*source) / 2
        large = next((index for index in elements if self._num_visible(*marks[index].span) > most), -1)
        middle = marks[large].start if large >= 0 else (source[0] + source[1]) / 2
        for index in children:
            if index == large:
                regions[index] = replace(region, depth=min(region.depth + 1, _MAX_DEPTH))
            elif self._spans[index] is None:
                position = region.start if marks[index].start <= middle and (large < 0 or index < large) else region.end
                self._spans[index] = (position, position)
                if marks[index].kind is MarkKind.ELEMENT:
                    regions[index] = _Region(position, position, 0, 0, _MAX_DEPTH)

    def _position(self, index: int, parent: int, region: _Region) -> int:
        """The position of a mark without words: at the word next to it, else at the nearest aligned one."""
        mark = self._marked.marks[index]
        position = mark.start
        around = self._links.source_around(position, position)
        if targets := self._targets_in(around, region):
            return self._scaled(position, around, targets[0])
        text = self._marked.text
        at_next = mark.end < len(text) and not text[mark.end].isspace()
        at_previous = position > 0 and not text[position - 1].isspace()
        prefers_next = mark.kind is MarkKind.OPENING or (
            mark.kind in (MarkKind.POINT, MarkKind.ELEMENT) and at_next and not at_previous
        )
        source = self._source(parent)
        before = (self._end_of(word, region) for word in self._before(position, source[0]))
        after = (self._start_of(word, region) for word in self._after(mark.end, source[1]))
        ordered = (*after, *before) if prefers_next else (*before, *after)
        nearest = next((aligned for aligned in ordered if aligned is not None), None)
        if nearest is not None:
            return nearest
        return region.start if position - source[0] <= source[1] - position else region.end

    def _before(self, position: int, first: int) -> Iterator[int]:
        """The words of the text before a position, the nearest first."""
        word = self._links.source_before(position)
        for near in range(word, max(-1, word - _REACH), -1):
            if self._links.source[near][0] < first:
                return
            yield near

    def _after(self, position: int, last: int) -> Iterator[int]:
        """The words of the text after a position, the nearest first."""
        word = self._links.source_after(position)
        for near in range(word, min(len(self._links.source), word + _REACH)):
            if self._links.source[near][1] > last:
                return
            yield near

    def _end_of(self, source_word: int, region: _Region) -> int | None:
        targets = self._targets_in(source_word, region)
        return self._links.target[targets[-1]][1] if targets else None

    def _start_of(self, source_word: int, region: _Region) -> int | None:
        targets = self._targets_in(source_word, region)
        return self._links.target[targets[0]][0] if targets else None

    def _targets_in(self, source_word: int, region: _Region) -> list[int]:
        """The words of a region that belong to a word of the text."""
        return [word for word in self._links.targets_of.get(source_word, ()) if region.first <= word < region.last]

    def _beside(self, index: int, position: int, siblings: Sequence[tuple[int, int, int]], region: _Region) -> Span:
        """The span of a mark without words: outside of elements beside it; for a break, with its space."""
        mark = self._marked.marks[index]
        sibling = bisect_left(siblings, (position, -1, -1)) - 1
        if sibling >= 0 and siblings[sibling][1] > position:
            start, end, other = siblings[sibling]
            position = start if index < other else end
        if mark.kind is MarkKind.BREAK:
            for space in (position, position - 1):
                is_free = region.start <= space < region.end and space not in self._used_spaces
                if is_free and self._text[space].isspace() and self._text[space] != "\n":
                    self._used_spaces.add(space)
                    return space, space + 1
        return position, position

    def _order_overlapping(self) -> None:
        """Put opening tags of overlapping elements before their closing tags."""
        marks = self._marked.marks
        for index, mark in enumerate(marks):
            if mark.partner >= 0:
                top = mark.partner  # the closing tag, or the element around it that is beside the opening tag
                while marks[top].parent != mark.parent:
                    top = marks[top].parent
                start = min(span[0] for span in (self._spans[index], self._spans[top]) if span is not None)
                self._spans[index] = (start, start)

    def _source(self, parent: int) -> Span:
        """The characters of an element in the text; of all for -1."""
        return self._marked.marks[parent].span if parent >= 0 else (0, len(self._marked.text))

    def _has_text(self, index: int) -> bool:
        return self._num_visible(*self._marked.marks[index].span) > 0

    def _num_visible(self, start: int, end: int) -> int:
        """The number of characters between two positions of the text that are not whitespace."""
        return self._visible[end] - self._visible[start]


def _whole_words(text: str) -> re.Pattern[str]:
    """Matches a text where its first and last word are not parts of longer ones."""
    before = r"(?<!\w)" if text[:1].isalnum() else ""
    after = r"(?!\w)" if text[-1:].isalnum() else ""
    return re.compile(before + re.escape(text) + after)
