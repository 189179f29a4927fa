"""How many machines a load needs on Ray Serve, computed from what ``python -m benchmarks.ray_serve`` has measured.

    python -m benchmarks.ray_plan

Processor time for a sentence is taken from the measurement, for each role; a machine has so many processors, of which a
share may be busy. Texts without Ray Serve are counted with the time of the engine alone; ``--bulk-per-second`` takes
what ``verso translate`` has been measured with instead.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.ray_serve import BARE, ON_RAY, WITH_HAPROXY
from benchmarks.tables import RESULTS, markdown

ROLES = {"engine": "engines", "ingress": "ingresses", "proxy": "proxies"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", type=Path, default=RESULTS / "ray_serve.json")
    parser.add_argument("--requests-per-second", type=float, default=10_000)
    parser.add_argument("--sentences", type=float, default=1e9, help="of a bulk job")
    parser.add_argument("--machine", type=int, default=16, help="processors of a machine")
    parser.add_argument("--busy", type=float, default=0.7, help="share of a processor that may be busy")
    parser.add_argument("--bulk-per-second", type=float, help="sentences a second of one processor, in bulk")
    asked = parser.parse_args(arguments)
    figures = json.loads(asked.figures.read_text(encoding="utf-8"))
    print(
        serving_plan(figures, asked.requests_per_second, asked.machine, asked.busy),
        bulk_plan(figures, asked.sentences, asked.machine, asked.bulk_per_second),
        sep="\n\n",
    )


def serving_plan(figures: Mapping[str, Any], requests_per_second: float, machine: int, busy: float) -> str:
    """The processors for a rate of requests, by role.

    Args:
        figures: The measurement.
        requests_per_second: The rate.
        machine: Processors of a machine.
        busy: Share of a processor that may be busy.
    """
    rows = []
    for server in (ON_RAY, WITH_HAPROXY):
        for size in (1, 32):
            sentences_per_s = requests_per_second * size
            needed = {role: sentences_per_s * _role_ms(figures, server, size, role) / 1000 / busy for role in ROLES}
            total = sum(needed.values())
            rows.append(
                [
                    f"{requests_per_second:,.0f} requests/s of {size}, {server}",
                    *(f"{needed[role]:,.0f}" for role in ROLES),
                    f"{total:,.0f}",
                    f"{math.ceil(total / (machine - figures['idle_shares'][server])):,}",
                ]
            )
    header = ["processors for", *ROLES.values(), "together", f"machines of {machine}"]
    return markdown(header, rows)


def bulk_plan(figures: Mapping[str, Any], num_sentences: float, machine: int, per_second: float | None) -> str:
    """The time of a job without requests, for some numbers of machines.

    Args:
        figures: The measurement.
        num_sentences: Sentences of the job.
        machine: Processors of a machine.
        per_second: Sentences a second of one processor; computed from the measurement of one process if None.
    """
    rate = per_second or 1000 / _role_ms(figures, BARE, 32, "engine")
    hours = num_sentences / rate / 3600
    rows = [[f"{number:,}", f"{hours / number / machine:,.1f}"] for number in (1, 10, 100)]
    per_processor = f"{rate:,.0f} a second on a processor take {hours:,.0f} hours of a processor"
    table = markdown([f"machines of {machine} processors", "hours"], rows)
    return f"{num_sentences:,.0f} sentences at {per_processor}.\n\n{table}"


def _role_ms(figures: Mapping[str, Any], server: str, size: int, role: str) -> float:
    """Processor time of a role for a sentence, in milliseconds: the median of the rounds."""
    return max(0.0, float(statistics.median(one["role_ms"][role] for one in figures["rounds"][f"{server}, {size}"])))


if __name__ == "__main__":
    main()
