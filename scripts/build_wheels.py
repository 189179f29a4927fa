"""Build wheels of the project with the compiled decoder inside, for x86-64 and for aarch64 (docs/releasing.md).

usage: python -m scripts.build_wheels [--out FOLDER] [--machine x86_64|aarch64]

The compiler of the package ziglang (locks/compiler.lock) compiles for both CPU architectures, on any machine. The same
sources and versions give the same bytes (``SOURCE_DATE_EPOCH`` sets the date of the files inside). A wheel contains its
bill of materials (``*.dist-info/sboms/``, PEP 770). It is kept only if auditwheel confirms that its library loads on
the systems in the wheel's name.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from app.version import installed_version
from model.decoding.native.compiler import INSTALLATION, ZIG, Unavailable, compile_library, library_name, zig
from scripts.sbom import wheel_bill

ROOT = Path(__file__).resolve().parents[1]
MACHINES = ("x86_64", "aarch64")
PLATFORM = "manylinux_2_17"
"""Linux with glibc 2.17 or later; :func:`model.decoding.native.compiler.zig` compiles for it."""

BILL = "verso.cdx.json"
"""File name of the bill of materials, in the folder that is packed and in the wheel."""

_FILES = ("pyproject.toml", "README.md", "LICENSE")
_FOLDERS = ("app", "model")
_NOT_COPIED = shutil.ignore_patterns("__pycache__", "*.so", "*.pyc", "tmp*")
_EPOCH = "315532800"
"""1980-01-01, the earliest date that a zip file can have."""

_SETUP = """\
import os
import shutil

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

class OfThisPlatform(Distribution):
    def has_ext_modules(self):
        return True

class AnyPython(bdist_wheel):
    def get_tag(self):
        return "py3", "none", {platform!r}

    def write_wheelfile(self, about):  # called before the files are listed
        super().write_wheelfile(about)
        os.mkdir(os.path.join(about, "sboms"))
        shutil.copyfile({bill!r}, os.path.join(about, "sboms", {bill!r}))

setup(distclass=OfThisPlatform, cmdclass={{"bdist_wheel": AnyPython}})
"""
"""The ``setup.py`` of a wheel for one CPU architecture and any release of Python: ctypes loads the library."""


def build_wheel(machine: str, out: Path) -> Path:
    """Build a wheel.

    Args:
        machine: The CPU architecture.
        out: The folder that the wheel is written to.

    Returns:
        The path of the wheel.

    Raises:
        Unavailable: The library cannot be compiled.
        SystemExit: setuptools failed, or the library does not load on every system in the wheel's name.
    """
    with tempfile.TemporaryDirectory() as name:
        project, built = Path(name, "project"), Path(name, "built")
        copy_project(project)
        native = project / "model" / "decoding" / "native"
        compile_library(native / library_name(machine), INSTALLATION, zig(machine), machine)
        bill = wheel_bill(installed_version(), importlib.metadata.version(ZIG))
        (project / BILL).write_text(json.dumps(bill, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        wheel = pack(project, f"{PLATFORM}_{machine}", built)
        refuse_a_wrong_name(wheel)
        out.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(wheel, out / wheel.name))


def copy_project(project: Path) -> None:
    """Copy the files of a wheel, without libraries compiled on this machine and without the permissions of the files.

    Args:
        project: The folder to create.
    """
    project.mkdir(parents=True)
    for file in _FILES:
        shutil.copyfile(ROOT / file, project / file)
    for folder in _FOLDERS:
        shutil.copytree(ROOT / folder, project / folder, ignore=_NOT_COPIED, copy_function=shutil.copyfile)


def pack(project: Path, platform: str, out: Path) -> Path:
    """Make a wheel from a copy of the project, including the library and the bill of materials in it.

    Args:
        project: The folder of the copy.
        platform: The platform tag in the wheel's name.
        out: The folder to create for the wheel.

    Returns:
        The path of the wheel.

    Raises:
        SystemExit: setuptools failed.
    """
    for folder, _, names in os.walk(project):
        os.chmod(folder, 0o755)
        for file in names:
            os.chmod(Path(folder, file), 0o755 if file.endswith(".so") else 0o644)
    (project / "setup.py").write_text(_SETUP.format(platform=platform, bill=BILL), encoding="utf-8")
    out.mkdir(parents=True)
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    process = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        cwd=project,
        env={"SOURCE_DATE_EPOCH": _EPOCH, **os.environ},
        umask=0o022,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if process.returncode:
        raise SystemExit(f"the wheel cannot be built:\n{process.stdout}")
    (wheel,) = out.glob("*.whl")
    return wheel


def refuse_a_wrong_name(wheel: Path) -> None:
    """Check with auditwheel that a wheel's library loads on the systems in the wheel's name.

    Args:
        wheel: The path of the wheel.

    Raises:
        SystemExit: It does not load on all of them.
    """
    command = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r'following platform tag:\s+"([^"]+)"', process.stdout)
    platform = wheel.stem.rpartition("-")[2]
    if match is None or match[1] != platform:
        raise SystemExit(f"{wheel.name} is not for {platform}:\n{process.stdout}{process.stderr}")


def main() -> int:
    """Build the wheels, and print the digest and the path of each."""
    parser = argparse.ArgumentParser(description="build wheels with the compiled decoder inside")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="default: dist")
    parser.add_argument("--machine", choices=MACHINES, action="append", help="default: all")
    options = parser.parse_args()
    for machine in options.machine or MACHINES:
        try:
            wheel = build_wheel(machine, options.out)
        except Unavailable as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{hashlib.sha256(wheel.read_bytes()).hexdigest()}  {wheel}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
