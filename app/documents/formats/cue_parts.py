"""The parts of a cue: what one speaker says, a sound, a line of a song. Signs around what is said are kept."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from app.documents.formats.inline import Complete, Group, Node, Point, peeled, shown_text

Kind = Literal["plain", "turn", "sound", "song"]
"""What a part is: speech that may continue, the beginning of a speaker's turn, a sound in brackets, or what is sung."""

# Nothing is given back, so that a tag without an end is read once.
TAG = re.compile(
    r"<(?P<end>/?)(?P<name>[A-Za-z]++)[^<>\n]*+>|<[\d:.]++>"
    r"|\{(?P<curly_end>/?)(?P<curly>[ibu])\}|\{\\(?P<style>[ibus])(?P<is_on>[01])\}|\{\\[^{}\n]*+\}"
)
"""Tags of SubRip and WebVTT, times of words, and the overrides of ASS, which other formats have too."""

_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]*+")
_TURN = re.compile(r"[-–—‐]{1,2}+\s*+(?=\S)|>{2,3}\s*")
_NAME = re.compile(r"(?P<name>[^\W\d_][\w .,'’&#/()\[\]-]{1,38}):(?:\s+|$)")
_IN_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_NAMED = re.compile(r"(?P<name>[^\W\d_][\w.’'-]{0,20}(?: [^\W\d_][\w.’'-]{0,20})?): ")
_NOTES = re.compile(r"[♩♪♫♬¶]++\s*|#\s+(?=.*\s#$)")
_NOTES_AT_END = re.compile(r"(?:\s?[♩♪♫♬¶]{1,3}|\s#)$")
_BRACKETS = {"[": "]", "(": ")"}
_WORD_TIME = re.compile(r"<\d|\{\\[kK]")
_UNFINISHED = re.compile(r"[\w,;–—-]$")


@dataclass(frozen=True)
class Line:
    """A line of a cue.

    Args:
        start: Index of its first character in the file.
        text: It, without whitespace at its ends.
        is_new: Whether a blank line is before it.
    """

    start: int
    text: str
    is_new: bool = False

    @cached_property
    def bare(self) -> str:
        """Its text without tags."""
        return TAG.sub("", self.text).strip()


@dataclass(frozen=True)
class CuePart:
    """Lines of a cue that belong together.

    Args:
        lines: The lines.
        nodes: What is said.
        complete: Adds the signs and tags around that.
        kind: What it is.
        style: The tag around all of it, if there is one.
        echoes: Lines of the next cues that repeat it, in captions that roll.
    """

    lines: Sequence[Line]
    nodes: tuple[Node, ...]
    complete: Complete
    kind: Kind
    style: str
    echoes: list[Line] = field(default_factory=list)

    @property
    def start(self) -> int:
        """Index of its first character in the file."""
        return self.lines[0].start

    @property
    def end(self) -> int:
        """Index after its last character."""
        return self.lines[-1].start + len(self.lines[-1].text)

    @property
    def said(self) -> str:
        """What is said."""
        return shown_text(self.nodes).strip()

    def continues_in(self, following: CuePart) -> bool:
        """Whether a sentence of this part continues in the following one."""
        is_closed = self.kind == "sound" or _ends_song(self.lines[-1].bare)
        is_same_kind = following.kind == self.kind == "song" or (not is_closed and following.kind == "plain")
        if not is_same_kind or (self.style != following.style and self.style and following.style):
            return False
        return bool(_UNFINISHED.search(self.said[-1:])) and following.said.lstrip(" .…")[:1].islower()


def parts_of(lines: Sequence[Line], nodes_of: Callable[[str], list[Node]]) -> Iterator[CuePart]:
    """The parts of a cue, in order.

    Args:
        lines: Its lines; blank ones are left out.
        nodes_of: Reads text with tags.
    """
    part: list[Line] = []
    is_closed = False
    closing = ""  # the bracket that ends a sound which began in another line
    for line in lines:
        bare = line.bare
        is_styled = len(lines) > 1 and line.text != bare and bool(_style(nodes_of(line.text)))
        if part and (is_closed or is_styled or line.is_new or _begins_part(line.text, bare)):
            yield part_of(part, nodes_of)
            part, closing = [], ""
        closing = closing or (_open_bracket(bare) if not part else "")
        part.append(line)
        kind = opening_of(bare)[1]
        ends_sound = kind == "sound" or (closing != "" and bare.endswith(closing))
        is_closed = is_styled or ends_sound or (kind == "song" and _ends_song(bare))
    if part:
        yield part_of(part, nodes_of)


