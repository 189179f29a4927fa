"""Train a larger translator on a GPU that is lent for minutes: plan it, pack its text, and train it in several calls.

A call has a few minutes, and only small files leave the machine. So the text is packed once, each call trains until its
time is over, and what the next call needs is a checkpoint of half the precision, without the state of the optimiser,
cut into parts. The schedule, the place in the text and the random state go on; the optimiser's averages begin again.

  python -m scripts.shipped.train_gpu plan --minutes 25
  python -m scripts.shipped.train_gpu pack --config configs/verso-en-de/gpu.yaml --data DATA --out packed
  python -m scripts.shipped.train_gpu call --packed packed --state state --minutes 9                     (twice)
  python -m scripts.shipped.train_gpu call --packed packed --state state --minutes 7 --last
"""

from __future__ import annotations

import argparse
import json
import lzma
import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import yaml

from model.artifacts.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from model.errors import ConfigError, DataError
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.process.files import write_file
from model.training.corpus import read_lines
from model.training.loop import AVERAGED, train
from model.training.run_setup import LAST
from model.training.settings import TrainingSettings
from scripts.shipped.command import start

PACKED_BYTES = 45_000_000
"""The most bytes of packed text."""

PART_BYTES = 15_000_000
"""The bytes of a part of the state."""

MAX_PARTS = 7
"""The most parts of the state."""

CONFIG = "train.yaml"
"""The configuration in the folder of packed text."""

SPEED = "speed.json"
"""What a call measured, in the folder of the state."""

MIN_TOKENS = 1_000_000_000
"""Target tokens that a model should read: twenty passes over the text of the shipped translator."""

MARGIN = 0.93
"""The share of the remaining time for which the last call plans updates; the rest is for the evaluation."""

SHAPES: Mapping[str, dict[str, int]] = {
    "small": {"d_model": 256, "num_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 2},
    "medium": {"d_model": 384, "num_heads": 6, "d_ff": 1536, "encoder_layers": 8, "decoder_layers": 4},
    "base-4": {"d_model": 512, "num_heads": 8, "d_ff": 2048, "encoder_layers": 8, "decoder_layers": 4},
    "base": {"d_model": 512, "num_heads": 8, "d_ff": 2048, "encoder_layers": 6, "decoder_layers": 6},
    "deep": {"d_model": 512, "num_heads": 8, "d_ff": 2048, "encoder_layers": 10, "decoder_layers": 4},
    "wide": {"d_model": 640, "num_heads": 10, "d_ff": 2560, "encoder_layers": 8, "decoder_layers": 4},
    "big": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "encoder_layers": 6, "decoder_layers": 6},
}
"""Shapes to choose from. A decoder of four layers decodes faster than one of six."""


