"""The cost of translation by sentence length, beam size, and number of sentences.

    python -m benchmarks.growth --shape small

Random weights of OPUS-MT's kind, int8, Verso and CTranslate2 with the same threads (as one worker with all of them and
as one-threaded workers), each engine in its own process, taking turns at every point of every round, after a
warm-up. Token ids in, token ids out.

    length        one sentence of 5 to 200 tokens, its output as long; greedy and with a beam of 4; milliseconds
    beam          one sentence of 20 tokens, its output as long, with a beam of 1 to 16; milliseconds
    concurrency   1 to 256 sentences of 20 tokens at once, greedy and with a beam of 4; target tokens per second

CTranslate2 gets batches of 32 sentences, or fewer so that each of its workers has some; Verso forms its own.
Figures are medians over the rounds. Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.checkpoints import SHAPES, SHIPPED, Shape, make_models, make_sources
from benchmarks.command_line import parser, prepare_environment, progress
from benchmarks.contenders import Job, Result, Row, engine_runner, rows_for
from benchmarks.processes import OtherPrograms, describe_machine, machine_line, started
from benchmarks.tables import markdown, new_figure, rounded, save, write_json

LENGTHS = (5, 10, 20, 50, 100, 200)
BEAMS = (1, 2, 4, 8, 16)
CONCURRENCIES = (1, 4, 16, 64, 256)

TOKENS = 20
"""Tokens of source and output, unless the length is varied."""

FEW = 16
"""Most sentences that are translated several times in a row."""

LARGEST_BATCH = 32
"""Batch size of CTranslate2."""

Axis = Literal["length", "beam", "concurrency"]

UNITS: dict[Axis, str] = {"length": "ms", "beam": "ms", "concurrency": "tokens/s"}


@dataclass(frozen=True)
class Point:
    """A measured point.

    Args:
        axis: The varied quantity.
        value: Its value.
        beam_size: 1 is greedy.
        num_tokens: Tokens of each source and of each output.
        num_sentences: Number of concurrent sentences.
    """

    axis: Axis
    value: int
    beam_size: int
    num_tokens: int
    num_sentences: int

    @property
    def line(self) -> str:
        """The line of the plot that the point belongs to."""
        if self.axis == "beam":
            return self.axis
        return f"{self.axis}, {'greedy' if self.beam_size == 1 else f'beam {self.beam_size}'}"


def points(lengths: Sequence[int], beams: Sequence[int], concurrencies: Sequence[int]) -> list[Point]:
    """All points, in ascending order along each line."""
    return [
        *(Point("length", length, beam_size, length, 1) for beam_size in (1, 4) for length in lengths),
        *(Point("beam", beam_size, beam_size, TOKENS, 1) for beam_size in beams),
        *(Point("concurrency", number, beam_size, TOKENS, number) for beam_size in (1, 4) for number in concurrencies),
    ]


def job_of(point: Point, row: Row, shape: Shape, repeats: int) -> Job:
    """The job of an engine at a point.

    Args:
        point: The point.
        row: The engine.
        shape: Shape of the model.
        repeats: Number of repetitions of few sentences.
    """
    sources = make_sources(point.num_sentences, shape.vocab_size, point.num_tokens, point.num_tokens, seed=point.value)
    batch_size = max(1, min(LARGEST_BATCH, point.num_sentences // row.num_workers))
    # Few sentences take milliseconds: the first turn after a pause is not what they usually take.
    once = repeats if point.num_sentences <= FEW else 1
    return Job(sources, point.beam_size, batch_size, point.num_tokens, point.num_tokens, once)


def measure(
    folder: Path,
    shape: Shape,
    measured: Sequence[Point],
    num_rounds: int,
    num_threads: int,
    repeats: int,
    pause_s: float,
    advance: Callable[[str], None],
) -> dict[str, Any]:
    """Measure all points; returns the figures, ready for JSON.

    Args:
        folder: Folder of the models.
        shape: Shape of the models.
        measured: The points to measure.
        num_rounds: Number of rounds after the warm-up.
        num_threads: Total threads of each engine.
        repeats: Number of repetitions of few sentences in a round.
        pause_s: Pause between two engines: OpenMP's threads keep a core busy for up to 0.2 s after their last work.
        advance: Called after each point of a round.
    """
    rows = contenders(num_threads)
    rng = random.Random(0)
    lines: dict[str, dict[str, dict[str, list[float]]]] = {
        point.line: {row.name: {} for row in rows} for point in measured
    }
    with ExitStack() as stack:
        workers = {row.name: stack.enter_context(started(row.name, engine_runner, row, folder)) for row in rows}
        for worker in workers.values():
            worker.wait_until_loaded()
        others = OtherPrograms([os.getpid(), *(worker.pid for worker in workers.values())])
        for number in range(1 + num_rounds):
            for point in measured:
                for row in rng.sample(rows, len(rows)):
                    time.sleep(pause_s)
                    result: Result = workers[row.name].run(job_of(point, row, shape, repeats))
                    if any(len(answer) != point.num_tokens for answer in result.answers):
                        raise SystemExit(f"{row.name} gave answers of another length than {point.num_tokens} tokens")
                    seconds = statistics.median(result.seconds)
                    value = 1000 * seconds if UNITS[point.axis] == "ms" else point.num_sentences * TOKENS / seconds
                    if number:
                        lines[point.line][row.name].setdefault(str(point.value), []).append(rounded(value))
                advance(f"round {number}, {point.line} {point.value}" if number else "warm-up")
        disturbance = others.share()
    return {"lines": lines, "other_programs_share": round(disturbance, 3)}


def contenders(num_threads: int) -> list[Row]:
    """The engines in int8."""
    return [row for row in rows_for(num_threads, with_transformers=False) if row.precision == "int8"]


def report(figures: dict[str, Any]) -> str:
    """A table for each line of growth."""
    parts = []
    for line, engines in figures["lines"].items():
        columns = list(next(iter(engines.values())))
        axis = line.split(",")[0]
        unit = next(unit for name, unit in UNITS.items() if name == axis)
        rows = [
            [name, *(f"{statistics.median(values[column]):{',.0f' if unit != 'ms' else ',.1f'}}" for column in columns)]
            for name, values in engines.items()
        ]
        parts.append(markdown([f"{line}: {unit}", *columns], rows))
    parts.append(f"Other programs used {figures['other_programs_share']:.0%} of the processors.")
    return "\n\n".join(parts)


def plot(figures: dict[str, Any], path: Path) -> None:
    """Draw a panel for each varied quantity.

    Args:
        figures: As written to JSON.
        path: The PNG file to write.
    """
    figure = new_figure(13.0, 4.2)
    panels = dict(zip(UNITS, figure.subplots(1, len(UNITS)), strict=True))
    for line, engines in figures["lines"].items():
        axis, _, way = line.partition(", ")
        panel = next(panel for name, panel in panels.items() if name == axis)
        for number, (name, values) in enumerate(engines.items()):
            panel.plot(
                [int(value) for value in values],
                [statistics.median(rounds) for rounds in values.values()],
                color=f"C{number}",
                linestyle="--" if way.startswith("beam") else "-",
                marker="o",
                markersize=3,
                label=f"{name}{', ' if way else ''}{way}",
            )
    for axis, panel in panels.items():
        panel.set_xscale("log")
        values = [int(value) for line, engines in figures["lines"].items() if line.split(",")[0] == axis
                  for value in next(iter(engines.values()))]  # fmt: skip
        panel.set_xticks(values, [str(value) for value in values])
        panel.minorticks_off()
        panel.set_yscale("log")
        panel.set_xlabel(
            {"length": "tokens of source and answer", "beam": "beam size", "concurrency": "sentences at once"}[axis]
        )
        panel.set_ylabel("target tokens per second" if UNITS[axis] != "ms" else "milliseconds, one sentence")
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    save(figure, path)


def main() -> int:
    """Make the models, measure and print."""
    options = parser(__doc__, rounds=3, threads=2, out=True, quick=True)
    options.add_argument("--shape", choices=[name for name in SHAPES if name != SHIPPED],
                         help="tiny, small, base; default small")  # fmt: skip
    arguments = options.parse_args()
    prepare_environment(quick=arguments.quick)
    name = arguments.shape or ("toy" if arguments.quick else "small")
    measured, num_rounds, repeats, pause_s = points(LENGTHS, BEAMS, CONCURRENCIES), arguments.rounds, 5, 0.3
    if arguments.quick:
        measured, num_rounds, repeats, pause_s = points((5, 20), (1, 4), (1, 8)), 1, 1, 0.0
    figures: dict[str, Any] = {"machine": describe_machine(arguments.threads), "shape": name, "rounds": num_rounds}
    print(machine_line(figures["machine"]), flush=True)
    with (
        progress(len(measured) * (1 + num_rounds), "point") as (advance, show),
        tempfile.TemporaryDirectory() as folder_name,
    ):
        folder = Path(folder_name)
        make_models(folder, SHAPES[name], ["Verso int8", "CTranslate2 int8"])
        figures |= measure(folder, SHAPES[name], measured, num_rounds, arguments.threads, repeats, pause_s, advance)
        title = f"{name}: {SHAPES[name]}; int8, {arguments.threads} threads, {num_rounds} rounds"
        show(f"\n{title}\n\n{report(figures)}\n")
    write_json(figures, arguments.out / "growth.json")
    plot(figures, arguments.out / "growth.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
