"""Plain text: each paragraph is a unit. Text that is wrapped at a fixed width is one text, and wrapped again."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from app.documents.formats.document_file import TextFile, Unit

_LINE = re.compile(
    r"^(?P<prefix>[^\S\n]*+(?:>[ \t]?|\|[ \t])*+[ \t]*+)"
    r"(?P<marker>(?:[-*+•‣▪◦–—]|\d{1,3}[.)]|[a-zA-Z]\))[ \t]++(?=\S))?(?P<text>[^\n]*+)",
    re.MULTILINE,
)
_ENDS = re.compile(r"[.!?:;…][\"'”“’»«)\]]*$")
_UNFINISHED = re.compile(r"[\w,;–—-]$")
_HYPHENATED = re.compile("[^\\W\\d_][-\u00ad\u2010]$")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]++-[^\W\d_]++")
_SUSPENDED = re.compile(r"(?:und|oder|bzw|sowie|bis|and|or|to)\b")
_COLUMNS = re.compile(r"[-=_*~#+]{3}|\.{4}|(?:\. ){3}|\t|   |[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Rules, dot leaders, columns and marks of direction: such a line is no part of a wrapped text."""
_DIRECTIONS = "\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_MAX_LINES = 20
"""Lines of a unit, except those of wrapped text: what is translated at once has to have an end."""
_MAX_WRAPPED = 200
_FEW_LINES = 5
_NARROWEST, _WIDEST = 25, 200
"""Widths at which text is wrapped, in characters."""


@dataclass(frozen=True)
class Line:
    """A line of a file that is not blank.

    Args:
        start: Index of its first character.
        prefix: What stands before its text: spaces and signs of a quotation.
        marker: The sign of a list.
        text: The rest, without whitespace at its end.
    """

    start: int
    prefix: str
    marker: str
    text: str

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.start + len(self.prefix) + len(self.marker) + len(self.text)

    @property
    def width(self) -> int:
        """Its number of characters."""
        return self.end - self.start


