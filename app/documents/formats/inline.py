"""Text with inline markup of any format, as a fragment of HTML that the text pipeline translates, and back.

The pipeline places inline elements by alignment, and verifies that each is there exactly once. So a paragraph becomes
``Please <i id="0">click</i><img id="1"> here``, and the parts of its translation are known by their numbers.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from typing import Any

from app.documents.formats.document_file import Unit


@dataclass(frozen=True)
class Group:
    """Text with a format, such as a link or bold words.

    Args:
        source: What the file has for it.
        children: What is in it.
        is_formatting: Whether it only changes how its text looks, so that it is dropped around a space.
    """

    source: Any
    children: tuple[Node, ...]
    is_formatting: bool = True


@dataclass(frozen=True)
class Point:
    """Something between two characters, such as an image or a footnote's sign.

    Args:
        source: What the file has for it.
        shown: What a reader sees there, if it is a word of the sentence. It is never translated.
        is_break: Whether it is a line break.
        starts: Identifies the range that begins here, such as a bookmark; empty if none does.
        ends: Identifies the range that ends here.
    """

    source: Any
    shown: str = ""
    is_break: bool = False
    starts: str = ""
    ends: str = ""


@dataclass(frozen=True)
class Range:
    """The source of a group that has a point at each end.

    Args:
        start: The point before it.
        end: The point after it.
    """

    start: Point
    end: Point


@dataclass
class Cell:
    """What is between two tabs of a paragraph; its content is replaced by its translation.

    Args:
        nodes: The content.
    """

    nodes: Sequence[Node]


Node = str | Group | Point
"""Text as a reader sees it, or inline markup."""

Part = Cell | Point | tuple[Group, list["Part"]]
"""A part of a paragraph that tabs divide: a cell, a tab, or a group with tabs in it."""

TAB = "\t"
"""What a point shows that divides a paragraph into cells."""

_FIRST_LETTER = re.compile(r"\W*+\w")
_FIRST_WORD = re.compile(r"\W*+\w++")

MAX_RANGES = 50
"""Ranges in one another that are groups."""


class Fragment:
    """The content of a paragraph as a unit.

    Markup at its ends, or around all of it, is put aside: text without other markup is translated as plain text.

    Args:
        nodes: The content.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._sources: list[Group | Point] = []
        core, self._complete = peeled(nodes)
        self.unit = Unit(shown_text(core)) if _is_text(core) else Unit("".join(map(self._encode, core)), "html")
        """What is to be translated."""

    def read(self, translation: str) -> tuple[Node, ...]:
        """The content that a translation of the unit stands for.

        Args:
            translation: As the pipeline gives it.
        """
        if self.unit.format == "text":
            return self._complete((translation,))
        reader = _Reader(self._sources)
        reader.feed(translation)
        reader.close()
        return self._complete(reader.nodes)

    def _encode(self, node: Node) -> str:
        if isinstance(node, str):
            return html.escape(node, quote=False)
        number = len(self._sources)
        self._sources.append(node)
        if isinstance(node, Group) and shown_text(node.children).strip():
            return f'<i id="{number}">{"".join(map(self._encode, node.children))}</i>'
        if isinstance(node, Point) and node.shown:
            return f'<code id="{number}">{html.escape(node.shown)}</code>'
        return f'<br id="{number}">' if isinstance(node, Point) and node.is_break else f'<img id="{number}">'


class _Reader(HTMLParser):
    """Reads a translated fragment.

    Args:
        sources: The markup by number.
    """

    def __init__(self, sources: Sequence[Group | Point]) -> None:
        super().__init__(convert_charrefs=True)
        self._sources = sources
        self._open: list[tuple[Group | None, list[Node]]] = [(None, [])]
        self._in_word = False

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._open[0][1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = self._sources[int(dict(attrs)["id"] or 0)]
        if tag == "i" and isinstance(source, Group):
            self._open.append((source, []))
        else:
            self._open[-1][1].append(source)
            self._in_word = tag == "code"

    def handle_endtag(self, tag: str) -> None:
        if tag == "i":
            group, children = self._open.pop()
            if group is not None:
                self._open[-1][1].append(replace(group, children=tuple(children)))
        self._in_word = False

    def handle_data(self, data: str) -> None:
        if not self._in_word:
            self._open[-1][1].append(data)


def shown_text(nodes: Iterable[Node]) -> str:
    """The text of some content, as a reader sees it."""
    return "".join(
        node if isinstance(node, str) else shown_text(node.children) if isinstance(node, Group) else node.shown
        for node in nodes
    )


def written(nodes: Iterable[Node], write: Callable[[str], str] = str) -> str:
    """Content as a text file has it, in which the source of a group is what is before and after its content.

    Args:
        nodes: The content.
        write: Writes a text.
    """
    return "".join(
        write(node)
        if isinstance(node, str)
        else f"{node.source[0]}{written(node.children, write)}{node.source[1]}"
        if isinstance(node, Group)
        else str(node.source)
        for node in nodes
    )


def _is_text(nodes: Sequence[Node]) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], str)


def _is_space(node: Node) -> bool:
    return isinstance(node, str) and node.isspace()


