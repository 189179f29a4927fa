"""The command ``export``: checkpoint to bundle."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.commands.models import add_precision_argument, chosen_precision, device_of, say, with_progress

EPILOG = """\
examples:
  verso export --checkpoint runs/mine/averaged.pt --precision int8 --out mine.pt
  verso export --pretrained --precision float32 --out verso.pt
The bundle is compared with the eager float32 model before it is written; the difference is recorded in its manifest
(verso inspect FILE).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--checkpoint", type=Path, metavar="FILE", help="a checkpoint that 'train' wrote")
    which.add_argument("--pretrained", action="store_true", help="the shipped translator")
    parser.add_argument(
        "--lexicon",
        type=Path,
        metavar="FILE",
        help="translations of rare words that the bundle carries; for the shipped translator its own by default",
    )
    add_precision_argument(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the bundle to write")
    parser.add_argument("--device", default="auto", help="device of the comparison: auto, cpu or cuda")


def run(arguments: argparse.Namespace) -> int:
    """Export."""
    from model.artifacts.checkpoint import load_checkpoint
    from model.artifacts.export import export_bundle
    from model.artifacts.pretrained import PRETRAINED, pretrained_lexicon, pretrained_shortlist
    from model.text.lexicon import read_lexicon

    # int8 runs on the processor only, whatever else is here.
    int8_anywhere = arguments.device == "auto" and arguments.precision == "int8"
    device = "cpu" if int8_anywhere else device_of(arguments)
    precision = chosen_precision(arguments, device)
    checkpoint = load_checkpoint(PRETRAINED if arguments.pretrained else arguments.checkpoint)
    shortlist = pretrained_shortlist() if arguments.pretrained else None
    lexicon = pretrained_lexicon() if arguments.pretrained else None
    if arguments.lexicon is not None:
        lexicon = read_lexicon(arguments.lexicon)
    export_bundle(
        checkpoint,
        precision,
        arguments.out,
        device=device,
        shortlist=shortlist,
        lexicon=lexicon,
        report=say,
        progress=with_progress,
    )
    print(arguments.out)
    return 0
