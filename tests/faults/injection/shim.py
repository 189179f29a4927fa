"""The library that counts the operations of a process and lets them fail (``files.cpp``, ``allocations.cpp``).

It is loaded before the C library, so a process that uses it is started with it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.decoding.native.compiler import find_compiler

SOURCES = tuple(Path(__file__).with_name(name) for name in ("files.cpp", "allocations.cpp"))

PRELOAD = "LD_PRELOAD"

FOREVER = 2**62
"""As the number of the last operation that fails."""


@dataclass(frozen=True)
class Fault:
    """What the operations of a process meet.

    Args:
        name: Its name in reports.
        error: The ``errno`` of the operations that fail.
        stays: Whether all later operations fail, too.
    """

    name: str
    error: int
    stays: bool


FULL = Fault("full", errno.ENOSPC, stays=True)
"""From the n-th operation on, the disk has no room; the first write that needs some is cut in two."""

ONCE = Fault("error", errno.EIO, stays=False)
"""The n-th operation fails, and no other one."""

DEAD = Fault("dead", errno.EIO, stays=True)
"""From the n-th operation on, every operation fails."""

FAULTS = (FULL, ONCE, DEAD)


def build(folder: Path) -> Path:
    """Compile the library; returns its path.

    Raises:
        Unavailable: There is no compiler (:mod:`model.decoding.native.compiler`).
        subprocess.CalledProcessError: It fails.
    """
    path = folder / "faults.so"
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror")
    subprocess.run([*find_compiler(), *flags, "-o", str(path), *map(str, SOURCES), "-ldl", "-lpthread"], check=True)
    return path


def is_loaded() -> bool:
    """Whether this process was started with the library."""
    return hasattr(ctypes.CDLL(None), "faults_start")


def run_with(library: Path, command: Sequence[str]) -> int:
    """Run a command with the library, and with one thread for each of the libraries that have pools of them.

    Returns:
        Its exit code.
    """
    return subprocess.run(command, env=environment(library), check=False).returncode


def environment(library: Path) -> Mapping[str, str]:
    """The variables of a process with the library."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {**os.environ, **one, PRELOAD: str(library)}


class Shim:
    """The library in this process, which was started with it.

    Raises:
        RuntimeError: It was not.
    """

    def __init__(self) -> None:
        if not is_loaded():
            raise RuntimeError(f"The process was not started with the library in {PRELOAD}.")
        process = ctypes.CDLL(None)
        text, number = ctypes.c_char_p, ctypes.c_long
        for name, result, arguments in (
            ("faults_start", None, [text, ctypes.c_int, number, number, ctypes.c_int]),
            ("faults_heal", None, []),
            ("faults_note", None, [text, ctypes.c_size_t]),
            ("faults_stop", number, []),
            ("faults_failures", number, []),
            ("faults_allocations", None, [ctypes.c_void_p, ctypes.c_void_p, number]),
            ("faults_num_allocations", number, []),
        ):
            function = getattr(process, name)
            function.restype, function.argtypes = result, arguments
        self._process = process

    def watch(self, folder: Path, record: int = -1, fault: Fault | None = None, number: int = 0) -> None:
        """Count the operations on the files of a folder.

        Args:
            folder: The folder.
            record: The descriptor of a file in which operations are recorded, or -1.
            fault: What the operations meet, or None.
            number: The operation that meets it first, counted from 1.
        """
        last = 0 if fault is None else FOREVER if fault.stays else number
        error = 0 if fault is None else fault.error
        self._process.faults_start(os.fsencode(folder), record, number if fault else 0, last, error)

    def heal(self) -> None:
        """Let no further operation fail."""
        self._process.faults_heal()

    def note(self, text: str) -> None:
        """Record a note of the scenario between its operations."""
        data = text.encode()
        self._process.faults_note(data, len(data))

    def stop(self) -> int:
        """Watch nothing any more; returns the number of operations."""
        return int(self._process.faults_stop())

    @property
    def num_failures(self) -> int:
        """Operations that failed since the start."""
        return int(self._process.faults_failures())

    def watch_allocations(self, code: tuple[int, int], number: int = 0) -> None:
        """Count what code allocates with C++'s ``new``.

        Args:
            code: The addresses of its beginning and its end.
            number: The allocation that fails, counted from 1; 0 for none.
        """
        self._process.faults_allocations(*code, number)

    @property
    def num_allocations(self) -> int:
        """Allocations since then."""
        return int(self._process.faults_num_allocations())


def code_of(library: Path) -> tuple[int, int]:
    """The addresses between which a loaded library has its code.

    Args:
        library: Its file.
    """
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    ranges = [line.split()[0].split("-") for line in lines if line.endswith(str(library))]
    return min(int(begin, 16) for begin, _ in ranges), max(int(end, 16) for _, end in ranges)
