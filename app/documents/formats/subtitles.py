"""Subtitles, SubRip and WebVTT: what is between the time codes is translated, everything else is kept.

A sentence that runs over several cues is one unit. (Libraries for subtitles write the file again, without its comments,
settings and numbers.)
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, takewhile, zip_longest

from app.documents.formats.cue_division import CUT, divide, wrap
from app.documents.formats.cue_parts import TAG, CuePart, Line, part_of, parts_of
from app.documents.formats.document_file import TextFile, unescaped
from app.documents.formats.inline import Fragment, Group, Node, Point, shown_text, written
from app.documents.formats.languages import LanguageMark, language_mark
from app.errors import DocumentRefused
from app.serving.detection import has_letters

_TIMES = re.compile(r"^[ \t]*\d[\d:.,]{3,14}[ \t]*-->[ \t]*\d[^\n]*(?:\n|\Z)", re.MULTILINE)
_HEADER = re.compile(r"\ufeff?WEBVTT[^\n]*+\n(?:(?!Language:)[^\r\n]++\r?\n)*+Language:[ \t]*+(?P<language>[\w-]++)")
_LINE = re.compile(r"(?:[^\\\n]|\\(?!N))++|\\N")
"""A line of a cue. ``\\N`` breaks lines in ASS, and in files that were made of it."""

_MAX_PARTS = 6
_MAX_DEPTH = 50
_FEW_REPETITIONS = 3
_ROLLING_SHARE = 0.2
"""Captions roll if at least this share of the cues, and three, begin with the last line of the cue before."""


class SubRip(TextFile):
    """Subtitles in a .srt file.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It holds no subtitles.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        cues = list(self._cues())
        if self.text.strip() and not _TIMES.search(self.text):
            raise DocumentRefused("The file holds no subtitles: no line has the times of one (-->).")
        parts = self._rolling_parts(cues) if _are_rolling(cues) else self._parts(cues)
        for sentence in _sentences(parts):
            self._add_sentence(sentence)

    def shown(self, text: str) -> str:
        """The characters that some source stands for."""
        return text

    def source(self, text: str) -> str:
        """What stands for some characters."""
        return text

    def payload(self, lines: list[str], is_last: bool) -> list[str]:
        """The lines that a cue shows, of those between its times and the next ones.

        Args:
            lines: These lines.
            is_last: Whether no times follow.
        """
        end_lines = lines[-1:] if self._has_numbers else []
        lines = _without_blank_end(lines)
        if not is_last and lines and lines[-1].strip().isdecimal():
            is_alone = len(lines) == 1 or not lines[-2].strip()
            if is_alone or end_lines == lines[-1:]:  # directly before the next times
                lines.pop()  # the number of the next cue
        return _without_blank_end(lines)

    def _cues(self) -> Iterator[list[Line]]:
        """The lines of each cue that shows something."""
        matches = list(_TIMES.finditer(self.text))
        before = self.text[: matches[0].start()] if matches else ""
        self._has_numbers = before.rstrip("\r\n").rpartition("\n")[2].strip().isdecimal()
        for times, following in zip_longest(matches, matches[1:]):
            between = self.text[times.end() : following.start() if following else len(self.text)]
            lines = list(_lines(self.payload(between.splitlines(keepends=True), following is None), times.end()))
            if lines:
                yield lines

    def _parts(self, cues: Sequence[Sequence[Line]]) -> Iterator[CuePart]:
        for lines in cues:
            yield from parts_of(lines, self._nodes)

    def _rolling_parts(self, cues: Sequence[Sequence[Line]]) -> Iterator[CuePart]:
        """Each line of captions that roll; those that the cue before shows, too, get its translation."""
        shown_before: dict[str, CuePart] = {}
        for lines in cues:
            shown: dict[str, CuePart] = {}
            for line in lines:
                part = shown_before.get(line.bare)
                if part is None:
                    part = part_of([line], self._nodes)
                    yield part
                else:
                    part.echoes.append(line)
                shown[line.bare] = part
            shown_before = shown

    def _add_sentence(self, parts: Sequence[CuePart]) -> None:
        nodes: list[Node] = []
        for part in parts:
            nodes += [" ", CUT] if nodes else []
            nodes += part.nodes
        if has_letters(shown_text(nodes)):
            fragment = Fragment(nodes)
            self.add(fragment.unit, partial(self._put, fragment, parts))

    def _put(self, fragment: Fragment, parts: Sequence[CuePart], translation: str) -> None:
        contents = divide(fragment.read(translation), [max(len(part.said), 1) for part in parts])
        for part, content in zip(parts, contents, strict=True):
            lines = wrap(part.complete(tuple(content)), len(part.lines), max(len(line.text) for line in part.lines))
            line_end = "\\N" if "\\N" in self.text[part.start : part.end] else self.line_end
            self.replace(part.start, part.end, line_end.join(written(lines, self.source).split("\n")))
            for line in part.echoes:
                self.replace(line.start, line.start + len(line.text), self.source(shown_text(content).strip()))

    def _nodes(self, text: str) -> list[Node]:
        """The text of a cue with its tags; those without a partner are points."""
        tags = [(tag, *_name_of(tag)) for tag in TAG.finditer(text)]
        last_ends = {name: tag.start() for tag, name, is_end in tags if is_end}
        open_tags: list[tuple[re.Match[str], str, list[Node]]] = []
        nodes: list[Node] = []
        done = 0
        for tag, name, is_end in tags:
            nodes.append(self.shown(text[done : tag.start()]))
            done = tag.end()
            is_opening = name and not is_end and last_ends.get(name, -1) >= done
            if is_opening and len(open_tags) < _MAX_DEPTH:
                open_tags.append((tag, name, nodes))
                nodes = []
            elif is_end and open_tags and open_tags[-1][1] == name:
                opening, _, around = open_tags.pop()
                around.append(Group((opening[0], tag[0]), tuple(nodes)))
                nodes = around
            else:
                nodes.append(Point(tag[0]))
        nodes.append(self.shown(text[done:]))
        complete: list[Node] = []
        for opening, _, around in open_tags:
            complete += [*around, Point(opening[0])]
        return [*complete, *nodes]