class PlainText(TextFile):
    """A text file.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        paragraphs = list(self.paragraphs())
        margin = _margin(paragraphs)
        for lines in paragraphs:
            self._add_paragraph(lines, margin)

    def paragraphs(self) -> Iterator[list[Line]]:
        """The lines of each paragraph; blank lines separate paragraphs."""
        lines: list[Line] = []
        for match in _LINE.finditer(self.text):
            if match["text"].strip():
                lines.append(Line(match.start(), match["prefix"], match["marker"] or "", match["text"].rstrip()))
            elif lines:
                yield lines
                lines = []
        if lines:
            yield lines

    @cached_property
    def _compounds(self) -> frozenset[str]:
        return compounds_of(self.text)

    def _add_paragraph(self, lines: Sequence[Line], margin: int) -> None:
        alone: list[Line] = []
        for group in _wrapped_groups(lines, margin):
            if len(group) == 1 and len(alone) < _MAX_LINES:
                alone += group
                continue
            self._add_lines(alone)
            alone = list(group) if len(group) == 1 else []
            if not alone:
                self._add_wrapped(group)
        self._add_lines(alone)

    def _add_lines(self, lines: Sequence[Line]) -> None:
        if any(line.marker[:1] in (".", ":") or _DIRECTION.search(line.text) for line in lines):
            for line in lines:  # without their signs and the marks at their ends, which are no language
                text = line.text.strip(_DIRECTIONS)
                start = line.end - len(line.text.lstrip(_DIRECTIONS))
                self.add_stretch(start, start + len(text))
        elif lines:
            self.add_stretch(lines[0].start, lines[-1].end)

    def content(self, text: str) -> tuple[Unit, Callable[[str], str]]:
        """A text of one paragraph as a unit, and what makes text of its translation.

        Args:
            text: The text, without line ends.
        """
        return Unit(text), str

    def _add_wrapped(self, lines: Sequence[Line]) -> None:
        first, second = lines[0], lines[1]
        start = first.start + len(first.prefix) + len(first.marker)
        column = start - first.start
        width = max(line.width for line in lines)
        unit, written = self.content(joined_lines([line.text for line in lines], self._compounds))

        def put(translation: str) -> None:
            filled = textwrap.wrap(
                " " * column + written(translation),
                width,
                subsequent_indent=second.prefix,
                break_long_words=False,
                break_on_hyphens=False,
                replace_whitespace=False,
                expand_tabs=False,
            )
            self.replace(start, lines[-1].end, self.line_end.join(filled)[column:])

        self.add(unit, put)


def _margin(paragraphs: Sequence[Sequence[Line]]) -> int:
    """The width at which a file is wrapped, or 0."""
    return max((max(line.width for line in lines) for lines in paragraphs if _is_wrapped(lines)), default=0)


def _is_wrapped(lines: Sequence[Line]) -> bool:
    """Whether half of the lines end where the next word was too long, and a sentence clearly runs over such an end."""
    width = max(line.width for line in lines)
    if not _NARROWEST <= width <= _WIDEST or (
        len(lines) < _FEW_LINES and lines[0].text[0].islower() and not lines[0].marker  # as in a list of words
    ):
        return False
    ends = [
        (one, _is_full(one, following, width), following) for one, following in pairwise(lines) if not following.marker
    ]
    return 2 * sum(is_full for _, is_full, _ in ends) >= len(ends) and any(
        is_full and (_HYPHENATED.search(one.text) or (one.text[-1].isalnum() and following.text[0].islower()))
        for one, is_full, following in ends
    )


def _is_full(line: Line, following: Line, width: int) -> bool:
    """Whether the first word of the next line has no room in a line."""
    return line.width + 1 + len(following.text.split(" ", 1)[0]) > width


def _wrapped_groups(lines: Sequence[Line], margin: int) -> Iterator[Sequence[Line]]:
    """The lines of a paragraph, those that are one text together."""
    width = max(line.width for line in lines)
    is_wrapped = _is_wrapped(lines)
    if not is_wrapped:
        width = margin if width <= margin else 0
    first = 0
    for index, (one, following) in enumerate(pairwise(lines), start=1):
        is_unfinished = _UNFINISHED.search(one.text) and following.text[0].islower()
        runs_on = is_wrapped and (is_unfinished or _HYPHENATED.search(one.text))
        is_joined = runs_on or (width and _is_full(one, following, width))
        is_long = index - first >= _MAX_WRAPPED or (index - first >= _MAX_LINES and _ENDS.search(one.text))
        has_columns = width and (_COLUMNS.search(one.text) or _COLUMNS.search(following.text))
        # The first line may have another indentation.
        is_same_block = one.prefix == following.prefix or (
            index - first == 1 and one.prefix.split() == following.prefix.split()
        )
        if not is_joined or is_long or following.marker or has_columns or not is_same_block:
            yield lines[first:index]
            first = index
    yield lines[first:]


def compounds_of(text: str) -> frozenset[str]:
    """Words of a text with a hyphen within a line, in small letters.

    Args:
        text: The text.
    """
    return frozenset(_COMPOUND.findall(text.lower()))


def joined_lines(lines: Sequence[str], compounds: frozenset[str]) -> str:
    """The text of some lines as one; a word that is divided at a line end is put together.

    Args:
        lines: The lines.
        compounds: Words with a hyphen that the file has elsewhere, in small letters.
    """
    text = lines[0]
    for line in lines[1:]:
        if not (_HYPHENATED.search(text[-2:]) and line[0].isalpha()):
            text += f" {line}"
        elif not line[0].islower():
            text += line
        elif _SUSPENDED.match(line):
            text += f" {line}"
        else:
            first, second = re.split(r"[\W\d_]", text[-50:-1])[-1], re.split(r"[\W\d_]", line[:50])[0]
            is_compound = f"{first}-{second}".lower() in compounds
            text = (text if is_compound else text[:-1]) + line
    return text
