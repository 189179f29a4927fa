"""The command ``publish``: a finished run to a small file that can be committed."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from model.errors import ArtifactError, DataError

EPILOG = """\
example:
  verso publish --checkpoint runs/mine/averaged.pt --scores scores.json --out model/pretrained/mine.pt
  verso publish --checkpoint runs/general/averaged.pt runs/chat/averaged.pt --out both.pt
Of several runs that started from the same weights the mean is published, which is often as good at each one's text as
that run alone (Wortsman et al. 2022); name, licence and held-out sentences are the first one's.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument(
        "--checkpoint",
        type=Path,
        nargs="+",
        required=True,
        metavar="FILE",
        help="usually a run's averaged.pt; of several, the mean of their weights",
    )
    parser.add_argument(
        "--scores",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="what 'evaluate --json' wrote",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the checkpoint to write")


def run(arguments: argparse.Namespace) -> int:
    """Publish."""
    from model.artifacts.checkpoint import average_weights, load_checkpoint, save_checkpoint

    checkpoint, *others = [load_checkpoint(path) for path in arguments.checkpoint]
    for path, other in zip(arguments.checkpoint[1:], others, strict=True):
        if other.vocabulary_files != checkpoint.vocabulary_files:
            raise ArtifactError(
                f"{path} has another vocabulary than {arguments.checkpoint[0]}: only runs that started from the same "
                "weights can be averaged."
            )
    average = average_weights([part.weights for part in (checkpoint, *others)])
    facts = dict(checkpoint.facts)
    if others:
        facts["mean_of"] = [str(part.facts.get("name")) for part in (checkpoint, *others)]
        facts.pop("confidence", None)  # the mean has other probabilities: calibrate it afterwards
    scores: dict[str, dict[str, Any]] = {}
    for path in arguments.scores:
        try:
            for test_set, pairs in json.loads(path.read_text(encoding="utf-8")).items():
                scores.setdefault(test_set, {}).update(pairs)
        except (OSError, ValueError, AttributeError) as error:
            raise DataError(f"The scores {path} cannot be read: {error}.") from error
    if scores:
        facts["scores"] = scores
    weights = {name: value.half() for name, value in average.items()}
    save_checkpoint(replace(checkpoint, weights=weights, facts=facts, progress={}), arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.1f} MB")
    return 0
