"""reStructuredText: plain text, of which directives, code, tables, comments and targets are kept.

The text pipeline protects inline markup, except for links and roles with a text of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from app.documents.formats.document_file import Unit
from app.documents.formats.inline import Fragment, Group, Node, written
from app.documents.formats.markdown_emphasis import tidied
from app.documents.formats.plain_text import Line, PlainText

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_TABLE = re.compile(r"\+[-=]|={2,} +=")
_MARKER = re.compile(r"\.\. (?:(?:\|[^|]+\| )?(?P<name>[\w:-]+)::|\[[^\]]+\])(?:[ ]+|$)|:(?![ :])[^:]+:(?:[ ]+|$)")
_PROSE = re.compile(
    "attention|caution|danger|error|hint|important|note|tip|warning|admonition|seealso|topic|sidebar|rubric|centered"
    "|epigraph|highlights|compound"
)
_NO_TITLE = re.compile("figure|container|versionadded|versionchanged|deprecated|only|tabs?|tab-set|grid|cssclass")
_READ_OPTION = re.compile(r":(?:alt|caption|description|keywords):[ ]+(?=\S)")
"""Options that readers see; the last two are those of the directive ``meta``."""

_OBJECT = re.compile(
    r"(?:(?:py|c|cpp|js|rst|std):)?(?:function|method|classmethod|staticmethod|property|class|exception|attribute|data"
    r"|module|decorator|decoratormethod|member|macro|struct|enum|enumerator|type|var|namespace|directive|role|directive:option"
    r"|auto(?!summary)\w+|option|confval|envvar|program|describe|object|event|setting|(?:django-admin|templatetag|templatefilter))"
)
"""Directives that describe what their arguments name; the bodies are prose."""
_MAX_LINES = 200
_LINK = re.compile(
    r"(?P<start>(?<![\w`:])(?::[\w:+.-]{1,60}:)?`)(?P<text>[^`<>]{0,300}[^`<>\s])(?P<end>\s{1,3}<[^`<>]{1,1000}>`_{0,2})"
)


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
            signature: int | None = None  # the indentation of a directive whose argument goes on
            is_session = False  # of an interpreter; its output has no sign
            read_option: int | None = None  # the indentation of an option that readers see, which goes on
            is_table = any(_TABLE.match(line.text) for line in lines)
            for line in lines:
                prefix = line.prefix.expandtabs()
                indent = len(prefix) - len(prefix.lstrip())
                if kept is not None and indent <= kept:
                    kept = None
                is_session = is_session or ">>>" in line.prefix
                is_signature = signature is not None and indent > signature
                option = _READ_OPTION.match(line.text) if has_options and not is_signature and not is_table else None
                if option:
                    yield from filter(None, [prose])
                    sign = line.marker + option[0]
                    prose, read_option = [replace(line, marker=sign, text=line.text[option.end() :])], indent
                    continue
                if read_option is not None and indent > read_option:
                    prose.append(line)
                    continue
                read_option = None
                if kept is not None or is_table or is_session or is_signature:
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
                elif name and _OBJECT.fullmatch(name):
                    signature, rest = indent, ""
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

    def _add_paragraph(self, lines: Sequence[Line], margin: int) -> None:
        """Line ends separate nothing here but items of lists, line blocks, and terms and their definitions."""
        first = 0
        for index, line in enumerate([*lines[1:], None], start=1):
            before = lines[index - 1]
            if line and index - first < _MAX_LINES and not line.marker and "|" not in line.prefix:
                is_indented = before.marker and len(line.prefix.expandtabs()) > len(before.prefix.expandtabs())
                if is_indented if before.marker else line.prefix == before.prefix:
                    continue
            if index - first > 1:
                self._add_wrapped(lines[first:index])
            else:
                unit, source = self.content(before.text)
                self.add(unit, partial(self._put_line, before, source))
            first = index

    def _put_line(self, line: Line, source: Callable[[str], str], translation: str) -> None:
        self.replace(line.end - len(line.text), line.end, source(translation))

    def content(self, text: str) -> tuple[Unit, Callable[[str], str]]:
        """A text as a unit, in which the texts of links and roles are inline elements.

        Args:
            text: The text, without line ends.
        """
        nodes: list[Node] = []
        done = 0
        for link in _LINK.finditer(text):
            nodes += [
                text[done : link.start()],
                Group((link["start"], link["end"]), (link["text"],), is_formatting=False),
            ]
            done = link.end()
        if not nodes:
            return super().content(text)
        fragment = Fragment([*nodes, text[done:]])
        return fragment.unit, lambda translation: written(tidied(fragment.read(translation)))

    def _add_title(self, lines: list[Line]) -> bool:
        """Add a title; its rules become as long as its translation."""
        rules = [line for line in lines[:3] if _RULE.fullmatch(line.text)]
        if not rules or len(lines) != len(rules) + 1:
            return False
        (title,) = (line for line in lines if line not in rules)
        unit, source = self.content(title.text)

        def put(translation: str) -> None:
            text = source(translation)
            self.replace(title.end - len(title.text), title.end, text)
            for rule in rules if len(rules[0].text) >= len(title.text) else ():
                self.replace(rule.end, rule.end, rule.text[0] * (len(text) - len(rule.text)))

        self.add(unit, put)
        return True
