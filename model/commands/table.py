"""The table of commands, and what a program needs to offer them: parsers, and one exit code for each kind of failure.

The table is read without importing the commands: most of them import torch, which takes seconds, and ``--help`` lists
them all. Only the command that is used is imported.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from model.errors import ModelError


class CommandModule(Protocol):
    """What the module of a command offers."""

    EPILOG: str
    """The end of its help, written for ``verso``: examples and what else is good to know."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Describe its arguments."""
        ...

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; returns the exit code."""
        ...


@dataclass(frozen=True)
class Command:
    """One row of the table.

    Args:
        name: As it is typed.
        module: The module that implements it, a :class:`CommandModule`.
        group: The heading it is listed under.
        help: What it does, in a line.
        example: A command line that uses it, as ``verso``.
    """

    name: str
    module: str
    group: str
    help: str
    example: str

    def load(self) -> CommandModule:
        """Import the command."""
        return cast(CommandModule, importlib.import_module(self.module))


USE = "serve and translate"
TRAIN = "train and evaluate"
BUNDLES = "make and inspect bundles"

COMMANDS = (
    Command(
        "translate",
        "model.commands.translate",
        USE,
        "translate standard input, line by line",
        "echo 'Good morning.' | verso translate --target de",
    ),
    Command(
        "attention",
        "model.commands.attention",
        USE,
        "draw the attention behind one sentence",
        "verso attention 'Good morning.' --target de --out attention.png",
    ),
    Command(
        "prepare",
        "model.commands.prepare",
        TRAIN,
        "clean two aligned texts, hold out test sets, write a fitting configuration",
        "verso prepare --source text.eo --target text.it --out data/eo-it",
    ),
    Command(
        "train",
        "model.commands.train",
        TRAIN,
        "train a translator from parallel text",
        "verso train --config configs/reverse.yaml --run runs/reverse",
    ),
    Command(
        "evaluate",
        "model.commands.evaluate",
        TRAIN,
        "score a translator on a test set (sacreBLEU, chrF)",
        "verso evaluate --model mine.pt --test DATA/eval/test",
    ),
    Command(
        "export",
        "model.commands.export",
        BUNDLES,
        "make a bundle (TorchScript) from a checkpoint",
        "verso export --checkpoint runs/mine/averaged.pt --out mine.pt",
    ),
    Command(
        "pull",
        "model.commands.pull",
        BUNDLES,
        "fetch a model of a hub by its name and make a bundle of it (OPUS-MT, M2M100, NLLB-200)",
        "verso pull Helsinki-NLP/opus-mt-en-fr",
    ),
    Command(
        "import",
        "model.commands.import_",
        BUNDLES,
        "make a bundle from a Hugging Face checkpoint (OPUS-MT, M2M100, NLLB-200)",
        "verso import opus-mt-en-de --out opus-en-de.pt",
    ),
    Command(
        "convert",
        "model.commands.convert",
        BUNDLES,
        "write a bundle in its other form: data only (.verso) or TorchScript (.pt)",
        "verso convert mine.pt mine.verso",
    ),
    Command(
        "inspect",
        "model.commands.inspect",
        BUNDLES,
        "print what a bundle or checkpoint is: languages, licence, sizes, parameters, manifest",
        "verso inspect mine.pt",
    ),
    Command(
        "tokenizer",
        "model.commands.tokenizer",
        TRAIN,
        "learn a SentencePiece vocabulary, or show the pieces of a text",
        "verso tokenizer --learn text.en text.de --out tokenizer.model",
    ),
    Command(
        "plot",
        "model.commands.plot",
        TRAIN,
        "draw learning curves, attention, positional encodings and masks",
        "verso plot curve runs/mine/curve.csv --out curve.png",
    ),
    Command(
        "publish",
        "model.commands.publish",
        BUNDLES,
        "shrink a checkpoint for shipping (float16, no optimiser), with its scores",
        "verso publish --checkpoint runs/mine/averaged.pt --out mine-small.pt",
    ),
    Command(
        "shortlist",
        "model.commands.shortlist",
        BUNDLES,
        "learn a vocabulary shortlist and put it into a bundle, for faster decoding on CPUs",
        "verso shortlist --model mine.pt --config configs/verso-en-de.yaml --out mine-short.pt",
    ),
    Command(
        "calibrate",
        "model.commands.calibrate",
        BUNDLES,
        "make confidences true shares of right translations, by development text and grades of a reader",
        "verso calibrate --model mine.pt --dev DATA/eval/dev --test DATA/eval/test --out mine-calibrated.pt",
    ),
)
"""The commands of ``python -m model``, in the order its help lists them."""


def add_commands(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser],
    commands: Sequence[Command],
    argv: Sequence[str],
    program: str,
) -> None:
    """Give a program its commands.

    Args:
        subparsers: Where they are added.
        commands: The commands.
        argv: The program's arguments. Only the command they name is imported and gets its arguments.
        program: ``verso``, or ``python -m model``; examples in the help name it.
    """
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for command in commands:
        parser = subparsers.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.name == chosen:
            module = command.load()
            parser.epilog = _as_program(module.EPILOG, program)
            module.add_arguments(parser)
            parser.set_defaults(do=module.run)


def _as_program(text: str, program: str) -> str:
    """Examples for another program than ``verso``, which is there only where the project is installed."""
    if program == "verso":
        return text
    names = "|".join(command.name for command in COMMANDS)
    text = re.sub(rf"\bverso(?= (?:{names})\b)", program, text)
    return re.sub(r"\bverso serve\b", "python -m app", text)


def run(arguments: argparse.Namespace) -> int:
    """Run the command that was parsed.

    Args:
        arguments: Of a parser that :func:`add_commands` completed.

    Returns:
        What the command returns, 1 after an error that standard error names in a line, or 130 after an interrupt.
    """
    try:
        code: int = arguments.do(arguments)
        sys.stdout.flush()
        return code
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # The reader closed the pipe ("| head"); the interpreter must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk, or a folder without permission to write
        print(f"error: {error.filename or 'the output'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
