"""The command ``convert``: a bundle in its other form."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.commands.models import say

EPILOG = """\
examples:
  verso convert mine.pt mine.verso
  verso convert mine.verso mine.pt
The suffix chooses the form. Nothing of a .verso file is run when it is loaded; a .pt file is a program, and converting
one runs it: convert where you would also serve it. Both give the same answers (docs/bundles.md).
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("bundle", type=Path, help="the bundle to read")
    parser.add_argument("out", type=Path, help="the bundle to write: .verso for data only, .pt for TorchScript")


def run(arguments: argparse.Namespace) -> int:
    """Convert."""
    from model.artifacts.convert import convert_bundle

    written = convert_bundle(arguments.bundle, arguments.out)
    say(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB, SHA-256 {written.sha256}")
    print(arguments.out)
    return 0
