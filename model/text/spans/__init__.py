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


def _any_trigger() -> re.Pattern[str]:
    """An expression that matches somewhere in every text with a span."""
    strings = {trigger for kind in KINDS if isinstance(kind.triggers, tuple) for trigger in kind.triggers}
    short = {trigger for trigger in strings if len(trigger) == 1}
    longer = sorted(trigger for trigger in strings if not short.intersection(trigger))
    patterns = [kind.triggers.pattern for kind in KINDS if isinstance(kind.triggers, re.Pattern)]
    return re.compile(
        "|".join([f"[{re.escape(''.join(sorted(short)))}]", *map(re.escape, longer), *dict.fromkeys(patterns)])
    )


_ANY_TRIGGER = _any_trigger()


def default_spans(text: str) -> Iterator[tuple[Span, Role]]:
    """Candidates of all kinds with their roles, in the order of the table; they may overlap."""
    if not _ANY_TRIGGER.search(text):
        return
    for kind in KINDS:
        if kind.may_occur(text):
            for span in kind.find(text):
                yield span, kind.role
