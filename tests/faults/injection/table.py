"""The table of reports in ``docs/faults.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.faults.injection.trials import Report

BEGIN, END = "<!-- every fault in turn: begin -->", "<!-- every fault in turn: end -->"
HEAD = (
    "| store or file | operations | full disk | one error | errors from there on | kills | power cuts | result |\n"
    "|---|---:|---:|---:|---:|---:|---:|---|\n"
)


def row(report: Report) -> str:
    """A report as a row."""
    faults = [str(report.num_faults.get(name, 0)) for name in ("full", "error", "dead")]
    result = f"{len(report.failures)} failures" if report.failures else "as promised"
    cells = [
        report.store,
        str(report.num_operations),
        *faults,
        str(report.num_kills),
        str(report.num_power_cuts),
        result,
    ]
    return f"| {' | '.join(cells)} |\n"


def write_table(reports: Sequence[Report], document: Path) -> None:
    """Write rows into the table of a document; rows of other scenarios stay."""
    text = document.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split(" | ")[0]: f"{line}\n" for line in table.splitlines()[4:] if line}
    rows |= {made.split(" | ")[0]: made for made in map(row, reports)}
    document.write_text(f"{before}{BEGIN}\n\n{HEAD}{''.join(rows.values())}\n{END}{after}", encoding="utf-8")
