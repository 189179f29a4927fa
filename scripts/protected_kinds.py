"""Write the table of protected spans into docs/compatibility.md, from the table in model/text/spans.

python -m scripts.protected_kinds
"""

from __future__ import annotations

import re
from pathlib import Path

from model.text.spans import KINDS, Kind, Role

PAGE = Path(__file__).parent.parent / "docs" / "compatibility.md"
START, END = "<!-- kinds of protected spans: begin -->\n", "<!-- kinds of protected spans: end -->\n"
_NUM_EXAMPLES = 3

_ROLES: dict[Role, str] = {
    "inside": "in the sentence",
    "edge": "stays at an edge",
    "end": "stays at the end",
    "boundary": "divides the text",
}


def table() -> str:
    """The table in Markdown."""
    head = "| what | examples | position | written by |\n|---|---|---|---|\n"
    return head + "".join(map(_row, KINDS))


def page(text: str) -> str:
    """The page with the current table.

    Args:
        text: The page.
    """
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table()}\n{END}{rest.partition(END)[2]}"


def _row(kind: Kind) -> str:
    spans = [span for example in kind.examples for span in re.findall("⟦([^⟧]*)⟧", example) or [example]]
    examples = ", ".join(_code(span) for span in list(dict.fromkeys(spans))[:_NUM_EXAMPLES] if span.isprintable())
    return f"| {kind.name} | {examples} | {_ROLES[kind.role]} | {kind.used_by} |\n"


def _code(span: str) -> str:
    """A span as code in a cell of a table."""
    escaped = span.replace("|", "\\|")
    ticks = "``" if "`" in span else "`"
    padding = " " if "`" in span else ""
    return f"{ticks}{padding}{escaped}{padding}{ticks}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
