"""Write what the service installs, with the digest of every file: ``make lock`` runs this.

``locks/service.lock`` has the dependencies of the service (traces included) and of the client, and what builds the two
packages.
``locks/torch.lock`` has torch from the package index with the CUDA libraries it brings along on Linux; where its
CPU build is installed instead, scripts/install_torch.py compares that with scripts/torch_cpu_wheels.txt.
``locks/compiler.lock`` has the C++ compiler for machines that have none.
``locks/ray.lock`` and ``locks/mcp.lock`` have what the extras "ray" and "mcp" add to these, for images with EXTRAS.
``locks/sbom.lock`` has the program that writes the image's bill of materials, and what it needs; it is installed
on its own. The versions are those of locks/constraints.txt.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Written by 'make lock': pip install --require-hashes --no-deps --requirement THIS_FILE\n"
_TORCH = re.compile(r"(torch|triton|cuda-[\w-]+|nvidia-[\w-]+)==")
"""Packages that the CPU build of torch does not need."""
_COMPILER = re.compile(r"ziglang==")
"""What the extra "compiler" adds."""


def resolve(requirements: Sequence[str], *arguments: str) -> list[str]:
    """Packages with their hashes, each as a requirement of pip.

    Args:
        requirements: The requirements to resolve.
        arguments: Files with more of it, and their extras, as "uv pip compile" takes them.
    """
    options = "--quiet --universal --python-version 3.11 --fork-strategy fewest --no-annotate --no-header"
    command = [sys.executable, "-m", "uv", "pip", "compile", *options.split(), "--generate-hashes"]
    command += ["--constraint", "locks/constraints.txt", *arguments, "-"]
    lines = "\n".join(requirements)
    process = subprocess.run(command, cwd=ROOT, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return re.split(r"\n(?=\S)", process.stdout.strip())


def resolve_all() -> dict[str, list[str]]:
    """By lock file: its packages."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # The build back-end is on the list, so that the packages of the repository are built without a download.
    build = project["build-system"]["requires"]
    service = ("--extra=telemetry", "--extra=compiler", "pyproject.toml", "client/pyproject.toml")
    files: dict[str, list[str]] = {}
    for requirement in resolve(build, *service):
        if _TORCH.match(requirement):
            name = "locks/torch.lock"
        elif _COMPILER.match(requirement):
            name = "locks/compiler.lock"
        else:
            name = "locks/service.lock"
        files.setdefault(name, []).append(requirement)
    names = {_name(requirement) for several in files.values() for requirement in several}
    for extra in ("ray", "mcp"):
        added = [item for item in resolve(build, f"--extra={extra}", *service) if _name(item) not in names]
        files[f"locks/{extra}.lock"] = added
    files["locks/sbom.lock"] = resolve(["cyclonedx-bom"])
    return files


def _name(requirement: str) -> str:
    return requirement.split("==")[0]


def main() -> int:
    """Write the files."""
    for name, several in resolve_all().items():
        (ROOT / name).write_text(HEADER + "\n".join(several) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
