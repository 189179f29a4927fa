"""What a decoding step in slots should cost on a GPU, estimated without one from the operations of the step.

    python -m benchmarks.gpu_estimate --shape tiny small base

The step runs on tensors without values (torch's ``meta`` device), and every operation is noted with the bytes that it
reads and writes and its multiply-adds. Views take no time. On the device an operation is one kernel or several; the
kernels of a CUDA graph run one after the other, and none takes less than a fixed time, in which the device starts it
and it waits for its first bytes. So a step is estimated as the sum over its kernels of

    max(shortest kernel, bytes / bandwidth, 2 x multiply-adds / peak)

The bandwidth and the peak are those of an H200's data sheet (4.8 TB/s, 989 TFLOP/s in float16 without sparsity), of
which ``--efficiency`` is assumed to be reached; the shortest kernel is an assumption, too. What a first run on a device
should be compared with: the time of a step, and whether the operations listed take the share that is printed.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.checkpoints import SHAPES, SHIPPED, Shape
from benchmarks.tables import markdown
from model.decoding.slots.buckets import Bucket
from model.decoding.slots.choice import Constants, take_step
from model.decoding.slots.tensors import SlotTensors
from model.network.config import ModelConfig
from model.network.transformer import Transformer

BYTES_PER_S, FLOPS = 4.8e12, 989e12
"""Of an NVIDIA H200, by its data sheet."""

SHORTEST_KERNEL_S = 1.5e-6
"""Time of a kernel without work within a CUDA graph. An assumption."""

KERNELS = {
    "aten.logsumexp": 6,
    "aten.topk": 3,
    "aten.argsort": 3,
    "aten.sort": 3,
    "aten.scatter": 2,
    "aten.masked_fill": 2,
    "aten.scatter_reduce": 2,
    "aten.cat": 1,
}
"""Kernels of operations that have several: reductions and sorts have stages, and out of place a copy comes first."""

_PARTIAL = ("aten.scatter_", "aten.index_put_", "aten.index_copy_", "aten.index_fill_", "aten.scatter_reduce_")
"""Operations that write a part of a tensor."""

_PRODUCTS = ("aten.addmm", "aten.mm", "aten.bmm", "aten.baddbmm")


@dataclass(frozen=True)
class Operation:
    """An operation that takes time.

    Args:
        name: Its name, without that of the overload.
        num_bytes: What it reads and writes.
        multiply_adds: Of a product.
    """

    name: str
    num_bytes: int
    multiply_adds: int

    @property
    def num_kernels(self) -> int:
        """Kernels that it launches."""
        return KERNELS.get(self.name, 1)

    def seconds(self, efficiency: float) -> float:
        """Its estimated time.

        Args:
            efficiency: Share of bandwidth and peak that is reached.
        """
        work = max(self.num_bytes / BYTES_PER_S, 2 * self.multiply_adds / FLOPS) / efficiency
        return max(self.num_kernels * SHORTEST_KERNEL_S, work)


class _Notes(TorchDispatchMode):
    """Notes every operation that is no view."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function.is_view or str(function).startswith(("aten.detach", "aten._unsafe_view", "aten.lift")):
            return result
        name = ".".join(str(function).split(".")[:2])
        read, written = _tensors(args), _tensors(result)
        multiply_adds = 0
        if name in _PRODUCTS:
            multiply_adds = sum(one.numel() for one in written) * read[-2].size(-1)
        if name in _PARTIAL:
            read, written = read[1:], read[-1:]  # the rest of the tensor stays as it is
        num_bytes = sum(_stored(one) for one in (*read, *written))
        self.operations.append(Operation(name, num_bytes, multiply_adds))
        return result


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    return [one for part in value for one in _tensors(part)] if isinstance(value, list | tuple) else []


def _stored(tensor: Tensor) -> int:
    """Bytes of a tensor in memory: what is expanded is there once."""
    number = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        number *= size if stride else 1
    return number * tensor.element_size()


def operations_of_step(shape: Shape, bucket: Bucket) -> list[Operation]:
    """The operations of a step, in order.

    Args:
        shape: The model's sizes.
        bucket: Slots, rows, source and target columns.
    """
    config = ModelConfig(
        source_vocab_size=shape.vocab_size,
        target_vocab_size=shape.vocab_size,
        d_model=shape.d_model,
        num_heads=shape.num_heads,
        d_ff=shape.d_ff,
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        activation="silu",
        norm="post",
        share_embeddings=True,
        tie_output=True,
    )
    transformer = Transformer(config, 0).eval().half().to("meta")
    head_width = shape.d_model // shape.num_heads
    like = torch.empty(shape.decoder_layers, 2, 1, shape.num_heads, 1, head_width, dtype=torch.half, device="meta")
    slots = SlotTensors.allocate(bucket, like)
    constants = Constants(0, torch.tensor([1], device="meta"), renormalise=False, may_force_end=True)
    with torch.no_grad(), _Notes() as notes:
        take_step(transformer, constants, slots, full=False)
    found: list[Operation] = notes.operations
    return found


def report(name: str, efficiency: float) -> str:
    """The tables of a shape.

    Args:
        name: Of the shape.
        efficiency: Share of bandwidth and peak that is reached.
    """
    rows = []
    for num_slots, width in ((1, 1), (1, 4), (64, 1), (64, 4), (256, 4), (1024, 4)):
        operations = operations_of_step(SHAPES[name], Bucket(num_slots, width, 64, 32))
        times = [one.seconds(efficiency) for one in operations]
        working = sum(
            time for one, time in zip(operations, times, strict=True) if time > one.num_kernels * SHORTEST_KERNEL_S
        )
        rows.append(
            [
                f"{num_slots:,} x {width}",
                f"{len(operations)}",
                f"{sum(one.num_kernels for one in operations)}",
                f"{1e6 * sum(times):,.0f}",
                f"{working / sum(times):.0%}",
                f"{num_slots / sum(times):,.0f}",
            ]
        )
    header = ["sentences x rows", "operations", "kernels", "microseconds a step", "in work", "tokens/s"]
    most = _by_operation(operations_of_step(SHAPES[name], Bucket(256, 4, 64, 32)), efficiency)
    return f"{name}: {SHAPES[name]}\n\n{markdown(header, rows)}\n\n256 x 4, by operation:\n\n{most}"


def _by_operation(operations: Sequence[Operation], efficiency: float) -> str:
    """A table of the operations that take most of a step."""
    times: dict[str, float] = {}
    kernels: Counter[str] = Counter()
    for one in operations:
        times[one.name] = times.get(one.name, 0.0) + one.seconds(efficiency)
        kernels[one.name] += one.num_kernels
    most = sorted(times, key=times.__getitem__, reverse=True)[:10]
    total = sum(times.values())
    rows = [[name, str(kernels[name]), f"{times[name] / total:.0%}"] for name in most]
    return markdown(["operation", "kernels", "share"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    """Estimate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", nargs="+", choices=sorted({*SHAPES} - {SHIPPED}), default=["tiny", "small", "base"])
    parser.add_argument(
        "--efficiency", type=float, default=0.6, help="share of bandwidth and peak; default %(default)s"
    )
    chosen = parser.parse_args(arguments)
    for name in chosen.shape:
        print(report(name, chosen.efficiency), end="\n\n")


if __name__ == "__main__":
    main()
