"""The table of what is no language: the kinds of protected spans, by theme.

A new kind is a row of ``KINDS`` in the module of its theme, with its examples; tests and documents read the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.spans import addresses, code, markup_signs, placeholders, signs
from model.text.spans.kind import LINE_BREAKS, Kind, Role
from model.text.symbols import Span

__all__ = ["KINDS", "LINE_BREAKS", "Kind", "Role", "default_spans"]

KINDS: tuple[Kind, ...] = (
    code.IN_BACKTICKS,
    code.LITERAL_BLOCK,
    *placeholders.KINDS,
    *signs.KINDS,
    *markup_signs.KINDS,
    *code.KINDS,
    *addresses.KINDS,
)
"""All kinds. Of two that match the same characters, the first one counts."""


_STRINGS = sorted({trigger for kind in KINDS if isinstance(kind.triggers, tuple) for trigger in kind.triggers})
_PATTERNS = {kind.triggers.pattern: None for kind in KINDS if isinstance(kind.triggers, re.Pattern)}
_SIGN = re.compile(f"[{re.escape(''.join(string for string in _STRINGS if len(string) == 1))}]")
_LONGER_STRINGS = tuple(string for string in _STRINGS if not _SIGN.search(string))
_ANY_PATTERN = re.compile("|".join(pattern for pattern in _PATTERNS if not pattern.startswith(r"\A")))
_WHOLE_TEXT = re.compile("|".join(pattern for pattern in _PATTERNS if pattern.startswith(r"\A")))


def _may_have_spans(text: str) -> bool:
    """Whether a text has a trigger of any kind; most texts have none."""
    if _SIGN.search(text):
        return True
    for string in _LONGER_STRINGS:  # faster than any()
        if string in text:
            return True
    return _WHOLE_TEXT.match(text) is not None or _ANY_PATTERN.search(text) is not None


def default_spans(text: str) -> Iterator[tuple[Span, Role]]:
    """Candidates of all kinds with their roles, in the order of the table; they may overlap."""
    if not _may_have_spans(text):
        return
    for kind in KINDS:
        if kind.may_occur(text):
            for span in kind.find(text):
                yield span, kind.role
