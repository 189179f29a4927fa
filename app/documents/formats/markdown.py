"""Markdown: prose is translated; code, targets of links and images, definitions and the signs of dialects are kept.

The library markdown-it finds the blocks (:mod:`app.documents.formats.markdown_blocks`), and
:mod:`app.documents.formats.markdown_inline` reads what is inside a paragraph.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from markdown_it.common.utils import normalizeReference
from markdown_it.token import Token

from app.documents.formats.document_file import TextFile, Unit
from app.documents.formats.front_matter import add_front_matter, front_matter_marks
from app.documents.formats.inline import Fragment, Group, Node
from app.documents.formats.languages import LanguageMark
from app.documents.formats.markdown_blocks import dialect_parser
from app.documents.formats.markdown_inline import InlineContent, caption_source
from app.documents.formats.web_page import html_stretches
from app.serving.detection import has_letters

_CONTAINER_LINE = re.compile(r"^([ \t]*:{3}[^\n]*\n?)", re.MULTILINE)
_TEMPLATE = re.compile(r"\{\{(?:(?!\}\})[^\n]){0,500}+\}\}|\{%(?:(?!%\})[^\n]){0,500}+%\}")
_BLOCK_START = re.compile(r"(?:[-+>]|#{1,6})(?=\s|$)|(?<=\d)[.)](?=\s|$)")


class Markdown(TextFile):
    """A Markdown file: CommonMark with tables, front matter and the blocks and signs of dialects.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        front_end = add_front_matter(self)
        # Blank lines instead of it keep the numbers of lines.
        body = "\n" * self.text.count("\n", 0, front_end) + self.text[front_end:]
        self._lines = re.findall(r"[^\n]*\n|[^\n]+", self.text)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._references: dict[str, dict[str, Any]] = {}
        environment = {"references": self._references}
        self._found: dict[int, int] = {}  # for each line, how far it has been read: cells of a table share one
        row, before = 0, ""
        for token in dialect_parser().parse(body, environment):
            if token.map is not None:
                row = token.map[0]
            if token.type in ("inline", "title"):
                self._add_inline(token, row, is_cell=before in ("th_open", "td_open"))
            elif token.type == "html_block" and token.map:
                self._add_html(token, *token.map)
            before = token.type
        for reference in self._references.values():
            self._add_title(reference["title"], *reference["map"])

    def language_marks(self) -> Iterator[LanguageMark]:
        """The language in the front matter."""
        return front_matter_marks(self.text)

    def _add_title(self, title: str, first: int, last: int) -> None:
        """Add the title of a link that is defined in some lines; one with references or escapes in it stays."""
        start, end = self._starts[first], self._starts[min(last, len(self._lines))]
        position = self.text.rfind(title, start, end)
        if title and position > start and self.text[position - 1] in "\"'(":
            put = partial(self.replace, position, position + len(title))
            self.add(Unit(title), lambda translation: put(caption_source(translation)))

    def _add_html(self, token: Token, first: int, last: int) -> None:
        """The text of a block of HTML. One in a quotation is kept, and so are comments and expressions of JSX."""
        start = self._starts[first]
        source = self.text[start : self._starts[min(last, len(self._lines))]]
        if token.content.split() != source.split() or token.content.startswith("<!--"):
            return
        for part in _CONTAINER_LINE.split(source):
            for begin, end in html_stretches(part):
                if "{" not in _TEMPLATE.sub("", part[begin:end]) and not _CONTAINER_LINE.match(part):
                    self.add_stretch(start + begin, start + end, "html")
            start += len(part)

    def _add_inline(self, token: Token, first_line: int, is_cell: bool) -> None:
        places = []
        for number, line in enumerate(token.content.split("\n"), start=first_line):
            if number >= len(self._lines):
                return
            stripped = line.strip()
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
        content = InlineContent(re.sub(r"\n[ \t]+", "\n", token.content), self._is_defined)
        fragment = Fragment(content.nodes)
        starts_block = _without_block_start(token.content) != token.content

        def put(translation: str) -> None:
            text = content.write(fragment.read(translation))
            if not starts_block:
                text = _without_block_start(text)
            if token.type == "title":
                text = text.replace('"', "'")
            text = re.sub(r"\n *", lambda _: self.line_end + prefix, text)
            self.withdraw(start, end)  # captions
            self.replace(start, end, text.replace("|", "\\|") if is_cell else text)

        self._add_captions(content, start, end)
        if _has_words(content.nodes):
            self.add(fragment.unit, put)

    def _add_captions(self, content: InlineContent, start: int, end: int) -> None:
        """Add the captions of a paragraph. They are written by themselves, and once more with the paragraph."""
        for number, caption in enumerate(content.captions):
            position = self.text.find(caption, start, end)
            start = position + len(caption) if position >= 0 else start
            self.add(Unit(caption), partial(self._put_caption, content, number, position, start))

    def _put_caption(self, content: InlineContent, number: int, start: int, end: int, translation: str) -> None:
        content.captions[number] = translation
        if start >= 0:
            self.replace(start, end, caption_source(translation))

    def _is_defined(self, label: str) -> bool:
        return normalizeReference(label) in self._references


def _without_block_start(text: str) -> str:
    """A paragraph that begins no list, quotation or heading."""
    start = _BLOCK_START.search(text[:5])
    if start and not text[: start.start()].strip("0123456789"):
        return f"{text[: start.start()]}\\{text[start.start() :]}"
    return text


def _has_words(nodes: Iterable[Node]) -> bool:
    """Whether content has text with letters; names in formulas and code are none."""
    return any(
        has_letters(node) if isinstance(node, str) else isinstance(node, Group) and _has_words(node.children)
        for node in nodes
    )
