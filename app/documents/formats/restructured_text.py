"""reStructuredText: plain text, of which directives, code, tables, comments and targets are kept.

The text pipeline protects inline markup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from app.documents.formats.document_file import Unit
from app.documents.formats.plain_text import Line, PlainText

_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}")
_TABLE = re.compile(r"\+[-=]|={2,} +=")
_MARKER = re.compile(r"\.\. (?:(?:\|[^|]+\| )?(?P<name>[\w:-]+)::|\[[^\]]+\])(?:[ ]+|$)|:(?![ :])[^:]+:(?:[ ]+|$)")
_PROSE = re.compile(
    "attention|caution|danger|error|hint|important|note|tip|warning|admonition|seealso|topic|sidebar|rubric|centered"
    "|epigraph|highlights|compound"
)
_NO_TITLE = re.compile("figure|container|versionadded|versionchanged|deprecated")


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
                indent = len(line.prefix.expandtabs())
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
