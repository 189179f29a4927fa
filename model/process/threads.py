"""How many processor threads are worth starting: as many as this process may use, and never more.

A container sees all processors of its machine and is stopped by the kernel whenever it has used up its quota; a thread
more than the quota is one that stands still while the others wait for it.
"""

from __future__ import annotations

import os
from pathlib import Path

from model.process.cgroups import PROC, cgroup_folders, lines


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


def _quota(folder: Path) -> int:
    """Whole processors a cgroup may use."""
    v2 = " ".join(lines(folder / "cpu.max")).split()
    v1 = [*lines(folder / "cpu.cfs_quota_us"), *lines(folder / "cpu.cfs_period_us")]
    for numbers in (v2, v1):
        # "max" and -1 stand for no quota.
        if len(numbers) == 2 and numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[1]) > 0:
            return max(1, int(numbers[0]) // int(numbers[1]))
    return os.cpu_count() or 1
