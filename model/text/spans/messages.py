"""Kinds of protected spans: the syntax of ICU messages with branches, whose texts are translated one by one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from model.text.spans.kind import LINE_BREAKS, SPACE, Kind
from model.text.symbols import Span

BRANCHED = re.compile(r"\{\s*+[\w.]++\s*+,\s*+(plural|selectordinal|select)\s*+,")
"""The beginning of an argument with branches."""
_TOKEN = re.compile(r"''|\{\{[^{}]{0,300}\}\}|'(?=[{}])[^']*+(?:'|\Z)|[{}]")
_SELECTOR = re.compile(r"\s*+(?:offset:\s*+\d++\s*+)?=?[\w.+-]++\s*+\{")
_ARGUMENT_END = re.compile(r"\s*+\}")
_IN_LINE = re.compile(rf"[^\s](?:[^{LINE_BREAKS}]*[^\s])?")
_MAX_DEPTH = 20

_NO_BRACE = rf"[^{{}}{LINE_BREAKS}]"
_TYPES = "plural|selectordinal|select|choice|number|date|time|duration|spellout|ordinal|list"
_ARGUMENT = re.compile(
    rf"\{{{SPACE}*+[\w.]+{SPACE}*+,{SPACE}*+(?:{_TYPES})\b"
    rf"(?:{_NO_BRACE}++|\{{(?:{_NO_BRACE}++|\{{(?:{_NO_BRACE}++|\{{{_NO_BRACE}*+\}})*+\}})*+\}})*+\}}"
)


class Branch(NamedTuple):
    """A text of a message: one of its branches, or what is around them.

    Args:
        start: Index of its first character.
        end: Index after its last character.
        has_number: Whether ``#`` in it stands for the number of a plural form.
    """

    start: int
    end: int
    has_number: bool


def read_message(message: str) -> list[Branch]:
    """The texts of a message in the format of ICU, in order.

    Args:
        message: The message.

    Raises:
        ValueError: It is not in this format.
    """
    branches: list[Branch] = []
    if _read_texts(message, 0, 0, False, branches) != len(message):
        raise ValueError("a brace closes nothing")
    return branches


def _read_texts(message: str, position: int, depth: int, has_number: bool, branches: list[Branch]) -> int:
    """Add the texts from a position to the end of their branch, which is returned.

    Raises:
        ValueError: The message is not in the format of ICU.
    """
    start, open_braces = position, 0
    while token := _TOKEN.search(message, position):
        position = token.end()
        argument = BRANCHED.match(message, token.start())
        if argument and not open_braces:
            branches.append(Branch(start, token.start(), has_number))
            start = position = _read_branches(message, argument, depth + 1, has_number, branches)
        elif token[0] == "{":
            open_braces += 1
        elif token[0] == "}":
            if not open_braces:
                branches.append(Branch(start, token.start(), has_number))
                return token.start()
            open_braces -= 1
    if depth or open_braces:
        raise ValueError("a brace is not closed")
    branches.append(Branch(start, len(message), has_number))
    return len(message)


def _read_branches(message: str, argument: re.Match[str], depth: int, has_number: bool, branches: list[Branch]) -> int:
    """Add the texts of an argument with branches, and return the index after it.

    Raises:
        ValueError: It is not in the format of ICU.
    """
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    position = argument.end()
    while selector := _SELECTOR.match(message, position):
        position = _read_texts(message, selector.end(), depth, has_number or argument[1] != "select", branches) + 1
    closing = _ARGUMENT_END.match(message, position)
    if closing is None:
        raise ValueError("an argument is not closed")
    return closing.end()


@lru_cache(maxsize=4)  # three kinds ask for those of a text
def _arguments(text: str) -> tuple[tuple[Span, tuple[Branch, ...]], ...]:
    """The arguments with branches in a text, and their texts. None is searched after one that is not complete."""
    arguments: list[tuple[Span, tuple[Branch, ...]]] = []
    position = 0
    while argument := BRANCHED.search(text, position):
        branches: list[Branch] = []
        try:
            position = _read_branches(text, argument, 1, False, branches)
        except ValueError:
            break
        arguments.append(((argument.start(), position), tuple(branches)))
    return tuple(arguments)


def _syntax(text: str) -> Iterator[Span]:
    """What is between the texts of arguments with branches, line by line."""
    for (start, end), branches in _arguments(text):
        starts = [start, *(branch.end for branch in branches)]
        ends = [*(branch.start for branch in branches), end]
        for first, last in zip(starts, ends, strict=True):
            yield from (line.span() for line in _IN_LINE.finditer(text, first, last))


def _numbers(text: str) -> Iterator[Span]:
    """The signs for the number of a plural form."""
    for _, branches in _arguments(text):
        for start, end, has_number in branches:
            if has_number:
                yield from ((index, index + 1) for index in range(start, end) if text[index] == "#")


def _whole(text: str) -> Iterator[Span]:
    """Arguments without branches, such as numbers and dates, and those that are not complete."""
    starts = {start for (start, _), _ in _arguments(text)}
    return (match.span() for match in _ARGUMENT.finditer(text) if match.start() not in starts)


# The rows are as compact as those of a table.
# fmt: off
KINDS = (
    Kind("syntax of a message with forms",
        "",
        (", plural", ",plural", ", select", ",select"),
        ("⟦{n, plural, one {⟧⟦#⟧ file⟦} other {⟧⟦{n}⟧ files⟦}}⟧", "⟦{who, select, male {⟧He⟦} other {⟧They⟦}}⟧ left"),
        ("{one, two}", "{n, plural, one {"),
        role="boundary", finder=_syntax, used_by="ICU, FormatJS, Lingui, Angular, Flutter"),
    Kind("number of a plural form",
        "",
        (", plural", ",plural", ", selectordinal", ",selectordinal"),
        ("⟦{n,plural,other{⟧⟦#⟧ files⟦}}⟧",),
        ("#", "{a, select, other {#}}"),
        finder=_numbers, used_by="ICU"),
    Kind("argument with a format",
        "",
        ("{",),
        ("{0,choice,0#no files|1#one file|1<{0} files}", "{n, number, ::percent}"),
        ("{one, two}",),
        finder=_whole, used_by="ICU, Java MessageFormat"),
)
"""The syntax of messages."""
# fmt: on
