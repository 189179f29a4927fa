"""Which build of torch is requested from pip."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.gpus import put_nvidia_smi

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "install_torch.py"


class Machine:
    """Replaces pip, the driver and the platform; records the calls of pip.

    Args:
        script: The freshly loaded script.
    """

    def __init__(self, script: ModuleType) -> None:
        self.script = script
        self.asked: list[tuple[str, ...]] = []
        self.required: list[str] = []
        self.answers: list[bool] = []
        self.installed: tuple[str, str] | None = None
        self.gets: str = "cpu"

    def pip_install(self, *arguments: str) -> bool:
        """Succeed or fail as configured; a success installs the build for this machine."""
        self.asked.append(arguments)
        file = Path(arguments[-1])
        self.required.append(file.read_text(encoding="utf-8") if file.is_file() else arguments[-1])
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
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(script.platform, "system", lambda: "Linux")
    monkeypatch.setattr(script, "cpu_digests", lambda version: [])
    monkeypatch.setattr(sys, "argv", ["install_torch.py"])
    return machine


def test_without_a_gpu_only_a_cpu_build_is_requested(machine: Machine) -> None:
    machine.answers = [False, True]
    assert machine.script.main() == 0
    first, second = machine.asked
    assert machine.script.CPU_INDEX in first
    assert not [argument for argument in second if argument.startswith("--index")]
    assert {first[-1], second[-1]} == {f"torch=={machine.script.pinned_version()}+cpu"}


def test_a_cpu_build_is_compared_with_the_digests_that_are_recorded_for_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.undo()
    fresh = Machine(machine.script)
    monkeypatch.setattr(machine.script, "pip_install", fresh.pip_install)
    monkeypatch.setattr(machine.script.platform, "system", lambda: "Linux")
    monkeypatch.setattr(machine.script.platform, "machine", lambda: "x86_64")
    wheels = tmp_path / "wheels.txt"
    monkeypatch.setattr(machine.script, "CPU_WHEELS", wheels)
    python = f"cp3{sys.version_info.minor}"
    names = [
        f"torch-2.13.0+cpu-{python}-{python}-manylinux_2_28_x86_64.whl",
        f"torch-2.13.0+cpu-{python}-{python}-manylinux_2_28_aarch64.whl",
        f"torch-2.12.0+cpu-{python}-{python}-manylinux_2_28_x86_64.whl",
        "torch-2.13.0+cpu-cp39-cp39-manylinux_2_28_x86_64.whl",
    ]
    wheels.write_text("".join(f"{number}  {name}\n" for number, name in enumerate(names)), encoding="utf-8")
    assert machine.script.install("2.13.0", "cpu")
    assert "--require-hashes" in fresh.asked[0]
    assert fresh.required == ["torch==2.13.0+cpu --hash=sha256:0"]


def test_the_recorded_digests_are_of_the_pinned_version() -> None:
    version = (SCRIPT.parents[1] / "pyproject.toml").read_text(encoding="utf-8").split('"torch==')[1].split('"')[0]
    for line in (SCRIPT.parent / "torch_cpu_wheels.txt").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(rf"[0-9a-f]{{64}}  torch-{re.escape(version)}\+cpu-cp3\d+-cp3\d+-\w+\.whl", line)


def test_a_missing_cpu_build_ends_with_the_remedy_and_installs_no_other(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.answers = [False, False]
    assert machine.script.main() == 1
    assert all(request[-1].endswith("+cpu") for request in machine.asked)
    output = capsys.readouterr().err
    assert "PIP_FIND_LINKS" in output
    assert "TORCH=cuda" in output


def test_with_a_gpu_the_cuda_build_is_the_default(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_nvidia_smi(monkeypatch, tmp_path, "NVIDIA L4, 580.65.06, 8.9")
    machine.gets = "cuda"
    assert machine.script.main() == 0
    assert machine.asked == [("--require-hashes", "--requirement", str(machine.script.LOCK))]

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
    assert machine.asked == [("--require-hashes", "--requirement", str(machine.script.LOCK))]


@pytest.mark.parametrize(
    ("gpu", "knows_capability", "names"),
    [
        (
            "Tesla T4, 535.104.05, 7.5",
            True,
            ("Tesla T4 (driver 535.104.05", "release 580 or newer", "Update the driver"),
        ),
        ("Tesla K80, 470.57.02, 3.7", False, ("Tesla K80 (driver 470.57.02)", "release 580 or newer")),
        ("Tesla V100-SXM2-16GB, 580.65.06, 7.0", True, ("Tesla V100", "capability 7.0", "capability 7.5 or higher")),
    ],
)
def test_a_gpu_that_cannot_run_the_cuda_build_is_found_before_the_download(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    gpu: str,
    knows_capability: bool,
    names: tuple[str, ...],
) -> None:
    put_nvidia_smi(monkeypatch, tmp_path, gpu, knows_capability=knows_capability)
    assert machine.script.main() == 0
    output = capsys.readouterr().out
    assert machine.asked[-1][-1].endswith("+cpu")
    assert "The CPU build is taken" in output
    assert all(name in output for name in names)

    machine.asked.clear()
    monkeypatch.setattr(sys, "argv", ["install_torch.py", "cuda"])
    with pytest.raises(SystemExit) as stopped:
        machine.script.main()
    assert machine.asked == []
    message = str(stopped.value)
    assert all(name in message for name in names)
    assert "Nothing was downloaded" in message
    assert "TORCH=cpu" in message
    assert str(machine.script.LOCK) in message  # the way to install it nevertheless


def test_one_gpu_of_several_that_can_run_the_cuda_build_is_enough(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    put_nvidia_smi(monkeypatch, tmp_path, "Tesla V100, 580.65.06, 7.0", "NVIDIA L4, 580.65.06, 8.9")
    machine.gets = "cuda"
    assert machine.script.main() == 0
    assert machine.installed == (machine.script.pinned_version(), "cuda")


def test_without_a_gpu_the_cuda_build_is_installed_if_it_is_asked_for_and_the_output_says_what_it_needs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["install_torch.py", "cuda"])
    machine.gets = "cuda"
    assert machine.script.main() == 0
    output = capsys.readouterr().out
    for part in (
        "finds no NVIDIA GPU here",
        "2.7 GB",
        "capability 7.5",
        "release 580",
        "runs on the CPU",
        "TORCH=cpu",
    ):
        assert part in output
    assert machine.asked == [("--require-hashes", "--requirement", str(machine.script.LOCK))]


def test_installation_and_service_agree_on_what_the_cuda_build_needs(machine: Machine) -> None:
    from model.process import devices

    assert machine.script.OLDEST_DRIVER == devices.OLDEST_DRIVER
    assert machine.script.OLDEST_CAPABILITY == devices.OLDEST_CAPABILITY
