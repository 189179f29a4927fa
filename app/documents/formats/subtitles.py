"""Subtitles, SubRip and WebVTT: what is between the time codes is translated, everything else is kept.

A sentence that runs over several cues is one unit. The places where its translation is divided are found by alignment,
like those of inline markup. (Libraries for subtitles write the file again, without its comments, settings and numbers.)
"""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest

from app.documents.formats.document_file import TextFile, unescaped
from app.documents.formats.inline import Fragment, Group, Node, Point, shown_text
from app.errors import DocumentRefused
from app.serving.detection import has_letters

_TIMES = re.compile(r"^[ \t]*\d[\d:.,]{3,14}[ \t]*-->[ \t]*\d[^\n]*(?:\n|\Z)", re.MULTILINE)
# Nothing is given back, so that a tag without an end is read once.
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z]++)[^<>\n]*+>|<[\d:.]++>|\{\\[^{}\n]*+\}")
_SPEAKER = re.compile(r"\s*[-–—‐]\s*\S")
_UNFINISHED = re.compile(r"[\w,;–—-]\s*$")
_MAX_CUES = 6
_MAX_DEPTH = 50
_WIDTH = 42
"""Characters of a line that viewers can read in time."""

_CUT = "cut"


@dataclass(frozen=True)
class _Cue:
    """What is shown at a time.

    Args:
        start: Index of its first character in the file.
        end: Index after its last character.
        lines: Its lines.
    """

    start: int
    end: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    @property
    def is_dialogue(self) -> bool:
        """Whether its lines are of different speakers."""
        return any(_SPEAKER.match(_TAG.sub("", line)) for line in self.lines)


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
        self._line_end = "\r\n" if "\r\n" in self.text else "\n"
        for group in _sentences(cues):
            if len(group) == 1 and group[0].is_dialogue:
                self._add_lines(group[0])
            else:
                self._add_cues(group)

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
        lines = _without_blank_end(lines)
        if not is_last and lines and lines[-1].strip().isdecimal() and (len(lines) == 1 or not lines[-2].strip()):
            lines.pop()  # the number of the next cue
        return _without_blank_end(lines)

    def _cues(self) -> Iterator[_Cue]:
        matches = list(_TIMES.finditer(self.text))
        for times, following in zip_longest(matches, matches[1:]):
            between = self.text[times.end() : following.start() if following else len(self.text)]
            lines = self.payload(between.splitlines(keepends=True), following is None)
            if lines:
                end = times.end() + len("".join(lines).rstrip())
                yield _Cue(times.end(), end, tuple(line.strip() for line in lines if line.strip()))

    def _add_lines(self, cue: _Cue) -> None:
        """Each line is a unit."""
        position = cue.start
        for line in self.text[cue.start : cue.end].splitlines(keepends=True):
            nodes = self._nodes(line.strip())
            if has_letters(shown_text(nodes)):
                start = position + line.index(line.strip())
                self._add(Fragment(nodes), [_Cue(start, start + len(line.strip()), (line.strip(),))])
            position += len(line)

    def _add_cues(self, cues: Sequence[_Cue]) -> None:
        nodes: list[Node] = []
        for cue in cues:
            nodes += [" ", Point(_CUT)] if nodes else []
            nodes += self._nodes(cue.text)
        if has_letters(shown_text(nodes)):
            self._add(Fragment(nodes), cues)

    def _add(self, fragment: Fragment, cues: Sequence[_Cue]) -> None:
        def put(translation: str) -> None:
            parts = _divided(fragment.read(translation), [len(cue.text) for cue in cues])
            for cue, part in zip(cues, parts, strict=True):
                lines = _wrapped(part, len(cue.lines), max(map(len, cue.lines)))
                self.replace(cue.start, cue.end, self._line_end.join(self._written(lines).split("\n")))

        self.add(fragment.unit, put)

    def _nodes(self, text: str) -> list[Node]:
        """The text of a cue with its tags; those without a partner are points."""
        tags = list(_TAG.finditer(text))
        last_ends = {tag["name"]: tag.start() for tag in tags if tag["end"]}
        open_tags: list[tuple[re.Match[str], list[Node]]] = []
        nodes: list[Node] = []
        done = 0
        for tag in tags:
            nodes.append(self.shown(text[done : tag.start()]))
            done = tag.end()
            is_opening = tag["name"] and not tag["end"] and last_ends.get(tag["name"], -1) >= done
            if is_opening and len(open_tags) < _MAX_DEPTH:
                open_tags.append((tag, nodes))
                nodes = []
            elif tag["end"] and open_tags and open_tags[-1][0]["name"] == tag["name"]:
                opening, around = open_tags.pop()
                around.append(Group((opening[0], tag[0]), tuple(nodes)))
                nodes = around
            else:
                nodes.append(Point(tag[0]))
        nodes.append(self.shown(text[done:]))
        complete: list[Node] = []
        for opening, around in open_tags:
            complete += [*around, Point(opening[0])]
        return [*complete, *nodes]

    def _written(self, nodes: Sequence[Node]) -> str:
        parts = []
        for node in nodes:
            if isinstance(node, str):
                parts.append(self.source(node))
            elif isinstance(node, Group):
                parts += [node.source[0], self._written(node.children), node.source[1]]
            else:
                parts.append(node.source)
        return "".join(parts)


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

    def payload(self, lines: list[str], is_last: bool) -> list[str]:
        """The lines that a cue shows: those before the first blank one."""
        return list(takewhile(str.strip, lines))

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


