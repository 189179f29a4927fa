"""The command ``train``: text to checkpoint."""

from __future__ import annotations

import argparse
from pathlib import Path

from model.commands.models import device_of, say
from model.errors import ConfigError
from model.network.presets import ABOUT

EPILOG = """\
example:
  verso train --config configs/verso-en-de.yaml --data DATA --run runs/mine
The same command resumes an interrupted run from its last checkpoint. The run's folder gets curve.csv and
curve.png while it trains and averaged.pt at the end: export that one.

Ctrl-C and SIGTERM finish the update and write a checkpoint.

On several GPUs, one process for each; an update has as many batches as there are processes:
  torchrun --standalone --nproc-per-node 4 -m model train --config FILE --data DATA --run-dir runs/mine

On text of your own, 'verso prepare' writes corpora and configuration. To continue a model on it:
  verso train --config configs/adapt-bcontrast.yaml --data DATA --init-from auto --run runs/adapted
starts with the shipped translator (or a checkpoint, or a bundle that is not int8), and has its architecture and
vocabulary: of these, the configuration can set only dropout.

Text that need not be downloaded: scripts/reversal.py of a checkout generates words, and with configs/reverse.yaml a
model learns within minutes to write them backwards. configs/presets/ has four published Transformers for short words
of this kind. In a configuration, "model: {preset: NAME}" is one of
"""
EPILOG += "".join(f"  {name:<16} {about}\n  {'':<16} configs/presets/{name}.yaml\n" for name, about in ABOUT.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the command."""
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="a YAML file, see configs/")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="folder that corpus paths are relative to; default: the current folder",
    )
    # torchrun mistakes --run for its own --run-path, wherever it stands.
    parser.add_argument(
        "--run",
        "--run-dir",
        type=Path,
        metavar="DIR",
        help="the run's folder; default runs/NAME (with torchrun: --run-dir)",
    )
    parser.add_argument(
        "--init-from",
        metavar="FILE|auto",
        help="start from these weights: a checkpoint or a bundle that is not int8; auto is the shipped translator",
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda; default auto")
    parser.add_argument("--stop-after", type=int, metavar="N", help="stop after N updates; the same command resumes")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Train."""
    from model.artifacts.bundle import check_device
    from model.artifacts.pretrained import PRETRAINED
    from model.process.allocator import keep_freed_memory
    from model.training.distributed import join_processes
    from model.training.loop import train
    from model.training.settings import TrainingSettings

    if arguments.stop_after is not None and arguments.stop_after < 1:
        raise ConfigError(f"--stop-after is {arguments.stop_after}; it must be at least 1.")
    device = device_of(arguments)
    check_device(device, "float32")
    settings = TrainingSettings.load(arguments.config)
    keep_freed_memory()
    init_from = None if arguments.init_from is None else Path(arguments.init_from)
    with join_processes(device) as processes:
        path = train(
            settings,
            arguments.data,
            arguments.run or Path("runs") / settings.name,
            tokenizer_dir=arguments.config.parent,
            init_from=PRETRAINED if arguments.init_from == "auto" else init_from,
            device=device,
            processes=processes,
            show_progress=not arguments.quiet,
            stop_after_steps=arguments.stop_after,
            report=say,
        )
    if processes.is_first:
        print(path)
    return 0
