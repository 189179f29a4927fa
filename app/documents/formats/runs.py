"""Paragraphs of runs, as in Word and PowerPoint: stretches of text that each have their own formatting.

Programs divide text into runs for reasons that no reader sees. Neighbouring runs of equal formatting are joined; the
formatting that most of a paragraph has needs no markup, the others become inline groups.
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from lxml import etree

from app.documents.formats.inline import (
    TAB,
    Cell,
    Fragment,
    Group,
    Node,
    Point,
    Range,
    cells_of,
    content_of,
    divided,
    shown_text,
    without_initial,
)
from app.documents.formats.office import OfficeFile
from app.documents.formats.xml_parts import COPIES_READ, COPIES_WRITTEN, clean, local_name
from app.serving.detection import has_letters

GAP = re.compile("(\t| {3,})")
"""What lays out a text in columns."""

_SIGNS = 5
"""Characters around a name: brackets, a prefix, quotation marks."""


@dataclass(frozen=True)
class Shell:
    """The formatting of runs.

    Args:
        key: Equal for equal formatting.
        tag: The name of the runs that have it.
        properties: The element that has it, if there is one.
        num_characters: What that takes in the file, about.
    """

    key: Hashable
    tag: str
    properties: etree._Element | None = None
    num_characters: int = 0


@dataclass(frozen=True)
class Holder:
    """An element around runs, such as a link.

    Args:
        element: It.
        inner: What holds the runs: the element itself, or one in it.
        base: The formatting that most of its text has.
    """

    element: etree._Element
    inner: etree._Element
    base: Shell | None = None


@dataclass(frozen=True)
class Piece:
    """What a run holds besides text to translate.

    Args:
        shell: The formatting of the run.
        content: It.
    """

    shell: Shell
    content: str | etree._Element


class Paragraphs(ABC):
    """How a format writes paragraphs.

    Args:
        file: The file that gets the units.
    """

    properties: str
    """Name of the element that has the formatting of a run."""

    ignored: frozenset[str]
    """Names of elements and attributes of formatting that do not change how text looks."""

    not_content: frozenset[str]
    """Names of elements of a paragraph that are not its content."""

    last: str = ""
    """Name of the element that must stay behind the content."""

    def __init__(self, file: OfficeFile) -> None:
        self._file = file
        self._budget = file.budget

    @abstractmethod
    def nodes(self, holder: etree._Element) -> Iterator[Node]:
        """The content of a paragraph, or of an element in one.

        The source of a group is a Shell or a Holder, that of a point a Piece or a list of elements.
        """

    @abstractmethod
    def run(self, aside: etree._Element, shell: Shell, content: str | etree._Element) -> etree._Element:
        """A run with a formatting, and a text or something else in it.

        Args:
            aside: The element that gets it.
            shell: The formatting.
            content: The text, or an element of the same document.
        """

    def text_of(self, shell: Shell, text: str) -> Iterator[Node]:
        """A text of a run with a formatting, which is counted for each part between tabs and gaps."""
        for index, part in enumerate(GAP.split(text)):
            if index % 2:
                yield Point(self.piece_of(shell, part), TAB)
            elif part:
                self._budget.take_formatting(shell.num_characters, COPIES_READ)
                yield Group(shell, (part,))

    def piece_of(self, shell: Shell, content: str | etree._Element) -> Piece:
        """A piece of a run with a formatting, which is counted."""
        self._budget.take_formatting(shell.num_characters, COPIES_READ)
        return Piece(shell, content)

    def copied_properties(self, shell: Shell) -> list[etree._Element]:
        """A formatting for another run.

        Args:
            shell: The formatting.

        Raises:
            DocumentTooComplex: The formatting of the file would be many times as large as before.
        """
        self._budget.take_formatting(shell.num_characters, COPIES_WRITTEN)
        return [] if shell.properties is None else [copy.deepcopy(shell.properties)]

    def add(self, paragraph: etree._Element, initial: etree._Element | None = None) -> None:
        """Add a paragraph as units. Tabs divide it: what is between them are cells.

        Args:
            paragraph: The paragraph.
            initial: The text of the paragraph before it, if that is the beginning of its first word in a frame.
        """
        nodes = _merged(self.nodes(paragraph))
        base = _most_frequent(nodes)
        if base is None or not has_letters(shown_text(nodes)):
            return
        parts = divided(nodes)

        def fill() -> None:
            aside = self._file.aside(paragraph)
            self._fill(aside, paragraph, list(self._elements(aside, list(content_of(parts)), base)))

        for cell in cells_of(parts):
            if has_letters(shown_text(cell.nodes)):
                self._add_cell(cell, base, initial, lambda: self._file.change_later(paragraph, fill))
            initial = None

    def shell_of(self, run: etree._Element) -> Shell:
        """The formatting of a run."""
        properties = next(run.iterchildren(f"{{*}}{self.properties}"), None)
        if properties is None:
            return Shell((), str(run.tag))
        attributes, children = self._attributes(properties), tuple(self._keys(properties))
        key = (attributes, children) if attributes or children else ()
        return Shell(key, str(run.tag), properties, _size_of(properties))

    def _keys(self, holder: etree._Element) -> Iterator[Hashable]:
        """What tells formattings from one another: elements, their attributes and what is in them."""
        for element in holder:
            if local_name(element) not in self.ignored:
                yield str(element.tag), self._attributes(element), element.text or "", tuple(self._keys(element))

    def _attributes(self, element: etree._Element) -> tuple[tuple[str, str], ...]:
        return tuple(sorted(pair for pair in _items(element) if pair[0].rpartition("}")[2] not in self.ignored))

    def _add_cell(
        self, cell: Cell, base: Shell, initial: etree._Element | None, change_paragraph: Callable[[], None]
    ) -> None:
        shell = _most_frequent(cell.nodes) or base
        beginning = "" if initial is None else initial.text or ""
        fragment = Fragment([beginning, *_unwrapped(cell.nodes, shell)])

        def put(translation: str) -> None:
            content = fragment.read(translation)
            if initial is not None:
                initial.text, content = without_initial(content, beginning)
            cell.nodes = [Group(shell, content)]
            change_paragraph()

        self._file.add(fragment.unit, put)

    def _fill(self, aside: etree._Element, holder: etree._Element, elements: Sequence[etree._Element]) -> None:
        for child in list(holder):
            if local_name(child) not in self.not_content:
                aside.append(child)
        end = next((child for child in holder if local_name(child) == self.last), None)
        for element in elements:
            element.tail = None
            if end is None:
                holder.append(element)
            else:
                end.addprevious(element)

    def _elements(self, aside: etree._Element, nodes: Sequence[Node], base: Shell) -> Iterator[etree._Element]:
        """The elements for some content, in which text in no group has the formatting ``base``."""
        for node in nodes:
            if isinstance(node, str):
                if node:
                    yield self.run(aside, base, clean(node))
            elif isinstance(node, Point):
                if isinstance(node.source, Piece):
                    yield self.run(aside, node.source.shell, node.source.content)
                else:
                    yield from node.source
            elif isinstance(node.source, Shell):
                yield from self._elements(aside, node.children, node.source)
            else:
                inside = list(self._elements(aside, node.children, node.source.base or base))
                self._fill(aside, node.source.inner, inside)
                yield node.source.element


def _size_of(properties: etree._Element) -> int:
    """Characters that a formatting takes in the file, about."""
    size = 0
    for element in properties.iter():
        size += len(local_name(element)) + len(element.text or "") + _SIGNS
        size += sum(len(name.rpartition("}")[2]) + len(value) + _SIGNS for name, value in _items(element))
    return size


def _items(element: etree._Element) -> Iterator[tuple[str, str]]:
    """The attributes of an element."""
    return ((str(name), str(value)) for name, value in element.attrib.items())


def _merged(nodes: Iterator[Node]) -> list[Node]:
    """Content in which neighbouring runs of equal formatting are one group."""
    merged: list[Node] = []
    for key, run in groupby(nodes, _key_of_run):
        if key is None:
            merged += (
                replace(node, children=tuple(_merged(iter(node.children)))) if isinstance(node, Group) else node
                for node in run
            )
        else:
            groups = [node for node in run if isinstance(node, Group)]
            merged.append(Group(groups[0].source, tuple(child for group in groups for child in group.children)))
    return merged


def _key_of_run(node: Node) -> Hashable:
    """The formatting of a run; None for other content."""
    return node.source.key if isinstance(node, Group) and isinstance(node.source, Shell) else None


def _without_ranges(nodes: Sequence[Node]) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Group) and isinstance(node.source, Range):
            yield from _without_ranges(node.children)
        else:
            yield node


def _most_frequent(nodes: Sequence[Node]) -> Shell | None:
    """The formatting that most characters outside of links have, or those of a link if there are no others."""
    num_characters: Counter[Hashable] = Counter()
    shells: dict[Hashable, Shell] = {}
    for node in _without_ranges(nodes):
        if isinstance(node, Group) and isinstance(node.source, Shell):
            num_characters[node.source.key] += len(shown_text(node.children).strip())
            shells.setdefault(node.source.key, node.source)
    if num_characters:
        return shells[num_characters.most_common(1)[0][0]]
    inner = (_most_frequent(node.children) for node in _without_ranges(nodes) if isinstance(node, Group))
    return next((shell for shell in inner if shell is not None), None)


def _unwrapped(nodes: Sequence[Node], base: Shell) -> Iterator[Node]:
    """Content in which text of one formatting is in no group, and neither in links that of theirs."""
    for node in nodes:
        if isinstance(node, Group) and isinstance(node.source, Holder):
            inner = _most_frequent(node.children) or base
            holder = Holder(node.source.element, node.source.inner, inner)
            yield replace(node, source=holder, children=tuple(_unwrapped(node.children, inner)))
        elif isinstance(node, Group) and isinstance(node.source, Range):
            yield replace(node, children=tuple(_unwrapped(node.children, base)))
        elif isinstance(node, Group) and node.source.key == base.key:
            yield from node.children
        else:
            yield node
