"""Install the pinned torch into the interpreter that runs this, in the build for this machine.

``pip install torch`` on Linux also installs gigabytes of CUDA libraries. Without an NVIDIA GPU, this script installs
the CPU build: from PyTorch's own CPU index, or from where pip is configured to look. Files are compared with recorded
digests: those of locks/torch.lock, and for the CPU build those of torch_cpu_wheels.txt, as far as it has them.

Before the CUDA build is downloaded, nvidia-smi is asked whether driver and GPU can run it. On a machine without a GPU,
such as one that builds an image, it is installed on request.

usage: python scripts/install_torch.py [auto|cpu|cuda]
"""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# torch of the package index, and what its CUDA build brings along, with the digest of every file.
LOCK = Path(__file__).parent.parent / "locks" / "torch.lock"
# Digests of CPU builds, as sha256sum writes them. An index of wheels on another host has files of its own.
CPU_WHEELS = Path(__file__).parent / "torch_cpu_wheels.txt"
# What the CUDA build needs: the driver of CUDA 13, and a GPU that torch has machine code for. The same numbers are in
# model/process/devices.py; this script runs before anything is installed.
OLDEST_DRIVER = 580
OLDEST_CAPABILITY = (7, 5)
CUDA_DOWNLOAD = "2.7 GB"


def pinned_version() -> str:
    """The version pinned in pyproject.toml, the only place that names it."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    match = re.search(r'"torch==([0-9.]+)"', text)
    if match is None:
        sys.exit("pyproject.toml pins no torch version")
    return match[1]


class Gpu(NamedTuple):
    """A GPU as nvidia-smi describes it.

    Args:
        name: Of the product.
        driver: Version of the driver.
        capability: Compute capability; None if the driver is too old to tell.
    """

    name: str
    driver: str
    capability: tuple[int, int] | None

    def __str__(self) -> str:
        capability = "" if self.capability is None else f", compute capability {'.'.join(map(str, self.capability))}"
        return f"{self.name} (driver {self.driver}{capability})"


def find_gpus() -> list[Gpu]:
    """The GPUs that the NVIDIA driver sees; empty if there is no driver."""
    # Drivers before release 510 do not know the field compute_cap.
    lines = _ask_driver("name,driver_version,compute_cap") or _ask_driver("name,driver_version")
    gpus = []
    for line in lines:
        name, driver, capability = ([*(part.strip() for part in line.split(",")), "", ""])[:3]
        numbers = re.fullmatch(r"(\d+)\.(\d+)", capability)
        gpus.append(Gpu(name, driver, (int(numbers[1]), int(numbers[2])) if numbers else None))
    return gpus


def _ask_driver(fields: str) -> list[str]:
    """A line for each GPU with these fields, separated by commas."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, f"--query-gpu={fields}", "--format=csv,noheader"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    return process.stdout.strip().splitlines() if process.returncode == 0 else []


def obstacle(gpus: list[Gpu]) -> tuple[str, str] | None:
    """Why none of the GPUs can run the CUDA build, and what to do about it; None if one can, or none is known.

    Args:
        gpus: All of this machine.
    """
    if not gpus:
        return None
    release = re.match(r"\d+", gpus[0].driver)  # all GPUs have one driver
    if release and int(release[0]) < OLDEST_DRIVER:
        return (
            f"it needs an NVIDIA driver of release {OLDEST_DRIVER} or newer",
            f"Update the driver to release {OLDEST_DRIVER} or newer, then run it again with TORCH=cuda.",
        )
    if all(gpu.capability is not None and gpu.capability < OLDEST_CAPABILITY for gpu in gpus):
        lowest = ".".join(map(str, OLDEST_CAPABILITY))
        return (
            f"it needs a GPU of compute capability {lowest} or higher (Turing or newer)",
            "It takes another GPU.",
        )
    return None


def choose_build(choice: str) -> str:
    """The build to install; reports the reason, unless the request can be met.

    Args:
        choice: ``auto``, ``cpu`` or ``cuda``.

    Raises:
        SystemExit: The CUDA build is requested, but no GPU of this machine can run it.
    """
    if choice == "cpu" or platform.system() != "Linux":
        return "cpu" if choice == "auto" else choice
    gpus = find_gpus()
    there = "; ".join(map(str, gpus))
    why_not = obstacle(gpus)
    if why_not is not None and choice == "auto":
        reason, remedy = why_not
        print(f"{there} cannot run torch's CUDA build: {reason}. The CPU build is taken. {remedy}", flush=True)
        return "cpu"
    if why_not is not None:
        reason, remedy = why_not
        sys.exit(
            f"torch's CUDA build was requested, but {there} cannot run it: {reason}. Nothing was downloaded.\n{remedy} "
            "TORCH=cpu serves on the CPU. To install it nevertheless, for another machine:\n"
            f"  {sys.executable} -m pip install --no-deps --require-hashes --requirement {LOCK}"
        )
    if choice == "cuda" and not gpus:
        print(
            f"nvidia-smi finds no NVIDIA GPU here. torch's CUDA build ({CUDA_DOWNLOAD}) is installed because TORCH is "
            f"cuda: it uses GPUs of compute capability {'.'.join(map(str, OLDEST_CAPABILITY))} or higher with a driver "
            f"of release {OLDEST_DRIVER} or newer, and runs on the CPU where there is none. TORCH=cpu takes the "
            "CPU build.",
            flush=True,
        )
    elif gpus:
        print(f"{there}: torch's CUDA build ({CUDA_DOWNLOAD}) is taken; TORCH=cpu takes the CPU build", flush=True)
    return "cuda" if gpus or choice == "cuda" else "cpu"


