"""Every fault in turn: errors, kills and power cuts at the operations of each store, and failing allocations.

``python -m tests.faults.injection`` does the same, and makes the table of docs/faults.md. By default the tests take
some operations of each store; those with the marker ``slow`` take all.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model.decoding.native.compiler import Unavailable
from tests.faults.injection import shim
from tests.faults.injection.scenarios import PLANTED, SCENARIOS
from tests.server import ROOT

pytestmark = pytest.mark.thorough

NUM_OPERATIONS = 3
NUM_ALLOCATIONS = 25
LONG = ("training",)
"""Scenarios whose runs take seconds."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that lets operations fail."""
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        pytest.skip("calls of the C library are replaced on Linux with glibc only")
    try:
        return shim.build(tmp_path_factory.mktemp("shim"))
    except Unavailable as error:
        pytest.skip(f"there is no compiler: {error}")


def run(library: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module with the library."""
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=shim.environment(library), capture_output=True, text=True, check=False)


def reports(library: Path, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """The reports of scenarios."""
    path = folder / "reports.json"
    ran = run(library, "tests.faults.injection", "--json", str(path), *arguments)
    assert path.exists(), ran.stderr
    body: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return body


def test_stores_keep_what_they_promise_after_a_fault_at_some_of_their_operations(library: Path, tmp_path: Path) -> None:
    names = [f"--scenario={name}" for name in SCENARIOS if name not in LONG]
    for report in reports(library, tmp_path, *names, f"--sample={NUM_OPERATIONS}"):
        assert report["num_operations"] > 10 and report["num_power_cuts"]
        assert not report["failures"], report


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_store_keeps_what_it_promises_after_every_fault_at_each_operation(
    name: str, library: Path, tmp_path: Path
) -> None:
    (report,) = reports(library, tmp_path, f"--scenario={name}")
    assert not report["failures"], report


def test_the_mistakes_of_a_careless_store_are_found(library: Path, tmp_path: Path) -> None:
    (report,) = reports(library, tmp_path, f"--scenario={PLANTED}")
    failures = "\n".join(report["failures"])
    for mistake in (
        "in place is half",  # a kill within a write
        "renamed is half",  # a name before its content
        "renamed is lost",
        "in a folder is lost",  # whose name was never written through
        "a part remains",  # after a kill
        "OSError",  # an error that is not documented
    ):
        assert mistake in failures, failures


@pytest.mark.parametrize(
    "sample", [pytest.param(str(NUM_ALLOCATIONS), id="some"), pytest.param(None, id="all", marks=pytest.mark.slow)]
)
def test_every_sentence_is_translated_if_an_allocation_of_the_decoder_fails(library: Path, sample: str | None) -> None:
    ran = run(library, "tests.faults.injection.decoder", *([] if sample is None else ["--sample", sample]))
    assert ran.stdout, ran.stderr
    results = json.loads(ran.stdout)
    if "skipped" in results:
        pytest.skip(results["skipped"])
    assert results["decoding"] > 100 and results["loading"] > 10
    assert not results["failures"], results
