"""Write what the service installs, with the digest of every file: ``make lock`` runs this.

``requirements.lock`` has the dependencies of the service (traces included) and of the client, and what builds the two
packages.
``requirements-torch.lock`` has torch from the package index with the CUDA libraries it brings along on Linux; where its
CPU build is installed instead, scripts/install_torch.py compares that with scripts/torch_cpu_wheels.txt.
``requirements-compiler.lock`` has the C++ compiler for machines that have none.
``requirements-ray.lock`` has what the extra "ray" adds to these, for an image with EXTRAS=ray.
``requirements-sbom.lock`` has the program that writes the image's bill of materials, and what it needs; it is installed
on its own. The versions are those of constraints.txt.
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


_SBOM = "cyclonedx-bom"


def resolve(*requirements: str) -> list[str]:
    """Packages with their hashes, each as a requirement of pip.

    Args:
        requirements: What is to be installed, as arguments of "uv pip compile" or as requirements.
    """
    files = [one for one in requirements if one.startswith("--") or one.endswith(".toml")]
    lines = "\n".join(one for one in requirements if one not in files)
    options = "--quiet --universal --python-version 3.11 --fork-strategy fewest --no-annotate --no-header"
    command = [sys.executable, "-m", "uv", "pip", "compile", *options.split(), "--generate-hashes"]
    command += ["--constraint", "constraints.txt", *files, "-"]
    done = subprocess.run(command, cwd=ROOT, input=lines, stdout=subprocess.PIPE, text=True, check=True)
    return re.split(r"\n(?=\S)", done.stdout.strip())


def resolve_service() -> dict[str, list[str]]:
    """By lock file: the requirements of the service and of its extra for Ray."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    # The build back-end is on the list, so that the packages of the repository are built without a download.
    service = ("--extra=telemetry", "--extra=compiler", "pyproject.toml", "client/pyproject.toml")
    service += tuple(project["build-system"]["requires"])
    files: dict[str, list[str]] = {}
    for one in resolve(*service):
        if _TORCH.match(one):
            name = "requirements-torch.lock"
        elif _COMPILER.match(one):
            name = "requirements-compiler.lock"
        else:
            name = "requirements.lock"
        files.setdefault(name, []).append(one)
    known = {_name(one) for several in files.values() for one in several}
    return {
        **files,
        "requirements-ray.lock": [one for one in resolve("--extra=ray", *service) if _name(one) not in known],
    }


def _name(requirement: str) -> str:
    return requirement.split("==")[0]


def main() -> int:
    """Write the files."""
    for name, several in {**resolve_service(), "requirements-sbom.lock": resolve(_SBOM)}.items():
        (ROOT / name).write_text(HEADER + "\n".join(several) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