@dataclass(frozen=True)
class Machine:
    """A GPU, as far as a plan needs it.

    Args:
        peak_flops: Products and sums of bfloat16 a second.
        utilisation: The share of them that training reaches.
        memory_bytes: Its memory.
        seconds: Time of all calls, without what they need besides training.
    """

    peak_flops: float
    utilisation: float
    memory_bytes: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What the training of a shape would take.

    Args:
        name: The shape.
        num_parameters: Its parameters; tied ones once.
        tokens: Target tokens that it can read in the time.
        memory_bytes: Memory of weights, gradients, optimiser and the activations of a batch.
        state_bytes: What travels between two calls.
    """

    name: str
    num_parameters: int
    tokens: float
    memory_bytes: float
    state_bytes: int

    def fits(self, machine: Machine) -> bool:
        """Whether its state can travel, a batch fits the memory, and it reads enough text."""
        return (
            self.state_bytes <= MAX_PARTS * PART_BYTES
            and self.memory_bytes <= 0.8 * machine.memory_bytes
            and self.tokens >= MIN_TOKENS
        )


def plan(name: str, machine: Machine, vocab_size: int, batch_tokens: int) -> Plan:
    """Calculate what the training of a shape takes.

    A product of a weight with a vector is two operations forwards and four backwards (Kaplan et al. 2020,
    arXiv:2001.08361, section 2.1). The encoder and the decoder each read their side of a pair, of about equal length.

    Args:
        name: One of :data:`SHAPES`.
        machine: The GPU.
        vocab_size: Tokens of the vocabulary.
        batch_tokens: Padded tokens of a side of a batch.
    """
    config = ModelConfig.from_dict({**SHAPES[name], "source_vocab_size": vocab_size, "target_vocab_size": vocab_size})
    with torch.device("meta"):
        transformer = Transformer(config, 0)
        encoder = sum(parameter.numel() for parameter in transformer.encoder.parameters())
        num_parameters = sum(parameter.numel() for parameter in transformer.parameters())
    embedding = vocab_size * config.d_model
    decoder = num_parameters - encoder - embedding
    # The embedding is looked up, and multiplied once, as the output projection.
    flops_per_token = 6 * (encoder + decoder + embedding)
    layers = 1.0 * config.encoder_layers + 1.5 * config.decoder_layers
    # Values that a layer keeps for the backward pass, of two bytes: about 14 vectors and two of the feed-forward width.
    activations = batch_tokens * layers * 2 * (14 * config.d_model + 2 * config.d_ff)
    logits = batch_tokens * vocab_size * 2 * 2
    return Plan(
        name,
        num_parameters,
        machine.seconds * machine.peak_flops * machine.utilisation / flops_per_token,
        num_parameters * (4 + 4 + 8) + activations + logits,
        num_parameters * 2 + 2_000_000,  # and the vocabulary
    )


def choose(machine: Machine, vocab_size: int, batch_tokens: int) -> tuple[list[Plan], Plan]:
    """The plans of all shapes, and the largest that fits.

    Args:
        machine: The GPU.
        vocab_size: Tokens of the vocabulary.
        batch_tokens: Padded tokens of a side of a batch.

    Raises:
        ConfigError: None fits.
    """
    plans = [plan(name, machine, vocab_size, batch_tokens) for name in SHAPES]
    fitting = [each for each in plans if each.fits(machine)]
    if not fitting:
        raise ConfigError(
            f"No shape reads {MIN_TOKENS:,} tokens in {machine.seconds / 60:.0f} minutes; give more --minutes, or a "
            "faster GPU."
        )
    return plans, max(fitting, key=lambda each: each.num_parameters)


def pack(config: Path, data: Path, out: Path) -> int:
    """Copy the corpora of a configuration into a folder, compressed, with the configuration.

    Args:
        config: The configuration.
        data: The folder to which its paths are relative.
        out: The folder to write; its path in a corpus is the same.

    Returns:
        The bytes of the folder.

    Raises:
        ConfigError: The configuration cannot be read.
        DataError: A corpus is missing, or all together are larger than :data:`PACKED_BYTES`.
    """
    settings = TrainingSettings.load(config)
    sizes: dict[str, int] = {}
    for path in dict.fromkeys([*(corpus.path for corpus in settings.train), *settings.dev]):
        for language in settings.languages:
            name = f"{path}.{language}"
            file = out / f"{name}.xz"
            text = "\n".join(read_lines(data / name)) + "\n"
            write_file(file, lzma.compress(text.encode(), preset=9))
            sizes[path] = sizes.get(path, 0) + file.stat().st_size
    shutil.copy(config, out / CONFIG)
    if settings.tokenizer:
        shutil.copy(config.parent / settings.tokenizer, out / settings.tokenizer)
    total = sum(file.stat().st_size for file in out.rglob("*") if file.is_file())
    if total > PACKED_BYTES:
        largest = ", ".join(sorted(sizes, key=lambda path: -sizes[path])[:3])
        raise DataError(
            f"The packed text has {total:,} bytes, more than {PACKED_BYTES:,}; leave out some of {config}. The largest "
            f"corpora are {largest}."
        )
    return total


def split_state(checkpoint: Checkpoint, folder: Path) -> int:
    """Cut a checkpoint into parts that may travel.

    Weights become bfloat16; the state of the optimiser is left out.

    Args:
        checkpoint: The checkpoint to resume from.
        folder: The folder of the parts; those of an earlier call are replaced.

    Returns:
        The number of parts.

    Raises:
        DataError: There are more than :data:`MAX_PARTS`.
    """
    weights = {name: weight.bfloat16() for name, weight in checkpoint.weights.items()}
    light = folder / "state.pt"
    save_checkpoint(replace(checkpoint, weights=weights, progress={**checkpoint.progress, "optimizers": {}}), light)
    content = light.read_bytes()
    light.unlink()
    parts = [content[begin : begin + PART_BYTES] for begin in range(0, len(content), PART_BYTES)]
    if len(parts) > MAX_PARTS:
        raise DataError(
            f"The state has {len(content):,} bytes, and {MAX_PARTS} parts of {PART_BYTES:,} may travel; train a "
            "smaller shape."
        )
    for old in folder.glob("part-*"):
        old.unlink()
    for number, part in enumerate(parts):
        write_file(folder / f"part-{number:02d}-of-{len(parts):02d}", part)
    return len(parts)


def join_state(folder: Path, checkpoint: Path) -> Checkpoint | None:
    """Make the checkpoint that :func:`split_state` cut, with weights of float32.

    Args:
        folder: The folder of the parts.
        checkpoint: The file to write.

    Returns:
        The checkpoint; None if there are no parts.

    Raises:
        DataError: A part is missing.
        ArtifactError: The parts are no checkpoint.
    """
    parts = sorted(folder.glob("part-*"))
    if not parts:
        return None
    expected = int(parts[0].name[-2:])
    if len(parts) != expected:
        raise DataError(f"{folder} has {len(parts)} of {expected} parts of the state; copy all of them there.")
    write_file(checkpoint, b"".join(part.read_bytes() for part in parts))
    light = load_checkpoint(checkpoint)
    full = replace(light, weights={name: weight.float() for name, weight in light.weights.items()})
    save_checkpoint(full, checkpoint)
    return full


def call(packed: Path, state: Path, minutes: float, *, last: bool, device: str, work: Path) -> Path | None:
    """Train for some minutes, from the state of the call before, and leave the state for the next one.

    Args:
        packed: The packed text.
        state: The folder of the state: parts of a checkpoint, and what the last call measured.
        minutes: The time of this call.
        last: Whether to let the learning rate fall to zero and to write the averaged checkpoint.
        device: ``cpu`` or ``cuda``.
        work: A folder for the run.

    Returns:
        The checkpoint to export after the last call, unless its time was over before; None after others.

    Raises:
        ConfigError: This is the last call, and no call has measured the speed.
        DataError: The state is incomplete or too large, or a corpus is unusable.
    """
    began = time.monotonic()
    state.mkdir(parents=True, exist_ok=True)
    settings = TrainingSettings.load(packed / CONFIG)
    resumed = join_state(state, work / LAST)
    first = resumed.progress if resumed else {"step": 0, "seconds": 0.0}
    if last:
        settings = _ending(settings, state, int(first["step"]), 60 * minutes)
    finished: Path | None = None

    timer = threading.Timer(60 * minutes * (1.0 if last else MARGIN), os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    try:
        path = train(settings, packed, work, tokenizer_dir=packed, device=device, show_progress=sys.stderr.isatty())
        finished = path if path.name == AVERAGED else None
    except KeyboardInterrupt:
        print("the time of the call is over")
    finally:
        timer.cancel()
    if not (work / LAST).is_file():
        raise ConfigError(f"{minutes} minutes were over before the first update; give the call more --minutes.")
    after = load_checkpoint(work / LAST)
    updates, seconds = after.progress["step"] - first["step"], after.progress["seconds"] - first["seconds"]
    besides = time.monotonic() - began - seconds
    print(f"{updates} updates in {seconds:.0f} s, {besides:.0f} s besides; {split_state(after, state)} parts")
    if updates:
        (state / SPEED).write_text(json.dumps({"seconds_per_update": seconds / updates, "besides_s": besides}))
    return finished


def _ending(settings: TrainingSettings, state: Path, step: int, seconds: float) -> TrainingSettings:
    """The settings of the last call: as many updates as its time allows, most of them with a falling rate."""
    try:
        speed = json.loads((state / SPEED).read_text())
    except OSError as error:
        raise ConfigError(
            f"{state / SPEED} cannot be read; --last comes after a call that measured the speed."
        ) from error
    updates = max(1, math.floor(MARGIN * (seconds - speed["besides_s"]) / speed["seconds_per_update"]))
    cooldown = math.ceil(0.8 * updates)
    every = max(1, cooldown // (2 * settings.average))
    return replace(settings, max_steps=step + updates, cooldown_steps=cooldown, evaluate_every=every)


def _rows(plans: Sequence[Plan], chosen: Plan, machine: Machine) -> Iterator[str]:
    yield "shape     parameters   tokens in the time   memory   state   "
    for each in plans:
        mark = "<- chosen" if each == chosen else "" if each.fits(machine) else "does not fit"
        yield (
            f"{each.name:8} {each.num_parameters / 1e6:9.1f} M {each.tokens / 1e9:15.2f} billion"
            f" {each.memory_bytes / 2**30:6.1f} GiB {each.state_bytes / 1e6:5.0f} MB  {mark}"
        )


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="plan|pack|call")
    planning = commands.add_parser("plan", help="calculate what each shape takes, and choose one")
    planning.add_argument("--minutes", type=float, default=25.0, help="of all calls together; default 25")
    planning.add_argument(
        "--besides", type=float, default=5.0, help="minutes for reading text and evaluations; default 5"
    )
    planning.add_argument("--peak", type=float, default=989.0, help="TFLOP/s of bfloat16; default 989, of an H100")
    planning.add_argument("--utilisation", type=float, default=0.4, help="the share that is reached; default 0.4")
    planning.add_argument("--memory", type=float, default=80.0, help="GiB of the GPU; default 80")
    planning.add_argument("--vocabulary", type=int, default=16_000, help="tokens; default 16000")
    planning.add_argument("--batch-tokens", type=int, default=60_000, help="padded tokens of a side; default 60000")
    planning.set_defaults(do_command=_plan)
    packing = commands.add_parser("pack", help=f"pack the text into at most {PACKED_BYTES // 1_000_000} MB")
    packing.add_argument("--config", type=Path, required=True)
    packing.add_argument("--data", type=Path, required=True)
    packing.add_argument("--out", type=Path, required=True)
    packing.set_defaults(do_command=_pack)
    calling = commands.add_parser("call", help="train for some minutes")
    calling.add_argument("--packed", type=Path, required=True, help="the folder that pack wrote")
    calling.add_argument(
        "--state", type=Path, required=True, help="the folder of the state; empty before the first call"
    )
    calling.add_argument("--minutes", type=float, required=True)
    calling.add_argument("--last", action="store_true", help="let the learning rate fall to zero and write averaged.pt")
    calling.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    calling.add_argument("--run", type=Path, default=Path("runs/gpu"), help="a folder for the run; default runs/gpu")
    calling.set_defaults(do_command=_call)


def _plan(arguments: argparse.Namespace) -> None:
    seconds = 60 * (arguments.minutes - arguments.besides)
    machine = Machine(arguments.peak * 1e12, arguments.utilisation, arguments.memory * 2**30, seconds)
    plans, chosen = choose(machine, arguments.vocabulary, arguments.batch_tokens)
    print("\n".join(_rows(plans, chosen, machine)))
    print(yaml.safe_dump({"model": SHAPES[chosen.name]}, sort_keys=False), end="")


def _pack(arguments: argparse.Namespace) -> None:
    print(f"{pack(arguments.config, arguments.data, arguments.out):,} bytes in {arguments.out}")


def _call(arguments: argparse.Namespace) -> None:
    finished = call(
        arguments.packed,
        arguments.state,
        arguments.minutes,
        last=arguments.last,
        device=arguments.device,
        work=arguments.run,
    )
    if finished:
        print(f"export {finished}")


def _run(arguments: argparse.Namespace) -> int:
    do_command: Any = arguments.do_command
    do_command(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(start("train_gpu", __doc__, _add_arguments, _run))
