"""Aligns the blocks of two documents, a translation and its original, by dynamic programming."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from model.training.corpus import Pair

_SKIP = 1.2
"""The cost of a block without a partner."""

_MAX_COST = 1.5
"""What two blocks may cost at most to be a pair; a little more if the documents have the same sequence of tags."""

_MAX_CELLS = 400_000
"""Longer documents with another structure than their originals are left out."""

_LENGTH_RATIO = 1.1
"""German is longer than English."""


@dataclass(frozen=True)
class Block:
    """A paragraph, heading or cell.

    Args:
        tag: Its kind.
        text: Its text; empty if it cannot be used and only marks a position.
        marks: What a translation does not change: numbers, targets of links, names of commands.
    """

    tag: str
    text: str
    marks: frozenset[str]


def numbers(text: str) -> frozenset[str]:
    """The numbers of a text, as marks."""
    return frozenset(re.findall(r"\d+", text))


def block(tag: str, text: str, marks: frozenset[str] = frozenset()) -> Block:
    """A block with the numbers of its text among its marks."""
    return Block(tag, text, marks | numbers(text))


def cost(first: Block, second: Block) -> float:
    """How unlike two blocks are; 0 for the same tag, marks and length."""
    result = abs(math.log((len(second.text) + 5) / (_LENGTH_RATIO * len(first.text) + 5))) * 2
    if first.tag != second.tag:
        result += 2
    if union := first.marks | second.marks:
        result += 2 * (1 - len(first.marks & second.marks) / len(union)) - 0.5
    return result


def align(source: Sequence[Block], target: Sequence[Block]) -> list[Pair]:
    """The pairs of blocks that are surely translations, in order; only one to one."""
    if [block.tag for block in source] == [block.tag for block in target]:
        matches = zip(source, target, strict=True)
        return [(first.text, second.text) for first, second in matches if cost(first, second) < _MAX_COST + 0.5]
    if len(source) * len(target) > _MAX_CELLS:
        return []
    pairs = _matches(source, target)
    return [(first.text, second.text) for first, second in pairs if cost(first, second) < _MAX_COST]


def _matches(source: Sequence[Block], target: Sequence[Block]) -> list[tuple[Block, Block]]:
    """The path of least cost through all pairs of blocks."""
    previous = [index * _SKIP for index in range(len(target) + 1)]
    steps: list[list[int]] = []  # 0: a pair, 1: a block of the source alone, 2: one of the target alone
    for first in source:
        row, choices = [previous[0] + _SKIP], []
        for index, second in enumerate(target):
            options = (previous[index] + cost(first, second), previous[index + 1] + _SKIP, row[index] + _SKIP)
            choice = options.index(min(options))
            row.append(options[choice])
            choices.append(choice)
        previous = row
        steps.append(choices)
    i, j = len(source), len(target)
    pairs = []
    while i and j:
        step = steps[i - 1][j - 1]
        i, j = i - (step != 2), j - (step != 1)
        if step == 0:
            pairs.append((source[i], target[j]))
    return pairs[::-1]
