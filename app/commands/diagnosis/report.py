"""The result of a check, and a report of many for people or for programs."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

State = Literal["ok", "warning", "problem"]
"""``problem``: the service cannot serve. ``warning``: it serves, but slower or otherwise than it could."""


@dataclass(frozen=True)
class Check:
    """What one check found.

    Args:
        name: What was checked; the names in a report differ.
        state: Whether it keeps the service from serving.
        text: The finding, in a line or several.
        advice: What to do about it.
        details: The same for programs: values that JSON can hold.
    """

    name: str
    state: State
    text: str
    advice: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """Run a check; if it fails itself, that is its finding, and the others still run.

    Args:
        name: Of the check.
        check: The check.
    """
    try:
        return check()
    except Exception as error:  # noqa: BLE001  (whatever is wrong with this machine, it belongs into the report)
        return Check(name, "warning", f"the check itself failed: {type(error).__name__}: {error}")


def can_serve(checks: Sequence[Check]) -> bool:
    """Whether no check found a problem."""
    return all(check.state != "problem" for check in checks)


def as_json(checks: Sequence[Check], version: str) -> str:
    """The report for programs.

    Args:
        checks: All of them.
        version: Of Verso.
    """
    report = {"version": version, "can_serve": can_serve(checks), "checks": [asdict(check) for check in checks]}
    return json.dumps(report, ensure_ascii=False, indent=1, default=str)


def as_text(checks: Sequence[Check], width: int) -> str:
    """The report for people: a line for each check, in columns, with the advice below.

    Args:
        checks: All of them.
        width: Characters in a line.
    """
    name_width = max(len(check.name) for check in checks)
    indent = " " * (len("problem") + name_width + 4)
    lines: list[str] = []
    for check in checks:
        first, *rest = check.text.splitlines() or [""]
        lines += _wrapped(first, f"{check.state:<7}  {check.name:<{name_width}}  ", indent, width)
        for line in rest:
            lines += _wrapped(line, indent, indent, width)
        if check.advice is not None:
            lines += _wrapped(check.advice, f"{indent}-> ", f"{indent}   ", width)
    return "\n".join(lines)


def _wrapped(text: str, first: str, rest: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters; paths and options stay whole."""
    return textwrap.wrap(
        text,
        width=max(width, len(rest) + 40),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first.rstrip()]
