"""``python -m model plot``: draw a learning curve again."""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from model.errors import DataError

HELP = "draw a run's curve.csv"
EPILOG = """\
example:
  python -m model plot runs/mine/curve.csv --out curve.png
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("curve", type=Path, help="curve.csv of a run")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the .png file to write")


def run(arguments: argparse.Namespace) -> int:
    """Draw."""
    from model.plots import learning_curve

    try:
        with arguments.curve.open(newline="", encoding="utf-8") as source:
            rows = [
                {key: float(value) if value else None for key, value in row.items()} for row in csv.DictReader(source)
            ]
    except (OSError, ValueError) as error:
        raise DataError(f"{arguments.curve} cannot be read as a learning curve: {error}.") from error
    if not rows:
        raise DataError(f"{arguments.curve} holds no evaluation yet.")
    learning_curve(rows, arguments.out)
    print(arguments.out)
    return 0
