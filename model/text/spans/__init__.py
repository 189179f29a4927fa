"""The table of what is no language: the kinds of protected spans, by theme.

A new kind is a row of ``KINDS`` in the module of its theme, with its examples; tests and documents read the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.spans import addresses, code, markup_signs, messages, placeholders, signs
from model.text.spans.kind import LINE_BREAKS, Kind, Role
from model.text.symbols import Span

__all__ = ["KINDS", "LINE_BREAKS", "Kind", "Role", "default_spans", "possible_kinds"]

KINDS: tuple[Kind, ...] = (
    code.FRONT_MATTER,
    code.IN_BACKTICKS,
    code.LITERAL_BLOCK,
    *messages.KINDS,
    *placeholders.KINDS,
    *signs.KINDS,
    *markup_signs.KINDS,
    *code.KINDS,
    *addresses.KINDS,
)
"""All kinds. Of two that match the same characters, the first one counts."""


_NUMBERS: dict[str, set[int]] = {}
"""By trigger: the numbers of the kinds that may occur in a text with it."""
for _number, _kind in enumerate(KINDS):
    for _trigger in _kind.triggers if isinstance(_kind.triggers, tuple) else ():
        _NUMBERS.setdefault(_trigger, set()).add(_number)
_SIGN = re.compile(f"[{re.escape(''.join(trigger for trigger in _NUMBERS if len(trigger) == 1))}]")
_STRINGS = tuple(trigger for trigger in _NUMBERS if len(trigger) > 1)
_OTHER_STRINGS = tuple(string for string in _STRINGS if not _SIGN.search(string))
_PATTERNS = {number: kind.triggers for number, kind in enumerate(KINDS) if isinstance(kind.triggers, re.Pattern)}
_WHOLE_TEXT = {number: pattern for number, pattern in _PATTERNS.items() if pattern.pattern.startswith(r"\A")}
_INSIDE = {number: pattern for number, pattern in _PATTERNS.items() if number not in _WHOLE_TEXT}
_FIRST = r"-A-Z0-9y().:/\u2013-\u2bff\u3030\u303d\u3297\u3299\ue000-\uf8ff\ufe0f\U0001f000-\U0001faff\u00ab\u00bb"
"""The first characters of all these: an expression that begins with a set of characters skips all others at once."""
_ALTERNATIVES = "|".join({pattern.pattern: None for pattern in _INSIDE.values()})
_ANY_INSIDE = re.compile(f"[{_FIRST}](?s:(?<=(?={_ALTERNATIVES}).))")


def possible_kinds(text: str) -> list[Kind]:
    """The kinds that have a trigger in a text, in the order of the table; most texts have none."""
    numbers: set[int] = set()
    signs = set(_SIGN.findall(text))
    for sign in signs:
        numbers |= _NUMBERS[sign]
    for string in _STRINGS if signs else _OTHER_STRINGS:
        if string in text:
            numbers |= _NUMBERS[string]
    if _ANY_INSIDE.search(text):
        numbers.update(number for number, pattern in _INSIDE.items() if pattern.search(text))
    numbers.update(number for number, pattern in _WHOLE_TEXT.items() if pattern.match(text))
    return [KINDS[number] for number in sorted(numbers)]


def default_spans(text: str) -> Iterator[tuple[Span, Role]]:
    """Candidates of all kinds with their roles, in the order of the table; they may overlap."""
    return ((span, kind.role) for kind in possible_kinds(text) for span in kind.find(text))
