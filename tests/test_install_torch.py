"""Which build of torch is requested from pip."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "install_torch.py"


class Machine:
    """Replaces pip, the driver and the platform; records the calls of pip.

    Args:
        script: The freshly loaded script.
    """

    def __init__(self, script: ModuleType) -> None:
        self.script = script
        self.asked: list[tuple[str, ...]] = []
        self.answers: list[bool] = []
        self.installed: tuple[str, str] | None = None
        self.gets: str = "cpu"

    def pip_install(self, *arguments: str) -> bool:
        """Succeed or fail as configured; a success installs the build for this machine."""
        self.asked.append(arguments)
        succeeds = self.answers.pop(0) if self.answers else True
        if succeeds:
            self.installed = (self.script.pinned_version(), self.gets)
        return succeeds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A Linux machine without a GPU and without torch."""
    spec = importlib.util.spec_from_file_location("install_torch", SCRIPT)
    assert spec
    assert spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    machine = Machine(script)
    monkeypatch.setattr(script, "pip_install", machine.pip_install)
    monkeypatch.setattr(script, "installed", lambda: machine.installed)
    monkeypatch.setattr(script, "gpu_is_here", lambda: False)
    monkeypatch.setattr(script.platform, "system", lambda: "Linux")
    monkeypatch.setattr(sys, "argv", ["install_torch.py"])
    return machine


def test_without_a_gpu_only_a_cpu_build_is_requested(machine: Machine) -> None:
    machine.answers = [False, True]
    assert machine.script.main() == 0
    first, second = machine.asked
    assert machine.script.CPU_INDEX in first
    assert not [argument for argument in second if argument.startswith("--index")]
    assert {first[-1], second[-1]} == {f"torch=={machine.script.pinned_version()}+cpu"}


def test_a_missing_cpu_build_ends_with_the_remedy_and_installs_no_other(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.answers = [False, False]
    assert machine.script.main() == 1
    assert all(asked[-1].endswith("+cpu") for asked in machine.asked)
    said = capsys.readouterr().err
    assert "PIP_FIND_LINKS" in said
    assert "TORCH=cuda" in said


def test_with_a_gpu_the_cuda_build_is_the_default(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.script, "gpu_is_here", lambda: True)
    machine.gets = "cuda"
    assert machine.script.main() == 0
    assert machine.asked == [(f"torch=={machine.script.pinned_version()}",)]

    monkeypatch.setattr(sys, "argv", ["install_torch.py", "cpu"])
    machine.gets = "cpu"
    assert machine.script.main() == 0
    assert machine.asked[-1][-1].endswith("+cpu")


def test_a_cpu_build_instead_of_the_cuda_build_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install_torch.py", "cuda"])
    assert machine.script.main() == 1
    assert "not its cuda build" in capsys.readouterr().err


def test_an_installed_build_is_not_installed_again(machine: Machine) -> None:
    machine.installed = (machine.script.pinned_version(), "cpu")
    assert machine.script.main() == 0
    assert machine.asked == []


def test_on_other_systems_than_linux_the_only_build_is_installed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.script.platform, "system", lambda: "Darwin")
    assert machine.script.main() == 0
    assert machine.asked == [(f"torch=={machine.script.pinned_version()}",)]


def test_an_unknown_build_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["install_torch.py", "rocm"])
    with pytest.raises(SystemExit, match="'rocm'; it must be auto, cpu or cuda"):
        machine.script.main()
    assert machine.asked == []
