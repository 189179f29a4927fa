"""Target tokens per second of Verso's training loop and of the same loop around ``torch.nn.Transformer``, in one run.

    python -m benchmarks.training --text DATA/train/tatoeba

Both loops train the same architecture with equally many parameters, on the same batches, which the same code makes
during the run, with AdamW, clipped gradients and label smoothing 0.1. They differ in the model and the update:

    Verso                  its own update (model/training/update.py)
    torch.nn.Transformer   embeddings, positions and a tied output around it; F.cross_entropy over the padded logits,
                           which ignores padding; AdamW(fused=True); autocast where Verso has it
    "own dropout"          the same with dropout also inside attention and feed-forward, the default of the module;
                           without it, dropout is at the same positions as Verso's, and the work is the same

Each loop has its own process; in each round each loop, in random order, does the same updates while the others sleep.
A warm-up round does not count. All have the memory setting of ``python -m model train`` (model/process/allocator.py),
which makes torch's loop faster, too. A turn in which other programs use more than 5 % of the processors is repeated, at
most twice; ``--busy`` never repeats. Columns are medians over the rounds, ratios are medians of the rounds' ratios, by
wall-clock time and by processor time, which other programs affect less. The target is the ratio of wall-clock times to
the best of torch's loops in the same precision.

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import random
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

from benchmarks.processes import (
    OtherPrograms,
    Worker,
    describe_machine,
    machine_line,
    peak_memory_bytes,
    started,
)
from benchmarks.shipped import shipped_tokenizer
from benchmarks.tables import RESULTS, markdown, rounded, write_json
from benchmarks.targets import median_ratio
from benchmarks.traffic import sentence
from model.errors import ModelError
from model.network.config import ModelConfig
from model.network.embeddings import position_table
from model.network.transformer import Transformer
from model.process.allocator import keep_freed_memory
from model.text.tokenizer import PAD_ID
from model.training.batches import Batch, BatchMaker
from model.training.corpus import LoadedCorpus, Pair, read_parallel
from model.training.prefetch import prefetch
from model.training.settings import TrainingSettings
from model.training.update import Updater

TARGET = 1.2
"""Target speed-up compared with torch's loop, on a processor."""

DISTURBANCE = 0.05
"""Maximal share of the processors that other programs may use in a turn."""

SHAPES: dict[str, dict[str, Any]] = {
    "toy": {"d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.1},
    "shipped": {"d_model": 256, "num_heads": 4, "d_ff": 1024, "encoder_layers": 6, "decoder_layers": 2, "dropout": 0.1},
    "wide": {"d_model": 384, "num_heads": 6, "d_ff": 1536, "encoder_layers": 6, "decoder_layers": 3, "dropout": 0.2},
}

MEASURES = ("tokens_per_s", "tokens_per_cpu_s")

RATE, SMOOTHING, CLIP_NORM = 1e-4, 0.1, 1.0


@dataclass(frozen=True)
class Contender:
    """One row of the table.

    Args:
        library: Library of the loop.
        precision: Precision of the matrix products.
        own_dropout: Whether torch's loop has dropout also inside attention and feed-forward.
    """

    library: str
    precision: str
    own_dropout: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.library} {self.precision}{', own dropout' if self.own_dropout else ''}"


def contenders() -> list[Contender]:
    """The rows of the table."""
    return [
        contender
        for precision in ("bfloat16", "float32")
        for contender in (
            Contender("Verso", precision),
            Contender("torch.nn.Transformer", precision),
            Contender("torch.nn.Transformer", precision, own_dropout=True),
        )
    ]


@dataclass(frozen=True)
class Plan:
    """The settings of every process.

    Args:
        shape: Name of the architecture.
        text: Parallel text without language ending; None generates sentences.
        num_pairs: Number of pairs used.
        batch_tokens: Maximal padded target tokens of a batch.
        num_updates: Updates per turn.
        num_rounds: Turns of each loop after the warm-up.
        num_threads: Threads of each loop.
        patience: Maximal repetitions of a disturbed turn.
    """

    shape: str
    text: Path | None
    num_pairs: int
    batch_tokens: int
    num_updates: int
    num_rounds: int
    num_threads: int
    patience: int

    @property
    def config(self) -> ModelConfig:
        """The architecture, with the vocabulary of the shipped translator."""
        size = shipped_tokenizer().vocab_size
        return ModelConfig(source_vocab_size=size, target_vocab_size=size, **SHAPES[self.shape])

    def batches(self) -> BatchMaker:
        """The batches of all loops."""
        return BatchMaker(
            [LoadedCorpus(self._pairs())],
            ("en", "de"),
            [("en", "de"), ("de", "en")],
            shipped_tokenizer(),
            batch_tokens=self.batch_tokens,
            max_tokens=100,
            seed=1,
        )

    def _pairs(self) -> list[Pair]:
        if self.text is None:
            tokenizer, rng = shipped_tokenizer(), random.Random(1)

            def num_tokens(text: str) -> int:
                return len(tokenizer.encode(text, "de"))

            made = [sentence(rng, num_tokens, 4, 30) for _ in range(min(self.num_pairs, 400))]
            return list(zip(made, reversed(made), strict=True))
        pairs = read_parallel(self.text, ("en", "de"))
        return random.Random(1).sample(pairs, min(self.num_pairs, len(pairs)))


