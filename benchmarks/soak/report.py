"""The records, figures and tables of a soak."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from benchmarks.soak.users import BUSY
from benchmarks.soak.watch import Watch, drift
from benchmarks.tables import markdown, percentile, rounded

MEASURES = ("resident", "private", "dirty")
"""The measures of memory, as :class:`benchmarks.soak.watch.Sample` names them."""


@dataclass
class Record:
    """The uses under load and their results.

    Args:
        latencies_s: Of the uses that were answered, by kind.
        refused: Uses that the user's own limit refused, by kind.
        failures: Errors, by kind.
        wrong: Answers that are not the right ones.
        probes_s: Latencies of ``/livez``.
    """

    latencies_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[str, str]] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)
    probes_s: list[float] = field(default_factory=list)

    @property
    def num_uses(self) -> int:
        """All of them."""
        return sum(map(len, self.latencies_s.values())) + sum(self.refused.values()) + len(self.failures)


def summarise(record: Record, kind: str) -> dict[str, Any]:
    """The figures of a kind of use."""
    latencies_s = record.latencies_s[kind]
    return {
        "answered": len(latencies_s),
        "refused": record.refused[kind],
        "wrong": sum(wrong == kind for wrong, _ in record.wrong),
        "failed": sum(failed == kind for failed, _ in record.failures),
        **{
            f"p{share}_ms": rounded(1000 * percentile(latencies_s, share / 100))
            for share in (50, 95, 99)
            if latencies_s
        },
    }


def memory(watch: Watch, warm_up_minutes: float) -> dict[str, Any]:
    """Memory by minute in MB (medians), and its drift after the warm-up."""
    minutes = itertools.groupby(watch.samples, lambda sample: int(sample.at_s / 60))
    by_minute = []
    for minute, samples in minutes:
        of_minute = list(samples)
        medians = {
            measure: rounded(statistics.median(getattr(sample, measure) for sample in of_minute) / 1e6)
            for measure in MEASURES
        }
        by_minute.append({"minute": minute, **medians})
    warm = [sample for sample in watch.samples if sample.at_s >= 60 * warm_up_minutes]
    drifts = {}
    if len(warm) > 1:
        times_s = [sample.at_s for sample in warm]
        drifts = {
            measure: rounded(drift(times_s, [getattr(sample, measure) for sample in warm])) for measure in MEASURES
        }
    return {"by_minute": by_minute, "warm_up_minutes": warm_up_minutes, "drift": drifts}


def report(figures: dict[str, Any]) -> str:
    """The tables."""
    rows = [
        [
            kind,
            *(str(summary[name]) for name in ("answered", "refused", "failed", "wrong")),
            *(f"{summary[name]:,.0f}" if name in summary else "-" for name in ("p50_ms", "p95_ms", "p99_ms")),
        ]
        for kind, summary in figures["kinds"].items()
    ]
    memory_figures = figures["memory"]
    by_minute = [
        [str(row["minute"]), *(f"{row[name]:.1f}" for name in MEASURES)] for row in memory_figures["by_minute"]
    ]
    drifts = (
        ", ".join(f"{name} {share:+.2%}" for name, share in memory_figures["drift"].items()) or "the load was too short"
    )
    before, after = figures["at_start"], figures["at_end"]
    statuses = ", ".join(f"{status}: {number}" for status, number in figures["statuses"].items())
    num_busy = sum(int(about.split()[0]) in BUSY for _, about in figures["failures"])
    lines = [
        f"{figures['minutes']:.1f} minutes, {figures['uses']} uses, {figures['offered_per_s']:.1f} per second "
        f"({figures['share']:.0%} of the capacity, {figures['capacity_per_s']:.1f}, and the rare ones).",
        f"Requests by status (0: no answer): {statuses}.",
        f"Wrong answers: {len(figures['wrong'])}. Failed uses: {len(figures['failures'])}, of which the service was "
        f"too busy for {num_busy}. Wrong counts: {len(figures['usage_errors'])}. "
        f"Wrongly stored: {len(figures['storage_errors'])}. Exit status of the service: {figures['exit_status']}.",
        "",
        markdown(["use", "answered", "refused by its limit", "failed", "wrong", "p50 ms", "p95", "p99"], rows),
        "",
        markdown(["minute", "resident MB", "private", "private dirty"], by_minute),
        "",
        f"Drift of memory from minute {memory_figures['warm_up_minutes']:g} to the end: {drifts}.",
        f"Open files before and after the load: {before['open_files']} and {after['open_files']}; "
        f"threads: {before['threads']} and {after['threads']}.",
        f"/livez: p50 {figures['livez_ms']['p50']:.1f} ms, p99 {figures['livez_ms']['p99']:.1f} ms.",
        f"Processors: service {figures['service_cpu_share']:.0%}, users {figures['users_cpu_share']:.0%}, "
        f"other programs {figures['other_programs_share']:.0%}.",
        *figures["metrics"],
        *(f"WRONG {kind}: {about}" for kind, about in figures["wrong"][:20]),
        *(f"FAILED {kind}: {about}" for kind, about in figures["failures"][:20]),
        *(f"WRONG COUNT {about}" for about in figures["usage_errors"]),
        *(f"WRONGLY STORED {about}" for about in figures["storage_errors"]),
    ]
    return "\n".join(lines)
