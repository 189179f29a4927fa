"""Writes a configuration without the corpora that the folder of the corpora lacks.

A folder that ``scripts.data`` built names in absent.txt the corpora that it lacks, and the other scripts of this folder
do without them, too. A folder without absent.txt has all corpora, and the configuration is copied as it is.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from scripts.shipped.absent import absent
from scripts.shipped.command import start
from scripts.shipped.held_out import KINDS

_PATH = re.compile(r"\s*- (?:\{path: )?[\w-]+/([\w.-]+)")
"""A line of a configuration that names a corpus or a development set."""


def without(configuration: str, names: frozenset[str]) -> str:
    """The text of a configuration without the lines of some corpora.

    Args:
        configuration: YAML.
        names: Names of corpora and development sets.
    """
    lines = configuration.splitlines(keepends=True)
    return "".join(line for line in lines if not ((match := _PATH.match(line)) and match[1] in names))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the corpora")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="the configuration")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the configuration to write")


def run(arguments: argparse.Namespace) -> int:
    """Read and write."""
    names = absent(arguments.data)
    empty = {kind for kind, parts in KINDS.items() if names >= parts.keys()}
    arguments.out.write_text(without(arguments.config.read_text(encoding="utf-8"), names | empty), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(start("configuration", __doc__, add_arguments, run))
