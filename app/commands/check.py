"""The command ``check``: whether a translated document has everything of its source but the words."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.documents.skeleton import differences
from app.errors import DocumentRefused, DocumentTooComplex, UnsupportedDocument

EPILOG = """\
examples:
  verso check letter.docx letter.de.docx
  verso check messages.pot de.po --target de
  for file in docs/*.md; do verso check "$file" "de/$(basename "$file")" || echo "$file"; done
Compared is what is no language: structure, ids, times, tags, attributes, placeholders, numbers of lines, and texts that
are not translated. The order of tags within a sentence is free. Of catalogues with sources and translations (.po,
.xliff, .ts, .xcstrings), translations that the source file has must stay, and those that it lacks are free.
A line is printed for each difference: where, what was expected, what is there. The exit code is 0 without differences,
1 with some, and 2 if a file cannot be read.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("source", type=Path, help="the document; its ending or content determines the format")
    parser.add_argument("result", type=Path, help="its translation, in the same format")
    parser.add_argument(
        "--target", default="", metavar="LANGUAGE", help="the target language, if RESULT does not name it"
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, and print the differences."""
    try:
        source, result = arguments.source.read_bytes(), arguments.result.read_bytes()
        lines = [str(line) for line in differences(arguments.source.name, source, result, arguments.target)]
    except (OSError, DocumentRefused, DocumentTooComplex, UnsupportedDocument) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join([*lines, f"{len(lines)} differences" if lines else "no differences"]))
    return 1 if lines else 0
