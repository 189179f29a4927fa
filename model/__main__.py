"""``python -m model``: train, look at, export and use translators, offline."""

from __future__ import annotations

import argparse
import sys

from model.commands.table import COMMANDS, add_commands, run


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process by default.

    Returns:
        0, or 1 after an error, which is one line on standard error.
    """
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_commands(subparsers, COMMANDS, argv, parser.prog)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
