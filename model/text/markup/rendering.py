"""The writing of a translated document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from model.errors import MarkupNotKept
from model.text.markup.items import Attribute, Item, Role
from model.text.markup.marked_text import MarkKind, PlacedText
from model.text.markup.nesting import contents
from model.text.markup.offsets import OffsetMap, Part, escaped_parts, unescaped_parts
from model.text.markup.runs import Run

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_QUOTES = {'"': "&quot;", "'": "&#39;"}


class Rendering:
    """Writes a translated document, and keeps where the characters of each translation stand.

    Args:
        items: The items of the document.
        first_attribute: By item with translated attributes: the text of the first one.
        translations: The translation of each text.
    """

    def __init__(
        self, items: Sequence[Item], first_attribute: Mapping[int, int], translations: Sequence[PlacedText]
    ) -> None:
        self.offsets = [OffsetMap() for _ in translations]
        """For each translation, where its characters stand in what was written."""
        self._items = items
        self._first_attribute = first_attribute
        self._translations = translations
        self._written: list[str] = []
        self._length = 0

    @property
    def document(self) -> str:
        """What was written."""
        return "".join(self._written)

    def write_item(self, index: int) -> None:
        """Write the source of an item, with its attributes translated."""
        item = self._items[index]
        done = 0
        for text, attribute in enumerate(item.attributes, start=self._first_attribute.get(index, 0)):
            translation = self._translations[text].text
            if translation == attribute.text:
                for part in attribute_parts(item, attribute):
                    self.offsets[text].add(part, self._length - done)
                continue
            self._write(item.source[done : attribute.start])
            quote = _quotation_mark(item, attribute) or '"'
            self._write(quote)
            self._write_text(text, translation, {**_ESCAPES, ord(quote): _QUOTES[quote]})
            self._write(quote)
            done = attribute.end
        self._write(item.source[done:])

    def write_unchanged(self, run: Run, text: int) -> None:
        """Write a text that is its own translation, character references included.

        Args:
            run: The text.
            text: Its index.
        """
        parts: dict[int, list[Part]] = {}
        for index, part in run.parts:
            parts.setdefault(index, []).append(part)
        for index in range(run.start, run.end):
            for part in parts.get(index, ()):
                self.offsets[text].add(part, self._length)
            self.write_item(index)

    def write_translated(self, run: Run, text: int) -> None:
        """Write a translation: its characters escaped, and its marks at their places.

        Args:
            run: The text.
            text: Its index.

        Raises:
            MarkupNotKept: A mark is not at a possible position.
        """
        placed = self._translations[text]
        marks = run.text.marks
        escapes = _escapes(self._items[run.start : run.end])
        inside = contents(run.text, placed)
        emitted: set[int] = set()
        position = 0
        self._write(run.leading)
        stack = [(-1, iter(inside.get(-1, ())))]
        while stack:
            element, rest = stack[-1]
            mark = next(rest, None)
            if mark is None:
                end = placed.spans[element][1] if element >= 0 else len(placed.text)
                self._write_text(text, placed.text[position:end], escapes)
                position = end
                if element >= 0:
                    self.write_item(run.closings[element])
                stack.pop()
                continue
            start, end = placed.spans[mark]
            self._write_text(text, placed.text[position:start], escapes)
            if marks[mark].partner in emitted:
                raise MarkupNotKept(f"The closing tag of {marks[mark].opening[:100]!r} is before it.")
            emitted.add(mark)
            if marks[mark].kind is MarkKind.ELEMENT:
                stack.append((mark, iter(inside.get(mark, ()))))
                position = start
            else:  # an image, for example, or a line break that is written for a space
                self.offsets[text].add(Part(end - start, 0, len(marks[mark].opening)), self._length)
                position = end
            self.write_item(run.openings[mark])
        self._write(run.trailing)

    def _write(self, source: str) -> None:
        self._written.append(source)
        self._length += len(source)

    def _write_text(self, text: int, characters: str, escapes: Mapping[int, str]) -> None:
        """Write the next characters of a translation."""
        source = characters.translate(escapes)
        is_escaped = len(source) != len(characters)
        parts = escaped_parts(characters, escapes) if is_escaped else [Part(len(characters), 0, len(source))]
        for part in parts:
            self.offsets[text].add(part, self._length)
        self._write(source)


def attribute_parts(item: Item, attribute: Attribute) -> Iterator[Part]:
    """The parts of the value of an attribute, in characters of its item's source."""
    size = len(_quotation_mark(item, attribute))
    start = attribute.start + size
    for part in unescaped_parts(item.source[start : attribute.end - size], attribute.text):
        yield Part(part.num_characters, start + part.start, start + part.end)


def _quotation_mark(item: Item, attribute: Attribute) -> str:
    """The quotation mark around the value of an attribute, or an empty string."""
    return item.source[attribute.start] if item.source[attribute.start] in _QUOTES else ""


def _escapes(items: Sequence[Item]) -> dict[int, str]:
    """How characters of a translation are written: as in its source if that has a reference for them."""
    texts = [item for item in items if item.role is Role.TEXT]
    plain = set("".join(item.text for item in texts if not item.is_reference))
    references = {
        ord(item.text): item.source
        for item in texts
        if item.is_reference and len(item.text) == 1 and item.source.endswith(";") and item.text not in plain
    }
    return {**_ESCAPES, **references}
