"""The texts between the boundaries of a document: their items and the positions of their marks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from model.text.markup.items import OBJECT, Item, Role
from model.text.markup.marked_text import Mark, MarkedText, MarkKind
from model.text.markup.offsets import Part

_SPACES = " \t\r\n\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_LINE_ENDS = re.compile(r"(?<![ \t\f])[ \t\f]*+(?:(?:\r\n|\r|\n)[ \t\f]*+)++")


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


def prepare_items(items: Sequence[Item], *, is_html: bool) -> list[Item]:
    """The items, with whitespace around line breaks and images merged into these, and each empty element as one item.

    A line break is one space of the text, and several in a row are the end of a line. Whitespace on both sides of an
    image would otherwise be two spaces in the text, and a translation keeps only one.

    Args:
        items: The items of a document.
        is_html: Whether adjacent links are separate texts, as in a menu, and empty elements are points. In XML empty
            elements are content.
    """
    result: list[Item] = []
    after_space = False  # the text so far ends in whitespace
    for number, item in enumerate(items):
        last = result[-1] if result else None
        if item.role is Role.TEXT and not item.is_reference and not item.keeps_space and last is not None:
            visible = item.text.lstrip(_SPACES)
            takes_space = last.role is Role.BREAK or (last.role is Role.POINT and after_space)
            if takes_space and len(visible) < len(item.text):
                source = item.source.lstrip(_SPACES)
                space = item.source[: len(item.source) - len(source)]
                result[-1] = last._replace(source=last.source + space)
                item = item._replace(source=source, text=visible)
                if not source:
                    continue
            elif is_html and not visible and _separates_links(items, number):
                item = Item(Role.BREAK, item.source, "\n")
        elif item.role is Role.OPENING and item.name == "a" and is_html and last is not None:
            if last.role is Role.CLOSING and last.name == "a":
                result.append(Item(Role.BREAK, "", "\n"))
        elif item.role is Role.CLOSING and last is not None and (last.role, last.name) == (Role.OPENING, item.name):
            item = result.pop()._replace(source=last.source + item.source)  # an empty element
            item = item._replace(role=Role.POINT) if is_html else Item(Role.CONTENT, item.source, OBJECT)
            after_space = bool(result) and result[-1].role is Role.TEXT and result[-1].text[-1:].isspace()
        elif item.role is Role.BREAK:
            item = _join_break(result, item)
        if item.role is Role.TEXT:
            after_space = item.text[-1:].isspace()
        elif item.role is not Role.POINT:
            after_space = False
        if (
            item.role is Role.CONTENT
            and item.text == OBJECT
            and result
            and (result[-1].role, result[-1].text) == (Role.CONTENT, OBJECT)
        ):
            item = item._replace(source=result.pop().source + item.source)
        result.append(item)
    return result


def _separates_links(items: Sequence[Item], number: int) -> bool:
    around = (items[number - 1], items[number + 1]) if 0 < number < len(items) - 1 else ()
    return [(item.role, item.name) for item in around] == [(Role.CLOSING, "a"), (Role.OPENING, "a")]


def _join_break(result: list[Item], item: Item) -> Item:
    """Remove the whitespace and the line break before a line break from the result, and return all as one."""
    if result and result[-1].role is Role.TEXT and not result[-1].is_reference and not result[-1].keeps_space:
        before = result.pop()
        source = before.source.rstrip(_SPACES)
        item = item._replace(source=before.source[len(source) :] + item.source)
        if source:
            result.append(before._replace(source=source, text=before.text.rstrip(_SPACES)))
    if result and result[-1].role is Role.BREAK:
        item = Item(Role.BREAK, result.pop().source + item.source, "\n")
    return item


def runs(items: Sequence[Item], *, keeps_blank_lines: bool) -> Iterator[int | Run]:
    """Split a document into texts and the items between them.

    Args:
        items: The items of a document, prepared.
        keeps_blank_lines: Whether a blank line in a text is kept, so that it separates sentences.

    Yields:
        A run, or the index of an item that is kept.
    """
    start = 0
    while start < len(items):
        end = start
        while end < len(items) and items[end].role is not Role.BOUNDARY:
            end += 1
        yield from _parts(items, start, end, keeps_blank_lines)
        if end < len(items):
            yield end
        start = end + 1


def _parts(items: Sequence[Item], start: int, end: int, keeps_blank_lines: bool) -> Iterator[int | Run]:
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
    yield _Builder(items, first, last, closings, overlapping, keeps_blank_lines).run()
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
        keeps_blank_lines: As in :func:`runs`.
    """

    def __init__(
        self,
        items: Sequence[Item],
        first: int,
        last: int,
        closings: dict[int, int],
        overlapping: set[int],
        keeps_blank_lines: bool,
    ) -> None:
        self._items = items
        self._range = range(first, last)
        self._keeps_blank_lines = keeps_blank_lines
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
        for match in _LINE_ENDS.finditer(source, done, last) if has_line_ends else ():
            start, end = match.span()
            yield source[done:start], done, start
            is_blank_line = self._keeps_blank_lines and len(_LINE_END.findall(match[0])) > 1
            if item.keeps_space or is_blank_line:
                yield _LINE_END.sub("\n", match[0]), start, end
            else:
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
