"""What fuzzing has found, and the fuzzer itself.

An input that made something fail is a file in ``found/TARGET/``. Each is read again, as its target reads it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.__main__ import target_of
from tests.fuzz.guard import Forbidden, the_guard
from tests.fuzz.session import Session, mutate_until_over
from tests.fuzz.target import Target

FOUND = sorted(path for path in (Path(__file__).parent / "found").glob("*/*") if path.is_file())


def test_inputs_that_were_findings_are_read_or_refused() -> None:
    for path in FOUND:
        print(path)  # which is shown if it is one
        target = target_of(path.parent.name)
        with contextlib.suppress(*target.refusals):
            target.run(path.read_bytes())


@pytest.mark.parametrize(
    "act",
    [
        lambda: os.system("true"),
        lambda: exec("1 + 1"),
        lambda: open("/etc/passwd").close(),
        lambda: open(Path(__file__).with_name("new.txt"), "w").close(),
        lambda: os.remove(Path(__file__).with_name("new.txt")),
    ],
    ids=["a command", "code", "a file of others", "a new file", "a file removed"],
)
def test_the_guard_ends_what_an_input_may_not_do(act: Callable[[], object]) -> None:
    with pytest.raises(Forbidden), the_guard().watching():
        act()


def test_the_guard_protects_a_clone_in_a_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    guard = the_guard()
    clone = tmp_path / "clone"
    clone.mkdir()
    monkeypatch.setattr("tests.fuzz.guard.ROOT", clone)
    with pytest.raises(Forbidden), guard.watching():
        (clone / "new.txt").touch()
    with guard.watching():
        (tmp_path / "clone.txt").touch()


def test_errors_that_are_no_refusals_are_findings_and_kept(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        if data.startswith(b"a"):
            raise ValueError("refused")
        assert not data.startswith(b"b")

    target = Target("example", run, lambda: [b"abc", b"xbc"], (ValueError,))
    session = Session(target, tmp_path, seconds=60, engine="mutations", most=400)
    mutate_until_over(session, None, seed=0)
    session.finish()
    assert session.report.executions == 400 and 0 < session.report.refused < 400
    (finding,) = session.report.findings
    assert finding.startswith("AssertionError at tests/fuzz/test_found.py")
    (stored,) = tmp_path.glob("*.bin")
    assert stored.read_bytes().startswith(b"b")
