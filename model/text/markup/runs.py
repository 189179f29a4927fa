"""The texts between the boundaries of a document: their items and the positions of their marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from model.text.markup.items import Item, Role
from model.text.markup.marked_text import Mark, MarkedText, MarkKind
from model.text.markup.offsets import Part
from model.text.markup.preparation import LINE_ENDS


@dataclass(frozen=True)
class Run:
    """Consecutive items that form one text.

    Args:
        start: Index of its first item.
        end: Index after its last item.
        text: The text.
        leading: Whitespace before the text, which is kept.
        trailing: Whitespace after it.
        openings: For each mark, the index of the item that is its source.
        closings: For each mark, the index of the item with its closing tag, or -1.
        parts: The parts of the text in order, each with the index of its item.
    """

    start: int
    end: int
    text: MarkedText
    leading: str
    trailing: str
    openings: tuple[int, ...]
    closings: tuple[int, ...]
    parts: tuple[tuple[int, Part], ...]


def runs(items: Sequence[Item]) -> Iterator[int | Run]:
    """Split a document into texts and the items between them.

    Args:
        items: The items of a document, prepared.

    Yields:
        A run, or the index of an item that is kept.
    """
    start = 0
    while start < len(items):
        end = start
        while end < len(items) and items[end].role is not Role.BOUNDARY:
            end += 1
        yield from _parts(items, start, end)
        if end < len(items):
            yield end
        start = end + 1


def _parts(items: Sequence[Item], start: int, end: int) -> Iterator[int | Run]:
    visible = [index for index in range(start, end) if _is_visible(items[index])]
    texts = (items[index] for index in visible if items[index].role is Role.TEXT)
    if not any(character.isalpha() for item in texts for character in item.text):
        yield from range(start, end)
        return
    closings, overlapping = _elements(items, start, end)
    # Elements around all of the text stay outside, as does everything before and after it.
    first, last = visible[0], visible[-1] + 1
    for opening, closing in closings.items():
        if opening < visible[0] <= closing <= visible[-1]:
            first = min(first, opening)
        if visible[0] <= opening <= visible[-1] < closing:
            last = max(last, closing + 1)
    yield from range(start, first)
    yield _Builder(items, first, last, closings, overlapping).run()
    yield from range(last, end)


def _is_visible(item: Item) -> bool:
    return item.role is Role.CONTENT or (item.role is Role.TEXT and bool(item.text.strip()))


def _elements(items: Sequence[Item], start: int, end: int) -> tuple[dict[int, int], set[int]]:
    """The closing tag of each opening tag, and the opening tags of elements that overlap another element."""
    closings: dict[int, int] = {}
    by_name: dict[str, list[int]] = {}
    for index in range(start, end):
        item = items[index]
        if item.role is Role.OPENING:
            by_name.setdefault(item.name, []).append(index)
        elif item.role is Role.CLOSING and by_name.get(item.name):
            closings[by_name[item.name].pop()] = index
    openings = {closing: opening for opening, closing in closings.items()}
    overlapping: set[int] = set()
    inside: list[int] = []
    for index in range(start, end):
        if index in closings:
            inside.append(index)
        elif index in openings:
            while inside[-1] in overlapping:
                inside.pop()
            if inside[-1] == openings[index]:
                inside.pop()
            else:
                overlapping.add(openings[index])
    return closings, overlapping


class _Builder:
    """Builds the text and the marks of a run.

    Args:
        items: The items of a document.
        first: Index of the run's first item.
        last: Index after its last item.
        closings: The closing tag of each opening tag.
        overlapping: Opening tags of elements that overlap another element.
    """

    def __init__(
        self,
        items: Sequence[Item],
        first: int,
        last: int,
        closings: dict[int, int],
        overlapping: set[int],
    ) -> None:
        self._items = items
        self._range = range(first, last)
        self._pairs = {
            opening: closing
            for opening, closing in closings.items()
            if first <= opening and closing < last and opening not in overlapping
        }
        self._ends = {closing: opening for opening, closing in self._pairs.items()}
        self._overlapping = {closings[opening]: opening for opening in overlapping}
        self._text: list[str] = []
        self._parts: list[tuple[int, Part]] = []
        self._length = 0
        self._marks: list[Mark] = []
        self._openings: list[int] = []
        self._closings: list[int] = []
        self._inside: list[int] = []  # marks of open elements
        self._by_item: dict[int, int] = {}

    def run(self) -> Run:
        """The run."""
        for index in self._range:
            self._add(index, self._items[index])
        text = MarkedText("".join(self._text), tuple(self._marks))
        first, last = self._items[self._range.start], self._items[self._range.stop - 1]
        return Run(
            start=self._range.start,
            end=self._range.stop,
            text=text,
            leading=first.source[: -len(first.source.lstrip()) or None] if first.role is Role.TEXT else "",
            trailing=last.source[len(last.source.rstrip()) :] if last.role is Role.TEXT else "",
            openings=tuple(self._openings),
            closings=tuple(self._closings),
            parts=tuple(self._parts),
        )

    def _add(self, index: int, item: Item) -> None:
        if item.role is Role.TEXT:
            for text, start, end in self._visible_parts(index, item):
                self._append(text, index, start, end)
        elif index in self._pairs:
            self._mark(index, MarkKind.ELEMENT)
            self._inside.append(len(self._marks) - 1)
        elif index in self._ends:
            mark = self._inside.pop()
            self._marks[mark] = replace(self._marks[mark], end=self._length)
            self._closings[mark] = index
        elif item.role is Role.OPENING:
            self._mark(index, MarkKind.OPENING)
        elif item.role is Role.CLOSING:
            self._mark(index, MarkKind.CLOSING)
            opening = self._by_item.get(self._overlapping.get(index, -1), -1)
            if opening >= 0:
                self._marks[opening] = replace(self._marks[opening], partner=len(self._marks) - 1)
        elif item.role is Role.BREAK:
            after_space = bool(self._text) and self._text[-1][-1:].isspace()
            self._mark(index, MarkKind.BREAK, "" if after_space and item.text == " " else item.text)
        elif item.role is Role.CONTENT:
            self._mark(index, MarkKind.CONTENT, item.text)
        else:
            self._mark(index, MarkKind.POINT)

    def _visible_parts(self, index: int, item: Item) -> Iterator[tuple[str, int, int]]:
        """The parts of an item's text, each with its range in the item's source.

        Line breaks that only wrap lines become spaces, and whitespace at the run's ends is left out.
        """
        source = item.source
        if item.is_reference:
            yield item.text, 0, len(source)
            return
        done = len(source) - len(source.lstrip()) if index == self._range.start else 0
        last = len(source.rstrip()) if index == self._range.stop - 1 else len(source)
        has_line_ends = "\n" in source or "\r" in source
        for match in LINE_ENDS.finditer(source, done, last) if has_line_ends else ():
            start, end = match.span()
            yield source[done:start], done, start
            yield " ", start, end
            done = end
        yield source[done:last], done, last

    def _append(self, text: str, index: int, start: int, end: int) -> None:
        """Add a part of an item's text, with its range in the item's source."""
        if text:
            self._text.append(text)
            self._parts.append((index, Part(len(text), start, end)))
            self._length += len(text)

    def _mark(self, index: int, kind: MarkKind, text: str = "") -> None:
        start = self._length
        self._append(text, index, 0, len(self._items[index].source))
        parent = self._inside[-1] if self._inside else -1
        self._by_item[index] = len(self._marks)
        self._marks.append(Mark(kind, start, self._length, self._items[index].source, parent=parent))
        self._openings.append(index)
        self._closings.append(-1)
