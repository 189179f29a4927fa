"""Install the pinned torch into the interpreter that runs this, in the build for this machine.

``pip install torch`` on Linux also installs gigabytes of CUDA libraries. Without an NVIDIA GPU, this script installs
the CPU build: from PyTorch's own CPU index, or from where pip is configured to look. Files are compared with recorded
digests: those of requirements-torch.lock, and for the CPU build those of torch_cpu_wheels.txt, as far as it has them.

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

CPU_INDEX = "https://download.pytorch.org/whl/cpu"
# torch of the package index, and what its CUDA build brings along, with the digest of every file.
LOCK = Path(__file__).parent.parent / "requirements-torch.lock"
# Digests of CPU builds, as sha256sum writes them. An index of wheels on another host has files of its own.
CPU_WHEELS = Path(__file__).parent / "torch_cpu_wheels.txt"


def pinned_version() -> str:
    """The version pinned in pyproject.toml, the only place that names it."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'"torch==([0-9.]+)"', text)
    if found is None:
        sys.exit("pyproject.toml pins no torch version")
    return found[1]


def gpu_is_here() -> bool:
    """Whether the NVIDIA driver responds."""
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


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
    wanted = sys.argv[1] if len(sys.argv) > 1 else "auto"
    if wanted not in ("auto", "cpu", "cuda"):
        sys.exit(f"the build is {wanted!r}; it must be auto, cpu or cuda")
    build = wanted if wanted != "auto" else "cuda" if gpu_is_here() else "cpu"
    version = pinned_version()
    if installed() == (version, build) or ((installed() or ("",))[0] == version and platform.system() != "Linux"):
        return 0
    print(f"installing torch {version}, the {build} build", flush=True)
    if not install(version, build):
        where = f"neither at {CPU_INDEX} nor" if build == "cpu" else "not"
        print(
            f"\nThe {build} build of torch {version} for Python {platform.python_version()} on {platform.machine()} "
            f"is {where} where pip is configured to look.\n"
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
