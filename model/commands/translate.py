"""The command ``translate < in > out``: one translated line for each line."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Iterator
from typing import get_args

from tqdm import tqdm

from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_pair_arguments,
    add_shortlist_argument,
    decoding_options,
    load_translator,
)
from model.decoding.options import TextFormat
from model.errors import DataError

EPILOG = """\
example:
  echo 'Good morning.' | verso translate --target de
  verso translate --target de --confidence < lines.en | sort -n | head
The second shows the translations that the model is least sure of.
Order and blank lines are kept; progress goes to standard error.
"""

_LINES_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    add_model_arguments(parser)
    add_shortlist_argument(parser)
    add_pair_arguments(parser)
    add_decoding_arguments(parser)
    parser.add_argument(
        "--format",
        choices=get_args(TextFormat),
        default="text",
        help="what each line is written in; of html and xml only the text is translated; default text",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="before each translation its confidence, 0 to 1, and a tab (docs/api.md)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Translate."""
    options = decoding_options(arguments, format=arguments.format)
    translator = load_translator(arguments)
    translator.resolve_pair(arguments.source, arguments.target)
    lines = _lines()
    with tqdm(unit=" lines", disable=arguments.quiet or None, dynamic_ncols=True) as bar:
        while chunk := list(itertools.islice(lines, _LINES_AT_ONCE)):
            for translation in translator.translate(
                chunk, options, arguments.source, arguments.target, return_confidence=arguments.confidence
            ):
                confidence = translation.confidence
                before = "" if confidence is None else f"{confidence.score:.4f}\t"
                sys.stdout.buffer.write(f"{before}{translation.text}\n".encode())
            sys.stdout.buffer.flush()
            bar.update(len(chunk))
    return 0


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        try:
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(
                f"Line {number} of the input is not UTF-8: it holds byte 0x{line[error.start]:02x}. "
                "Convert it first, for example with 'iconv -f latin1 -t utf-8'."
            ) from error
