"""How long an update of the shipped translator's training takes, and which share of the machine's rate it reaches.

    python -m benchmarks.update

The shape that ships, batches of 5,000 padded tokens of random sentences, Muon for the matrices inside the layers. The
update is measured with Verso's Muon and, by replacing its step's time by that of ``torch.optim.Muon``, with torch's.
The rate is that of a product of two large matrices in the type of the update. Medians of rounds in turn.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.command_line import parser, positive
from benchmarks.processes import describe_machine, machine_line
from model.artifacts.checkpoint import load_checkpoint
from model.artifacts.pretrained import PRETRAINED
from model.network.transformer import Transformer
from model.process.allocator import keep_freed_memory
from model.training.batches import Batch
from model.training.muon import BatchedMuon
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


def muon_steps(transformer: Transformer, dtype: torch.dtype) -> tuple[Callable[[], object], Callable[[], object]]:
    """A step of Verso's Muon, with products in a type, and of torch's for copies of the matrices inside the layers."""

    def matrices() -> list[nn.Parameter]:
        named = transformer.named_parameters()
        inside = [matrix for name, matrix in named if name.startswith(("encoder.", "decoder.")) and matrix.ndim == 2]
        copies = [nn.Parameter(matrix.detach().clone()) for matrix in inside]
        for copy in copies:
            copy.grad = torch.randn(copy.shape)
        return copies

    options = {"lr": 1e-4, "weight_decay": 0.05, "adjust_lr_fn": "match_rms_adamw"}
    ours, theirs = BatchedMuon(matrices(), dtype=dtype, **options), torch.optim.Muon(matrices(), **options)  # type: ignore[arg-type]
    return ours.step, theirs.step


def main() -> int:
    """Measure and print."""
    options = parser(__doc__, rounds=5)
    options.add_argument("--batch-tokens", type=positive(int), default=5000, metavar="N",
                         help="padded tokens; default 5000")  # fmt: skip
    options.add_argument("--skip-torch", action="store_true", help="leave out torch's Muon, which may take 20 s a step")
    arguments = options.parse_args()
    keep_freed_memory()
    checkpoint = load_checkpoint(PRETRAINED)
    transformer = checkpoint.build().train()
    settings = TrainingSettings("update", ("en", "de"), ("none",), "none", optimizer="muon")  # type: ignore[arg-type]
    updater = Updater(transformer, settings)
    batch = random_batch(checkpoint.config.source_vocab_size, arguments.batch_tokens)
    dtype = updater.amp_dtype or torch.float32
    verso_step, torch_step = muon_steps(transformer, dtype)

    def update() -> Tensor:
        return updater.update([batch], 1e-4)

    update()
    with FlopCounterMode(display=False) as counter:
        update()
    durations: dict[str, list[float]] = {"update": [], "Verso": [], "torch": []}
    rate = 0.0
    for _ in range(arguments.rounds):
        durations["update"].append(seconds(update))
        durations["Verso"].append(seconds(verso_step))
        if not arguments.skip_torch:
            durations["torch"].append(seconds(torch_step))
        rate = max(rate, product_rate(dtype))
    whole_s, step_s = statistics.median(durations["update"]), statistics.median(durations["Verso"])
    operations = counter.get_total_flops()
    print(machine_line(describe_machine(torch.get_num_threads())))
    print(f"products in {dtype}, at most {rate / 1e9:.0f} GFLOP/s")
    print(f"an update: {operations / 1e9:.0f} GFLOP, {batch.num_target_tokens} target tokens")
    print("| Muon | its step, s | update, s | updates/s | share of the rate |\n|---|---|---|---|---|")
    rows = [("Verso", step_s, whole_s)]
    if durations["torch"]:
        torch_s = statistics.median(durations["torch"])
        rows.append(("torch", torch_s, whole_s - step_s + torch_s))
    for name, step, total in rows:
        print(f"| {name} | {step:.2f} | {total:.2f} | {1 / total:.2f} | {100 * operations / total / rate:.0f} % |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
