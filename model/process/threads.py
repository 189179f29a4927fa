"""How many processor threads are worth starting: as many as this process may use, and never more.

A container sees all processors of its machine, and the kernel stops it whenever its quota is used up; threads beyond
the quota stand still while the others wait for them.
"""

from __future__ import annotations

import os
from pathlib import Path

from model.process.cgroups import PROC, cpu_quotas


def available_threads(proc: Path = PROC) -> int:
    """Processors this process may use: the least of their number, its affinity, and its cgroups' quotas.

    A quota is rounded down, and is 1 at least. Elsewhere than on Linux only the number of processors counts.

    Args:
        proc: The process's folder.
    """
    allowed = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        allowed = min(allowed, len(os.sched_getaffinity(0)))
    return max(1, min([allowed, *cpu_quotas(proc)]))


def usable_threads(wanted: int | None, proc: Path = PROC) -> int:
    """As many threads as wanted, and no more than :func:`available_threads`; None wants all.

    Args:
        wanted: A number, or None.
        proc: The process's folder.
    """
    available = available_threads(proc)
    return available if wanted is None else min(wanted, available)
