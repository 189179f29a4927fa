"""How the process keeps its memory while it trains."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
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


def give_back_freed_memory() -> None:
    """Give the kernel what lies unused between tensors; now and then, as it grows with every new size of a batch."""
    trim = _of_glibc("malloc_trim")
    if trim is not None:
        trim(0)


def _of_glibc(name: str) -> Callable[..., int] | None:
    try:
        function: Callable[..., int] = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # another C library, or none to be asked
        return None
    return function
