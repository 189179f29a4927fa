"""Writing a translated document."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from model.errors import MarkupNotKept
from model.text.markup.items import Attribute, Item
from model.text.markup.marked_text import MarkedText, MarkKind, PlacedText, element_without_words
from model.text.markup.offsets import OffsetMap, Part, unescaped_parts
from model.text.markup.runs import Run
from model.text.markup.spelling import Spelling
from model.text.symbols import Span

_QUOTES = ('"', "'")


class Rendering:
    """Writes a translated document, and records the positions of the characters of each translation.

    Args:
        items: The items of the document.
        first_attribute: By item with translated attributes: the text of the first one.
        translations: The translation of each text.
    """

    def __init__(
        self, items: Sequence[Item], first_attribute: Mapping[int, int], translations: Sequence[PlacedText]
    ) -> None:
        self.offsets = [OffsetMap() for _ in translations]
        """For each translation, the positions of its characters in the document."""
        self._items = items
        self._first_attribute = first_attribute
        self._translations = translations
        self._written: list[str] = []
        self._length = 0

    @property
    def document(self) -> str:
        """The document so far."""
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
            quote = "" if attribute.is_text else _quotation_mark(item, attribute) or '"'
            self._write(quote)
            self._write_text(text, translation, Spelling.of_value(item.source[attribute.start : attribute.end], quote))
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
        """Write a translation, with its characters escaped and its marks at their positions.

        Args:
            run: The text.
            text: Its index.

        Raises:
            MarkupNotKept: A mark has an impossible position.
        """
        placed = self._translations[text]
        marks = run.text.marks
        spelling = Spelling.of_items(self._items[run.start : run.end])
        inside = _contents(run.text, placed)
        emitted: set[int] = set()
        position = 0
        self._write(run.leading)
        stack = [(-1, iter(inside.get(-1, ())))]
        while stack:
            element, rest = stack[-1]
            mark = next(rest, None)
            if mark is None:
                end = placed.spans[element][1] if element >= 0 else len(placed.text)
                self._write_text(text, placed.text[position:end], spelling)
                position = end
                if element >= 0:
                    self.write_item(run.closings[element])
                stack.pop()
                continue
            start, end = placed.spans[mark]
            self._write_text(text, placed.text[position:start], spelling)
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

    def _write_text(self, text: int, characters: str, spelling: Spelling) -> None:
        """Write the next characters of a translation."""
        source, parts = spelling.write(characters)
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
    is_quoted = not attribute.is_text and item.source[attribute.start] in _QUOTES
    return item.source[attribute.start] if is_quoted else ""


def _contents(marked: MarkedText, placed: PlacedText) -> dict[int, list[int]]:
    """The marks directly in each element, in the order in which they are written.

    Elements stay in the element that contains them in the source. Any other mark belongs to the innermost element
    around its position; at the edge of an element, it is inside if it is inside in the source.

    Args:
        marked: A text.
        placed: A translation.

    Returns:
        Indices of marks by the index of their element, or -1 for those in none.

    Raises:
        MarkupNotKept: A mark is missing or outside of the text or of its element, or two marks overlap.
    """
    if len(placed.spans) != len(marked.marks):
        raise MarkupNotKept(f"The translation has {len(placed.spans)} marks and its source {len(marked.marks)}.")
    tree = _Tree(marked, placed)
    inside: dict[int, list[int]] = {}
    for mark, _ in enumerate(marked.marks):
        tree.check(mark)
        inside.setdefault(tree.container(mark), []).append(mark)
    if (lost := element_without_words(marked, placed)) >= 0:
        raise MarkupNotKept(f"The element {marked.marks[lost].opening[:100]!r} lost its words in the translation.")
    for element, marks in inside.items():
        marks.sort(key=lambda mark: (placed.spans[mark], mark))
        start, end = tree.span(element)
        position = start
        for mark in marks:
            if not position <= placed.spans[mark][0] <= placed.spans[mark][1] <= end:
                raise MarkupNotKept(f"The mark {marked.marks[mark].opening[:100]!r} overlaps another one.")
            position = placed.spans[mark][1]
    return inside


class _Tree:
    """The elements of a translation.

    Args:
        marked: The text.
        placed: The translation.
    """

    def __init__(self, marked: MarkedText, placed: PlacedText) -> None:
        self._marked = marked
        self._placed = placed
        self._elements: dict[int, list[tuple[Span, int]]] = {}  # elements in each element, in order
        for mark, (kind, parent) in enumerate((mark.kind, mark.parent) for mark in marked.marks):
            if kind is MarkKind.ELEMENT:
                self._elements.setdefault(parent, []).append((placed.spans[mark], mark))
        for elements in self._elements.values():
            elements.sort()

    def span(self, element: int) -> Span:
        """The characters of an element; of the whole text for -1."""
        return self._placed.spans[element] if element >= 0 else (0, len(self._placed.text))

    def check(self, index: int) -> None:
        """Check that a mark covers characters that its kind may cover."""
        mark = self._marked.marks[index]
        start, end = self._placed.spans[index]
        covered = self._placed.text[start:end]
        possible = 0 <= start <= end <= len(self._placed.text)
        if mark.kind is MarkKind.BREAK:
            possible = possible and not covered.strip()
        elif mark.kind is MarkKind.CONTENT:
            possible = possible and covered in ("", self._marked.text[mark.start : mark.end])
        elif mark.kind is not MarkKind.ELEMENT:
            possible = possible and start == end
        if not possible:
            raise MarkupNotKept(f"The mark {mark.opening[:100]!r} covers {covered[:100]!r} in the translation.")

    def container(self, index: int) -> int:
        """The element that a mark is written in."""
        mark = self._marked.marks[index]
        if mark.kind is MarkKind.ELEMENT:
            return mark.parent
        start, end = self._placed.spans[index]
        element = mark.parent
        while not (self.span(element)[0] <= start and end <= self.span(element)[1]):
            element = self._marked.marks[element].parent
        while (child := self._around(element, start, end)) >= 0:
            element = child
        return element

    def _around(self, element: int, start: int, end: int) -> int:
        """The child of an element that contains these characters, or -1."""
        children = self._elements.get(element, [])
        # The elements before this index begin at or before the position.
        at = bisect_right(children, start, key=lambda child: child[0][0])
        if start == end:
            at = bisect_left(children, start, key=lambda child: child[0][0])
        if at == 0:
            return -1
        (_, child_end), child = children[at - 1]
        is_around = child_end > start if start == end else child_end >= end
        return child if is_around else -1
