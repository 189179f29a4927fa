"""One side of a unit with markup, its source or its translation: its items, tags and sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from app.documents.formats.document_file import with_stretches
from model.text.markup.html_items import html_items
from model.text.markup.items import Item, Role
from model.text.segmentation import stripped
from model.text.symbols import Span

_LINE_END = re.compile(r"[ \t]*+[\r\n][ \t\r\n]*+")


@dataclass
class Tag:
    """An inline element with text in it, or kept source at one position.

    Args:
        key: Equal for the same tag of a unit and its translation.
        opening: The index of its item, or of its opening tag.
        closing: The index of the item with its closing tag; -1 if it has none.
        other: The same tag on the other side.
    """

    key: tuple[str, str]
    opening: int
    closing: int = -1
    other: Tag | None = None


class Side:
    """A unit with markup, or its translation.

    Args:
        source: The fragment of HTML.
    """

    def __init__(self, source: str) -> None:
        self.items = html_items(source)
        self.starts = list(accumulate((len(item.source) for item in self.items), initial=0))
        self.tags = list(self._tags())
        ends = [(index, tag) for tag in self.tags for index in (tag.opening, tag.closing) if index >= 0]
        self._ends = sorted(((self.starts[index], tag) for index, tag in ends), key=lambda end: end[0])
        self.spans: list[Span] = []

    def _tags(self) -> Iterator[Tag]:
        open_tags: list[Tag] = []
        names: dict[str, int] = defaultdict(int)  # of these
        for index, item in enumerate(self.items):
            if item.role is Role.TEXT:
                continue
            tag = Tag((item.role.name, _untranslated_source(item)), index)
            if item.role is Role.OPENING:
                open_tags.append(tag)
                names[item.name] += 1
            elif item.role is Role.CLOSING and names[item.name]:
                while (last := open_tags.pop()) and self.items[last.opening].name != item.name:
                    names[self.items[last.opening].name] -= 1  # it overlaps this element: a position
                names[item.name] -= 1
                last.closing = index
                continue
            yield tag

    def item_at(self, position: int) -> int:
        """The index of the item with a character."""
        return bisect_right(self.starts, position) - 1

    def is_inside_tag(self, span: Span) -> bool:
        """Whether characters are a part of a tag, such as the value of an attribute."""
        index = self.item_at(span[0])
        return index < len(self.items) and self.items[index].role is not Role.TEXT and span[0] > self.starts[index]

    @property
    def visible(self) -> Span:
        """From the first to the last character that readers see; empty without any."""
        start = end = 0
        for index, item in enumerate(self.items):
            is_text = item.role is Role.TEXT and bool(item.text.strip())
            if is_text or item.role is Role.CONTENT:
                first, last = self.starts[index], self.starts[index + 1]
                if is_text and not item.is_reference:
                    first, last = (first + edge for edge in stripped(item.source, 0, len(item.source)))
                start, end = (start if end else first), last
        return start, end

    def tags_in(self, span: Span) -> list[Tag]:
        """The tags with an end in some characters, in order."""
        first, last = (bisect_left(self._ends, position, key=lambda end: end[0]) for position in span)
        return list({id(tag): tag for _, tag in self._ends[first:last]}.values())

    def region(self, index: int) -> int:
        """Where an item is: 2k + 1 in sentence k, 2k before it and after the sentence before."""
        position = self.starts[index]
        number = bisect_right(self.spans, position, key=lambda span: span[1])
        return 2 * number + (number < len(self.spans) and self.spans[number][0] <= position)

    def shown(self, span: Span, markers: Mapping[int, str]) -> str:
        """Characters as they are shown, with the markers of some items."""
        parts: list[str] = []
        for index in range(self.item_at(span[0]), bisect_left(self.starts, span[1], hi=len(self.items))):
            item, start = self.items[index], self.starts[index]
            if index in markers:
                parts.append(markers[index])
            elif item.role is Role.TEXT:
                text = item.source[max(0, span[0] - start) : span[1] - start]
                text = item.text if len(text) == len(item.source) else text
                parts.append(text if item.keeps_space or item.is_reference else _LINE_END.sub(" ", text))
        return "".join(parts).strip()


def _untranslated_source(item: Item) -> str:
    """The source of an item without the values of its attributes that are translated."""
    return with_stretches(item.source, ((attribute.start, attribute.end, "") for attribute in item.attributes))
