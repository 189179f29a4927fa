"""What memory there is, and that what was freed goes back to the machine, not only to this process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from model.process import allocator
from model.process.cgroups import PROC, cgroup_folders

_UNKNOWN_BYTES = 1 << 30
"""Where nothing tells how much is free."""


def available_bytes(device: str, proc: Path = PROC, meminfo: Path = Path("/proc/meminfo")) -> int:
    """Memory that may still be taken: of the machine and of every cgroup this process is in, or of the GPU.

    Args:
        device: Where a model lives.
        proc: The process's folder.
        meminfo: What Linux says about the machine's memory.
    """
    if device.startswith("cuda"):
        import torch

        free_bytes, _ = torch.cuda.mem_get_info(device)
        return free_bytes
    left = [*_left_on_machine(meminfo), *(one for folder in cgroup_folders("memory", proc) for one in _left(folder))]
    return max(0, min(left, default=_UNKNOWN_BYTES))


def _left_on_machine(meminfo: Path) -> Iterator[int]:
    for name, number in _numbers(meminfo):
        if name == "MemAvailable":
            yield number * 1024


def _left(cgroup: Path) -> Iterator[int]:
    """What a cgroup's limit leaves; pages of files that nobody used lately count as free. Nothing where it has none."""
    for limit, usage, unused in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        found = [number for name in (limit, usage) for number in _whole(cgroup / name)]
        if len(found) == 2:
            yield found[0] - found[1] + dict(_numbers(cgroup / "memory.stat")).get(unused, 0)


def _whole(path: Path) -> Iterator[int]:
    """The number a file holds; ``max`` is none."""
    text = _read(path).strip()
    if text.isdigit():
        yield int(text)


def _numbers(path: Path) -> Iterator[tuple[str, int]]:
    """Lines of a name and a number, such as ``MemAvailable: 123 kB``."""
    for line in _read(path).splitlines():
        words = line.replace(":", " ").split()
        if len(words) > 1 and words[1].isdigit():
            yield words[0], int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def give_back_freed_memory(device: str = "cpu") -> None:
    """Hand back what torch and the C library keep for later after a model was loaded or let go, and now and then.

    Of a model of 70 MB, glibc keeps all when it is unloaded, and 60 MB of what loading it took. May be called from any
    thread; takes some 10 ms.

    Args:
        device: Where the model lived.
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
    allocator.give_back_freed_memory()