def _sentences(cues: Sequence[_Cue]) -> Iterator[list[_Cue]]:
    """The cues, those with parts of one sentence together."""
    group: list[_Cue] = []
    for cue in cues:
        if group and not (len(group) < _MAX_CUES and _goes_on(group[-1], cue)):
            yield group
            group = []
        group.append(cue)
    if group:
        yield group


def _goes_on(one: _Cue, following: _Cue) -> bool:
    """Whether a sentence of a cue goes on in the following one."""
    if one.is_dialogue or following.is_dialogue:
        return False
    text, rest = _TAG.sub("", one.text), _TAG.sub("", following.text).lstrip(" .…")
    return bool(_UNFINISHED.search(text)) and rest[:1].islower()


def _divided(nodes: Sequence[Node], lengths: Sequence[int]) -> list[list[Node]]:
    """The translation of several cues, one part for each; lengths are those of their sources."""
    parts = _cut(nodes)
    if len(parts) == len(lengths) and all(shown_text(part).strip() for part in parts):
        return parts
    if any(not isinstance(node, str) for part in parts for node in part):
        return [*parts[: len(lengths)], *([[]] * (len(lengths) - len(parts)))]
    words = " ".join(shown_text(part) for part in parts).split()
    divided: list[list[Node]] = []
    done, reached = 0, 0
    for length in lengths:
        reached += length
        end = round(len(words) * reached / sum(lengths))
        divided.append([" ".join(words[done:end])])
        done = end
    return divided


def _cut(nodes: Sequence[Node]) -> list[list[Node]]:
    """Content divided at the points between cues; a group around one becomes two."""
    parts: list[list[Node]] = [[]]
    for node in nodes:
        if isinstance(node, Group):
            first, *rest = [Group(node.source, tuple(part)) for part in _cut(node.children)]
            parts[-1].append(first)
            parts += [[one] for one in rest]
        elif isinstance(node, Point) and node.source is _CUT:
            parts.append([])
        else:
            parts[-1].append(node)
    return parts


def _wrapped(nodes: Sequence[Node], num_lines: int, longest: int) -> list[Node]:
    """A cue on about as many lines as its source had, of about equal lengths, none much longer than a viewer can read.

    Args:
        nodes: The text of a cue.
        num_lines: Lines of its source.
        longest: Characters of the longest of these lines.
    """
    text = shown_text(nodes)
    left, text = len(text) - len(text.lstrip()), text.strip()
    num_lines = max(num_lines, -(-len(text) // max(_WIDTH, longest)))
    spaces = [match.start() for match in re.finditer(" ", text)]
    breaks: set[int] = set()
    first = 0  # of the spaces behind the last break
    for line in range(1, min(num_lines, len(spaces) + 1)):
        wanted = len(text) * line / num_lines
        behind = bisect_left(spaces, wanted, first)
        around = [index for index in (behind - 1, behind) if first <= index < len(spaces)]
        if around:
            nearest = min(around, key=lambda index: abs(spaces[index] - wanted))
            breaks.add(spaces[nearest])
            first = nearest + 1
    return _with_breaks(nodes, {left + space for space in breaks}, (left, left + len(text)), 0)[0]


def _with_breaks(
    nodes: Sequence[Node], breaks: set[int], inside: tuple[int, int], position: int
) -> tuple[list[Node], int]:
    """Content with line breaks in place of some of its spaces, without the whitespace at its ends."""
    broken: list[Node] = []
    for node in nodes:
        if isinstance(node, Group):
            children, position = _with_breaks(node.children, breaks, inside, position)
            broken.append(Group(node.source, tuple(children)))
        elif isinstance(node, str):
            places = range(position, position + len(node))
            kept = zip(places, node, strict=True)
            broken.append("".join("\n" if at in breaks else sign for at, sign in kept if inside[0] <= at < inside[1]))
            position += len(node)
        else:
            broken.append(node)
    return broken, position
