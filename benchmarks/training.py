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

import os
import random
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.command_line import parser, positive, progress
from benchmarks.processes import Turns, Worker, describe_machine, machine_line, started, turns_line
from benchmarks.tables import markdown, rounded, write_json
from benchmarks.targets import median_ratio
from benchmarks.training_loops import SHAPES, Plan, Training, contenders
from model.errors import ModelError

TARGET = 1.2
"""Target speed-up compared with torch's loop, on a processor."""

MEASURES = ("tokens_per_s", "tokens_per_cpu_s")


def measure(plan: Plan, patience: int, advance: Callable[[str], None]) -> dict[str, Any]:
    """Measure all loops with one shape.

    Args:
        plan: The settings of the loops.
        patience: Maximal repetitions of a disturbed turn.
        advance: Called after each turn with a description.

    Raises:
        SystemExit: A process failed, or the models are not equally large.
    """
    rng = random.Random(1)
    repeated = Turns(patience)
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for contender in contenders():
            worker = stack.enter_context(started(contender.name, Training, contender, plan))
            worker.wait_until_loaded()
            workers[contender.name] = worker
        turns: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        own = [os.getpid(), *(worker.pid for worker in workers.values())]
        for number in range(1 + plan.num_rounds):
            for name in rng.sample(list(workers), len(workers)):
                worker = workers[name]
                turn = repeated.run(lambda: worker.run("a turn"), own, counts=number > 0)  # noqa: B023  (called at once)
                if number > 0:
                    turns[name].append(turn)
                advance(f"{plan.shape}, {name}")
    num_parameters = {name: rows[-1]["num_parameters"] for name, rows in turns.items()}
    if len(set(num_parameters.values())) > 1:
        raise SystemExit(f"the loops train models of different sizes: {num_parameters}")
    return {
        "shape": SHAPES[plan.shape],
        "vocabulary": plan.config.target_vocab_size,
        "parameters": next(iter(num_parameters.values())),
        "plan": {**asdict(plan), "text": plan.text.name if plan.text else "made up"},
        "machine": describe_machine(plan.num_threads),
        "other_programs": repeated.figures(),
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
    verso = loops[f"Verso {precision}"]["rounds"][measure]
    rivals = {
        contender.name: loops[contender.name]["rounds"][measure]
        for contender in contenders()
        if contender.precision == precision and contender.library != "Verso"
    }
    factors = {name: rounded(median_ratio(verso, [rates], lower_is_better=False)) for name, rates in rivals.items()}
    factors["the best of them"] = rounded(median_ratio(verso, list(rivals.values()), lower_is_better=False))
    return factors


def report(name: str, figures: dict[str, Any]) -> str:
    """The printed report of a shape."""
    loops, plan = figures["loops"], figures["plan"]
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
    lines.append(turns_line(figures["other_programs"]))
    return "\n".join([*lines, ""])


def main() -> int:
    """Measure, print and write the figures."""
    options = parser(__doc__, rounds=5, threads=2, out=True, quick=True)
    options.add_argument("--shape", nargs="+", choices=SHAPES, metavar="SHAPE",
                         help="toy, shipped, wide; default both last")  # fmt: skip
    options.add_argument("--text", type=Path, metavar="BASE",
                         help="parallel text without .en and .de; default: generated sentences")  # fmt: skip
    options.add_argument("--pairs", type=positive(int), default=20000, help="pairs of the text; default %(default)s")
    options.add_argument("--batch-tokens", type=int, default=2000,
                         help="padded target tokens of a batch; default %(default)s")  # fmt: skip
    options.add_argument("--updates", type=positive(int), default=12, help="updates per turn; default %(default)s")
    options.add_argument("--busy", action="store_true", help="repeat no turn, even if the machine is busy")
    arguments = options.parse_args()
    if arguments.batch_tokens < 100:
        options.error("--batch-tokens must be at least 100, the longest sentence")
    if not Path("/proc/self/status").exists():
        options.error("memory is read from /proc: this needs Linux")
    names = list(dict.fromkeys(arguments.shape or (["toy"] if arguments.quick else ["shipped", "wide"])))
    print(machine_line(describe_machine(arguments.threads)), flush=True)
    figures: dict[str, Any] = {"shapes": {}}
    num_rounds = 1 if arguments.quick else arguments.rounds
    with progress(len(names) * len(contenders()) * (1 + num_rounds)) as (advance, show):
        for name in names:
            plan = Plan(
                shape=name,
                text=arguments.text,
                num_pairs=arguments.pairs,
                batch_tokens=arguments.batch_tokens,
                num_updates=2 if arguments.quick else arguments.updates,
                num_rounds=num_rounds,
                num_threads=arguments.threads,
            )
            figures["shapes"][name] = measure(plan, 0 if arguments.quick or arguments.busy else 2, advance)
            show(f"\n{report(name, figures['shapes'][name])}")
            write_json(figures, arguments.out / "training.json")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ModelError as error:
        sys.exit(f"error: {error}")
