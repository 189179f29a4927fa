"""Markdown: prose is translated; code, the targets of links, images, HTML, definitions and front matter are kept.

The library markdown-it finds the blocks. What is inside a paragraph is found here, because the library does not say
where in the file an inline element is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from app.documents.formats.document_file import FRONT_MATTER, TextFile
from app.documents.formats.inline import Fragment, Group, Node, Point, shown_text
from app.serving.detection import has_letters

# Everything is bounded, so that odd files take no longer than others.
_DESTINATION = r"\((?:[^()\\]|\\.|\((?:[^()\\]|\\.){0,500}\)){0,2000}\)|\[[^\[\]]{0,1000}\]"
_INLINE = re.compile(
    rf"""
    (?P<escape>\\[!-/:-@\[-`{{-~])
    |(?P<kept>(?P<ticks>(?<!`)`+)(?!`).{{1,2000}}?(?<!`)(?P=ticks)(?!`)
        |<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*>|<[\w.+-]+@[\w.-]+>
        |!\[(?:[^\[\]\\]|\\.){{0,1000}}\](?:{_DESTINATION})?
        |\[\^[^\[\]\s]+\]|\A\[[ xX]\](?=\s))
    |(?P<tag></?[A-Za-z][^<>]{{0,2000}}>|<!--.{{0,2000}}?-->)
    |(?P<hard>(?:(?<!\ )\ {{2,}}+|\\)\n)
    |(?P<opening>\[)
    |(?P<closing>\](?P<destination>{_DESTINATION})?)
    |(?P<mark>\*{{1,3}}|_{{1,3}}|~~)
    """,
    re.VERBOSE | re.DOTALL,
)
_SPECIAL = re.compile(r"[\\`\[\]<]|\*(?=\S)|(?<=\S)\*|(?<!\w)_|_(?!\w)|~(?=~)|&(?=#?\w+;)")
_BLOCK_START = re.compile(r"(?:[-+>]|#{1,6})(?=\s|$)|(?<=\d)[.)](?=\s|$)")
_MAX_SHOWN = 100
_MAX_DEPTH = 50


class _Open(NamedTuple):
    """An inline element that is not closed yet.

    Args:
        sign: What opened it.
        inside: What is in it.
        start: Index of the character behind ``sign``.
    """

    sign: str
    inside: list[Node]
    start: int


class Markdown(TextFile):
    """A Markdown file: CommonMark with tables and front matter.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        front = FRONT_MATTER.match(self.text)
        # Blank lines instead of it keep the numbers of lines.
        body = self.text if front is None else "\n" * front[0].count("\n") + self.text[front.end() :]
        self._lines = re.findall(r"[^\n]*\n|[^\n]+", self.text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._references: dict[str, object] = {}
        environment = {"references": self._references}
        self._found: dict[int, int] = {}  # for each line, how far it has been read: cells of a table share one
        row, before = 0, ""
        for token in MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"]).parse(body, environment):
            if token.map is not None:
                row = token.map[0]
            if token.type == "inline":
                self._add_inline(token, row, is_cell=before in ("th_open", "td_open"))
            before = token.type

    def _add_inline(self, token: Token, first_line: int, is_cell: bool) -> None:
        places = []
        for number, content in enumerate(token.content.split("\n"), start=first_line):
            if number >= len(self._lines):
                return
            stripped = content.strip()
            if is_cell:
                stripped = stripped.replace("|", "\\|")
            column = self._lines[number].find(stripped, self._found.get(number, 0))
            if column < 0:  # the parser has changed it
                return
            self._found[number] = column + len(stripped)
            places.append((self._starts[number] + column, column))
        start = places[0][0]
        last = first_line + len(places) - 1
        end = self._starts[last] + self._found[last]
        prefix = self._lines[first_line + 1][: places[1][1]] if len(places) > 1 else ""
        fragment = Fragment(self._nodes(token.content))

        def put(translation: str) -> None:
            text = _written_block(fragment.read(translation), prefix)
            self.replace(start, end, text.replace("|", "\\|") if is_cell else text)

        if has_letters(shown_text(self._nodes(token.content))):
            self.add(fragment.unit, put)

    def _nodes(self, content: str) -> list[Node]:
        """The inline content of a paragraph."""
        stack = [_Open("", [], 0)]
        done = 0
        for found in _INLINE.finditer(content):
            stack[-1].inside.append(content[done : found.start()].replace("\n", " "))
            done = found.end()
            if found["escape"]:
                stack[-1].inside.append(found[0][1])
            elif found["kept"]:
                shown = found[0].strip("`<>").strip() if found[0][0] in "`<" else ""
                stack[-1].inside.append(Point(found[0], shown if len(shown) <= _MAX_SHOWN else ""))
            elif found["tag"]:
                stack[-1].inside.append(Point(found[0]))
            elif found["hard"]:
                stack[-1].inside.append(Point("  \n", is_break=True))
            elif len(stack) > _MAX_DEPTH:
                stack[-1].inside.append(found[0])
            elif found["opening"]:
                stack.append(_Open("[", [], done))
            elif found["closing"]:
                self._close_link(stack, found)
            else:
                _mark(stack, found)
        stack[-1].inside.append(content[done:].replace("\n", " "))
        _revert(stack, 1)
        return stack[0].inside

    def _close_link(self, stack: list[_Open], found: re.Match[str]) -> None:
        depth = _index_of(stack, "[")
        if not depth:
            stack[-1].inside.append(found[0])
            return
        _revert(stack, depth + 1)
        _, inside, start = stack.pop()
        label = found.string[start : found.start()]
        destination = found["destination"] or ""
        if destination in ("", "[]") and self._is_defined(label):
            destination = f"[{label}]"  # the text will be another, and no longer name the definition
        if destination.startswith("(") or (destination and self._is_defined(destination[1:-1])):
            stack[-1].inside.append(Group(("[", "]" + destination), tuple(inside)))
        else:
            stack[-1].inside.extend(["[", *inside, found[0]])

    def _is_defined(self, label: str) -> bool:
        return normalizeReference(label) in self._references


def _index_of(stack: Sequence[_Open], opening: str) -> int:
    """The innermost place where something is open, or 0."""
    return next((index for index in range(len(stack) - 1, 0, -1) if stack[index].sign == opening), 0)


def _revert(stack: list[_Open], depth: int) -> None:
    """Make text of what was opened and is not closed."""
    for one in stack[depth:]:
        stack[depth - 1].inside.extend([one.sign, *one.inside])
    del stack[depth:]


def _mark(stack: list[_Open], found: re.Match[str]) -> None:
    """Open or close emphasis."""
    mark, text = found[0], found.string
    before, behind = text[max(0, found.start() - 1) : found.start()], text[found.end() : found.end() + 1]
    depth = _index_of(stack, mark)
    is_inside_word = mark[0] == "_" and before.isalnum() and behind.isalnum()
    if depth and before.strip() and not is_inside_word:
        _revert(stack, depth + 1)
        inside = stack.pop().inside
        stack[-1].inside.append(Group((mark, mark), tuple(inside)))
    elif behind.strip() and not is_inside_word:
        stack.append(_Open(mark, [], found.end()))
    else:
        stack[-1].inside.append(mark)


def _written_block(nodes: Sequence[Node], prefix: str) -> str:
    """A paragraph; ``prefix`` stands before its lines but the first."""
    text = _written(nodes)
    start = _BLOCK_START.search(text[:5])
    if start and not text[: start.start()].strip("0123456789"):
        text = f"{text[: start.start()]}\\{text[start.start() :]}"  # it would begin a list, a quotation or a heading
    return re.sub(r"\n *", lambda _: "\n" + prefix, text)


def _written(nodes: Sequence[Node]) -> str:
    parts = []
    for node in nodes:
        if isinstance(node, str):
            parts.append(_SPECIAL.sub(r"\\\g<0>", node))
        elif isinstance(node, Group):
            parts += [node.source[0], _written(node.children), node.source[1]]
        else:
            parts.append(node.source)
    return "".join(parts)
