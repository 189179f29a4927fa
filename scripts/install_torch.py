"""Install the pinned torch into the interpreter that runs this, in the build that fits the machine.

Plain ``pip install torch`` on Linux brings gigabytes of CUDA libraries along. Unless an NVIDIA GPU is here, this
takes the CPU build: from PyTorch's own CPU index, or from wherever pip is configured to find one.

usage: python scripts/install_torch.py [auto|cpu|cuda]
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def pinned_version() -> str:
    """The version pyproject.toml pins, so that it stands in one place."""
    text = (Path(__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'"torch==([0-9.]+)"', text)
    if found is None:
        sys.exit("pyproject.toml pins no torch version")
    return found[1]


def gpu_is_here() -> bool:
    """Whether the NVIDIA driver answers."""
    tool = shutil.which("nvidia-smi")
    return tool is not None and subprocess.run([tool, "-L"], capture_output=True, check=False).returncode == 0


def installed() -> str | None:
    """Version and build of the torch that is installed, such as ``2.13.0 cpu``; None where there is none."""
    code = "import torch; print(torch.__version__.split('+')[0], 'cuda' if torch.version.cuda else 'cpu')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else None


def pip_install(*arguments: str) -> bool:
    """Run pip; whether it succeeded."""
    return subprocess.run([sys.executable, "-m", "pip", "install", *arguments], check=False).returncode == 0


def main() -> int:
    """Install, unless the right build is there already."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else "auto"
    if wanted not in ("auto", "cpu", "cuda"):
        sys.exit(f"the build is {wanted!r}; it must be auto, cpu or cuda")
    if wanted == "auto":
        wanted = "cuda" if gpu_is_here() else "cpu"
    version = pinned_version()
    if installed() == f"{version} {wanted}":
        return 0
    print(f"installing torch {version}, the {wanted} build", flush=True)
    if wanted == "cuda" or platform.system() != "Linux":
        # Elsewhere than on Linux the ordinary build is the CPU build.
        return 0 if pip_install(f"torch=={version}") else 1
    # What torch needs comes with the other packages: an index that does not answer costs seconds for each.
    done = pip_install("--no-deps", "--index-url", CPU_INDEX, "--timeout", "10", "--retries", "0", f"torch=={version}")
    # Only a build that says "+cpu" is taken from elsewhere; the plain one is the CUDA build.
    if not done and not pip_install("--no-deps", f"torch=={version}+cpu"):
        print(
            f"\nThe CPU build of torch {version} is neither at {CPU_INDEX} nor where pip is configured to look.\n"
            "Check the network, or point pip at a wheel (pip config set global.find-links DIR).\n"
            "TORCH=cuda installs the CUDA build (gigabytes) instead.",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
