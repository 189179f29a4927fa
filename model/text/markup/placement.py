"""Placement of marks in a translation, by word alignment.

An element surrounds one piece of the translation: the piece with the most words that belong to its words, and the
fewest others. An element whose words have none gets the most probable word, else the nearest, so that it never is
empty. Elements stay inside the element that contains them and beside their neighbours. A line break goes to the
position that the fewest links cross, any other mark to the word next to it. A word is split only if the mark splits
one in the source.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain

from model.text.markup.breaks import place_breaks
from model.text.markup.marked_text import MarkedText, MarkKind, PlacedText, element_without_words, unchanged
from model.text.markup.positions import Positions, Region, needed_words
from model.text.markup.word_links import REACH, Pieces, WordLinks, pattern_of, words
from model.text.symbols import Span, overlaps

_MAX_DEPTH = 30
_CONTENT_WEIGHT = 1000
_WORD_WEIGHT = 2
_SIGN_WEIGHT = 1


def place_marks(
    marked: MarkedText,
    translation: str,
    links: Sequence[tuple[Span, Span]],
    nearest: Sequence[tuple[Span, Span]] = (),
    kept: Sequence[Span] = (),
) -> PlacedText:
    """Find the positions of a text's marks in its translation.

    Args:
        marked: The text.
        translation: Its translation, with the protected spans of the text.
        links: Spans of the text and of the translation that belong together: words, parts of words, or protected spans.
        nearest: For parts of the text without a link, the most probable words of the translation.
        kept: Spans of the translation that are protected, in order: no element without words gets one.

    Returns:
        The translation with a span for each mark, which :meth:`MarkedUp.render` accepts. If an element would be left
        without words, because the translation has fewer words than the text has elements, the text stays as it is.
    """
    if not marked.marks:
        return PlacedText(translation)
    placed = _Placement(marked, translation, links, nearest, kept).placed()
    return placed if element_without_words(marked, placed) < 0 else unchanged(marked)


class _Placement:
    def __init__(
        self,
        marked: MarkedText,
        translation: str,
        links: Sequence[tuple[Span, Span]],
        nearest: Sequence[tuple[Span, Span]],
        kept: Sequence[Span],
    ) -> None:
        self._marked = marked
        self._text = translation
        self._spans: list[Span | None] = [None] * len(marked.marks)
        self._placed_contents = Pieces([])  # by characters, of kept texts
        whole = self._place_contents(links)
        source_words, target_words = words(marked.text, marked.protected), words(translation, sorted(whole))
        self._links = WordLinks(source_words, target_words, links, nearest)
        self._positions = Positions(marked, self._links)
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
        self._num_needed = needed_words(marked, self._links)
        # The words that an element may consist of: no signs, and no kept texts.
        self._proper = [
            word for word, span in enumerate(target_words) if word not in self._contents and self._has_word(*span)
        ]
        self._kept = {word for word in self._proper if overlaps(target_words[word], kept)}
        self._free = [word for word in self._proper if word not in self._kept]
        self._weights = [0]  # of the aligned words before each word
        for word in range(len(self._links.target)):
            self._weights.append(self._weights[-1] + self._weight(word))

    def placed(self) -> PlacedText:
        """The positions of all marks."""
        for index, span in place_breaks(self._marked, self._text, self._links, self._proper).items():
            self._spans[index] = span
            self._used_spaces.add(span[0])
        stack = [(-1, Region(0, len(self._text), 0, len(self._links.target), 0))]
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
            pattern = pattern_of(self._marked.text, *mark.span)
            search = searches.setdefault(pattern, re.finditer(pattern, self._text))
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
        if word not in self._links.source_of:
            return 0
        return _WORD_WEIGHT if self._has_word(*self._links.target[word]) else _SIGN_WEIGHT

    def _has_word(self, start: int, end: int) -> bool:
        return any(map(str.isalnum, self._text[start:end]))

    def _num_proper(self, first: int, last: int) -> int:
        """The number of words between two words that an element may consist of."""
        return bisect_left(self._proper, last) - bisect_left(self._proper, first)

    def _place_children(self, parent: int, region: Region) -> list[tuple[int, Region]]:
        """Place the marks directly in an element, and return the elements among them with their regions."""
        children = self._children.get(parent, [])
        marks = self._marked.marks
        pieces = Pieces(self._weights)
        regions: dict[int, Region] = {}
        elements = [index for index in children if marks[index].kind is MarkKind.ELEMENT and self._has_text(index)]
        if region.first == region.last or region.depth == _MAX_DEPTH:
            self._place_in_order(parent, children, elements, region, regions)
        else:
            self._place_elements(parent, elements, region, pieces, regions)
            siblings = sorted((sibling.start, sibling.end, index) for index, sibling in regions.items())
            for index in children:
                if index not in regions and self._spans[index] is None:
                    position = self._positions.position(index, parent, region)
                    span = self._beside(index, position, siblings, region)
                    self._spans[index] = span
                    if marks[index].kind is MarkKind.ELEMENT:
                        regions[index] = Region(*span, 0, 0, region.depth + 1)
        for index, child in regions.items():
            self._spans[index] = (child.start, child.end)
        return list(regions.items())

    def _place_elements(
        self, parent: int, elements: Sequence[int], region: Region, pieces: Pieces, regions: dict[int, Region]
    ) -> None:
        marks = self._marked.marks
        if len(elements) == 1 and self._num_visible(*marks[elements[0]].span) == self._num_visible(
            *self._positions.source(parent)
        ):
            regions[elements[0]] = replace(region, depth=region.depth + 1)
            return
        own = self._own_words(elements, region)
        # Elements with few words first: they have fewer possible positions.
        for index in sorted(elements, key=lambda index: (not own[index], len(own[index]), index)):
            piece = self._part_of_word(index, region, pieces) or self._piece(index, own[index], region, pieces)
            if piece is None and (index in self._marked.with_words or not own[index]):
                piece = self._nearest_piece(index, parent, elements, region, pieces, regions)
            if piece:
                regions[index] = piece
        if any(not self._is_enough(index, regions.get(index)) for index in elements):
            self._place_one_after_the_other(parent, elements, own, region, regions)

    def _own_words(self, elements: Sequence[int], region: Region) -> dict[int, list[int]]:
        """The words of a region that belong to words of each element.

        An element without any gets those that its words most probably belong to, unless another one needs them.
        """
        marks = self._marked.marks
        own: dict[int, list[int]] = {index: [] for index in elements}
        owner: dict[int, int] = {}
        starts = [marks[index].start for index in elements]
        for word in range(region.first, region.last):
            if word in self._links.source_of:
                start, end = self._links.source[self._links.source_of[word]]
                child = bisect_right(starts, (start + end - 1) // 2) - 1
                if child >= 0 and (start + end - 1) // 2 < marks[elements[child]].end:
                    own[elements[child]].append(word)
                    owner[word] = elements[child]
        proper = {index: sum(map(self._is_proper, own[index])) for index in elements}
        for index in elements:
            if proper[index] or index not in self._marked.with_words:
                continue
            own[index] = []
            nearest = {self._links.nearest_to.get(word, -1) for word in self._links.source_in(*marks[index].span)}
            for word in sorted(nearest):
                other = owner.get(word, -1)
                is_free = region.first <= word < region.last and self._is_proper(word) and word not in self._kept
                if is_free and (other < 0 or proper[other] > 1):
                    if other >= 0:
                        own[other].remove(word)
                        proper[other] -= 1
                    own[index].append(word)
                    owner[word] = index
                    proper[index] += 1
        return own

    def _is_proper(self, word: int) -> bool:
        return word not in self._contents and self._has_word(*self._links.target[word])

    def _is_enough(self, index: int, region: Region | None) -> bool:
        """Whether a region has words for an element and for those in it."""
        if index not in self._marked.with_words:
            return True
        if region is None or region.first == region.last:
            return region is not None and self._has_word(region.start, region.end)
        return self._num_proper(region.first, region.last) >= self._num_needed[index]

    def _piece(self, index: int, own: Sequence[int], region: Region, pieces: Pieces) -> Region | None:
        """The words of an element, with others beside them if it needs more."""
        piece = pieces.best(own)
        if piece is None:
            return None
        needed = self._num_needed[index] if index in self._marked.with_words else 0
        first, last = self._same_words(index, *piece)
        while self._num_proper(first, last) < needed:
            if last < region.last and pieces.is_free(last, last + 1):
                last += 1
            elif first > region.first and pieces.is_free(first - 1, first):
                first -= 1
            else:
                break
        pieces.reserve(first, last)
        return self._region_of(first, last, region)

    def _same_words(self, index: int, first: int, last: int) -> tuple[int, int]:
        """The words of an element's text in a piece, if the piece has them as they are; otherwise the piece."""
        text = self._marked.text[slice(*self._marked.marks[index].span)].strip()
        begin = self._text.find(text, self._target_starts[first], self._links.target[last - 1][1])
        if not text or begin < 0:
            return first, last
        start, end = (bisect_left(self._target_starts, position) for position in (begin, begin + len(text)))
        whole = (self._target_starts[start], self._links.target[end - 1][1]) if start < end else None
        return (start, end) if whole == (begin, begin + len(text)) else (first, last)

    def _nearest_piece(
        self,
        index: int,
        parent: int,
        elements: Sequence[int],
        region: Region,
        pieces: Pieces,
        regions: dict[int, Region],
    ) -> Region | None:
        """The nearest word between the elements before and after an element, for one whose words have none."""
        needed = self._num_needed[index] if index in self._marked.with_words else 0
        number = bisect_left(elements, index)
        before = (regions[near] for near in elements[max(0, number - REACH) : number][::-1] if near in regions)
        after = (regions[near] for near in elements[number + 1 : number + 1 + REACH] if near in regions)
        first = next((near.last for near in before if near.last), region.first)
        last = next((near.first for near in after if near.last), region.last)
        limits = bisect_left(self._free, first), bisect_left(self._free, last)
        near = bisect_left(self._free, self._word_at(index, parent, region))
        for heaviest in (0, _WORD_WEIGHT) if needed else (0,):
            word = pieces.nearest(self._free, limits, near, heaviest)
            if word is not None:
                return self._piece(index, [word], region, pieces)
        return None

    def _word_at(self, index: int, parent: int, region: Region) -> int:
        """The first word of the translation that starts at or after the position of a mark."""
        return bisect_left(self._target_starts, self._positions.position(index, parent, region))

    def _region_of(self, first: int, last: int, region: Region) -> Region:
        """The region of an element in another one, from its first word to that before its last one."""
        return Region(self._links.target[first][0], self._links.target[last - 1][1], first, last, region.depth + 1)

    def _place_one_after_the_other(
        self,
        parent: int,
        elements: Sequence[int],
        own: dict[int, list[int]],
        region: Region,
        regions: dict[int, Region],
    ) -> None:
        """Place all elements with words in the order of the source, each near its words and with as many as it needs.

        Nothing changes if the region has too few words.
        """
        elements = [index for index in elements if index in self._marked.with_words]
        free = self._free[bisect_left(self._free, region.first) : bisect_left(self._free, region.last)]
        proper = sorted({*free, *(word for index in elements for word in own[index] if self._is_proper(word))})
        num_missing = sum(self._num_needed[index] for index in elements)
        if num_missing > len(proper):
            return
        regions.clear()  # an element of signs gets a position beside the others
        firsts: list[int] = []  # in the words of the region
        done = 0
        for index in elements:
            near = own[index][0] if own[index] else self._word_at(index, parent, region)
            firsts.append(max(done, min(bisect_left(proper, near), len(proper) - num_missing)))
            done = firsts[-1] + self._num_needed[index]
            num_missing -= self._num_needed[index]
        for index, first, following in zip(elements, firsts, [*firsts[1:], len(proper)], strict=True):
            last, own_words = first + self._num_needed[index] - 1, set(own[index])
            while last + 1 < following and proper[last + 1] in own_words:
                last += 1
            regions[index] = self._region_of(proper[first], proper[last] + 1, region)

    def _part_of_word(self, index: int, region: Region, pieces: Pieces) -> Region | None:
        """The region of an element that is a part of a word: the same part of the word's translation."""
        mark = self._marked.marks[index]
        around = self._links.source_around(*mark.span)
        word = next(iter(self._links.targets_of.get(around, ())), -1)
        if not region.first <= word < region.last or word in self._contents:
            return None
        if word not in self._split and not pieces.is_free(word, word + 1):
            return None
        start, end = (self._positions.scaled(position, around, word) for position in mark.span)
        start = max(start, self._split.get(word, start))
        end = max(end, start)
        if index in self._marked.with_words and not self._has_word(start, end):
            return None
        if word not in self._split:
            pieces.reserve(word, word + 1)
        self._split[word] = end
        return Region(start, end, 0, 0, region.depth + 1)

    def _place_in_order(
        self,
        parent: int,
        children: Sequence[int],
        elements: Sequence[int],
        region: Region,
        regions: dict[int, Region],
    ) -> None:
        """Place marks without alignment: an element with most of the text in the middle, the others around it."""
        marks = self._marked.marks
        source = self._positions.source(parent)
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
                    regions[index] = Region(position, position, 0, 0, _MAX_DEPTH)

    def _beside(self, index: int, position: int, siblings: Sequence[tuple[int, int, int]], region: Region) -> Span:
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

    def _has_text(self, index: int) -> bool:
        return self._num_visible(*self._marked.marks[index].span) > 0

    def _num_visible(self, start: int, end: int) -> int:
        """The number of characters between two positions of the text that are not whitespace."""
        return self._visible[end] - self._visible[start]
