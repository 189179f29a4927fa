"""What fuzzing has found, and the fuzzer itself.

An input that made something fail is a file in ``found/TARGET/``. Each is read again, as its target reads it.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz.__main__ import GROUPS, MODULES, target_of
from tests.fuzz.guard import Forbidden, Guard, the_guard
from tests.fuzz.mutations import mutated_archive, mutated_bytes, mutated_json, unpacked_size, zipped
from tests.fuzz.session import Session, mutate_until_over
from tests.fuzz.target import Target

FOUND = sorted(path for path in (Path(__file__).parent / "found").glob("*/*") if path.is_file())


def test_inputs_that_were_findings_are_read_or_refused() -> None:
    for path in FOUND:
        print(path)  # which is shown if it is one
        target = target_of(path.parent.name)
        with contextlib.suppress(*target.refusals):
            target.run(path.read_bytes())


def test_the_command_names_every_target() -> None:
    made = {module: {target.name for target in _targets(module)} for module in GROUPS}
    assert made == {module: {name for name, of in MODULES.items() if of == module} for module in GROUPS}


def _targets(module: str) -> list[Target]:
    import importlib

    targets: list[Target] = importlib.import_module(f"tests.fuzz.{module}").TARGETS
    return targets


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


def test_the_guard_reports_what_code_has_swallowed() -> None:
    def swallow() -> None:
        with contextlib.suppress(BaseException):
            os.system("true")

    guard: Guard = the_guard()
    with pytest.raises(Forbidden), guard.watching():
        swallow()


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
    (kept,) = tmp_path.glob("*.bin")
    assert kept.read_bytes().startswith(b"b")


def test_an_input_that_takes_far_longer_than_others_of_its_size_is_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.fuzz.session.SLOW_S", 0.05)
    monkeypatch.setattr("tests.fuzz.session.SLOW_S_PER_KB", 0.001)

    def run(data: bytes) -> None:
        with contextlib.suppress(Exception):  # which does not hide it
            re.search(rb" +x", data)

    session = Session(Target("example", run, lambda: [b"a b"]), tmp_path, seconds=60, engine="mutations", most=100)
    mutate_until_over(session, None, seed=0)
    (finding,) = session.report.findings
    assert finding.startswith("TooSlow at tests/fuzz/test_found.py")
    (kept,) = tmp_path.glob("*.bin")
    assert kept.read_bytes().count(b" ") > 10_000


def test_an_input_that_is_slow_once_is_no_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.session.SLOW_S", 0.05)
    runs: list[bytes] = []

    def run(data: bytes) -> None:
        runs.append(data)
        began = time.process_time()
        while runs.count(data) == 1 and len(runs) > 2 and time.process_time() - began < 5:
            pass

    session = Session(Target("example", run, lambda: [b"seed"]), tmp_path, seconds=60, engine="mutations")
    session.warm_up([b"seed"])
    session.one(b"slow once")
    assert runs == [b"seed", b"", b"slow once", b"slow once"] and not session.report.findings


def test_a_large_input_may_take_longer_than_a_small_one(tmp_path: Path) -> None:
    target = Target("example", lambda data: None, list, size=unpacked_size)
    session = Session(target, tmp_path, seconds=60, engine="mutations")
    session.warm_up([])
    archive = zipped([(zipfile.ZipInfo("a"), b"a" * 1_000_000)])
    assert session._allowed_s(b"") < session._allowed_s(b"a" * 100_000) < session._allowed_s(archive)


def test_an_archive_whose_members_are_changed_can_mostly_be_read() -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("a.json", '{"a": [1, {"b": null}], "c": "d"}')
        archive.writestr("b.txt", "some text")
    rng = random.Random(0)
    made = {mutated_archive(written.getvalue(), lambda part: mutated_bytes(part, rng), rng) for _ in range(100)}
    assert len(made) > 50
    assert sum(zipfile.is_zipfile(io.BytesIO(one)) for one in made) > 40


def test_json_stays_json() -> None:
    rng = random.Random(0)
    assert all(mutated_json(b'{"a": [1, {"b": null}], "c": "d"}', rng) for _ in range(100))
    assert mutated_json(b"no json", rng) is None