class TorchTranslator(nn.Module):
    """The same architecture around ``torch.nn.Transformer``.

    Args:
        config: A pre-norm architecture with one vocabulary and tied output.
        own_dropout: Whether attention weights and the inner layer of the feed-forward have dropout, too.
    """

    def __init__(self, config: ModelConfig, *, own_dropout: bool = False) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.target_vocab_size, config.d_model)
        nn.init.normal_(self.tokens.weight, std=config.d_model**-0.5)
        self.scale = math.sqrt(config.d_model)
        self.positions: Tensor
        self.register_buffer("positions", position_table("interleaved", config.max_positions, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        warnings.filterwarnings("ignore", message="enable_nested_tensor")  # irrelevant in training
        self.transformer = nn.Transformer(
            config.d_model,
            config.num_heads,
            config.encoder_layers,
            config.decoder_layers,
            config.d_ff,
            config.dropout,
            config.activation,
            batch_first=True,
            norm_first=True,
        )
        self.output = nn.Linear(config.d_model, config.target_vocab_size)
        self.output.weight = self.tokens.weight
        if not own_dropout:
            for module in self.modules():
                if isinstance(module, nn.MultiheadAttention):
                    module.dropout = 0.0
                elif isinstance(module, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
                    module.dropout = nn.Identity()  # type: ignore[assignment]

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the token after each target position.

        Args:
            source: Source token ids, (B, S), padded on the right.
            target: Target token ids, (B, T), the start token first, padded on the right.

        Returns:
            (B, T, V).
        """
        padding = source == PAD_ID
        hidden = self.transformer(
            self._embed(source),
            self._embed(target),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.size(1)),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits: Tensor = self.output(hidden)
        return logits

    def _embed(self, token_ids: Tensor) -> Tensor:
        embedded: Tensor = self.dropout(self.tokens(token_ids) * self.scale + self.positions[: token_ids.size(1)])
        return embedded


class VersoLoop:
    """Verso's updates.

    Args:
        plan: The training settings.
        precision: Precision of the matrix products.
    """

    def __init__(self, plan: Plan, precision: str) -> None:
        self._model = Transformer(plan.config, PAD_ID).train()
        self.num_parameters = sum(parameter.numel() for parameter in self._model.parameters())
        settings = TrainingSettings.from_dict(
            {
                "name": "benchmark",
                "languages": ["en", "de"],
                "train": ["text"],
                "dev": "text",
                "precision": precision,
                "label_smoothing": SMOOTHING,
                "clip_norm": CLIP_NORM,
                "model": SHAPES[plan.shape],
            }
        )
        self._updater = Updater(self._model, settings)

    def update(self, batch: Batch) -> float:
        """Do one update; returns its loss in nats per token, without smoothing."""
        return float(self._updater.update([batch], RATE)) / batch.num_target_tokens


class TorchLoop:
    """The usual loop around ``torch.nn.Transformer``.

    Args:
        plan: The training settings.
        precision: Precision of the matrix products.
        own_dropout: As in :class:`TorchTranslator`.
    """

    def __init__(self, plan: Plan, precision: str, *, own_dropout: bool) -> None:
        self._model = TorchTranslator(plan.config, own_dropout=own_dropout).train()
        self.num_parameters = sum(parameter.numel() for parameter in self._model.parameters())
        self._autocast = precision == "bfloat16"
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=RATE, betas=(0.9, 0.98), eps=1e-9, weight_decay=0.0, fused=True
        )

    def update(self, batch: Batch) -> float:
        """Do one update; returns its smoothed loss in nats per token."""
        right = batch.target[:, 1:]
        with torch.autocast("cpu", torch.bfloat16) if self._autocast else contextlib.nullcontext():
            logits = self._model(batch.source, batch.target[:, :-1])
        loss = F.cross_entropy(
            logits.flatten(0, 1).float(), right.flatten(), ignore_index=PAD_ID, label_smoothing=SMOOTHING
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), CLIP_NORM)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())


def serve_loop(connection: Connection[Any, Any], contender: Contender, plan: Plan) -> None:
    """Main function of a training process: load, report it, and do the updates of a turn on each request.

    Args:
        connection: Receives any object for a turn, sends its figures, or a traceback as text.
        contender: The loop.
        plan: Its settings.
    """
    try:
        torch.set_num_threads(plan.num_threads)
        torch.manual_seed(1)
        keep_freed_memory()
        loop: VersoLoop | TorchLoop = (
            VersoLoop(plan, contender.precision)
            if contender.library == "Verso"
            else TorchLoop(plan, contender.precision, own_dropout=contender.own_dropout)
        )
        maker = plan.batches()

        def endless() -> Generator[Batch]:
            epoch = 0
            while True:
                yield from maker.epoch(epoch)
                epoch += 1

        with ExitStack() as stack:
            # Verso's training makes batches ahead of time; a simple loop makes them when they are needed.
            batches: Iterator[Batch] = endless()
            if contender.library == "Verso":
                batches = stack.enter_context(prefetch(endless()))
            connection.send(None)
            while connection.recv() is not None:
                began, cpu_began, tokens, loss = time.perf_counter(), time.process_time(), 0, 0.0
                for _ in range(plan.num_updates):
                    batch = next(batches)
                    loss += loop.update(batch) * batch.num_target_tokens
                    tokens += batch.num_target_tokens
                elapsed, cpu = time.perf_counter() - began, time.process_time() - cpu_began
                connection.send(
                    {
                        "num_parameters": loop.num_parameters,
                        "tokens": tokens,
                        "tokens_per_s": tokens / elapsed,
                        "tokens_per_cpu_s": tokens / cpu,
                        "loss": loss / tokens,
                        "peak_memory_mb": peak_memory_bytes() / 1e6,
                    }
                )
    except EOFError:
        pass  # the parent has ended
    except Exception:  # noqa: BLE001  (the parent reports any error)
        connection.send(traceback.format_exc())


def measure(plan: Plan, bar: Any) -> dict[str, Any]:
    """Measure all loops with one shape.

    Args:
        plan: The settings of the loops.
        bar: Progress bar.

    Raises:
        SystemExit: A process failed, or the models are not equally large.
    """
    rng = random.Random(1)
    others: list[float] = []
    num_repeated = 0
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for contender in contenders():
            bar.set_description(f"{plan.shape}, starting {contender.name}")
            workers[contender.name] = stack.enter_context(started(contender.name, serve_loop, contender, plan))
            workers[contender.name].wait_until_loaded()
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        own = [os.getpid(), *(worker.pid for worker in workers.values())]
        for number in range(-1, plan.num_rounds):
            for name in rng.sample(list(workers), len(workers)):
                bar.set_description(f"{plan.shape}, {name}")
                for attempt in range(plan.patience + 1):
                    watched = OtherPrograms(own)
                    turn = workers[name].run("a turn")
                    share = watched.share()
                    if number < 0 or share <= DISTURBANCE:
                        break
                    num_repeated += attempt < plan.patience
                bar.update()
                if number >= 0:
                    turns[name].append(turn)
                    others.append(share)
    num_parameters = {name: rows[-1]["num_parameters"] for name, rows in turns.items()}
    if len(set(num_parameters.values())) > 1:
        raise SystemExit(f"the loops train models of different sizes: {num_parameters}")
    return {
        "shape": SHAPES[plan.shape],
        "vocabulary": plan.config.target_vocab_size,
        "parameters": next(iter(num_parameters.values())),
        "plan": {**asdict(plan), "text": plan.text.name if plan.text else "made up"},
        "machine": describe_machine(plan.num_threads),
        "other_programs": {
            "median_share": rounded(statistics.median(others)),
            "largest_share": rounded(max(others)),
            "repeated_turns": num_repeated,
        },
        "loops": {name: _summarised(rows) for name, rows in turns.items()},
    }


def _summarised(rows: list[dict[str, float]]) -> dict[str, Any]:
    rounds = {measure: [rounded(row[measure]) for row in rows] for measure in (*MEASURES, "tokens")}
    return {
        **{measure: rounded(statistics.median(rounds[measure])) for measure in MEASURES},
        "peak_memory_mb": rounded(max(row["peak_memory_mb"] for row in rows)),
        "last_loss": rounded(rows[-1]["loss"]),
        "rounds": rounds,
    }


def ratios(loops: dict[str, Any], precision: str, measure: str) -> dict[str, float]:
    """The speed-up compared with each of torch's loops, and with the best of them in each round.

    Args:
        loops: Figures of all loops by name.
        precision: Precision of the compared loops.
        measure: One of :data:`MEASURES`.
    """
    ours = loops[f"Verso {precision}"]["rounds"][measure]
    theirs = {
        contender.name: loops[contender.name]["rounds"][measure]
        for contender in contenders()
        if contender.precision == precision and contender.library != "Verso"
    }
    found = {name: rounded(median_ratio(ours, [rates], lower_is_better=False)) for name, rates in theirs.items()}
    found["the best of them"] = rounded(median_ratio(ours, list(theirs.values()), lower_is_better=False))
    return found


def report(name: str, figures: dict[str, Any]) -> str:
    """The printed report of a shape."""
    loops, others, plan = figures["loops"], figures["other_programs"], figures["plan"]
    rows = []
    for contender in contenders():
        loop = loops[contender.name]
        faster = [
            "" if contender.library == "Verso" else f"{ratios(loops, contender.precision, measure)[contender.name]:.2f}"
            for measure in MEASURES
        ]
        rows.append(
            [
                contender.name,
                f"{loop['tokens_per_s']:,.0f}",
                f"{loop['tokens_per_cpu_s']:,.0f}",
                f"{loop['peak_memory_mb']:,.0f}",
                *faster,
            ]
        )
    lines = [
        f"{name}: {figures['shape']}; vocabulary {figures['vocabulary']}, "
        f"{figures['parameters'] / 1e6:.2f} M parameters",
        f"{plan['num_rounds']} rounds of {plan['num_updates']} updates of {plan['batch_tokens']} tokens after a "
        f"warm-up, {plan['num_threads']} threads, text: {plan['text']}",
        "",
        markdown(
            [
                "loop",
                "target tokens/s",
                "tokens/processor s",
                "peak MB",
                "Verso is faster by",
                "by processor time",
            ],
            rows,
        ),
        "",
    ]
    for precision in ("bfloat16", "float32"):
        by_clock, by_cpu = (ratios(loops, precision, measure)["the best of them"] for measure in MEASURES)
        lines.append(
            f"{precision}: {by_clock:.2f} times as fast as the best of torch's loops ({by_cpu:.2f} by processor time); "
            f"the target is {TARGET}: {'reached' if by_clock >= TARGET else 'MISSED'}"
        )
    lines.append(
        f"Other programs used {others['median_share']:.0%} of the processors (median of the turns; at most "
        f"{others['largest_share']:.0%}); {others['repeated_turns']} turns were repeated."
    )
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shape", nargs="+", choices=SHAPES, metavar="SHAPE", help="toy, shipped, wide; default both last"
    )
    parser.add_argument("--text", type=Path, metavar="BASE",
                        help="parallel text without its endings .en and .de; default: generated sentences")  # fmt: skip
    parser.add_argument("--pairs", type=int, default=20000, help="pairs of the text; default %(default)s")
    parser.add_argument(
        "--batch-tokens", type=int, default=2000, help="padded target tokens of a batch; default %(default)s"
    )
    parser.add_argument("--updates", type=int, default=12, help="updates per turn; default %(default)s")
    parser.add_argument("--rounds", type=int, default=5, help="rounds after the warm-up; default %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="threads of each loop; default %(default)s")
    parser.add_argument("--busy", action="store_true", help="repeat no turn, even if the machine is busy")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the figures; default %(default)s")
    parser.add_argument("--quick", action="store_true", help="one round of 2 updates, as a test")
    arguments = parser.parse_args()
    if min(arguments.rounds, arguments.updates, arguments.threads, arguments.pairs) < 1:
        parser.error("--rounds, --updates, --threads and --pairs must be at least 1")
    if arguments.batch_tokens < 100:
        parser.error("--batch-tokens must be at least 100, the longest sentence")
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc: this needs Linux")
    names = list(dict.fromkeys(arguments.shape or (["toy"] if arguments.quick else ["shipped", "wide"])))
    print(machine_line(describe_machine(arguments.threads)), flush=True)
    figures: dict[str, Any] = {"shapes": {}}
    num_rounds = 1 if arguments.quick else arguments.rounds
    with tqdm(total=len(names) * len(contenders()) * (1 + num_rounds), unit="turn", file=sys.stderr) as bar:
        for name in names:
            plan = Plan(
                shape=name,
                text=arguments.text,
                num_pairs=arguments.pairs,
                batch_tokens=arguments.batch_tokens,
                num_updates=2 if arguments.quick else arguments.updates,
                num_rounds=num_rounds,
                num_threads=arguments.threads,
                patience=0 if arguments.quick or arguments.busy else 2,
            )
            figures["shapes"][name] = measure(plan, bar)
            bar.clear()
            print(f"\n{report(name, figures['shapes'][name])}", flush=True)
            write_json(figures, arguments.out / "training.json")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModelError as error:
        sys.exit(f"error: {error}")