def installed() -> tuple[str, str] | None:
    """Version and build (``cpu`` or ``cuda``) of the torch that is installed; None if it is not installed."""
    importlib.invalidate_caches()
    try:
        version, _, local = importlib.metadata.version("torch").partition("+")
    except importlib.metadata.PackageNotFoundError:
        return None
    # The build without a label is the CUDA one on Linux, and the only one elsewhere.
    return version, "cuda" if local != "cpu" and platform.system() == "Linux" else "cpu"


def cpu_digests(version: str) -> list[str]:
    """Digests of the CPU builds for this interpreter and processor; empty if none is recorded.

    Args:
        version: The version, without a build label.
    """
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = re.compile(rf"torch-{re.escape(version)}\+cpu-{python}-{python}-\w*{re.escape(platform.machine())}\.whl")
    lines = (line.split() for line in CPU_WHEELS.read_text(encoding="utf-8").splitlines() if line.strip())
    return [digest for digest, name in lines if wheel.fullmatch(name)]


def pip_install(*arguments: str) -> bool:
    """Run pip; whether it succeeded."""
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", *arguments]
    return subprocess.run(command, check=False).returncode == 0


def install(version: str, build: str) -> bool:
    """Install the build from where it is available; whether that succeeded.

    Args:
        version: The version, without a build label.
        build: ``cpu`` or ``cuda``.
    """
    if platform.system() != "Linux" or build == "cuda":
        # An installed CPU build would satisfy the pin, and pip would keep it.
        again = ["--force-reinstall"] if installed() else []
        return pip_install(*again, "--require-hashes", "--requirement", str(LOCK))
    # The label excludes the CUDA build, wherever pip is configured to look. The dependencies of torch are installed
    # later, with the other packages: here an index that does not respond would cost its timeout for each of them.
    requirement = f"torch=={version}+cpu"
    digests = cpu_digests(version)
    if not digests:
        print(f"{CPU_WHEELS.name} has no digest of this build, which is therefore not checked", flush=True)
        return _from_either_index(requirement)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "torch.lock"
        file.write_text(" ".join([requirement, *(f"--hash=sha256:{digest}" for digest in digests)]), encoding="utf-8")
        return _from_either_index("--require-hashes", "--requirement", str(file))


def _from_either_index(*arguments: str) -> bool:
    """Install the CPU build from PyTorch's index, or from where pip is configured to look."""
    own_index = ["--index-url", CPU_INDEX, "--timeout", "10", "--retries", "1"]
    return pip_install(*own_index, *arguments) or pip_install(*arguments)


def main() -> int:
    """Install, unless the right build is installed already; 0, or 1 with a message that says what to do."""
    choice = sys.argv[1] if len(sys.argv) > 1 else "auto"
    if choice not in ("auto", "cpu", "cuda"):
        sys.exit(f"the build is {choice!r}; it must be auto, cpu or cuda")
    version, present = pinned_version(), installed()
    if present == (version, choice) or ((present or ("",))[0] == version and platform.system() != "Linux"):
        return 0
    build = choose_build(choice)
    if present == (version, build):
        return 0
    print(f"installing torch {version}, the {build} build", flush=True)
    if not install(version, build):
        location = f"neither at {CPU_INDEX} nor" if build == "cpu" else "not"
        print(
            f"\nThe {build} build of torch {version} for Python {platform.python_version()} on {platform.machine()} "
            f"is {location} where pip is configured to look.\n"
            "Check the network, or point pip at a wheel: PIP_FIND_LINKS=/folder/with/the/wheel make ...",
            file=sys.stderr,
        )
        if build == "cpu":
            print("TORCH=cuda installs the CUDA build (gigabytes) instead.", file=sys.stderr)
        return 1
    if installed() != (version, build):
        print(
            f"\ntorch {version} is installed, but not its {build} build: pip found no other. "
            "TORCH=cpu is what this machine can have.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
