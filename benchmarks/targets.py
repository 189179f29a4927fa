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

BLEU_LOSS = {"bfloat16": 0.1, "int8": 0.2}
"""Maximal loss of BLEU by precision, compared with float32."""

MEASURES = {
    "latency_greedy_ms": "one sentence, greedy",
    "latency_beam_4_ms": "one sentence, beam 4",
    "greedy_tokens_per_s": "many, greedy",
    "beam_4_tokens_per_s": "many, beam 4",
}
"""Labels of the compared measures."""

INT8_FACTORS = {"avx512-bf16": (1.8, 3.0), "avx512-vnni": (1.8, 3.0), "avx2": (1.3, 2.0)}
"""Factors over CTranslate2 int8 by instruction set: many sentences, one sentence. Other sets have none."""

FLOAT32_FACTOR = 1.2
"""Factor over CTranslate2 float32, with every instruction set and measure."""

ANY_RIVAL = "any rival"
"""Rivals of a target: all other libraries; for Verso in float32 those in float32."""


@dataclass(frozen=True)
class Target:
    """A target speed-up of Verso.

    Args:
        row: Name of Verso's row.
        rivals: Prefix of the names of the rows it is compared with, or ``ANY_RIVAL``; the best of them counts in each
            round.
        measure: The compared measure.
        factor: Minimal speed-up.
    """

    row: str
    rivals: str
    measure: str
    factor: float

    @property
    def label(self) -> str:
        """The label in the table."""
        return f"{self.row} than {self.rivals}, {MEASURES[self.measure]}"

    def is_rival(self, name: str) -> bool:
        """Whether Verso is compared with a row.

        Args:
            name: Name of the row.
        """
        if self.rivals != ANY_RIVAL:
            return name.startswith(self.rivals)
        return not name.startswith("Verso") and (self.row == "Verso int8" or "float32" in name)


def targets_for(instruction_set: str) -> list[Target]:
    """The targets with an instruction set.

    Args:
        instruction_set: Its name.
    """
    targets = []
    if instruction_set in INT8_FACTORS:
        many, alone = INT8_FACTORS[instruction_set]
        for measure in MEASURES:
            factor = alone if measure.startswith("latency") else many
            targets.append(Target("Verso int8", "CTranslate2 int8", measure, factor))
    targets += [Target("Verso float32", "CTranslate2 float32", measure, FLOAT32_FACTOR) for measure in MEASURES]
    for row in ("Verso int8", "Verso float32"):
        targets += [Target(row, ANY_RIVAL, measure, 1.0) for measure in MEASURES]
    return targets


@dataclass(frozen=True)
class Verdict:
    """The result of a target.

    Args:
        target: The target.
        ratio: The median of the rounds' ratios.
        share_of_peak: The share of the multiply peak of the instruction set that Verso used; None if it is unknown.
    """

    target: Target
    ratio: float
    share_of_peak: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the ratio is at least the target factor."""
        return self.ratio >= self.target.factor


def judge(engines: dict[str, Any], instruction_set: str, ignored: Sequence[str] = ()) -> list[Verdict]:
    """Compare the figures of a shape with the targets; targets without a rival in the figures are omitted.

    Args:
        engines: Figures by name of the row, each with its ``rounds``.
        instruction_set: The set that they were measured with.
        ignored: Libraries that used another set.
    """
    verdicts = []
    for target in targets_for(instruction_set):
        row = engines[target.row]
        rivals = [
            engine["rounds"][target.measure]
            for name, engine in engines.items()
            if target.is_rival(name) and not name.startswith(tuple(ignored))
        ]
        if rivals:
            ratio = median_ratio(
                row["rounds"][target.measure], rivals, lower_is_better=target.measure.startswith("latency")
            )
            verdicts.append(Verdict(target, ratio, row.get(_share_of_peak(target.measure))))
    return verdicts


def median_ratio(values: Sequence[float], rivals: Sequence[Sequence[float]], *, lower_is_better: bool) -> float:
    """The median over the rounds of the ratio to the best of the others in the same round.

    Args:
        values: One value per round.
        rivals: One value per round for each rival.
        lower_is_better: Whether the values are times rather than rates.
    """
    ratios: list[float] = []
    for value, *of_rivals in zip(values, *rivals, strict=True):
        ratios.append(min(of_rivals) / value if lower_is_better else value / max(of_rivals))
    return statistics.median(ratios)


def verdicts_table(verdicts: dict[str, list[Verdict]], instruction_set: str) -> str:
    """A table with targets as rows and shapes as columns, and the number of reached targets.

    Args:
        verdicts: Results by shape.
        instruction_set: The set that they were measured with.
    """
    rows = []
    for target in targets_for(instruction_set):
        cells = []
        for of_shape in verdicts.values():
            by_target = {verdict.target: verdict for verdict in of_shape}
            cells.append(_cell(by_target[target]) if target in by_target else "")
        rows.append([target.label, f"{target.factor:.1f}", *cells])
    everything = [verdict for of_shape in verdicts.values() for verdict in of_shape]
    reached = sum(verdict.reached for verdict in everything)
    return (
        markdown([f"{instruction_set}: times as fast, share of the peak", "at least", *verdicts], rows)
        + f"\n\n{instruction_set}: {reached} of {len(everything)} targets reached.\n"
    )


def _cell(verdict: Verdict) -> str:
    share = "" if verdict.share_of_peak is None else f", {verdict.share_of_peak:.0%}"
    return f"{verdict.ratio:.2f} {'reached' if verdict.reached else 'MISSED'}{share}"


def _share_of_peak(measure: str) -> str:
    """The name of the figure that says which share of the peak a measure amounts to."""
    return f"{measure.removesuffix('_ms').removesuffix('_tokens_per_s')}_share_of_peak"
