"""The command ``translate < in > out``: one translated line for each line, a whole document, or files (``--ray``)."""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from tqdm import tqdm

from model.commands import bulk
from model.commands.models import (
    add_decoding_arguments,
    add_model_arguments,
    add_pair_arguments,
    add_shortlist_argument,
    add_steering_arguments,
    decoding_options,
    load_translator,
    search_table,
)
from model.errors import DataError
from model.text.utf8 import decode
from model.translation.options import TextFormat

EPILOG = """\
example:
  echo 'Good morning.' | verso translate --target de
  verso translate --target de --confidence < lines.en | sort -n | head
  verso translate --target de --format html < page.html > seite.html
  verso translate --target de --input document < README.md > LIESMICH.md
  echo 'Good morning.' | verso translate --target de --target-prefix Schönen --search
The second shows the translations that the model is least sure of. The input is one text for each line by default, and
one document with --format html and xml. Order and blank lines are kept; progress goes to standard error. The last
translation begins with the given text, and a table of what the search considered follows it.

With --ray workers translate files into a folder (docs/bulk.md; it needs pip install 'verso-translate[ray]'):
  verso translate --ray articles/ --column body --target de --out german/
  verso translate --ray 'crawl/**/*.jsonl' more.parquet lines.txt --target de --out german/ --workers 8
Order, rows and other columns are kept. If it is stopped, the same command resumes with the files that are not finished.
The exit code is 0 if every row is translated, 3 if all files are done and some rows have an error, 1 if a file is not.
"""

_LINES_AT_ONCE = 256


@dataclass(frozen=True)
class Translated:
    """What is written for one text.

    Args:
        text: Its translation.
        confidence: Its score; None unless ``--confidence``.
        search: Lines about its search; empty unless ``--search``.
    """

    text: str
    confidence: float | None
    search: Sequence[str] = ()


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
        help="format of the input; only the text of html and xml is translated; default text",
    )
    parser.add_argument(
        "--input",
        choices=("lines", "document"),
        help="whether each line is a text, or the whole input is one; default lines for text, document for html and "
        "xml",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    parser.add_argument(
        "--confidence",
        action="store_true",
        help="print each translation's confidence, 0 to 1, and a tab before it (docs/api.md)",
    )
    add_steering_arguments(parser)
    bulk.add_arguments(parser)
    parser.set_defaults(words=None)  # of the program that takes them from the command line


def run(arguments: argparse.Namespace) -> int:
    """Translate."""
    if arguments.ray:
        return bulk.run(arguments)
    bulk.refuse_arguments(arguments)
    options = decoding_options(arguments, format=arguments.format)
    translator = load_translator(arguments)
    translator.resolve_pair(arguments.source, arguments.target)

    def translate(texts: Sequence[str]) -> Iterator[Translated]:
        for translation in translator.translate(
            texts, options, arguments.source, arguments.target, return_confidence=arguments.confidence
        ):
            confidence = translation.confidence
            search = () if translation.search is None else search_table(translation.search)
            yield Translated(translation.text, None if confidence is None else confidence.score, search)

    translate_input(arguments, translate, _LINES_AT_ONCE)
    return 0


def translate_input(
    arguments: argparse.Namespace, translate: Callable[[Sequence[str]], Iterable[Translated]], lines_at_once: int
) -> None:
    """Translate standard input, or words of the command line, to standard output.

    Args:
        arguments: The command line.
        translate: Translates texts.
        lines_at_once: Number of lines it is given at once.

    Raises:
        DataError: The input is not UTF-8, or has several lines and an option is for a single sentence.
    """
    is_document = (arguments.input or ("lines" if arguments.format == "text" else "document")) == "document"
    if arguments.words is not None:
        texts, end = iter([arguments.words]), "\n"
    else:
        texts, end = (_document(), "") if is_document else (_lines(), "\n")
    with tqdm(unit=" texts" if is_document else " lines", disable=arguments.quiet or None, dynamic_ncols=True) as bar:
        while chunk := list(itertools.islice(texts, lines_at_once)):
            if len(chunk) > 1 and (arguments.target_prefix or arguments.search):
                raise DataError("The input has several lines; --target-prefix and --search take one line.")
            for translation in translate(chunk):
                before = "" if translation.confidence is None else f"{translation.confidence:.4f}\t"
                sys.stdout.buffer.write(f"{before}{translation.text}{end}".encode())
                for line in translation.search:
                    sys.stdout.buffer.write(f"{line}\n".encode())
            sys.stdout.buffer.flush()
            bar.update(len(chunk))


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        yield decode(line.removesuffix(b"\n").removesuffix(b"\r"), number, "the input")


def _document() -> Iterator[str]:
    yield decode(sys.stdin.buffer.read(), 1, "the input")
