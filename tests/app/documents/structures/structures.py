"""The structures of each format by example: what is translated, what is kept, and what is refused.

In an example, what is between « and » is kept, and all else is written in capitals by a translation; in examples of
formats with more signs than text, only what is between ‹ and › is. What is between ⟪ and ⟫ is added by the translation,
and what is between ⟦ and ⟧ removed. ``python -m scripts.document_structures`` writes a table of the names into
``docs/documents.md``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

_MARKS = re.compile("«(?P<kept>.*?)»|‹(?P<text>.*?)›|⟪(?P<added>.*?)⟫|⟦(?P<removed>.*?)⟧", re.DOTALL)


@dataclass(frozen=True)
class Structures:
    """The structures of a format, or of a dialect of it.

    Args:
        label: The format as the table names it.
        suffix: The ending of files with the examples.
        translated: Examples of what is translated, by their names in the table.
        kept: Examples of what is kept.
        refused: Files that are refused, by the reason.
        has_marked_text: Whether the examples mark what is translated, and not what is kept.
        part: The part of an archive that the examples are in, if it is not the one with the text.
    """

    label: str
    suffix: str
    translated: dict[str, str] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    has_marked_text: bool = False
    part: str = ""

    def source_and_translation(self, example: str) -> tuple[str, str]:
        """The file of an example, and its translation into capitals."""
        source, expected, end = "", "", 0
        change: Callable[[str], str] = str if self.has_marked_text else str.upper
        for mark in _MARKS.finditer(example):
            between = example[end : mark.start()]
            kept, text, added, removed = (mark[name] or "" for name in ("kept", "text", "added", "removed"))
            source += between + kept + text + removed
            expected += change(between) + kept + text.upper() + added
            end = mark.end()
        return source + example[end:], expected + change(example[end:])
