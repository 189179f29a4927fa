"""Text with inline markup of any format, as a fragment of HTML that the text pipeline translates, and back.

The pipeline places inline elements by alignment, and verifies that each is there exactly once. So a paragraph becomes
``Please <i id="0">click</i><img id="1"> here``, and the parts of its translation are known by their numbers.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from app.documents.formats.document_file import Unit


@dataclass(frozen=True)
class Group:
    """Text with a format, such as a link or bold words.

    Args:
        source: What the file has for it.
        children: What is in it.
    """

    source: Any
    children: tuple[Node, ...]


@dataclass(frozen=True)
class Point:
    """Something between two characters, such as an image or a footnote's sign.

    Args:
        source: What the file has for it.
        shown: What a reader sees there, if it is a word of the sentence. It is never translated.
        is_break: Whether it is a line break.
    """

    source: Any
    shown: str = ""
    is_break: bool = False


Node = str | Group | Point
"""Text as a reader sees it, or inline markup."""


class Fragment:
    """The content of a paragraph as a unit.

    Markup at its ends, or around all of it, is put aside: text without other markup is translated as plain text.

    Args:
        nodes: The content.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._sources: list[Group | Point] = []
        core, self._complete = _peeled(_joined(nodes))
        self.unit = Unit(core[0]) if _is_text(core) else Unit("".join(map(self._encode, core)), "html")
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
        self._open: list[tuple[Any, list[Node]]] = [(None, [])]
        self._in_word = False

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._open[0][1])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        source = self._sources[int(dict(attrs)["id"] or 0)]
        if tag == "i" and isinstance(source, Group):
            self._open.append((source.source, []))
        else:
            self._open[-1][1].append(source)
            self._in_word = tag == "code"

    def handle_endtag(self, tag: str) -> None:
        if tag == "i":
            source, children = self._open.pop()
            self._open[-1][1].append(Group(source, tuple(children)))
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


def _is_text(nodes: Sequence[Node]) -> bool:
    return len(nodes) == 1 and isinstance(nodes[0], str)


def _is_space(node: Node) -> bool:
    return isinstance(node, str) and node.isspace()


def _joined(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The content without empty texts, and with neighbouring texts in one. The format of a space is dropped."""
    joined: list[Node] = []
    texts: list[str] = []  # behind the last node of ``joined``
    for node in nodes:
        if isinstance(node, Group) and node.children and all(map(_is_space, node.children)):
            texts += map(str, node.children)
        elif isinstance(node, str):
            texts.append(node)
        else:
            joined += filter(None, ["".join(texts)])
            texts = []
            joined.append(Group(node.source, _joined(node.children)) if isinstance(node, Group) else node)
    return (*joined, *filter(None, ["".join(texts)]))


def _is_aside(node: Node) -> bool:
    """Whether nothing of a node belongs to the sentence beside it."""
    if isinstance(node, Group):
        return not shown_text(node.children)
    return isinstance(node, Point) and not node.shown


def _peeled(nodes: tuple[Node, ...]) -> tuple[tuple[Any, ...], Callable[[tuple[Node, ...]], tuple[Node, ...]]]:
    """Content without the markup at its ends or around all of it, and what adds that to a translation."""
    start, end = 0, len(nodes)
    while start < end and _is_aside(nodes[start]):
        start += 1
    while end > start and _is_aside(nodes[end - 1]):
        end -= 1
    before, core, after = nodes[:start], nodes[start:end], nodes[end:]
    if len(core) == 1 and isinstance(core[0], Group):
        around = core[0].source
        inner, complete = _peeled(core[0].children)
        return inner, lambda found: (*before, Group(around, complete(found)), *after)
    return core, lambda found: (*before, *found, *after)
