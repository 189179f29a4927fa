"""``python -m tests.simulation SEED`` repeats a seed, and drops events while it still fails; ``--seeds`` runs many."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack

from tests.simulation.simulation import Report, draw, quiet, shrink, simulate

_LINES = 40
_BLOCK = 100  # seeds that a process runs between two reports


def repeat(seed: int) -> int:
    """Run a seed twice, and print what happened last."""
    report = simulate(draw(seed), keeps_lines=True)
    print("\n".join(report.trace.lines[-_LINES:]))
    print(f"digest {report.trace.digest}, {_counts(report.trace.counts)}")
    if simulate(draw(seed)).trace.digest != report.trace.digest:
        print("The second run was not identical.")
        return 1
    if report.error is None:
        return 0
    traceback.print_exception(report.error)
    fewest = shrink(report.scenario, lambda scenario: simulate(scenario).summary == report.summary)
    print(f"\nThe fewest events with which it fails, {len(fewest.events)} of {len(report.scenario.events)}:")
    for event in fewest.events:
        print(f"  {event.at_s:.4f} s  {event.what}")
    return 1


def run_many(seeds: range, num_processes: int) -> int:
    """Run seeds, and print those that fail."""
    began, counts, failures = time.perf_counter(), Counter[str](), list[int]()
    blocks = [seeds[begin : begin + _BLOCK] for begin in range(0, len(seeds), _BLOCK)]
    with ExitStack() as stack:
        results: Iterable[tuple[Counter[str], list[tuple[int, str]]]] = map(_run_block, blocks)
        if num_processes > 1:
            pool = stack.enter_context(multiprocessing.get_context("fork").Pool(num_processes))
            results = pool.imap_unordered(_run_block, blocks)
        for block_counts, failed in results:
            counts.update(block_counts)
            for seed, error in failed:
                failures.append(seed)
                print(f"seed {seed}: {error}", flush=True)
    print(f"{len(seeds)} seeds in {time.perf_counter() - began:.0f} s, {len(failures)} failed: {_counts(counts)}")
    return 1 if failures else 0


def _run_block(seeds: range) -> tuple[Counter[str], list[tuple[int, str]]]:
    counts, failures = Counter[str](), []
    for seed in seeds:
        report: Report = simulate(draw(seed))
        counts.update(report.trace.counts)
        if report.error is not None:
            failures.append((seed, f"{type(report.error).__name__}: {report.error}"))
    gc.collect()
    return counts, failures


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in sorted(counts.items()))


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", type=int, nargs="?", help="the seed to repeat")
    parser.add_argument("--seeds", type=int, default=300, help="the number of seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--processes", type=int, default=1, help="processes that run them side by side")
    arguments = parser.parse_args()
    with quiet():
        if arguments.seed is not None:
            return repeat(arguments.seed)
        return run_many(range(arguments.first, arguments.first + arguments.seeds), arguments.processes)


if __name__ == "__main__":
    sys.exit(main())
