"""How much memory is available, and giving freed memory back to the machine."""

from __future__ import annotations

from pathlib import Path

from model.process import allocator
from model.process.cgroups import PROC, memory_left

_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "cublas_status_alloc_failed")
"""In messages of torch: of its allocators, of GPUs and of C++."""

_PERHAPS_NO_MEMORY = ("cublas_status_not_initialized", "previous error during capture")
"""In messages about GPUs that have other reasons, too: it is memory if little of it is free."""

_LITTLE = 1 / 8
"""Share of a GPU's memory."""


def available_bytes(device: str, proc: Path = PROC) -> int:
    """Memory that may still be taken: of the machine and of every cgroup this process is in, or of the GPU.

    Args:
        device: Where a model lives.
        proc: The process's folder.
    """
    if device.startswith("cuda"):
        import torch

        free_bytes, _ = torch.cuda.mem_get_info(device)
        # What torch keeps of freed memory is taken for the driver only.
        return free_bytes + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return max(0, min([psutil.virtual_memory().available, *memory_left(proc)]))


def used_gpus() -> list[int]:
    """Indices of the GPUs on which this process has memory. Others are not touched: that would take memory there."""
    import torch

    return [index for index in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(index)]


def causes(error: BaseException) -> list[BaseException]:
    """An error, and those that it followed from."""
    errors = [error]
    while (before := errors[-1].__cause__ or errors[-1].__context__) is not None and before not in errors:
        errors.append(before)
    return errors


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a model means that there was no memory. torch has an own type for it on GPUs only.

    Args:
        error: The error; those that it followed from count, as the end of a capture hides what failed within.
    """
    errors = causes(error)
    if any(isinstance(one, MemoryError) for one in errors):
        return True
    messages = [str(one).lower() for one in errors if isinstance(one, RuntimeError)]
    if any(words in message for message in messages for words in _NO_MEMORY):
        return True
    return any(words in message for message in messages for words in _PERHAPS_NO_MEMORY) and _a_gpu_is_full()


def _a_gpu_is_full() -> bool:
    import torch

    try:
        infos = [torch.cuda.mem_get_info(device) for device in used_gpus()]
    except Exception:  # noqa: BLE001  (a GPU that has failed does not say)
        return False
    return any(free_bytes < _LITTLE * total_bytes for free_bytes, total_bytes in infos)


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
