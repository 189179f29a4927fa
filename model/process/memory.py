"""How much memory is available, and giving freed memory back to the machine."""

from __future__ import annotations

from pathlib import Path

from model.process import allocator
from model.process.cgroups import PROC, memory_left

_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc")
"""In messages of torch: of its allocators, of GPUs and of C++."""


def available_bytes(device: str, proc: Path = PROC) -> int:
    """Memory that may still be taken: of the machine and of every cgroup this process is in, or of the GPU.

    Args:
        device: Where a model lives.
        proc: The process's folder.
    """
    if device.startswith("cuda"):
        import torch

        free_bytes, _ = torch.cuda.mem_get_info(device)
        return free_bytes
    import psutil

    return max(0, min([psutil.virtual_memory().available, *memory_left(proc)]))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a model means that there was no memory. torch has an own type for it on GPUs only.

    Args:
        error: The error.
    """
    if isinstance(error, MemoryError):
        return True
    message = str(error).lower()
    return isinstance(error, RuntimeError) and any(words in message for words in _NO_MEMORY)


def give_back_freed_memory(device: str = "cpu") -> None:
    """Return to the machine what torch and the C library keep of freed memory.

    Called after a model was loaded or unloaded, and now and then. Of a model of 70 MB, glibc keeps all when it is
    unloaded, and 60 MB of what loading it took. May be called from any thread; takes some 10 ms.

    Args:
        device: Where the model lived.
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
    allocator.trim()
