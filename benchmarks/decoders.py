"""A recurrent decoder (SSRU) and one with self-attention: speed and memory, or quality after the same training.

    python -m benchmarks.decoders speed
    python -m benchmarks.decoders training

``speed``: random weights of one shape that differ in the decoder's first sub-layer only, in the compiled decoder. Each
sentence has as many tokens as its answer, which is as long as asked for. Both decoders take turns; figures are medians
over the rounds. ``--cpu-time`` counts the processor time of one thread, on a machine that has other work.

    tokens/s          target tokens per second of sentences that decode together, their encoding included
    rows at once      rows of a step of 25 ms, the bound of the service (app/engine/capacity.py), at the best rate
    bytes of a row    what a hypothesis keeps of its target: keys and values, or states

``training``: first the processor time of an update of ``configs/student.yaml`` with each decoder. Then two runs of a
smaller model, which differ in ``decoder`` only, with the same text, updates and seed: loss and BLEU on the held-out
text. They take some minutes of processor time.
"""

from __future__ import annotations

import csv
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import torch

from benchmarks.command_line import parser, positive, progress
from benchmarks.processes import describe_machine, machine_line
from benchmarks.tables import markdown, rounded, write_json
from model.artifacts.script import script
from model.decoding.native.cohort import NativeCohort
from model.decoding.native.packed import NativeModel, PrecisionName, make_native_model
from model.decoding.options import DecodingOptions
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import DecodingRequest
from model.network.config import Decoder, ModelConfig
from model.network.padding import NO_PAD_ID
from model.network.transformer import Transformer
from model.process.allocator import keep_freed_memory
from model.text.tokenizer import PAD_ID, Tokenizer
from model.training.batches import Batch
from model.training.loop import train
from model.training.settings import TrainingSettings
from model.training.update import Updater

DECODERS: tuple[Decoder, ...] = get_args(Decoder)

STUDENT: dict[str, Any] = {
    "source_vocab_size": 32_000,
    "target_vocab_size": 32_000,
    "d_model": 256,
    "num_heads": 8,
    "d_ff": 1536,
    "encoder_layers": 6,
    "decoder_layers": 2,
    "dropout": 0.0,
    "norm": "post",
    "start": "zero",
    "positions": "tensor2tensor",
    "layer_norm_eps": 1e-6,
    "max_positions": 256,
}
"""Firefox Translations' architecture "tiny"."""

LENGTHS = (20, 60, 120)
ROWS = (1, 16, 64, 256)
MAX_STEP_S = 0.025

PAGE_BYTES = 64
"""What every position takes besides, for its token (model/decoding/native/kernels.h)."""

UPDATE_TOKENS = 28
"""Tokens of each sentence of a measured update."""

TRAINING_COLUMNS = ("train_loss", "dev_loss", "bleu_en-de", "minutes")

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Vocabulary:
    """The special tokens of Marian: end 0, unknown 1, no padding."""

    pad_id: int = NO_PAD_ID
    start_id: int = 0
    end_id: int = 0
    never_generated: tuple[int, ...] = (1,)


VOCABULARY = cast(Tokenizer, Vocabulary())


def make_model(decoder: Decoder, precision: PrecisionName) -> NativeModel:
    """Random weights in the compiled decoder."""
    torch.manual_seed(0)
    config = ModelConfig(**STUDENT, decoder=decoder)
    return make_native_model(script(Transformer(config, NO_PAD_ID), precision), config)