def part_of(lines: Sequence[Line], nodes_of: Callable[[str], list[Node]]) -> CuePart:
    """Some lines as one part.

    Args:
        lines: The lines.
        nodes_of: Reads text with tags.
    """
    text = " ".join(line.text for line in lines)
    nodes = nodes_of(text)
    if _WORD_TIME.search(text):
        plain, complete = _without_tags(nodes)
        return CuePart(tuple(lines), (plain,), complete, "plain", "")
    core, complete = peeled(nodes)
    said = shown_text(core)
    length, kind = opening_of(said.strip())
    if text.startswith("<v"):
        kind = "turn"
    first, last = (core[0], core[-1]) if core else ("", "")
    start = len(said) - len(said.lstrip()) + length
    if not length or not isinstance(first, str) or start > len(first):
        return CuePart(tuple(lines), core, complete, kind, _style(nodes))
    rest = [first[start:], *core[1:]]
    suffix = _closing_of(said[start:], kind)
    if suffix and isinstance(last, str) and last.endswith(suffix):
        rest[-1] = str(rest[-1]).removesuffix(suffix)
    else:
        suffix = ""
    inner, complete_inner = peeled(rest)

    def complete_all(content: tuple[Node, ...]) -> tuple[Node, ...]:
        return complete((first[:start], *complete_inner(content), suffix))

    return CuePart(tuple(lines), inner, complete_all, kind, _style(nodes))


def opening_of(text: str) -> tuple[int, Kind]:
    """The length of the signs before what is said (a dash, a name, a note, a bracket), and what they show.

    Args:
        text: The text of a line or a part, without tags.
    """
    marks = _MARKS.match(text)  # of direction
    position = marks.end() if marks else 0
    kind: Kind = "plain"
    for pattern in (_TURN, _NAME):
        match = pattern.match(text, position)
        if match and (pattern is _TURN or _IN_BRACKETS.sub("", match["name"]).isupper()):
            position, kind = match.end(), "turn"
    if match := _NOTES.match(text, position):
        return match.end(), "song" if kind == "plain" else kind
    closing = _BRACKETS.get(text[position : position + 1])
    if closing and text.find(closing, position) == len(text) - 1:
        return position + 1, "sound" if kind == "plain" else kind
    return position, kind


def _closing_of(text: str, kind: Kind) -> str:
    """The signs after what is said, which belong to those before it."""
    notes = _NOTES_AT_END.search(text.rstrip()[-5:]) if kind in ("song", "turn") else None
    end = text.rstrip()
    if notes:
        return text[len(end) - len(notes[0]) :]
    opened = [opening for opening, closing in _BRACKETS.items() if end.endswith(closing) and opening not in end]
    return text[len(end) - 1 :] if opened else ""


def _begins_part(text: str, bare: str) -> bool:
    """Whether a line begins the words of another speaker, a sound or a song."""
    named = _NAMED.match(bare)
    return (
        bool(_open_bracket(bare))
        or opening_of(bare)[1] != "plain"
        or text.startswith("<v")
        or bool(named and bare[0].isupper())
    )


def _open_bracket(bare: str) -> str:
    """What closes the bracket that a line begins with, if it does not itself."""
    closing = _BRACKETS.get(bare[:1], "")
    return "" if closing in bare else closing


def _ends_song(bare: str) -> bool:
    return bool(_NOTES_AT_END.search(bare[-5:]))


def _style(nodes: Sequence[Node]) -> str:
    """The tag around all of a text, or nothing."""
    around = [node for node in nodes if not isinstance(node, str) or node.strip()]
    return str(around[0].source[0]) if len(around) == 1 and isinstance(around[0], Group) else ""


def _without_tags(nodes: Sequence[Node]) -> tuple[str, Complete]:
    """Text with the times of its words, without them, and what puts them between the words of its translation."""
    tags: list[tuple[int, Point]] = []
    _collect_tags(nodes, 0, tags)
    plain = shown_text(nodes)

    def complete(content: tuple[Node, ...]) -> tuple[Node, ...]:
        text = shown_text(content)
        borders = [0, *(match.start() for match in re.finditer(r"(?<=\S)\s", text)), len(text)]
        timed: list[Node] = []
        done = 0
        for position, tag in tags:
            wanted = position * len(text) / max(len(plain), 1)
            index = bisect_left(borders, wanted)
            border = min(borders[max(index - 1, 0) : index + 1], key=lambda border: abs(border - wanted))
            is_after_space = plain[max(position - 1, 0) : position].isspace() and text[border : border + 1].isspace()
            border = max(border + is_after_space, done)
            timed += [text[done:border], tag]
            done = border
        return (*timed, text[done:])

    return plain, complete


def _collect_tags(nodes: Sequence[Node], position: int, tags: list[tuple[int, Point]]) -> int:
    """Add the tags with the number of characters before each; returns the position after the nodes."""
    for node in nodes:
        if isinstance(node, str):
            position += len(node)
        elif isinstance(node, Group):
            tags.append((position, Point(node.source[0])))
            position = _collect_tags(node.children, position, tags)
            tags.append((position, Point(node.source[1])))
        else:
            tags.append((position, node))
    return position