class WebVtt(SubRip):
    """Subtitles in a .vtt file, in which ``&``, ``<`` and ``>`` are written as references.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no WebVTT.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        if not self.text.startswith(("WEBVTT", "\ufeffWEBVTT")):
            raise DocumentRefused("The file is no WebVTT: it does not begin with WEBVTT.")

    def language_marks(self) -> Iterator[LanguageMark]:
        """The language in the header, as video sites write it."""
        header = _HEADER.match(self.text)
        mark = language_mark(self.text, *header.span("language")) if header else None
        if mark:
            yield mark

    def payload(self, lines: list[str], is_last: bool) -> list[str]:
        """The lines that a cue shows: those before the first empty one. Automatic captions have lines of spaces."""
        return list(takewhile(lambda line: line.strip("\r\n"), lines))

    def shown(self, text: str) -> str:
        """The characters that some source stands for."""
        return unescaped(text)

    def source(self, text: str) -> str:
        """What stands for some characters."""
        return html.escape(text, quote=False)


def _without_blank_end(lines: list[str]) -> list[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def _lines(payload: Sequence[str], start: int) -> Iterator[Line]:
    """The lines of a cue that are not blank."""
    is_new = False
    for source in payload:
        if not source.strip():
            is_new = True
        for match in _LINE.finditer(source):
            text = match[0].strip()
            if text and text != "\\N":
                yield Line(start + match.start() + match[0].index(text), text, is_new)
                is_new = False
        start += len(source)


def _name_of(tag: re.Match[str]) -> tuple[str, bool]:
    """The name of a tag, or nothing, and whether it is an end tag."""
    if tag["style"]:
        return f"{{{tag['style']}", tag["is_on"] == "0"
    if tag["curly"]:
        return f"{{{tag['curly']}}}", bool(tag["curly_end"])
    return tag["name"] or "", bool(tag["end"])


def _are_rolling(cues: Sequence[Sequence[Line]]) -> bool:
    """Whether cues begin with the last line of the cue before, as automatic captions do."""
    num_repetitions = sum(lines[-1].bare == following[0].bare for lines, following in pairwise(cues))
    return num_repetitions >= max(_FEW_REPETITIONS, _ROLLING_SHARE * len(cues))


def _sentences(parts: Iterator[CuePart]) -> Iterator[list[CuePart]]:
    """The parts of cues, those of one sentence together."""
    sentence: list[CuePart] = []
    for part in parts:
        if sentence and not (len(sentence) < _MAX_PARTS and sentence[-1].continues_in(part)):
            yield sentence
            sentence = []
        sentence.append(part)
    if sentence:
        yield sentence
