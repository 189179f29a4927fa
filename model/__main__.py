"""``python -m model``: train, look at, export and use translators, offline."""

from __future__ import annotations

import argparse
import os
import sys

from model.commands import (
    attention,
    evaluate,
    export,
    import_,
    inspect,
    plot,
    publish,
    shortlist,
    stress,
    tokenizer,
    train,
    translate,
)
from model.errors import ModelError

_COMMANDS = {
    "translate": translate,
    "attention": attention,
    "train": train,
    "evaluate": evaluate,
    "stress": stress,
    "export": export,
    "import": import_,
    "inspect": inspect,
    "tokenizer": tokenizer,
    "plot": plot,
    "publish": publish,
    "shortlist": shortlist,
}


def main(argv: list[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments; those of the process by default.

    Returns:
        0, or 1 after an error that standard error names in a line.
    """
    parser = argparse.ArgumentParser(prog="python -m model", description=__doc__)
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        subparser = subparsers.add_parser(
            name,
            help=command.HELP,
            description=command.HELP,
            epilog=command.EPILOG,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(subparser)
        subparser.set_defaults(do=command.run)
    arguments = parser.parse_args(argv)
    try:
        code: int = arguments.do(arguments)
        sys.stdout.flush()
        return code
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has seen enough ("| head"); the interpreter must not flush into the void at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, a folder nobody may write to
        print(f"error: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
