"""Whether a GPU has failed for good."""

from __future__ import annotations

from model.process.memory import causes, is_out_of_memory, used_gpus


def is_lost(error: BaseException) -> bool:
    """Whether an error means that a GPU has failed for good: all later calls of the process fail, too.

    After an illegal access or a failed assertion on the device, CUDA refuses all calls. Other errors of CUDA, such as
    a lack of memory, concern one call; after them, the GPU can be synchronised.

    Args:
        error: The error.
    """
    import torch

    if not any(isinstance(cause, torch.AcceleratorError) for cause in causes(error)) or is_out_of_memory(error):
        return False
    try:
        gpus: list[int | None] = [*used_gpus()]
        for index in gpus or [None]:
            torch.cuda.synchronize(index)
    except Exception:  # noqa: BLE001  (of any kind: the GPU cannot compute)
        return True
    return False
