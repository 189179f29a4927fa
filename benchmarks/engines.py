"""Verso, CTranslate2 and transformers with the same weights on the same tokens: one table from one interleaved run.

    python -m benchmarks.engines --shape base
    python -m benchmarks.engines --shape base --isa avx2 --rivals onnxruntime openvino
    python -m benchmarks.engines --merge benchmarks/results/engines-*.json

For ``tiny``, ``small`` and ``base`` a random checkpoint of OPUS-MT's architecture is made with transformers, imported
by Verso and converted for CTranslate2; ``shipped`` is the shipped translator, which transformers cannot load. Every
engine has its own process. In each round each engine, in random order, translates one sentence several times and then
all sentences at once, greedy and with a beam of 4, while the others sleep. Input and output are token ids, not texts.
Outputs of random weights have a fixed length of 20 tokens, which is checked for all engines; the shipped translator
gets English sentences and ends its outputs itself, after at most 60 tokens.

A turn in which other programs use more than 5 % of the processors is repeated, at most twice; their share in the turns
that count is printed.

Columns are medians over the rounds; a ratio is the median of the rounds' ratios. Memory is the peak (VmHWM) of the
engine's process, minus the peak of importing its library. The last table contains the project's targets: there, the
ratio of a round is that to the best of the rivals in the round.

Throughput is also given as a share of the processor's peak, measured in the same rounds. It counts
the multiply-adds with weights, in a model of width d, feed-forward width f, E + D layers and a vocabulary of V:

    a source token     E (4 d^2 + 2 d f)  +  D 2 d^2        encoder; keys and values of the decoder's cross-attention
    a target token     D (6 d^2 + 2 d f)  +  d V            decoder and output, for each of the beam's rows

    share  =  2 (source tokens x first  +  target tokens x beam size x second) / seconds / peak

Padding, attention between positions, norms, softmax and search are not counted, so the share is below 1. The peak of
float32 is the higher one of MKL's (torch.mm) and oneDNN's; the peak of bfloat16 is at least that. The peak of int8 is
the higher one of the packed fbgemm kernel, which Verso uses without its compiled decoder, and of oneDNN's, which
CTranslate2 uses on processors not made by Intel. Each is the best of several sizes, with equal threads.

``--isa`` limits all engines, and the peak, to an instruction set (:mod:`benchmarks.instruction_sets`). ``--rivals``
adds libraries (:mod:`benchmarks.rivals`). The targets depend on the instruction set (:mod:`benchmarks.targets`).

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.bleu import measure_bleu
from benchmarks.checkpoints import SHAPES, SHIPPED, make_models
from benchmarks.command_line import parser, positive, prepare_environment, progress
from benchmarks.contenders import BACKENDS
from benchmarks.engine_report import finish, key_of, merge, report
from benchmarks.engine_rounds import Measurement, Plan
from benchmarks.instruction_sets import INSTRUCTION_SETS, missing_flags
from benchmarks.processes import describe_machine, machine_line, processor_flags
from benchmarks.rivals import INSTALL, RIVALS
from benchmarks.shipped import make_shipped
from benchmarks.tables import write_json


def measure_shape(
    name: str, plan: Plan, instruction_sets: Sequence[str | None], advance: Callable[[str], None]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Make the models of a shape and measure all engines with them; gives a key and figures for each instruction set.

    Args:
        name: Name of the shape.
        plan: The extent of the measurement.
        instruction_sets: The sets that the engines are limited to, one after the other; None for no limit.
        advance: Called after each turn with a description.
    """
    with tempfile.TemporaryDirectory() as folder_name:
        folder = Path(folder_name)
        models = dict.fromkeys(row.model for row in plan.rows(name) if row.library != "transformers")
        num_parameters = make_shipped(folder) if name == SHIPPED else make_models(folder, SHAPES[name], list(models))
        for instruction_set in instruction_sets:
            key = key_of(name, instruction_set)
            measurement = Measurement(name, plan, folder, lambda turn: advance(f"{key}, {turn}"), instruction_set)  # noqa: B023  (called before the next key)
            figures = measurement.run()
            if name == SHIPPED and plan.test_sets:
                figures["bleu"] = measure_bleu(folder, plan)
            yield key, {"parameters": num_parameters, **figures}