def decode(
    model: NativeModel, length: int, num_rows: int, beam_size: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds to translate sentences of some length together, into answers of that length.

    Args:
        model: The model.
        length: Tokens of each source and of each answer.
        num_rows: Rows that decode together.
        beam_size: Rows of a sentence.
        clock: Returns the time in seconds.

    Raises:
        SystemExit: An answer has another length.
    """
    rng = random.Random(length)
    options = DecodingOptions(
        "greedy" if beam_size == 1 else "beam",
        beam_size=beam_size,
        min_new_tokens=length,
        max_new_tokens=length,
    )
    sources = [[*(rng.randrange(2, 32_000) for _ in range(length - 1)), 0] for _ in range(num_rows // beam_size)]
    cohort = NativeCohort(model, VOCABULARY, beam_size, 250, DecodingPolicy())
    began = clock()
    cohort.join([DecodingRequest(key, source, options) for key, source in enumerate(sources)])
    finished = []
    while cohort.num_sentences:
        finished += cohort.step()
    seconds = clock() - began
    if any(outcome.hypothesis is None or len(outcome.hypothesis.token_ids) != length for outcome in finished):
        raise SystemExit(f"an answer has another length than {length} tokens")
    return seconds


def row_bytes(decoder: Decoder, precision: PrecisionName, length: int) -> int:
    """What the compiled decoder keeps of a target of some length besides its tokens."""
    numbers: int = STUDENT["decoder_layers"] * STUDENT["d_model"]
    if decoder == "ssru":
        return length * PAGE_BYTES + 4 * numbers
    return length * (PAGE_BYTES + 2 * numbers * (4 if precision == "float32" else 2))


def measure_speed(
    precision: PrecisionName,
    lengths: Sequence[int],
    rows: Sequence[int],
    beam_size: int,
    num_rounds: int,
    clock: Callable[[], float],
) -> dict[str, Any]:
    """Rates of both decoders at every length and number of rows; arguments as for :func:`decode`."""
    models = {decoder: make_model(decoder, precision) for decoder in DECODERS}
    points = [(length, number) for length in lengths for number in rows if number >= beam_size]
    rates: dict[str, dict[str, list[float]]] = {decoder: {} for decoder in DECODERS}
    rng = random.Random(0)
    with progress(len(points) * (1 + num_rounds), "point") as (advance, _):
        for turn in range(1 + num_rounds):
            for length, number in points:
                for decoder in rng.sample(DECODERS, len(DECODERS)):
                    seconds = decode(models[decoder], length, number, beam_size, clock)
                    tokens = number // beam_size * length
                    if turn:
                        rates[decoder].setdefault(f"{length}/{number}", []).append(rounded(tokens / seconds))
                advance(f"round {turn}, {number} rows of {length} tokens")
    figures: dict[str, Any] = {"precision": precision, "beam_size": beam_size, "rounds": rates, "rows": []}
    for length in lengths:
        for decoder in DECODERS:
            medians = {
                number: statistics.median(rates[decoder][f"{length}/{number}"])
                for of_length, number in points
                if of_length == length
            }
            figures["rows"].append(
                {
                    "length": length,
                    "decoder": decoder,
                    "tokens_per_s": medians,
                    "rows_at_once": int(max(medians.values()) * beam_size * MAX_STEP_S),
                    "row_bytes": row_bytes(decoder, precision, length),
                }
            )
    return figures


def speed_table(figures: dict[str, Any]) -> str:
    """The printed table."""
    numbers = list(figures["rows"][0]["tokens_per_s"])
    header = ["tokens", "decoder", *(f"{number} rows" for number in numbers), "rows at once", "bytes of a row"]
    return markdown(
        header,
        [
            [
                str(row["length"]),
                row["decoder"],
                *(f"{rate:,.0f}" for rate in row["tokens_per_s"].values()),
                f"{row['rows_at_once']:,}",
                f"{row['row_bytes']:,}",
            ]
            for row in figures["rows"]
        ],
    )


def small_run(decoder: Decoder, num_updates: int) -> TrainingSettings:
    """The settings of ``configs/student.yaml`` for a smaller model."""
    settings = TrainingSettings.load(ROOT / "configs" / "student.yaml")
    shape = {"d_model": 96, "num_heads": 4, "d_ff": 256, "encoder_layers": 2, "decoder_layers": 1, "decoder": decoder}
    return replace(
        settings,
        model={**settings.model, **shape},
        vocab_size=2000,
        batch_tokens=1000,
        max_steps=num_updates,
        warmup_steps=max(1, num_updates // 6),
        cooldown_steps=num_updates // 3,
        learning_rate=0.003,
        evaluate_every=max(1, num_updates // 3),
        dev_sentences=min(50, num_updates),  # an untrained model writes the longest answers
        average=1,
    )


def update_seconds(num_rounds: int) -> dict[str, float]:
    """Processor time of an update of ``configs/student.yaml`` with each decoder, in turns: the median of the rounds."""
    settings = TrainingSettings.load(ROOT / "configs" / "student.yaml")
    rows = settings.batch_tokens // UPDATE_TOKENS
    shape = (rows, UPDATE_TOKENS)
    batch = Batch(torch.randint(4, settings.vocab_size, shape), torch.randint(4, settings.vocab_size, shape))
    updaters = {
        decoder: Updater(
            Transformer(
                replace(settings, model={**settings.model, "decoder": decoder}).model_config(settings.vocab_size),
                PAD_ID,
            ).train(),
            settings,
        )
        for decoder in DECODERS
    }
    seconds: dict[str, list[float]] = {decoder: [] for decoder in DECODERS}
    for turn in range(1 + num_rounds):
        for decoder, updater in updaters.items():
            began = time.process_time()
            updater.update([batch], 1e-4)
            if turn:
                seconds[decoder].append(time.process_time() - began)
    return {decoder: rounded(statistics.median(values)) for decoder, values in seconds.items()}


def measure_training(num_updates: int, num_threads: int) -> dict[str, Any]:
    """The curves of both decoders, each in a run of its own, one after the other."""
    figures: dict[str, Any] = {"updates": num_updates, "curves": {}}
    with tempfile.TemporaryDirectory() as folder:
        for decoder in DECODERS:
            settings = replace(small_run(decoder, num_updates), threads=num_threads)
            run = Path(folder) / decoder
            train(settings, ROOT / "data", run, report=lambda line: None)
            with (run / "curve.csv").open(encoding="utf-8") as curve:
                figures["curves"][decoder] = list(csv.DictReader(curve))
    return figures


def training_table(figures: dict[str, Any]) -> str:
    """The last evaluation of each run."""
    last = {decoder: curve[-1] for decoder, curve in figures["curves"].items()}
    rows = [
        [decoder, *(f"{float(row[column]):.2f}" for column in TRAINING_COLUMNS), f"{float(row['tokens_per_s']):,.0f}"]
        for decoder, row in last.items()
    ]
    return markdown(["decoder", *TRAINING_COLUMNS, "tokens_per_s"], rows)


def main() -> int:
    """Measure, print and write the figures."""
    options = parser(__doc__, rounds=3, threads=2, out=True, quick=True)
    options.add_argument("part", choices=("speed", "training"))
    options.add_argument("--precision", nargs="+", choices=get_args(PrecisionName), default=["int8", "float32"])
    options.add_argument(
        "--beam-size", nargs="+", type=positive(int), default=[1, 4], metavar="N", help="default 1 and 4"
    )
    options.add_argument("--updates", type=positive(int), default=450, help="of each training; default %(default)s")
    options.add_argument("--cpu-time", action="store_true", help="count processor time; needs --threads 1")
    arguments = options.parse_args()
    quick = arguments.quick
    if arguments.cpu_time and arguments.threads > 1:
        options.error("--cpu-time is the time of one thread; use --threads 1")
    clock = time.process_time if arguments.cpu_time else time.perf_counter
    keep_freed_memory()
    torch.set_num_threads(arguments.threads)
    figures: dict[str, Any] = {"machine": describe_machine(arguments.threads)}
    print(machine_line(figures["machine"]), flush=True)
    if arguments.part == "speed":
        for precision in arguments.precision[: 1 if quick else None]:
            for beam_size in arguments.beam_size[: 1 if quick else None]:
                lengths, rows, num_rounds = (LENGTHS, ROWS, arguments.rounds) if not quick else ((20,), (1, 16), 1)
                speed = measure_speed(precision, lengths, rows, beam_size, num_rounds, clock)
                figures[f"{precision}, beam {beam_size}"] = speed
                print(f"\n{precision}, beam {beam_size}\n\n{speed_table(speed)}\n", flush=True)
    else:
        figures["update_cpu_s"] = update_seconds(1 if quick else arguments.rounds)
        print(f"processor time of an update: {figures['update_cpu_s']}", flush=True)
        figures |= measure_training(2 if quick else arguments.updates, arguments.threads)
        print(f"\n{figures['updates']} updates\n\n{training_table(figures)}\n")
    write_json(figures, arguments.out / f"decoders-{arguments.part}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
