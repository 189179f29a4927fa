"""What tests of faults need of the machine: file systems of their own, and what the kernel says about a process.

A service gets a mount namespace of its own, so nothing stays mounted when it has ended. ``/proc/PID/root`` shows its
files to the test.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.app.process import Process


def require_mounts() -> None:
    """Skip a test where file systems cannot be mounted."""
    tried = subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    if tried.returncode != 0:
        pytest.skip("file systems cannot be mounted here; it needs root and Linux")


def on_disk_of(folder: Path, size: str = "1m") -> list[str]:
    """Runs a command with a folder that is a small disk of its own."""
    mount = shlex.join(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)])
    return ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$0" "$@"']


def on_ext4(image: Path, folder: Path) -> list[str]:
    """Runs a command with a folder that is an ext4 file system in a file, made if there is none.

    The file contains what the kernel has written to the disk, not what it still has in memory.
    """
    path = shlex.quote(str(image))
    make = f"test -e {path} || (truncate -s 32M {path} && mkfs.ext4 -q {path})"
    mount = shlex.join(["mount", "-o", "loop", str(image), str(folder)])
    return ["unshare", "--mount", "sh", "-c", f'({make}) && {mount} && exec "$0" "$@"']


class Disk:
    """The folder of a service as the service sees it.

    Args:
        process: The service, which was run by :func:`on_disk_of`.
        folder: The folder.
    """

    def __init__(self, process: Process, folder: Path) -> None:
        self._pid = process.popen.pid
        self._folder = folder
        self._filler = self.path / "filler"

    @property
    def path(self) -> Path:
        """The folder, seen from outside."""
        return Path(f"/proc/{self._pid}/root{self._folder}")

    def fill(self) -> None:
        """Use up all its room."""
        with self._filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * 4096)
            except OSError:
                return

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink()

    def remount(self, mode: str) -> None:
        """Make it read-only (``ro``), writable again (``rw``), or let ext4 act as after an error (``abort``)."""
        enter = ["nsenter", f"--mount=/proc/{self._pid}/ns/mnt"]
        subprocess.run([*enter, "mount", "-o", f"remount,{mode}", str(self._folder)], check=True)


def open_files(process: Process) -> int:
    """How many files and sockets a process has open."""
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))


def open_sockets(process: Process) -> int:
    """How many sockets a process has open; files come and go with its work."""
    count = 0
    for entry in Path(f"/proc/{process.popen.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            count += os.readlink(entry).startswith("socket:")
    return count


def memory_bytes(process: Process) -> int:
    """The memory of a process: its resident set."""
    pages = int(Path(f"/proc/{process.popen.pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def processor_s(process: Process) -> float:
    """Processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
