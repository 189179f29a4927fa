"""The performance targets of this project, and whether figures reach them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.tables import markdown

SHORT_P99 = 3.0
"""Target factor by which the 99th percentile of short sentences is lower than the static server's, at 80 % load."""

HTTP_OVERHEAD = 0.10
"""Maximal share of the engine's throughput lost in the HTTP service, with 64 clients."""

BLEU_LOSS = 0.2
"""Maximal loss of BLEU of int8 compared with float32."""


@dataclass(frozen=True)
class Target:
    """A target speed-up of Verso.

    Args:
        ours: Name of Verso's row.
        rivals: Prefixes of the names of the rows it is compared with; the best of them counts in each round.
        measure: The compared measure.
        factor: Minimal speed-up.
        label: Label in the table.
    """

    ours: str
    rivals: str
    measure: str
    factor: float
    label: str


TARGETS = tuple(
    Target(ours, rivals, measure, factor, f"{ours} than {rivals}, {label}")
    for ours, rivals, factor, measures in (
        ("Verso int8", "CTranslate2 int8", 1.5, ("greedy_tokens_per_s", "beam_4_tokens_per_s")),
        ("Verso int8", "CTranslate2 int8", 1.3, ("latency_greedy_ms", "latency_beam_4_ms")),
        ("Verso float32", "CTranslate2 float32", 1.2, ("greedy_tokens_per_s", "beam_4_tokens_per_s")),
        ("Verso int8", "transformers", 5.0, ("greedy_tokens_per_s", "beam_4_tokens_per_s")),
    )
    for measure, label in zip(
        measures,
        ("one sentence, greedy", "one sentence, beam 4")
        if measures[0].startswith("latency")
        else ("many, greedy", "many, beam 4"),
        strict=True,
    )
)


@dataclass(frozen=True)
class Verdict:
    """The result of a target.

    Args:
        target: The target.
        ratio: The median of the rounds' ratios.
    """

    target: Target
    ratio: float

    @property
    def reached(self) -> bool:
        """Whether the ratio is at least the target factor."""
        return self.ratio >= self.target.factor


def judge(engines: dict[str, Any]) -> list[Verdict]:
    """Compare the figures of a shape with the targets; targets without a rival in the figures are omitted.

    Args:
        engines: Figures by name of the row, each with its ``rounds``.
    """
    verdicts = []
    for target in TARGETS:
        ours = engines[target.ours]["rounds"][target.measure]
        theirs = [row["rounds"][target.measure] for name, row in engines.items() if name.startswith(target.rivals)]
        if theirs:
            verdicts.append(Verdict(target, median_ratio(ours, theirs, lower_is_better="latency" in target.measure)))
    return verdicts


def median_ratio(ours: Sequence[float], theirs: Sequence[Sequence[float]], *, lower_is_better: bool) -> float:
    """The median over the rounds of the ratio to the best of the others in the same round.

    Args:
        ours: One value per round.
        theirs: One value per round for each rival.
        lower_is_better: Whether the values are times rather than rates.
    """
    ratios: list[float] = []
    for own, *rivals in zip(ours, *theirs, strict=True):
        ratios.append(min(rivals) / own if lower_is_better else own / max(rivals))
    return statistics.median(ratios)


def verdicts_table(verdicts: dict[str, list[Verdict]]) -> str:
    """A table with targets as rows and shapes as columns, and the number of reached targets.

    Args:
        verdicts: Results by shape.
    """
    rows = []
    for target in TARGETS:
        cells = []
        for of_shape in verdicts.values():
            found = {verdict.target: verdict for verdict in of_shape}
            cells.append(_cell(found[target]) if target in found else "")
        rows.append([target.label, f"{target.factor:.1f}", *cells])
    everything = [verdict for of_shape in verdicts.values() for verdict in of_shape]
    reached = sum(verdict.reached for verdict in everything)
    return (
        markdown(["target: times as fast", "at least", *verdicts], rows)
        + f"\n\n{reached} of {len(everything)} targets reached.\n"
    )


def _cell(verdict: Verdict) -> str:
    return f"{verdict.ratio:.2f} {'reached' if verdict.reached else 'MISSED'}"
