"""Compiles the C++ of this package: at installation (``python -m model.decoding.native.compiler``), or on first use."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from model.process.files import atomic_write, remove_abandoned, working_folder
from model.process.folders import cache_folder

logger = logging.getLogger("model.native")

FOLDER = Path(__file__).parent
DECODER = FOLDER / "decoder.cpp"
KERNELS = FOLDER / "kernels" / "kernels.cpp"

FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-pthread", "-ffp-contract=off")
"""What every build needs. The compiler must not fuse multiplications and additions: instruction sets would differ."""

OPTIMISED = ("-O3",)
"""What a build needs that is not for a debugger or a sanitizer."""

INSTALLED = ("-w",)
"""An installation shows no warnings and does not fail on those of a new compiler."""

INSTALLATION = (*FLAGS, *OPTIMISED, *INSTALLED)
"""All flags of an installation."""

CHECKED = ("-Wall", "-Wextra", "-Werror")
"""``make check`` allows no warning."""

COMPILERS = ("c++", "g++", "clang++")
"""In the order they are looked for, after ``CXX``."""

Compiler = tuple[str, ...]
"""A C++ compiler: its program, and the arguments of every call."""

ZIG = "ziglang"
"""A package of Python with a C++ compiler and all it needs (docs/decisions/0036)."""

_BUILD_TIMEOUT_S = 900.0
_DIGEST_DIGITS = 16


_AVX2 = ("-mavx2", "-mfma", "-mf16c")
_AVX512 = (*_AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl")
_X86_SETS = {
    "avx512-bf16": (*_AVX512, "-mavx512vnni", "-mavx512bf16"),
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

_OPTIONAL = ("avx512-bf16", "avx-vnni")
"""Sets that compilers before 2021 do not know. A library without them is better than none."""

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
        optional: Whether a library is of use without it.
    """

    name: str
    source: Path
    flags: tuple[str, ...] = ()
    optional: bool = False


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
    kernels = (
        Unit(name, KERNELS, (*flags, *_definitions(name)), name in _OPTIONAL) for name, flags in sets(machine).items()
    )
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


def digest(flags: Sequence[str], machine: str | None = None) -> str:
    """Digits that change with the sources, the flags and the kind of processor; not with the compiler.

    Args:
        flags: For all units.
        machine: The kind of processor; None is this one.
    """
    digest = hashlib.sha256(f"{flags} {units(machine)}".replace(str(FOLDER), "").encode())
    for path in sources():
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_DIGEST_DIGITS]


def library_name(machine: str | None = None) -> str:
    """The file name of the library that these sources give; one of another name does not fit them.

    Args:
        machine: The kind of processor; None is this one.
    """
    return f"decoder-{digest(INSTALLATION, machine)}.so"


def build_library() -> Path:
    """Compile the library unless that was done: beside its source or, if that folder is read-only, in the cache folder.

    Wheels bring the library along, beside its source. Two processes may build at the same time; each writes a file of
    its own.

    Returns:
        Its path.

    Raises:
        Unavailable: There is no compiler, it failed, or no folder can be written.
    """
    name = library_name()
    beside = FOLDER / name
    if beside.is_file():
        return beside
    try:
        cached = cache_folder() / name
        if cached.is_file():
            return cached
        path = beside if os.access(beside.parent, os.W_OK) else cached
        remove_abandoned(path.parent)
        with atomic_write(path) as unfinished, working_folder(unfinished) as folder:
            # Copied, as the linker would replace the unfinished file by another one.
            shutil.copyfile(compile_library(folder / name, INSTALLATION), unfinished)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home directory
        raise Unavailable(f"the compiled decoder cannot be written ({error})") from error
    return path


def find_compiler() -> Compiler:
    """The first C++ compiler that exists: that of ``CXX``, one on the PATH, or that of the package ziglang.

    Raises:
        NoCompiler: There is none.
    """
    for command in (shlex.split(os.environ.get("CXX", "")), *([name] for name in COMPILERS)):
        if command and (executable := shutil.which(command[0])):
            return (executable, *command[1:])
    try:
        return zig(platform.machine())
    except NoCompiler as error:
        raise NoCompiler(f"there is no C++ compiler ({', '.join(COMPILERS)}) on the PATH, and {error}") from error


