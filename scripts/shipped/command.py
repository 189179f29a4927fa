"""What the scripts of this folder share: how their arguments are read and their errors are shown."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

from model.commands.table import run as run_parsed

LANGUAGES = ("en", "de")
"""The languages of the translator that ships, in the order of the sides of a pair."""


def start(
    name: str,
    description: str | None,
    add_arguments: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a script as the commands of ``verso`` are run.

    Args:
        name: The module's name in this folder.
        description: What the script does, for ``--help``.
        add_arguments: Describes the arguments.
        run: Does the work; returns the exit code.
        argv: The arguments; those of the process by default.

    Returns:
        The exit code: 1 after an error that standard error names in a line.
    """
    parser = argparse.ArgumentParser(
        prog=f"python -m scripts.shipped.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser)
    arguments = parser.parse_args(argv)
    arguments.do = run
    return run_parsed(arguments)
