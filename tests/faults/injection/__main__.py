"""Every fault in turn, for each store and file format: ``python -m tests.faults.injection``."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.faults.injection import shim
from tests.faults.injection.scenarios import PLANTED, SCENARIOS, scenario
from tests.faults.injection.table import write_table
from tests.faults.injection.trials import Report, Trials


def main(argv: Sequence[str]) -> int:
    """Run scenarios; returns 1 if something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.injection", description=__doc__)
    parser.add_argument(
        "--scenario", action="append", choices=[*SCENARIOS, PLANTED], help="only this one; may be repeated"
    )
    parser.add_argument("--sample", type=int, metavar="N", help="faults at N operations of each; default: at all")
    parser.add_argument("--seed", type=int, default=0, help="decides what power cuts leave")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the reports")
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the reports into the table of this document")
    arguments = parser.parse_args(argv)
    if not shim.is_loaded():
        with tempfile.TemporaryDirectory() as folder:
            return shim.run_with(shim.build(Path(folder)), [sys.executable, "-m", "tests.faults.injection", *argv])
    del os.environ[shim.PRELOAD]  # processes that a scenario starts are not watched
    reports: list[Report] = []
    logging.disable()
    memory = Path("/dev/shm")  # where nothing waits for a disk
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for name in arguments.scenario or SCENARIOS:
            trials = Trials(scenario(name), shim.Shim(), Path(folder), arguments.seed)
            gc.freeze()  # what a collection visits, a fork would copy
            reports.append(trials.run(arguments.sample))
            print(f"{name}: {reports[-1].summary()}", flush=True)
            for failure in reports[-1].failures:
                print(f"  {failure}", flush=True)
            if arguments.json:
                arguments.json.write_text(json.dumps([*map(asdict, reports)], indent=1), encoding="utf-8")
            if arguments.table:
                write_table(reports, arguments.table)
    return int(any(report.failures for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
