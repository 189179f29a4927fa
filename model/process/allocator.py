"""How glibc treats freed memory: keep it while training, share it among a service's threads, or return it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""glibc's numbers for what mallopt sets (malloc.h)."""

_NEVER_MMAP_BELOW_BYTES = 2**30
_NEVER_TRIM_BELOW_BYTES = 2**31 - 1
_SERVICE_ARENAS = 2
_THREADS_OF_AN_ARENA = 8

_KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY"
_KEPT_KERNELS = "128"


def keep_freed_memory() -> bool:
    """Prepare a process for training: keep the memory of freed tensors, and fewer compiled kernels.

    A training step frees and allocates the same gigabyte again and again. By default glibc returns much of it to the
    kernel each time, which maps and clears every page again: about 25,000 page faults an update. oneDNN caches a
    compiled kernel for each of the last 1,024 shapes; as batches have ever new shapes, these would be hundreds of
    megabytes that are never used again.

    Call it before anything is multiplied. Environment variables of the same meaning (``MALLOC_...``,
    ``ONEDNN_PRIMITIVE_CACHE_CAPACITY``) take precedence.

    Returns:
        Whether glibc keeps memory now: it is the C library, and the environment did not choose otherwise.
    """
    os.environ.setdefault(_KERNELS, _KEPT_KERNELS)
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    return all(
        mallopt(name, value) == 1
        for name, value in ((_MMAP_THRESHOLD, _NEVER_MMAP_BELOW_BYTES), (_TRIM_THRESHOLD, _NEVER_TRIM_BELOW_BYTES))
    )


def share_freed_memory() -> None:
    """Let all threads of this process allocate from two arenas; called before the threads are started.

    glibc makes up to eight for each CPU, each fragmented on its own, so that a service under mixed load would
    grow for hours. With more than 16 CPUs there is one for eight of them, because an arena has a lock. Other C
    libraries are unchanged.
    """
    mallopt = _of_glibc("mallopt")
    if mallopt is not None:
        mallopt(_ARENA_MAX, max(_SERVICE_ARENAS, (os.cpu_count() or 1) // _THREADS_OF_AN_ARENA))


def trim() -> None:
    """Return unused heap memory to the kernel; :func:`model.process.memory.give_back_freed_memory` does more."""
    malloc_trim = _of_glibc("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or none that can be called
        return None
    return function