def _joined(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The content without empty texts, and with neighbouring texts in one. The format of a space is dropped."""
    joined: list[Node] = []
    texts: list[str] = []  # behind the last node of ``joined``
    for node in nodes:
        if isinstance(node, Group) and node.is_formatting and node.children and all(map(_is_space, node.children)):
            texts += map(str, node.children)
        elif isinstance(node, str):
            texts.append(node)
        else:
            joined += filter(None, ["".join(texts)])
            texts = []
            joined.append(replace(node, children=_joined(node.children)) if isinstance(node, Group) else node)
    return (*joined, *filter(None, ["".join(texts)]))


def _is_aside(node: Node) -> bool:
    """Whether nothing of a node belongs to the sentence beside it."""
    if isinstance(node, Group):
        return not shown_text(node.children)
    return isinstance(node, Point) and not node.shown


Complete = Callable[[tuple[Node, ...]], tuple[Node, ...]]
"""Adds to a translation what was put aside before."""


def peeled(nodes: Iterable[Node]) -> tuple[tuple[Node, ...], Complete]:
    """Content without the markup at its ends or around all of it, and what adds that to a translation.

    Args:
        nodes: The content.
    """
    joined = _joined(nodes)
    if all(isinstance(node, str) for node in joined):
        return joined, tuple
    start, end = 0, len(joined)
    while start < end and _is_aside(joined[start]):
        start += 1
    while end > start and _is_aside(joined[end - 1]):
        end -= 1
    before, core, after = joined[:start], joined[start:end], joined[end:]
    if len(core) == 1 and isinstance(core[0], Group):
        around = core[0]
        inner, complete = peeled(around.children)
        return inner, lambda content: (*before, replace(around, children=complete(content)), *after)
    return core, lambda content: (*before, *content, *after)


def paired(nodes: Iterable[Node]) -> list[Node]:
    """Content in which each range, such as a bookmark, is a group. Of two that overlap, one keeps its points.

    Args:
        nodes: The content.
    """
    content = list(nodes)
    last_ends = {node.ends: index for index, node in enumerate(content) if isinstance(node, Point) and node.ends}
    if not last_ends:
        return content
    open_ranges: list[tuple[Point, list[Node]]] = []  # their start, and what is before it
    paired_nodes: list[Node] = []
    for index, node in enumerate(content):
        if isinstance(node, Point) and last_ends.get(node.starts, -1) > index and len(open_ranges) < MAX_RANGES:
            open_ranges.append((node, paired_nodes))
            paired_nodes = []
        elif isinstance(node, Point) and node.ends and any(start.starts == node.ends for start, _ in open_ranges):
            while open_ranges[-1][0].starts != node.ends:
                paired_nodes = _unpaired(*open_ranges.pop(), paired_nodes)
            start, before = open_ranges.pop()
            before.append(Group(Range(start, node), tuple(paired_nodes), is_formatting=False))
            paired_nodes = before
        else:
            paired_nodes.append(node)
    while open_ranges:
        paired_nodes = _unpaired(*open_ranges.pop(), paired_nodes)
    return paired_nodes


def _unpaired(start: Point, before: list[Node], inside: list[Node]) -> list[Node]:
    before += [start, *inside]
    return before


def divided(nodes: Iterable[Node]) -> list[Part]:
    """The cells of a paragraph, also those in groups.

    Args:
        nodes: Its content.
    """
    parts: list[Part] = []
    cell: list[Node] = []
    for node in nodes:
        if not _has_tab(node):
            cell.append(node)
            continue
        parts.append(Cell(cell))
        cell = []
        if isinstance(node, Group):
            parts.append((node, divided(node.children)))
        elif isinstance(node, Point):
            parts.append(node)
    return [*parts, Cell(cell)]


def cells_of(parts: Iterable[Part]) -> Iterator[Cell]:
    """The cells of a paragraph, in order."""
    for part in parts:
        if isinstance(part, Cell):
            yield part
        elif isinstance(part, tuple):
            yield from cells_of(part[1])


def content_of(parts: Iterable[Part]) -> Iterator[Node]:
    """The content of a paragraph with its cells as they are now, in which ranges are points again."""
    for part in parts:
        if isinstance(part, Cell):
            yield from _without_ranges(part.nodes)
        elif isinstance(part, Point):
            yield part
        else:
            yield from _without_ranges([replace(part[0], children=tuple(content_of(part[1])))])


def without_initial(nodes: Sequence[Node], initial: str) -> tuple[str, tuple[Node, ...]]:
    """The first letter or word of some content, as the source has a letter or word there, and the rest.

    Args:
        nodes: The content.
        initial: That letter or word of the source, and the signs before it.
    """
    if not nodes:
        return "", ()
    first, *rest = nodes
    if isinstance(first, Group):
        text, children = without_initial(first.children, initial)
        return text, (replace(first, children=children), *rest)
    if isinstance(first, Point):
        return "", tuple(nodes)
    match = (_FIRST_WORD if len(re.findall(r"\w", initial)) > 1 else _FIRST_LETTER).match(first)
    return (match[0], (first[match.end() :], *rest)) if match else ("", tuple(nodes))


def _has_tab(node: Node) -> bool:
    if isinstance(node, Group):
        return any(map(_has_tab, node.children))
    return isinstance(node, Point) and node.shown == TAB


def _without_ranges(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if not isinstance(node, Group):
            yield node
        elif isinstance(node.source, Range):
            yield from (node.source.start, *_without_ranges(node.children), node.source.end)
        else:
            yield replace(node, children=tuple(_without_ranges(node.children)))
