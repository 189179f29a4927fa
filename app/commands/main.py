"""``verso``: one program for the service and for the tools around its models."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from app.version import installed_version
from model.commands import table
from model.commands.table import Command

PROGRAM = "verso"
HERE = "inspect this machine"

COMMANDS = (
    Command(
        "serve",
        "app.commands.serve",
        table.USE,
        "answer translation requests over HTTP",
        "VERSO_PORT=9000 verso serve",
    ),
    Command(
        "keys",
        "app.commands.keys",
        table.USE,
        "create, list and revoke keys of a service, and show their usage",
        "verso keys create 'the shop' --db keys.sqlite",
    ),
    Command(
        "memory",
        "app.commands.memory",
        table.USE,
        "import, export and list translation memories",
        "verso memory import manuals.tmx --name Manuals",
    ),
    # Here "translate" can ask a service, too.
    *(
        replace(command, module="app.commands.translate") if command.name == "translate" else command
        for command in table.COMMANDS
    ),
    Command(
        "mcp",
        "app.commands.mcp",
        table.USE,
        "give an AI assistant on this machine tools that translate",
        "verso mcp --server http://localhost:8000",
    ),
    Command(
        "check",
        "app.commands.check",
        table.USE,
        "compare a translated document with its source: all but the words has to be the same",
        "verso check letter.docx letter.de.docx",
    ),
    Command(
        "doctor",
        "app.commands.doctor",
        HERE,
        "check this machine, and give advice for each problem",
        "verso doctor",
    ),
)
"""Every command, in the order the help lists them within their group."""

_GROUPS = (table.USE, table.BUNDLES, table.TRAIN, HERE)

_DESCRIPTION = "A self-hosted translation service, and the tools to train, import and inspect the models it serves."

_EPILOG = """\
'verso COMMAND --help' explains a command, 'verso serve --help' every setting. To begin with: 'verso doctor', then
'verso serve', then open http://localhost:8000/.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process unless given.

    Returns:
        The command's exit code; 2 where no command is named.
    """
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [--help] [--version] COMMAND ...",
        description=f"{_DESCRIPTION}\n\n{_list_of_commands()}",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    # The description lists the commands, by group.
    subparsers = parser.add_subparsers(dest="command", prog=PROGRAM, metavar="COMMAND", help=argparse.SUPPRESS)
    table.add_commands(subparsers, COMMANDS, argv, PROGRAM)
    arguments = parser.parse_args(argv)
    if arguments.version:
        print(f"{PROGRAM} {installed_version()}")
        return 0
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return 2
    return table.run(arguments)


def _list_of_commands() -> str:
    """Every command under the heading of its group, with what it does and an example."""
    width = max(len(command.name) for command in COMMANDS) + 2
    lines: list[str] = []
    for group in _GROUPS:
        lines.append(f"{group}:")
        for command in COMMANDS:
            if command.group == group:
                lines.append(f"  {command.name:<{width}}{command.help}")
                lines.append(f"  {'':<{width}}  {command.example}")
        lines.append("")
    return "\n".join(lines).rstrip()
