"""The command lines of the programs of this folder, which measure translators as ``verso`` does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from typing import Any

from model.commands.models import add_decoding_arguments, add_model_arguments, output_file
from model.commands.table import run as run_command


def add_arguments(parser: argparse.ArgumentParser, number: int, number_help: str) -> None:
    """Add the options that the programs share.

    Args:
        parser: The parser of the program.
        number: Default of ``--number``.
        number_help: Help of ``--number``.
    """
    add_model_arguments(parser)
    parser.add_argument("--pair", action="append", metavar="XX-YY", help="only this pair; may be given several times")
    parser.add_argument("--number", type=int, default=number, metavar="N", help=f"{number_help}; default {number}")
    parser.add_argument("--seed", type=int, default=1, help="other sentences for another number; default 1")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the figures there")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print up to N bad translations of each kind")
    add_decoding_arguments(parser)


def write_results(results: dict[str, Any], arguments: argparse.Namespace) -> None:
    """Write the figures as JSON, if the command line names a file."""
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def main(
    description: str | None,
    add_options: Callable[[argparse.ArgumentParser], None],
    run: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None,
) -> int:
    """Run a program; the exit status is 1 after an error that standard error names."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    return run_command(parser.parse_args(argv, argparse.Namespace(do=run)))
