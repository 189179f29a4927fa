"""Rounding, percentiles, tables, plots and files of figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RESULTS = Path(__file__).parent / "results"
"""Default folder of figures and plots."""


_SIGNIFICANT_DIGITS = 4


def rounded(value: float) -> float:
    """A number with four significant digits."""
    return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed (nearest rank).

    Args:
        values: At least one value, in any order.
        share: 0 to 1; 0.5 gives the (lower) median.
    """
    ordered = sorted(values)
    rank = -int(-(share * len(ordered)) // 1)  # rounded up
    return ordered[min(len(ordered), max(1, rank)) - 1]


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns, the first left-aligned and the others right-aligned.

    Args:
        header: Names of the columns.
        rows: The rows, each with as many cells; cells are printed unchanged, including numbers.
    """
    alignment = ["left", *["right"] * (len(header) - 1)]
    return tabulate(rows, header, tablefmt="pipe", colalign=alignment, disable_numparse=True)


def write_json(figures: dict[str, Any], path: Path) -> None:
    """Write figures to a file, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of matplotlib.

    Args:
        width: In inches, of 120 pixels.
        height: In inches.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, and create its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")
