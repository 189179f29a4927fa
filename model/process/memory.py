"""Available memory, and the return of freed memory to the machine."""

from __future__ import annotations

import gc
from pathlib import Path

from model.process import allocator
from model.process.cgroups import PROC, memory_left

_NO_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "bad_alloc", "cublas_status_alloc_failed")
"""Parts of messages of torch's allocators, of GPUs and of C++."""

_PERHAPS_NO_MEMORY = ("cublas_status_not_initialized", "previous error during capture")
"""Parts of messages about GPUs that can have other reasons: the reason is memory if little of it is free."""

_LITTLE = 1 / 8
"""Share of a GPU's memory."""


def available_bytes(device: str, proc: Path = PROC) -> int:
    """Free bytes: of the machine and of every cgroup of this process, or of the GPU.

    Args:
        device: The device of a model.
        proc: The process's folder.
    """
    if device.startswith("cuda"):
        import torch

        free_bytes, _ = torch.cuda.mem_get_info(device)
        # The driver counts freed memory that torch caches as used.
        return free_bytes + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    import psutil

    return max(0, min([psutil.virtual_memory().available, *memory_left(proc)]))


def used_gpus() -> list[int]:
    """Indices of the GPUs on which this process has memory. Asking the others would allocate memory there."""
    import torch

    return [index for index in range(torch.cuda.device_count()) if torch.cuda.memory_reserved(index)]


def causes(error: BaseException) -> list[BaseException]:
    """An error and its causes."""
    errors = [error]
    while (before := errors[-1].__cause__ or errors[-1].__context__) is not None and before not in errors:
        errors.append(before)
    return errors


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error of a model is a lack of memory. torch has an exception class for that on GPUs only.

    Args:
        error: The error; its causes count, because the end of a capture hides the error within.
    """
    errors = causes(error)
    if any(isinstance(cause, MemoryError) for cause in errors):
        return True
    messages = [str(cause).lower() for cause in errors if isinstance(cause, RuntimeError)]
    if any(words in message for message in messages for words in _NO_MEMORY):
        return True
    return any(words in message for message in messages for words in _PERHAPS_NO_MEMORY) and _a_gpu_is_full()


def _a_gpu_is_full() -> bool:
    import torch

    try:
        infos = [torch.cuda.mem_get_info(device) for device in used_gpus()]
    except Exception:  # noqa: BLE001  (of a GPU that has failed)
        return False
    return any(free_bytes < _LITTLE * total_bytes for free_bytes, total_bytes in infos)


def give_back_freed_memory(device: str = "cpu") -> None:
    """Return freed memory that torch and the C library cache to the machine.

    Called after a model was loaded or unloaded, and from time to time. glibc caches all 70 MB of a model that was
    unloaded, and 60 MB after loading one. Any thread may call it; it takes about 10 ms.

    Args:
        device: The device of the model.
    """
    if device.startswith("cuda"):
        import torch

        torch.cuda.empty_cache()
    allocator.trim()


def skip_in_collections() -> None:
    """Let no later garbage collection look through what is in memory now; called once models are loaded.

    They and the imported modules are 300,000 objects. To look through them takes a tenth of a second or more, for which
    all threads wait, every few seconds under load. What is freed without a collection is still freed, a model that is
    unloaded among it.
    """
    gc.collect()
    gc.freeze()
