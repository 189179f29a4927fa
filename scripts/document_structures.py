"""Write the table of the structures of each format into docs/documents.md, from the examples in tests.

python -m scripts.document_structures
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.app.documents.structures.structures import Structures
from tests.app.documents.structures.table import STRUCTURES

PAGE = Path(__file__).parent.parent / "docs" / "documents.md"
START, END = "<!-- structures: begin -->\n", "<!-- structures: end -->\n"


def table() -> str:
    """The table in Markdown."""
    return "| format | translated | kept | refused |\n|---|---|---|---|\n" + "".join(map(_row, STRUCTURES))


def page(text: str) -> str:
    """The page with the current table.

    Args:
        text: The page.
    """
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table()}\n{END}{rest.partition(END)[2]}"


def _row(structures: Structures) -> str:
    cells: Iterable[Iterable[str]] = (structures.translated, structures.kept, structures.refused)
    return f"| {structures.label} | {' | '.join(map('; '.join, cells))} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
