"""The service under load over HTTP, compared with a static server and one that translates a sentence at a time.

    python -m benchmarks.load

Servers are real processes; the callers are one more process, whose processor time is printed. All serve the shipped
translator in int8, with a beam of 4: Verso its bundle, the others the same weights converted for CTranslate2. An output
may be ten tokens longer than its source: for more than about thirty tokens that translator often loops, and would
continue to any limit. Every text is different, and Verso's cache is off.

First the best settings of the static server are determined: two workers with a thread each or one with two, and batches
of at most 8 or 32, whichever answers more with 64 callers; the one-at-a-time server gets one thread or two. The
throughput of the static server is called its capacity.

Then each server in turn, in random order for each rate and round, is started, warmed up and sent sentences at 50, 80,
95 and 120 % of that capacity; the others are not running. Sentences arrive as a Poisson process, four of five of 5 to
15 tokens and one of 60 to 96, the same for all servers, independent of earlier answers. Latency counts from the planned
time of sending. A caller has a timeout of some seconds, which is then its latency. Goodput counts the answers within
the deadline. 200 probes of /livez are sent at the same time.

Figures are medians over the rounds of each round's percentile; the ratio is the median of the rounds' ratios.

Another table has the latency of 1, 8 and 64 callers that send one sentence after another to Verso.

The cost of HTTP is measured with random weights: 64 callers send requests of 16 texts, each the next one after an
answer, compared with Translator.translate for all the texts in one process; rounds are interleaved, the number of
threads is the same. The callers use the same processors, so their time is subtracted:

    overhead  =  1 - bare seconds / (seconds over HTTP - processor seconds of the callers / number of cores)

Needs Linux and the packages of the ``test`` extra.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.checkpoints import SHAPES, SHIPPED
from benchmarks.command_line import parser, positive, prepare_environment, progress
from benchmarks.http_client import load_sender
from benchmarks.load_callers import CLIENTS, measure_clients, measure_overhead
from benchmarks.load_report import clients_report, load_report, overhead_report, plot
from benchmarks.load_rounds import SHARES, TARGET_SHARE, LoadTest, Plan
from benchmarks.processes import describe_machine, machine_line, started
from benchmarks.shipped import make_shipped, short_sentences
from benchmarks.tables import write_json
from model.training.corpus import read_lines

PARTS = ("load", "clients", "overhead")


def plan_of(arguments: argparse.Namespace) -> Plan:
    """The extent of the measurement."""
    plan = Plan(
        num_rounds=arguments.rounds,
        seconds=arguments.seconds,
        calibration_s=15.0,
        shares=SHARES,
        deadline_s=2.0,
        patience_s=10.0,
        num_threads=arguments.threads,
        beam_size=arguments.beam,
    )
    if not arguments.quick:
        return plan
    return replace(
        plan,
        num_rounds=1,
        seconds=2.0,
        calibration_s=1.0,
        shares=(0.5, TARGET_SHARE),
        num_probes=10,
        overhead_requests=1,
    )


def main() -> int:
    """Start the servers, send requests and print."""
    options = parser(__doc__, rounds=3, threads=2, out=True, quick=True)
    options.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS), help="default: all")
    options.add_argument("--shape", choices=[name for name in SHAPES if name != SHIPPED],
                         help="shape of the random weights for the cost of HTTP; default base")  # fmt: skip
    options.add_argument("--text", type=Path,
                         help="English sentences, sent one after another; default: generated sentences")  # fmt: skip
    options.add_argument("--seconds", type=positive(float), default=30.0, help="duration of a turn; default 30")
    options.add_argument("--beam", type=positive(int), default=4, help="beam of the load test, 1 for greedy; default 4")
    arguments = options.parse_args()
    prepare_environment(quick=arguments.quick)
    plan = plan_of(arguments)
    shape = arguments.shape or ("toy" if arguments.quick else "base")
    machine = describe_machine(plan.num_threads)
    print(machine_line(machine), flush=True)
    turns = {"load": LoadTest.num_turns(plan), "clients": 2 * len(CLIENTS), "overhead": 4 * (1 + plan.num_rounds)}
    with (
        progress(sum(turns[part] for part in arguments.part)) as (advance, show),
        tempfile.TemporaryDirectory() as folder_name,
        started("the callers", load_sender) as client,
    ):
        shipped, random_weights = Path(folder_name) / "shipped", Path(folder_name) / "random"
        shipped.mkdir()
        random_weights.mkdir()
        if {"load", "clients"} & set(arguments.part):
            make_shipped(shipped)
        for part in arguments.part:
            figures: Any
            if part == "load":
                figures = LoadTest(shipped, plan, client, advance).run()
                report = load_report(figures, plan)
                plot(figures, arguments.out / "load.png")
            elif part == "clients":
                sentences = read_lines(arguments.text) if arguments.text else short_sentences(2_000)
                figures = measure_clients(shipped / "Verso int8", plan, sentences, client, advance)
                report = clients_report(figures)
            else:
                figures = measure_overhead(shape, random_weights, plan, client, advance)
                report = overhead_report(figures)
            show(f"\n{report}\n")
            # Parts measured separately do not overwrite each other.
            write_json({"machine": machine, part: figures}, arguments.out / f"load-{part}.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
