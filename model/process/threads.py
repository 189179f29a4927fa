"""The number of CPU threads that a process should start: no more than the CPUs that it may use.

A container sees all CPUs of its machine, and the kernel suspends it whenever its quota is used up. Threads beyond the
quota are suspended while the others wait for them.
"""

from __future__ import annotations

import os
from pathlib import Path

from model.process.cgroups import PROC, cpu_quotas


def available_threads(proc: Path = PROC) -> int:
    """CPUs this process may use: the minimum of their number, its affinity, and the quotas of its cgroups.

    Quotas are rounded down, to at least 1. Only Linux has affinities and quotas.

    Args:
        proc: The process's folder.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = min(allowed, len(os.sched_getaffinity(0)))
    return max(1, min([allowed, *cpu_quotas(proc)]))


def usable_threads(limit: int | None, proc: Path = PROC) -> int:
    """The number of threads within a limit and within :func:`available_threads`.

    Args:
        limit: The largest number; None for no limit.
        proc: The process's folder.
    """
    available = available_threads(proc)
    return available if limit is None else min(limit, available)
