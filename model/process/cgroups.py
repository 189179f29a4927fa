"""Limits of the cgroups of a process, versions 1 and 2: CPUs and memory.

psutil reports only those of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc/self")
"""The folder in which Linux describes the calling process."""


def cpu_quotas(proc: Path = PROC) -> Iterator[int]:
    """CPUs that each cgroup of this process may use, rounded down to at least 1; none without a quota.

    Args:
        proc: The process's folder.
    """
    for folder in cgroup_folders("cpu", proc):
        v2 = " ".join(_lines(folder / "cpu.max")).split()
        v1 = [*_lines(folder / "cpu.cfs_quota_us"), *_lines(folder / "cpu.cfs_period_us")]
        for numbers in (v2, v1):
            # "max" and -1 mean that there is no quota.
            if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[1]) > 0:
                yield max(1, int(numbers[0]) // int(numbers[1]))
                break


def memory_left(proc: Path = PROC) -> Iterator[int]:
    """Free bytes within the limit of each cgroup of this process; none without a limit.

    Args:
        proc: The process's folder.
    """
    return (free for _, free in memory_limits(proc))


def memory_limits(proc: Path = PROC) -> Iterator[tuple[int, int]]:
    """The limit of each cgroup of this process and the free bytes within it; none without a limit.

    Inactive pages of files count as free, because the kernel reclaims them first.

    Args:
        proc: The process's folder.
    """
    for folder in cgroup_folders("memory", proc):
        for limit, usage, unused in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            # "max" is not a number: there is no limit.
            numbers = [int(text) for name in (limit, usage) if (text := " ".join(_lines(folder / name))).isdigit()]
            if len(numbers) == 2:
                yield numbers[0], numbers[0] - numbers[1] + _statistics(folder / "memory.stat").get(unused, 0)


def cgroup_folders(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """Folders of the cgroups of this process, the innermost first. Each may set a limit; the smallest one applies.

    Args:
        controller: The controller's name in cgroup v1: ``cpu`` or ``memory``. Version 2 has one tree for all.
        proc: The process's folder.
    """
    memberships = _memberships(proc)
    for root, mount, is_v2, options in _cgroup_mounts(proc):
        path = memberships.get("" if is_v2 else controller)
        if path is None or not (is_v2 or controller in options):
            continue
        # In a container the mount may be a part of the tree, and the path may lead out of it.
        inside = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path()
        folder = mount if ".." in inside.parts else mount / inside
        yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(mount) and parent.is_dir())


def _memberships(proc: Path) -> dict[str, str]:
    """The cgroup by controller; version 2's under the empty name."""
    paths: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (controllers or number == "0"):
            paths.update(dict.fromkeys(controllers.split(","), path))
    return paths


def _cgroup_mounts(proc: Path) -> Iterator[tuple[str, Path, bool, list[str]]]:
    """For each mount: its part of the tree, its path, whether it is version 2, and its options."""
    for line in _lines(proc / "mountinfo"):
        mount_part, _, system_part = line.partition(" - ")
        fields, system = mount_part.split(), system_part.split()
        if len(fields) > 4 and len(system) > 2 and system[0] in ("cgroup", "cgroup2"):
            root, mount = (_unescaped(field) for field in fields[3:5])
            yield root, Path(mount), system[0] == "cgroup2", system[-1].split(",")


def _unescaped(field: str) -> str:
    """A path of mountinfo, which writes blanks and other special characters as a backslash and three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _statistics(path: Path) -> dict[str, int]:
    """A file whose lines are a name and a number."""
    pairs = (line.split() for line in _lines(path))
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _lines(path: Path) -> list[str]:
    """Lines of one of the kernel's files; none if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux, or no permission
        return []