def parse_arguments() -> argparse.Namespace:
    """The arguments; ends the program if they are wrong, or need what this machine lacks."""
    options = parser(__doc__, rounds=5, threads=2, out=True, quick=True)
    options.add_argument("--shape", nargs="+", choices=SHAPES, metavar="SHAPE",
                         help="tiny, small, base, shipped; default: all")  # fmt: skip
    options.add_argument("--sentences", type=positive(int), default=512,
                         help="sentences for throughput; default %(default)s")  # fmt: skip
    options.add_argument("--torch", action="store_true", help="also Verso without its compiled decoder")
    options.add_argument("--isa", nargs="+", action="extend", choices=INSTRUCTION_SETS, metavar="NAME", default=[],
                         help=f"limit all engines to an instruction set: {', '.join(INSTRUCTION_SETS)}; "
                         "each is measured separately; default: no limit")  # fmt: skip
    options.add_argument("--rivals", nargs="+", action="extend", choices=RIVALS, metavar="NAME", default=[],
                         help=f"also measure {', '.join(RIVALS)}")  # fmt: skip
    options.add_argument("--backends", nargs="+", choices=BACKENDS, metavar="NAME",
                         help="with --isa, the libraries of CTranslate2's products to measure; default: "
                         f"{', '.join(BACKENDS)}")  # fmt: skip
    options.add_argument("--test", type=Path, nargs="+", default=[], metavar="BASE",
                         help="test sets without language ending, for BLEU of the shape shipped")  # fmt: skip
    options.add_argument("--merge", type=Path, nargs="+", metavar="FILE",
                         help="measure nothing: merge, print and draw the figures of earlier runs")  # fmt: skip
    arguments = options.parse_args()
    if arguments.merge:
        return arguments
    if not Path("/proc/self/status").exists():
        options.error("memory is read from /proc: this needs Linux")
    for name in arguments.rivals:
        if missing := RIVALS[name].missing_packages:
            options.error(f"{name} needs the packages {', '.join(missing)}: {INSTALL}")
    if arguments.backends and not arguments.isa:
        options.error("--backends needs --isa: without a limit CTranslate2 chooses by itself")
    for instruction_set in arguments.isa:
        if flags := missing_flags(instruction_set, processor_flags()):
            options.error(f"--isa {instruction_set}: this processor lacks {', '.join(flags)}")
    return arguments


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The extent of the measurement."""
    plan = Plan(
        arguments.rounds,
        arguments.sentences,
        arguments.threads,
        torch_too=arguments.torch,
        rivals=tuple(dict.fromkeys(arguments.rivals)),
        backends=tuple(dict.fromkeys(arguments.backends or BACKENDS)),
        test_sets=tuple(arguments.test),
    )
    if not arguments.quick:
        return plan
    return replace(
        plan,
        num_rounds=1,
        num_sentences=min(32, arguments.sentences),
        latency_repeats=2,
        batch_sizes=(32,),
        pause_s=0.0,
        patience=0,
        test_limit=32,
    )


def merge_files(paths: Sequence[Path], out: Path) -> None:
    """Print and draw the figures of earlier runs."""
    try:
        figures = merge([json.loads(path.read_text(encoding="utf-8")) for path in paths])
    except (OSError, ValueError, KeyError) as error:
        raise SystemExit(f"--merge: {error}") from error
    for name, measured in figures["shapes"].items():
        print(machine_line(measured["machine"]))
        print(report(name, measured))
    finish(figures, out)


def main() -> int:
    """Make the models, measure and print."""
    arguments = parse_arguments()
    if arguments.merge:
        merge_files(arguments.merge, arguments.out)
        return 0
    prepare_environment(quick=arguments.quick)
    plan = plan_of(arguments)
    instruction_sets = list(dict.fromkeys(arguments.isa)) or [None]
    default = ["toy", SHIPPED] if arguments.quick else ["tiny", "small", "base", SHIPPED]
    names = list(dict.fromkeys(arguments.shape or default))
    print(machine_line(describe_machine(plan.num_threads)), flush=True)
    figures: dict[str, Any] = {"shapes": {}}
    num_turns = sum(plan.num_turns(name, instruction_set) for name in names for instruction_set in instruction_sets)
    with progress(num_turns) as (advance, show):
        for name in names:
            for key, measured in measure_shape(name, plan, instruction_sets, advance):
                figures["shapes"][key] = measured
                show(f"\n{report(key, measured)}")
                # An interrupted run keeps the finished shapes.
                write_json({"shapes": {key: measured}}, arguments.out / f"engines-{key.replace(', ', '-')}.json")
    finish(merge([figures]), arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
