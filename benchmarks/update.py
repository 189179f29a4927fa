"""How long an update of the shipped translator's training takes, and which share of the machine's rate it reaches.

    python -m benchmarks.update

The shape that ships, batches of 5,000 padded tokens of random sentences, Muon for the matrices inside the layers. The
update is measured with Verso's Muon and, by replacing its step's time by that of ``torch.optim.Muon``, with torch's.
The rate is that of a product of two large matrices in the type of the update. Medians of rounds in turn.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.processes import describe_machine, machine_line
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.pretrained import PRETRAINED
from model.network.transformer import Transformer
from model.process.allocator import keep_freed_memory
from model.training.batches import Batch
from model.training.muon import BatchedMuon, fastest_dtype
from model.training.settings import TrainingSettings
from model.training.update import Updater

_LENGTH = 28
"""Tokens of a sentence, the mean of the shipped translator's text."""


def random_batch(vocab_size: int, batch_tokens: int) -> Batch:
    """A batch of sentences of one length, without padding."""
    rows = batch_tokens // _LENGTH
    return Batch(torch.randint(4, vocab_size, (rows, _LENGTH)), torch.randint(4, vocab_size, (rows, _LENGTH + 1)))


def seconds(work: Callable[[], object]) -> float:
    """The duration of a call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def product_rate(dtype: torch.dtype) -> float:
    """Floating-point operations a second of a product of two matrices of 4,096 x 1,024 and 1,024 x 1,024."""
    a, b = torch.randn(4096, 1024).to(dtype), torch.randn(1024, 1024).to(dtype)
    return 2 * 4096 * 1024 * 1024 / min(seconds(lambda: a @ b) for _ in range(10))


def muon_steps(transformer: Transformer) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step of Verso's Muon and of torch's for copies of the matrices inside the layers."""

    def matrices() -> list[nn.Parameter]:
        named = transformer.named_parameters()
        inside = [one for name, one in named if name.startswith(("encoder.", "decoder.")) and one.ndim == 2]
        copies = [nn.Parameter(one.detach().clone()) for one in inside]
        for copy in copies:
            copy.grad = torch.randn(copy.shape)
        return copies

    options = {"lr": 1e-4, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
    return BatchedMuon(matrices(), **options).step, torch.optim.Muon(matrices(), **options).step  # type: ignore[arg-type]


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.update", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="rounds; default 5")
    parser.add_argument("--batch-tokens", type=int, default=5000, metavar="N", help="padded tokens; default 5000")
    parser.add_argument("--skip-torch", action="store_true", help="leave out torch's Muon, which may take 20 s a step")
    arguments = parser.parse_args()
    keep_freed_memory()
    checkpoint = load_checkpoint(PRETRAINED)
    transformer = checkpoint.build().train()
    settings = TrainingSettings("update", ("en", "de"), ("none",), "none", optimizer="muon")  # type: ignore[arg-type]
    updater = Updater(transformer, settings)
    batch = random_batch(checkpoint.config.source_vocab_size, arguments.batch_tokens)
    ours, theirs = muon_steps(transformer)

    def update() -> Tensor:
        return updater.update([batch], 1e-4)

    update()
    with FlopCounterMode(display=False) as counter:
        update()
    durations: dict[str, list[float]] = {"update": [], "ours": [], "theirs": []}
    dtype = updater.amp_dtype or torch.float32
    rate = 0.0
    for _ in range(arguments.rounds):
        durations["update"].append(seconds(update))
        durations["ours"].append(seconds(ours))
        if not arguments.skip_torch:
            durations["theirs"].append(seconds(theirs))
        rate = max(rate, product_rate(dtype))
    whole, own = statistics.median(durations["update"]), statistics.median(durations["ours"])
    operations = counter.get_total_flops()
    print(machine_line(describe_machine(torch.get_num_threads())))
    print(f"products in {dtype}, at most {rate / 1e9:.0f} GFLOP/s; Muon's in {fastest_dtype('cpu')}")
    print(f"an update: {operations / 1e9:.0f} GFLOP, {batch.num_target_tokens} target tokens")
    print("| Muon | its step, s | update, s | updates/s | share of the rate |\n|---|---|---|---|---|")
    rows = [("Verso", own, whole)]
    if durations["theirs"]:
        torchs = statistics.median(durations["theirs"])
        rows.append(("torch", torchs, whole - own + torchs))
    for name, step, total in rows:
        print(f"| {name} | {step:.2f} | {total:.2f} | {1 / total:.2f} | {100 * operations / total / rate:.0f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
