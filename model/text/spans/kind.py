"""A row of the table of protected spans, and what its patterns share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from model.text.symbols import Span

Role = Literal["inside", "edge", "end", "boundary"]
"""What a span is to the sentence around it.

- ``inside``: a unit of the sentence; the model decides where it belongs.
- ``edge``: at the beginning or the end of a sentence it stays there and the model does not see it; elsewhere as inside.
- ``end``: the same, at the end only.
- ``boundary``: it divides the text, as a line break does.
"""

LINE_BREAKS = "\r\n\v\f\x1c-\x1e\x85\u2028\u2029"
"""The characters that end a line, for use in a character class. No span contains one of them."""

SPACE = rf"[^\S{LINE_BREAKS}]"
"""Whitespace within a line."""

LINE_START = rf"(?<![^{LINE_BREAKS}])"
LINE_END = rf"(?![^{LINE_BREAKS}])"
AFTER_SPACE = r"(?<![^\s\"'(\[{=,;|*„“”‚‘’»«])"
"""Before a path or an option: the beginning, whitespace, a bracket, a quotation mark or the like."""


@dataclass(frozen=True)
class Kind:
    """A kind of protected span: a row of the table.

    Every expression takes time linear in the text: a match starts only at the start of a token, or its length is
    bounded, and no repetition can be matched in two ways.

    Args:
        name: Its name in the documents.
        pattern: Matches its spans, and possibly more.
        triggers: Strings; a text without any of them has no span of this kind. An expression where no string will do,
            which begins with a few characters (:mod:`model.text.spans`) or with the text.
        examples: Texts with a span of this kind. It is marked as in ``Hello ⟦:name⟧``, or the text.
        others: Texts without a span of this kind.
        role: What its spans are to the sentence around them.
        trim: Returns the end of the span, at most that of the match; the match's start if the match is not a span.
        parts: Whether the spans are the groups of a match, not all of it: the two signs around a word.
        finder: Finds the spans where an expression cannot.
        used_by: Programs and formats that write such spans.
    """

    name: str
    pattern: str
    triggers: tuple[str, ...] | re.Pattern[str]
    examples: tuple[str, ...]
    others: tuple[str, ...] = ()
    role: Role = "inside"
    trim: Callable[[re.Match[str]], int] = re.Match.end
    parts: bool = False
    finder: Callable[[str], Iterator[Span]] | None = None
    used_by: str = ""

    @cached_property
    def expression(self) -> re.Pattern[str]:
        """The compiled pattern; compiled when a text has a trigger."""
        return re.compile(self.pattern)

    def find(self, text: str) -> Iterator[Span]:
        """The spans of this kind in a text that has one of the triggers."""
        if self.finder is not None:
            yield from self.finder(text)
            return
        for match in self.expression.finditer(text):
            if self.parts:
                yield from (span for span in match.regs[1:] if span[0] < span[1])
            elif (end := self.trim(match)) > match.start():
                yield match.start(), end
