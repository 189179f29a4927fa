"""The translation of a sentence, divided over the cues and lines that show it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from app.documents.formats.inline import Group, Node, Point, shown_text

CUT = Point("cut")
"""The border of two cues within a sentence."""

_WIDTH = 42
"""Characters of a line that viewers can read in time."""

_REACH = 30
"""Characters around the border by length within which another one is looked for."""

_ALIGNED = 9
_AFTER_COMMA = 5
"""By how many characters a border may be farther away if the alignment is for it, or a comma is before it."""

_CLAUSE_END = frozenset(",;:.!?…–—、，。")


def divide(nodes: Sequence[Node], lengths: Sequence[int]) -> list[list[Node]]:
    """The translation of a sentence over several cues, one part for each.

    Each gets about the share of text that its source has. Of the borders between words near there, one that the
    alignment proposes or that follows a comma is preferred.

    Args:
        nodes: The translation, with the borders that the alignment proposes.
        lengths: Characters of the sources of the cues.
    """
    if len(lengths) == 1:
        return [list(nodes)]
    aligned: set[int] = set()
    content = list(_without_cuts(nodes, [0], aligned))
    text = shown_text(content)
    spaces = [match.start() for match in re.finditer(r"(?<=\S)\s+(?=\S)", text)]
    borders: list[int] = []
    first, reached = 0, 0  # the first space that may be the next border
    for number, length in enumerate(lengths[:-1], 1):
        reached += length
        wanted = len(text) * reached / sum(lengths)
        last = max(first + 1, len(spaces) - (len(lengths) - 1 - number))  # each cue after it needs a word, too
        begin = min(max(first, bisect_left(spaces, wanted - _REACH)), last - 1)
        candidates = [space for space in spaces[begin:last] if space <= wanted + _REACH] or spaces[begin : begin + 1]
        if not candidates:
            borders.append(len(text))
            continue
        border = min(candidates, key=lambda space: _distance(space, wanted, text, aligned))
        borders.append(border)
        first = bisect_left(spaces, border) + 1
    return _cut_at(content, borders)


def _distance(space: int, wanted: float, text: str, aligned: set[int]) -> float:
    bonus = _ALIGNED if space in aligned or space + 1 in aligned else 0
    return abs(space - wanted) - bonus - (_AFTER_COMMA if text[space - 1] in _CLAUSE_END else 0)


def _without_cuts(nodes: Sequence[Node], position: list[int], cuts: set[int]) -> Iterator[Node]:
    """Content without the borders of cues, whose positions are added to ``cuts``."""
    for node in nodes:
        if isinstance(node, Group):
            yield replace(node, children=tuple(_without_cuts(node.children, position, cuts)))
        elif isinstance(node, str):
            position[0] += len(node)
            yield node
        elif node is CUT:
            cuts.add(position[0])
        else:
            yield node


def _cut_at(nodes: Sequence[Node], borders: Sequence[int]) -> list[list[Node]]:
    """Content divided at some positions of its text; a group around one becomes two."""
    parts: list[list[Node]] = [[]]
    position = 0
    for node in nodes:
        size = len(node) if isinstance(node, str) else len(shown_text([node])) if isinstance(node, Group) else 0
        inside = [border - position for border in borders[len(parts) - 1 :] if border < position + size]
        if isinstance(node, Point) or not inside:
            parts[-1].append(node)
        elif isinstance(node, Group):
            first, *rest = [replace(node, children=tuple(part)) for part in _cut_at(node.children, inside)]
            parts[-1].append(first)
            parts += [[part] for part in rest]
        else:
            ends = [0, *inside, len(node)]
            first_text, *texts = [node[start:end] for start, end in pairwise(ends)]
            parts[-1].append(first_text)
            parts += [[text.lstrip()] for text in texts]
        position += size
    return [*parts, *([] for _ in range(len(borders) + 1 - len(parts)))]


def wrap(nodes: Sequence[Node], num_lines: int, longest: int) -> list[Node]:
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
            broken.append(replace(node, children=tuple(children)))
        elif isinstance(node, str):
            characters = enumerate(node, position)
            shown = ("\n" if index in breaks else sign for index, sign in characters if inside[0] <= index < inside[1])
            broken.append("".join(shown))
            position += len(node)
        else:
            broken.append(node)
    return broken, position
