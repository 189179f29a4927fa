"""What the C library does with freed memory: kept for a training, shared by a service's threads, or given back."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""glibc's names for what mallopt sets (malloc.h)."""

_KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"


def keep_freed_memory() -> bool:
    """Settle a process for training: keep the memory of freed tensors, and fewer compiled kernels.

    A training step frees and asks for the same gigabyte again and again. By default glibc gives much of it back to the
    kernel each time, which has to hand out and clear every page anew: some 25,000 page faults an update. And oneDNN
    keeps a compiled kernel for each of the last 1,024 shapes it multiplied; batches have ever new ones, so that these
    would be hundreds of megabytes which are of no use again.

    To be called before anything is multiplied. Environment variables of the same meaning (``MALLOC_...``,
    ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``) are left alone.

    Returns:
        Whether glibc keeps memory now: it is the C library, and nobody had chosen otherwise.
    """
    os.environ.setdefault(_KERNELS, "128")
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    return all(mallopt(name, value) == 1 for name, value in ((_MMAP_THRESHOLD, 2**30), (_TRIM_THRESHOLD, 2**31 - 1)))


def share_freed_memory() -> None:
    """Let all threads of this process allocate from two pools, before they are started.

    glibc makes up to eight for each processor, each with holes of its own, so that a service under mixed load would
    grow for hours. Other C libraries are left alone.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_ARENA_MAX, 2)


def give_back_freed_memory() -> None:
    """Give the kernel what lies unused between tensors: after a model was let go, and now and then, as it adds up."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or none to be asked
        return None
    return function
