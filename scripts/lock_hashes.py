"""Write what the service installs, with the digest of every file: ``make lock`` runs this.

``requirements.lock`` has the dependencies of the service (traces included) and of the client, and what builds the two
packages.
``requirements-torch.lock`` has torch from the package index with the CUDA libraries it brings along on Linux; where its
CPU build is installed instead, scripts/install_torch.py compares that with scripts/torch_cpu_wheels.txt.
``requirements-compiler.lock`` has the C++ compiler for machines that have none. The versions are those of
constraints.txt.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by 'make lock': pip install --require-hashes --no-deps --requirement THIS_FILE\n"
_TORCH = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-[\w-]+)==")
"""Packages that the CPU build of torch does not need."""
_COMPILER = re.compile(r"ziglang==")
"""What the extra "compiler" adds."""


def resolve() -> list[str]:
    """The requirements of the service, each with its hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    options = "--quiet --universal --python-version 3.11 --fork-strategy fewest --no-annotate --no-header"
    command = [sys.executable, "-m", "uv", "pip", "compile", *options.split(), "--generate-hashes"]
    command += ["--constraint", "constraints.txt", "--extra", "telemetry", "--extra", "compiler"]
    command += ["pyproject.toml", "client/pyproject.toml", "-"]
    # The build back-end is on the list, so that the packages of the repository are built without a download.
    build = "\n".join(project["build-system"]["requires"])
    done = subprocess.run(command, cwd=ROOT, input=build, stdout=subprocess.PIPE, text=True, check=True)
    return re.split(r"\n(?=\S)", done.stdout.strip())


def main() -> int:
    """Write the files."""
    files: dict[str, list[str]] = {}
    for one in resolve():
        file = (
            "requirements-torch"
            if _TORCH.match(one)
            else "requirements-compiler"
            if _COMPILER.match(one)
            else "requirements"
        )
        files.setdefault(f"{file}.lock", []).append(one)
    for name, several in files.items():
        (ROOT / name).write_text(HEADER + "\n".join(several) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
