"""Figures as people read them, and the arithmetic behind them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
"""Where figures and plots are written unless told otherwise."""


def rounded(value: float) -> float:
    """To four digits."""
    return float(f"{value:.4g}")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least ``share`` of them do not exceed (nearest rank).

    Args:
        values: At least one, in any order.
        share: 0 to 1; 0.5 is the (lower) median.
    """
    ordered = sorted(values)
    rank = -int(-(share * len(ordered)) // 1)  # rounded up
    return ordered[min(len(ordered), max(1, rank)) - 1]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with its columns under each other, the first to the left and the others to the right.

    Args:
        header: Names of the columns.
        rows: The lines below, each of as many cells.
    """
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(aligned) + " |"

    rule = ["-" * width if not place else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return "\n".join([line(header), line(rule), *map(line, rows)])


def write_json(figures: dict[str, Any], path: Path) -> None:
    """Write figures to a file, its folder made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
