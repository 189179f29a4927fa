"""Compiles the C++ of this package: at installation (``python -m model.decoding.native.compiler``), or on first use."""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model.process.folders import cache_folder

FOLDER = Path(__file__).parent
DECODER = FOLDER / "decoder.cpp"
KERNELS = FOLDER / "kernels" / "kernels.cpp"

FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-pthread", "-ffp-contract=off")
"""What every build needs. The compiler must not fuse multiplications and additions: instruction sets would differ."""

OPTIMISED = ("-O3",)
"""What a build needs that is not for a debugger or a sanitizer."""

INSTALLED = ("-w",)
"""An installation shows no warnings and does not fail on those of a new compiler."""

CHECKED = ("-Wall", "-Wextra", "-Werror")
"""``make check`` allows no warning."""

COMPILERS = ("c++", "g++", "clang++")
"""In the order they are looked for."""

_BUILD_TIMEOUT_S = 300.0
_DIGEST_DIGITS = 16


_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
_X86_SETS = {
    "avx512-vnni": (*_AVX512, "-mavx512vnni"),
    "avx-vnni": (*_AVX2, "-mavxvnni"),
    "avx512": _AVX512,
    "avx2": _AVX2,
}
# What every 64-bit ARM processor has needs no flags. The other instructions are written in assembler: compilers do not
# agree on flags for them.
_ARM_SETS: dict[str, tuple[str, ...]] = {"neon-i8mm": (), "neon-dotprod": ()}
_ANY_SETS: dict[str, tuple[str, ...]] = {"portable": ()}
_SETS = {"x86-64": _X86_SETS, "aarch64": _ARM_SETS}
_MACHINES = {"x86_64": "x86-64", "amd64": "x86-64", "aarch64": "aarch64", "arm64": "aarch64"}

SUPPORTED = " and ".join(_SETS)
"""The architectures that the library can be compiled for."""

SET_NAMES = (*_X86_SETS, *_ARM_SETS, *_ANY_SETS)
"""The instruction sets there are, of all kinds of processors."""


@dataclass(frozen=True)
class Unit:
    """A file that is compiled with flags of its own.

    Args:
        name: For its object.
        source: The file.
        flags: Beside those of the build.
    """

    name: str
    source: Path
    flags: tuple[str, ...] = ()


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


def architecture(machine: str | None = None) -> str | None:
    """The architecture of a processor: ``x86-64`` or ``aarch64``; None if the library cannot be compiled for it.

    Args:
        machine: The kind of processor, as ``platform.machine()`` names it; None is this one.
    """
    return _MACHINES.get((machine or platform.machine()).lower())


def sets(machine: str | None = None) -> dict[str, tuple[str, ...]]:
    """The instruction sets of a library, with the compiler's flags of each.

    ``instruction_sets.h`` has the same, and chooses at run time among those that the processor has.

    Args:
        machine: The kind of processor, as ``platform.machine()`` names it; None is this one.
    """
    own = architecture(machine)
    return {**({} if own is None else _SETS[own]), **_ANY_SETS}


def units(machine: str | None = None) -> tuple[Unit, ...]:
    """What a library consists of: the kernels of each instruction set, and everything else once.

    Args:
        machine: The kind of processor; None is this one.
    """
    kernels = (Unit(name, KERNELS, (*flags, *_definitions(name))) for name, flags in sets(machine).items())
    return (*kernels, Unit("decoder", DECODER))


def _definitions(name: str) -> tuple[str, ...]:
    word = name.replace("-", "_")
    return (
        f"-DVERSO_SET=verso_kernels_{word}",
        f'-DVERSO_SET_NAME="{name}"',
        f'-DVERSO_SET_HEADER="sets/{word}.h"',
    )


def sources() -> list[Path]:
    """Every file that is compiled or included."""
    return sorted(path for path in FOLDER.rglob("*") if path.suffix in (".cpp", ".h"))


def digest(flags: Sequence[str]) -> str:
    """Digits that change with the sources, the flags and the kind of processor."""
    found = hashlib.sha256(f"{flags} {units()}".replace(str(FOLDER), "").encode())
    for path in sources():
        found.update(path.read_bytes())
    return found.hexdigest()[:_DIGEST_DIGITS]


def build_library() -> Path:
    """Compile the library unless that was done: beside its source or, if that folder is read-only, in the cache folder.

    Two processes may build at the same time; each writes a file of its own and then renames it.

    Returns:
        Its path.

    Raises:
        Unavailable: There is no compiler, it failed, or no folder can be written.
    """
    flags = (*FLAGS, *OPTIMISED, *INSTALLED)
    name = f"decoder-{digest(flags)}.so"
    beside = FOLDER / name
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
    with tempfile.TemporaryDirectory() as folder:
        objects = compile_units(compiler, units(), flags, Path(folder))
        _run(compiler, [*flags, "-shared", "-o", str(path), *map(str, objects)])
    return path


def compile_units(compiler: str, parts: Sequence[Unit], flags: Sequence[str], folder: Path) -> list[Path]:
    """Compile units side by side.

    Args:
        compiler: Its path.
        parts: The units.
        flags: For all of them; those of a unit come after them.
        folder: Where the objects are written.

    Returns:
        The objects, in the order of the units.

    Raises:
        Unavailable: The compiler failed or took too long.
    """

    def compiled(unit: Unit) -> Path:
        path = folder / f"{unit.name}.o"
        _run(compiler, [*flags, *unit.flags, "-c", "-o", str(path), str(unit.source)])
        return path

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as jobs:
        return list(jobs.map(compiled, parts))


def _run(compiler: str, arguments: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            [compiler, *arguments], capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{compiler} failed ({error})") from error
    if done.returncode:
        raise CompilerFailed(compiler, done.stderr, done.returncode)


def check_warnings() -> None:
    """Compile as an installation does, with warnings as errors, and keep nothing.

    Raises:
        Unavailable: There is no compiler, or it warned.
    """
    with tempfile.TemporaryDirectory() as folder:
        compile_library(Path(folder) / "decoder.so", (*FLAGS, *OPTIMISED, *CHECKED))


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
    if architecture() is None:
        print(f"the compiled decoder is for {SUPPORTED} and this is {platform.machine()}: torch decodes, more slowly")
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
