"""Compiles decoder.cpp: at installation (``python -m model.decoding.native.compiler``), or on first use."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from model.process.folders import cache_folder

SOURCE = Path(__file__).with_name("decoder.cpp")
FLAGS = (
    *("-O3", "-std=c++17", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-mavx2", "-mfma", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni"),
)
"""What every build needs."""

INSTALLED = ("-w",)
"""An installation shows no warnings and does not fail on those of a new compiler."""

CHECKED = ("-Wall", "-Wextra", "-Werror")
"""``make check`` allows no warning."""

COMPILERS = ("c++", "g++", "clang++")
"""In the order they are looked for."""

_BUILD_TIMEOUT_S = 300.0
_DIGEST_DIGITS = 16


class Unavailable(Exception):
    """The compiled decoder cannot be used here; the message is the reason."""


class NoCompiler(Unavailable):
    """There is no C++ compiler."""


class CompilerFailed(Unavailable):
    """The compiler reported an error.

    Args:
        compiler: Its path.
        output: All that it printed.
        status: Its exit status.
    """

    def __init__(self, compiler: str, output: str, status: int) -> None:
        lines = output.strip().splitlines()
        first = next((line for line in lines if "error" in line), lines[0] if lines else f"exit status {status}")
        super().__init__(f"{compiler} failed: {first}")
        self.output = output


def is_x86() -> bool:
    """Whether this is an x86-64 processor, which alone the library can be compiled for."""
    return platform.machine().lower() in ("x86_64", "amd64")


def build_library() -> Path:
    """Compile the library unless that was done: beside its source or, if that folder is read-only, in the cache folder.

    Two processes may build at the same time; each writes a file of its own and then renames it.

    Returns:
        Its path.

    Raises:
        Unavailable: There is no compiler, it failed, or no folder can be written.
    """
    flags = (*FLAGS, *INSTALLED)
    digest = hashlib.sha256()
    for path in (SOURCE, *sorted(SOURCE.parent.glob("*.h"))):
        digest.update(path.read_bytes())
    digest.update(" ".join(flags).encode())
    name = f"decoder-{digest.hexdigest()[:_DIGEST_DIGITS]}.so"
    beside = SOURCE.parent / name
    if beside.is_file():
        return beside
    try:
        cached = cache_folder() / name
        if cached.is_file():
            return cached
        path = beside if os.access(beside.parent, os.W_OK) else cached
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            built = compile_library(Path(folder) / name, flags)
            built.replace(path)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home directory
        raise Unavailable(f"the compiled decoder cannot be written ({error})") from error
    return path


def find_compiler() -> str:
    """The path of the first C++ compiler found.

    Raises:
        NoCompiler: There is none.
    """
    for command in COMPILERS:
        if found := shutil.which(command):
            return found
    raise NoCompiler(f"there is no C++ compiler ({', '.join(COMPILERS)}) on the PATH")


def compile_library(path: Path, flags: Sequence[str]) -> Path:
    """Compile the library.

    Args:
        path: The file to write.
        flags: For the compiler.

    Returns:
        ``path``.

    Raises:
        Unavailable: There is no compiler, it failed, or it took too long.
    """
    compiler = find_compiler()
    command = [compiler, *flags, "-o", str(path), str(SOURCE)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{compiler} failed ({error})") from error
    if done.returncode:
        raise CompilerFailed(compiler, done.stderr, done.returncode)
    return path


def check_warnings() -> None:
    """Compile as an installation does, with warnings as errors, and keep nothing.

    Raises:
        Unavailable: There is no compiler, or it warned.
    """
    with tempfile.TemporaryDirectory() as folder:
        compile_library(Path(folder) / "decoder.so", (*FLAGS, *CHECKED))


def main(arguments: Sequence[str] | None = None) -> None:
    """Build at installation, so that the first start need not wait; a failure is printed and stops nothing.

    Args:
        arguments: Of the command line.

    Raises:
        SystemExit: ``--check`` found a warning or an error.
    """
    parser = argparse.ArgumentParser(description="Compile the native decoder.")
    parser.add_argument("--check", action="store_true", help="only compile with warnings as errors, and fail on one")
    check = parser.parse_args(arguments).check
    if not is_x86():
        print(f"the compiled decoder is for x86-64 and this is {platform.machine()}: torch decodes, more slowly")
        return
    try:
        if check:
            check_warnings()
        else:
            print(build_library())
    except Unavailable as error:
        if check and isinstance(error, CompilerFailed):
            raise SystemExit(error.output) from error
        print(f"{error}: torch decodes, more slowly")


if __name__ == "__main__":
    main()
