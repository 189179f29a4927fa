"""An hour of mixed load on a real server with keys: every answer and every count is right, and memory does not grow.

Run with ``python -m pytest -m soak -s``; ``VERSO_SOAK_MINUTES`` sets the length (default 60; under 10 the drift means
little). It is ``python -m benchmarks.soak``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.soak.watch import drift

ROOT = Path(__file__).resolve().parents[1]
DRIFT_BOUND = 0.01


@pytest.mark.soak
def test_memory_is_stable_and_responses_are_correct_under_mixed_load(tmp_path: Path) -> None:
    minutes = os.environ.get("VERSO_SOAK_MINUTES", "60")
    command = [sys.executable, "-m", "benchmarks.soak", "--minutes", minutes, "--out", str(tmp_path / "soak.json")]
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    print(process.stdout)
    assert process.returncode == 0
    figures = json.loads((tmp_path / "soak.json").read_text(encoding="utf-8"))
    assert all(kind["answered"] for kind in figures["kinds"].values()), "every kind of use is there"
    assert figures["memory"]["drift"]["resident"] < DRIFT_BOUND
    assert figures["memory"]["drift"]["dirty"] < DRIFT_BOUND


def test_drift_is_the_growth_along_the_line_of_least_squares() -> None:
    assert drift([10.0, 20.0, 30.0], [100.0, 110.0, 120.0]) == pytest.approx(0.2)
    assert drift([0.0, 1.0, 2.0, 3.0], [50.0, 52.0, 52.0, 50.0]) == pytest.approx(0.0)
