"""``python -m model inspect``: what a bundle or checkpoint says about itself."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

HELP = "print the manifest of a bundle or checkpoint"
EPILOG = """\
example:
  python -m model inspect verso.pt
No code of the file is run.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("file", type=Path, help="a bundle or a checkpoint")


def run(arguments: argparse.Namespace) -> int:
    """Print it as JSON."""
    from model.bundle import is_checkpoint, read_manifest
    from model.training.checkpoint import load_checkpoint

    if not is_checkpoint(arguments.file):
        print(read_manifest(arguments.file).to_json())
        return 0
    checkpoint = load_checkpoint(arguments.file)
    facts = {key: value for key, value in checkpoint.facts.items() if key != "dev_sample"}
    print(json.dumps({**facts, "architecture": checkpoint.config.to_dict()}, ensure_ascii=False, indent=1))
    return 0
