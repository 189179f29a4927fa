"""Which marks of a translation are in which element."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from model.errors import MarkupNotKept
from model.text.markup.marked_text import MarkedText, MarkKind, PlacedText
from model.text.symbols import Span


def contents(marked: MarkedText, placed: PlacedText) -> dict[int, list[int]]:
    """The marks directly in each element, in the order in which they are written.

    Elements stay in the element in which they are in the source. All other marks belong to the innermost element around
    their position. At the edge of an element they are inside if they are so in the source.

    Args:
        marked: A text.
        placed: A translation.

    Returns:
        Indices of marks by the index of their element, or -1 for those in none.

    Raises:
        MarkupNotKept: A mark is missing, outside of the text or of its element, or two overlap.
    """
    if len(placed.spans) != len(marked.marks):
        raise MarkupNotKept(f"The translation has {len(placed.spans)} marks and its source {len(marked.marks)}.")
    tree = _Tree(marked, placed)
    inside: dict[int, list[int]] = {}
    for mark, _ in enumerate(marked.marks):
        tree.check(mark)
        inside.setdefault(tree.container(mark), []).append(mark)
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
        """Check that a mark covers what its kind may cover."""
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
        """The element directly in another one that has these characters inside, or -1."""
        children = self._elements.get(element, [])
        # Before it are the elements that begin at or before the position.
        at = bisect_right(children, start, key=lambda child: child[0][0])
        if start == end:
            at = bisect_left(children, start, key=lambda child: child[0][0])
        if at == 0:
            return -1
        (_, child_end), child = children[at - 1]
        holds = child_end > start if start == end else child_end >= end
        return child if holds else -1
