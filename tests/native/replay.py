"""Compiles ``replay.cpp`` with the compiled decoder's own units and flags, for this machine or for ARM, and runs it."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from model.decoding.native.compiler import (
    CHECKED,
    DECODER,
    FLAGS,
    OPTIMISED,
    Unit,
    compile_units,
    digest,
    find_compiler,
    units,
)

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "replay"
"""Programs and recordings; git ignores it."""

CROSS_COMPILERS = ("aarch64-linux-gnu-g++", "aarch64-linux-gnu-g++-12", "aarch64-linux-gnu-g++-14")
EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")

SETS_OF_MODELS = {
    "cortex-a72": ("portable",),
    "cortex-a76": ("neon-dotprod", "portable"),
    "max": ("neon-i8mm", "neon-dotprod", "portable"),
}
"""The instruction sets that processors have, by qemu's name of each; the last one is everything that qemu knows."""

_RUN_LIMIT_S = 1_800


class CannotReplay(Exception):
    """Something is missing on this machine; the message names it."""


@dataclass(frozen=True)
class Replayed:
    """What the program printed.

    Args:
        status: Its exit status: 0 if all answers are equal.
        lines: A line for each instruction set.
        errors: What it wrote to standard error.
    """

    status: int
    lines: list[str]
    errors: str

    @property
    def sets(self) -> tuple[str, ...]:
        """The instruction sets that answered."""
        return tuple(line.split(":")[0] for line in self.lines if " models; " in line)


def find_arm_tools() -> tuple[str, str]:
    """The cross compiler and the emulator for ARM.

    Raises:
        CannotReplay: One of them is not installed.
    """
    results = [next(filter(None, map(shutil.which, names)), None) for names in (CROSS_COMPILERS, EMULATORS)]
    packages = ("g++-aarch64-linux-gnu", "qemu-user")
    missing = [package for path, package in zip(results, packages, strict=True) if path is None]
    if missing:
        raise CannotReplay(f"not installed: {' and '.join(missing)} (the names of Debian's packages)")
    compiler, emulator = results
    assert compiler is not None and emulator is not None
    return compiler, emulator


EVEX = "-DVERSO_EVEX"
"""Has the kernels of ``avx-vnni`` compiled with the encoding of their instruction that AVX-512 VNNI has."""


def build(machine: str | None = None, compiler: str | None = None, more_flags: Sequence[str] = ()) -> Path:
    """Compile the program, unless these sources were compiled already.

    Args:
        machine: The kind of processor; None is this one.
        compiler: Its path; None is the one that compiles the library.
        more_flags: Besides those of the library.

    Returns:
        The program.

    Raises:
        Unavailable: There is no compiler, or it failed.
    """
    command = find_compiler() if compiler is None else (compiler,)
    # The program includes decoder.cpp, whose interface has structures of its own. For an emulator it brings its
    # libraries along, which zig cannot do for this machine.
    parts = [
        *(unit for unit in units(machine) if unit.source != DECODER),
        Unit("replay", ROOT / "tests/native/replay.cpp"),
    ]
    flags = (*FLAGS, *OPTIMISED, *CHECKED, f"-I{ROOT}", *more_flags)
    name = hashlib.sha256(f"{command} {digest(flags, machine)} {parts}".encode())
    for path in (parts[-1].source, parts[-1].source.with_name("recording.h")):
        name.update(path.read_bytes())
    program = FOLDER / f"replay-{name.hexdigest()[:16]}"
    if not program.is_file():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
            objects = compile_units(command, parts, flags, Path(folder))
            built = Path(folder) / program.name
            static = [] if compiler is None else ["-static"]
            subprocess.run([*command, *static, "-pthread", "-o", built, *objects], check=True)
            built.replace(program)
    return program


def replay(program: Path, recording: Path, emulator: str | None = None, model: str = "max") -> Replayed:
    """Run the program with every instruction set of a processor.

    Args:
        program: As :func:`build` made it.
        recording: As :func:`tests.native.answers.record` wrote it.
        emulator: Its path; None runs the program on this machine.
        model: The processor to emulate, by the emulator's name of it.
    """
    emulation = [] if emulator is None else [emulator, "-cpu", model]
    command = [*emulation, str(program), str(recording)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_LIMIT_S, check=False)
    return Replayed(process.returncode, process.stdout.splitlines(), process.stderr)