def zig(machine: str) -> Compiler:
    """The compiler of the package ziglang, for a processor of any kind and Linux with glibc 2.17 (2012) or later.

    It links its own C++ library into what it builds. Nothing else may take that one's functions from another library of
    the process, nor the other way round (``-Bsymbolic``).

    Args:
        machine: The kind of processor, as ``platform.machine()`` names it.

    Raises:
        NoCompiler: The package is not installed, or this is not Linux.
    """
    spec = importlib.util.find_spec(ZIG) if platform.system() == "Linux" else None
    program = Path(spec.origin).with_name("zig") if spec and spec.origin else None
    if program is None or not program.is_file():
        raise NoCompiler(f"the package {ZIG}, which has one, is not installed")
    return (str(program), "c++", "-target", f"{machine}-linux-gnu.2.17", "-s", "-Wl,-Bsymbolic")


def compiler_version(compiler: Compiler) -> str:
    """The first line that a compiler says of itself.

    Raises:
        Unavailable: It cannot be run.
    """
    with tempfile.TemporaryDirectory() as folder:
        return _run(compiler, ["--version"], Path(folder)).partition("\n")[0].strip()


def compile_library(
    path: Path, flags: Sequence[str], compiler: Compiler | None = None, machine: str | None = None
) -> Path:
    """Compile the library.

    Args:
        path: The file to write.
        flags: For the compiler.
        compiler: The compiler; None is the one that is found.
        machine: The kind of processor, which the compiler must be for; None is this one.

    Returns:
        ``path``.

    Raises:
        Unavailable: There is no compiler, it failed, or it took too long.
    """
    compiler = compiler or find_compiler()
    with tempfile.TemporaryDirectory() as folder:
        objects = compile_units(compiler, units(machine), flags, Path(folder))
        _run(compiler, [*flags, "-shared", "-o", str(path), *map(str, objects)], Path(folder))
    return path


def compile_units(compiler: Compiler, parts: Sequence[Unit], flags: Sequence[str], folder: Path) -> list[Path]:
    """Compile units side by side. Optional ones that do not compile are left out, unless warnings are errors.

    Args:
        compiler: The compiler.
        parts: The units.
        flags: For all of them; those of a unit come after them.
        folder: Where the objects are written.

    Returns:
        The objects, in the order of the units.

    Raises:
        Unavailable: The compiler failed or took too long.
    """

    def compiled(unit: Unit) -> Path | None:
        path = folder / f"{unit.name}.o"
        try:
            _run(compiler, [*flags, *unit.flags, "-c", "-o", str(path), str(unit.source)], folder)
        except CompilerFailed as error:
            if not unit.optional or "-Werror" in flags:
                raise
            logger.info("the compiled decoder has no %s: %s", unit.name, error)
            return None
        return path

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as jobs:
        return [path for path in jobs.map(compiled, parts) if path is not None]


def _run(compiler: Compiler, arguments: Sequence[str], folder: Path) -> str:
    """Run the compiler; what it needs for itself is written to ``folder`` and not to the user's home directory."""
    environment = {
        **os.environ,
        "ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"),
        "ZIG_LOCAL_CACHE_DIR": str(folder / "zig"),
    }
    try:
        done = subprocess.run(
            [*compiler, *arguments],
            capture_output=True,
            text=True,
            timeout=_BUILD_TIMEOUT_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{compiler[0]} failed ({error})") from error
    if done.returncode:
        raise CompilerFailed(compiler[0], done.stderr, done.returncode)
    return done.stdout


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
        SystemExit: ``--check`` found a warning or an error, or ``--find`` no compiler.
    """
    parser = argparse.ArgumentParser(description="Compile the native decoder.")
    parser.add_argument("--check", action="store_true", help="only compile with warnings as errors, and fail on one")
    parser.add_argument(
        "--find", action="store_true", help="only say which compiler would be used, and fail if one is missing"
    )
    options = parser.parse_args(arguments)
    if architecture() is None:
        print(f"the compiled decoder is for {SUPPORTED} and this is {platform.machine()}: torch decodes, more slowly")
        return
    try:
        if options.find:
            print(shlex.join(find_compiler()))
        elif options.check:
            check_warnings()
        else:
            print(build_library())
    except Unavailable as error:
        if options.find:
            raise SystemExit(str(error)) from error
        if options.check and isinstance(error, CompilerFailed):
            raise SystemExit(error.output) from error
        print(f"{error}: torch decodes, more slowly")


if __name__ == "__main__":
    main()
