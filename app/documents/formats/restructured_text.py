"""reStructuredText: plain text, of which directives, code, tables, comments and targets are kept.

The text pipeline protects inline markup, apart from the labels of links.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from app.documents.formats.document_file import Unit
from app.documents.formats.inline import Fragment, Group, Node, Point, written
from app.documents.formats.plain_text import Line, PlainText

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_TABLE = re.compile(r"\+[-=]|={2,} +=")
_MARKER = re.compile(r"\.\. (?:(?:\|[^|]+\| )?(?P<name>[\w:-]+)::|\[[^\]]+\])(?:[ ]+|$)|:(?![ :])[^:]+:(?:[ ]+|$)")
_PROSE = re.compile(
    "attention|caution|danger|error|hint|important|note|tip|warning|admonition|seealso|topic|sidebar|rubric|centered"
    "|epigraph|highlights|compound"
)
_NO_TITLE = re.compile("figure|container|versionadded|versionchanged|deprecated")
_LINK = re.compile(
    r"(?<!`)(?P<before>(?::[\w:.+-]{1,50}:)?`)(?P<label>[^`\n]{1,500}?)(?P<after>[ ]<[^`<>\n]{1,1000}+>`_{0,2})"
    r"|\n"
)
"""A link or role with a label of its own, or the end of a line."""


class RestructuredText(PlainText):
    """A file of reStructuredText.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def paragraphs(self) -> Iterator[list[Line]]:
        """The lines of each paragraph that is prose; titles are added here, with their rules."""
        kept: int | None = None  # the indentation of a block whose body is kept
        for lines in super().paragraphs():
            prose: list[Line] = []
            if self._add_title(lines):
                kept = None
                continue
            has_options = False  # the line before is the first one of a directive, or an option of it
            is_table = any(_TABLE.match(line.text) for line in lines)
            for line in lines:
                prefix = line.prefix.expandtabs()
                indent = len(prefix) - len(prefix.lstrip())
                if kept is not None and indent <= kept:
                    kept = None
                if kept is not None or is_table or ">>>" in line.prefix:
                    continue
                marker = _MARKER.match(line.text)
                name = marker["name"] if marker else None
                rest = line.text[marker.end() :] if marker else line.text
                is_option = has_options and line.text.startswith(":")
                has_options = bool(name) or is_option
                if is_option or (name and _NO_TITLE.fullmatch(name)):
                    rest = ""
                elif name and _PROSE.fullmatch(name):
                    pass
                elif name or (line.text.startswith("..") and not marker and not line.text.startswith("...")):
                    kept, rest = indent, ""
                if rest.endswith("::"):
                    kept, rest = indent, rest[:-2].rstrip()
                if not rest:
                    yield from filter(None, [prose])
                    prose = []
                else:
                    sign = line.text[: marker.end()] if marker else ""
                    prose.append(replace(line, marker=line.marker + sign, text=rest))
            yield from filter(None, [prose])

    def add(self, unit: Unit, put: Callable[[str], None]) -> None:
        """Add a unit; labels of links are inline elements in it."""
        if "`" in unit.text and any(match["label"] for match in _LINK.finditer(unit.text)):
            fragment = Fragment(_nodes(unit.text))
            super().add(fragment.unit, lambda translation: put(written(fragment.read(translation))))
        else:
            super().add(unit, put)

    def _add_title(self, lines: list[Line]) -> bool:
        """Add a title; its rules become as long as its translation."""
        rules = [line for line in lines[:3] if _RULE.fullmatch(line.text)]
        if not rules or len(lines) != len(rules) + 1:
            return False
        (title,) = (line for line in lines if line not in rules)

        def put(translation: str) -> None:
            self.replace(title.end - len(title.text), title.end, translation)
            for rule in rules if len(rules[0].text) >= len(title.text) else ():
                self.replace(rule.end, rule.end, rule.text[0] * (len(translation) - len(rule.text)))

        self.add(Unit(title.text), put)
        return True


def _nodes(text: str) -> Iterator[Node]:
    """A text with its links as inline elements."""
    position = 0
    for match in _LINK.finditer(text):
        yield text[position : match.start()]
        is_link = match["label"] is not None
        yield Group((match["before"], match["after"]), (match["label"],)) if is_link else Point("\n", is_break=True)
        position = match.end()
    yield text[position:]
