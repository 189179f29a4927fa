"""Whether a GPU has failed for good."""

from __future__ import annotations

from model.process.memory import causes, is_out_of_memory, used_gpus


def is_lost(error: BaseException) -> bool:
    """Whether an error means that a GPU has failed for good: every later call fails, too, until the process ends.

    After an illegal access or a failed assertion on the device, CUDA refuses everything. Other errors of CUDA, such as
    those for want of memory, concern one call; after them the GPU can be waited for.

    Args:
        error: The error.
    """
    import torch

    if not any(isinstance(one, torch.AcceleratorError) for one in causes(error)) or is_out_of_memory(error):
        return False
    try:
        gpus: list[int | None] = [*used_gpus()]
        for index in gpus or [None]:
            torch.cuda.synchronize(index)
    except Exception:  # noqa: BLE001  (whatever it is, nothing can be computed)
        return True
    return False
