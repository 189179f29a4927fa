"""The command ``import``: a checkpoint of another project to a bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.commands.models import add_precision_argument, chosen_precision, parse_pair, say, with_progress
from model.languages import standard_code

EPILOG = """\
examples:
  verso import opus-mt-en-de --out opus-en-de.pt
  verso import opus-mt-en-ROMANCE --out romance.pt --pair en-fr --pair en-es
  verso import nllb-200-distilled-600M --out nllb.pt --languages en,de,fr,uk
  verso import firefox-ende --out firefox-ende.pt --precision int8
then:
  VERSO_MODEL=opus-en-de.pt verso serve
The folder is one in the layout of Hugging Face (MarianMT, M2M100, NLLB-200) or of Marian (Firefox Translations,
OPUS-MT's own files); docs/import.md walks through both. Nothing in it is run.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "folder",
        type=Path,
        metavar="DIR",
        help="the folder with weights and vocabulary; or the model's file, if its folder has several of Marian",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the bundle to write")
    add_precision_argument(parser)
    parser.add_argument("--name", metavar="NAME", help="the model's name; default: the folder's")
    parser.add_argument(
        "--pair",
        action="append",
        default=[],
        metavar="XX-YY",
        help="a direction to serve; may be given several times; default: all the folder names",
    )
    parser.add_argument(
        "--languages",
        default="",
        metavar="XX,YY,...",
        help="of a model that translates between all its languages: those to serve; default: all",
    )
    parser.add_argument("--licence", metavar="NAME", help="of the weights; default: what the folder's README.md says")
    parser.add_argument(
        "--attribution",
        action="append",
        default=[],
        metavar="TEXT",
        help="a source to name; may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """Import."""
    from model.importing.family import Overrides
    from model.importing.importer import import_checkpoint

    import_checkpoint(
        arguments.folder,
        arguments.out,
        chosen_precision(arguments, "cpu"),
        overrides=Overrides(
            tuple(parse_pair(pair) for pair in arguments.pair),
            tuple(standard_code(code) for code in arguments.languages.split(",") if code.strip()),
        ),
        name=arguments.name,
        licence=arguments.licence,
        attribution=tuple(arguments.attribution),
        report=say,
        progress=lambda items, label, total: with_progress(items, label, total, "parts"),
    )
    print(arguments.out)
    return 0
