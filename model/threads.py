"""How many processor threads are worth starting: as many as this process may use, and never more.

A container sees all processors of its machine and is stopped by the kernel whenever it has used up its quota; a thread
more than the quota is one that stands still while the others wait for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc/self")
"""Where Linux tells a process about itself."""


def available_threads(proc: Path = PROC) -> int:
    """Processors this process may use: the least of what there is, its affinity, and its cgroups' quotas.

    A quota is rounded down, and is 1 at least. Elsewhere than on Linux only the number of processors counts.

    Args:
        proc: The process's folder.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = min(allowed, len(os.sched_getaffinity(0)))
    for folder in cgroup_folders("cpu", proc):
        allowed = min(allowed, _quota(folder))
    return max(1, allowed)


def usable_threads(wanted: int | None, proc: Path = PROC) -> int:
    """As many threads as wanted, and no more than :func:`available_threads`; None wants all.

    Args:
        wanted: A number, or None.
        proc: The process's folder.
    """
    available = available_threads(proc)
    return available if wanted is None else min(wanted, available)


def cgroup_folders(controller: str, proc: Path = PROC) -> Iterator[Path]:
    """Folders of the cgroups this process is in, the innermost first: each may set a limit, and the least holds.

    Args:
        controller: What is limited, as cgroup v1 calls it: ``cpu`` or ``memory``. Version 2 has one tree for all.
        proc: The process's folder.
    """
    memberships = _memberships(proc)
    for root, mount, is_v2, options in _cgroup_mounts(proc):
        path = memberships.get("" if is_v2 else controller)
        if path is None or not (is_v2 or controller in options):
            continue
        # In a container the mount may show a part of the tree only, and the path may lead out of it.
        inside = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path()
        folder = mount if ".." in inside.parts else mount / inside
        yield from (one for one in (folder, *folder.parents) if one.is_relative_to(mount) and one.is_dir())


def _memberships(proc: Path) -> dict[str, str]:
    """The cgroup by controller; version 2's under the empty name."""
    found: dict[str, str] = {}
    for line in _lines(proc / "cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (controllers or number == "0"):
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _cgroup_mounts(proc: Path) -> Iterator[tuple[str, Path, bool, list[str]]]:
    """The part of the tree that is mounted, where, whether it is version 2, and its options."""
    for line in _lines(proc / "mountinfo"):
        left, _, right = line.partition(" - ")
        fields, system = left.split(), right.split()
        if len(fields) > 4 and len(system) > 2 and system[0] in ("cgroup", "cgroup2"):
            root, mount = (_unescaped(field) for field in fields[3:5])
            yield root, Path(mount), system[0] == "cgroup2", system[-1].split(",")


def _unescaped(field: str) -> str:
    """A path as it is: mountinfo writes blanks and their like as three octal digits behind a backslash."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def _quota(folder: Path) -> int:
    """Whole processors a cgroup may use."""
    v2 = " ".join(_lines(folder / "cpu.max")).split()
    v1 = [*_lines(folder / "cpu.cfs_quota_us"), *_lines(folder / "cpu.cfs_period_us")]
    for numbers in (v2, v1):
        # "max" and -1 stand for no quota.
        if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[1]) > 0:
            return max(1, int(numbers[0]) // int(numbers[1]))
    return os.cpu_count() or 1


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux, or not ours to read
        return []
