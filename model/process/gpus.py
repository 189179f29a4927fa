"""The GPUs of this process: which ones it uses, and whether one has failed for good."""

from __future__ import annotations


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


def is_lost(error: BaseException) -> bool:
    """Whether an error means that a GPU has failed for good: every later call fails, too, until the process ends.

    After an illegal access or a failed assertion on the device, CUDA refuses everything. Other errors of CUDA, such as
    those for want of memory, concern one call; after them the GPU can be waited for.

    Args:
        error: The error.
    """
    import torch

    if not any(isinstance(one, torch.AcceleratorError) for one in causes(error)):
        return False
    try:
        for index in used_gpus() or [None]:
            torch.cuda.synchronize(index)
    except Exception:  # noqa: BLE001  (whatever it is, nothing can be computed)
        return True
    return False
