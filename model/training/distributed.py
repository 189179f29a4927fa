"""Several processes that train one model, started by ``torchrun``: each computes its share of the batches of an update.

The gradients are summed by DistributedDataParallel, and divided by the target tokens of all processes together. N
processes with ``accumulate: A`` therefore make the update that one process makes with ``accumulate: N * A``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from model.errors import DeviceError

_T = TypeVar("_T")

_PATIENCE = timedelta(hours=6)
"""How long a process waits for another. The first one learns the vocabulary and evaluates while the others wait; if it
dies, torchrun ends them."""


@dataclass(frozen=True)
class Processes:
    """The processes of a run; by default, this one alone. Every process calls the same methods in the same order.

    Args:
        rank: Index of this process; the first one evaluates, reports and writes files.
        size: Number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def is_first(self) -> bool:
        """Whether this process evaluates, reports and writes files."""
        return self.rank == 0

    def sums(self, *numbers: int) -> list[int]:
        """The sums of numbers over the processes. They are exchanged between processors, without waiting for a GPU."""
        if self.size == 1:
            return list(numbers)
        total = torch.tensor(numbers, dtype=torch.int64)
        dist.all_reduce(total)
        return total.tolist()

    def add_up(self, values: Tensor) -> None:
        """Replace values by their sums over the processes, in place and on their device."""
        if self.size > 1:
            dist.all_reduce(values)

    def from_first(self, make: Callable[[], _T]) -> _T:
        """What the first process makes; the others wait for it.

        Args:
            make: Called in the first process only; its result must support pickling.
        """
        if self.size == 1:
            return make()
        objects = [make() if self.is_first else None]
        dist.broadcast_object_list(objects, src=0, device=torch.device("cpu"))
        return objects[0]  # type: ignore[return-value]

    def averaging_gradients(self, module: nn.Module) -> nn.Module:
        """A module whose backward pass gives each process the mean of the processes' gradients.

        Its parameters become those of the first process.
        """
        return module if self.size == 1 else DistributedDataParallel(module, broadcast_buffers=False)

    def accumulating(self, module: nn.Module, *, last: bool) -> contextlib.AbstractContextManager[None]:
        """The context of a forward and backward pass; gradients are exchanged in the last pass of an update.

        Args:
            module: Of :meth:`averaging_gradients`.
            last: Whether the gradients of the update are complete after this pass.
        """
        if last or not isinstance(module, DistributedDataParallel):
            return contextlib.nullcontext()
        return module.no_sync()


ALONE = Processes()
"""One process."""


@contextlib.contextmanager
def join_processes(device: str) -> Iterator[Processes]:
    """Join the processes that ``torchrun`` started; this process alone if it did not.

    Args:
        device: ``cpu``, or ``cuda``: each process then takes the GPU of its index on this machine.

    Raises:
        DeviceError: There are fewer GPUs than processes, or ``device`` names one GPU for all of them.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ALONE
        return
    if device == "cpu":
        backend = "gloo"
    elif device == "cuda":
        # Counters are exchanged by gloo, so that nothing waits for the GPU.
        backend = "cpu:gloo,cuda:nccl"
        own, num_gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if own >= num_gpus:
            raise DeviceError(f"There are {num_gpus} GPUs; set --nproc-per-node of torchrun to {num_gpus} at most.")
        torch.cuda.set_device(own)
    else:
        raise DeviceError(f"The device is {device!r}, but torchrun started {size} processes; it can be cpu or cuda.")
    dist.init_process_group(backend, timeout=_PATIENCE)
    # Not after an error: the other processes may wait for this one, and torchrun ends them.
    yield Processes(dist.get_rank(), size)
    dist.destroy_process_group()
