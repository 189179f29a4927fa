"""``python -m model train``: text to checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.bundle import check_device, resolve_device
from model.commands.models import say

HELP = "train a translator from parallel text"
EPILOG = """\
example:
  python -m model train --config configs/verso-en-de.yaml --data DATA --run runs/mine
Started again with the same --run, it goes on after the last checkpoint. The run's folder gets curve.csv and
curve.png while it trains and averaged.pt at the end: export that one.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="a YAML file, see configs/")
    parser.add_argument(
        "--data", type=Path, default=Path(), metavar="DIR", help="where corpus paths start; default here"
    )
    parser.add_argument("--run", type=Path, metavar="DIR", help="the run's folder; default runs/NAME")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda; default auto")
    parser.add_argument("--stop-after", type=int, metavar="N", help="pause after N updates, to be resumed")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Train."""
    from model.training.loop import train
    from model.training.settings import TrainingSettings

    device = resolve_device(arguments.device)
    check_device(device, "float32")
    settings = TrainingSettings.load(arguments.config)
    path = train(
        settings,
        arguments.data,
        arguments.run or Path("runs") / settings.name,
        tokenizer_dir=arguments.config.parent,
        device=device,
        show_progress=not arguments.quiet,
        stop_after_steps=arguments.stop_after,
        report=say,
    )
    print(path)
    return 0
