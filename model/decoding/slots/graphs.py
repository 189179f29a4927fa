"""CUDA graphs, streams and events, and their substitutes on devices without them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:  # torch has no public name for it
    from torch.cuda import _POOL_HANDLE as GraphPool

_WARM_UPS = 3
"""Calls before capture: TorchScript specialises a method in its first two, libraries make their workspaces."""


class GraphedCall:
    """A function of fixed tensors, launched as one CUDA graph; called directly on other devices.

    Args:
        function: Reads and writes tensors whose addresses do not change. It waits for nothing and copies nothing
            from or to the host.
        graphs: Whether to capture it; the device is CUDA then.
        pool: Memory for intermediate results, shared by functions that never run at the same time.
        still: Entered around the calls before the capture, which must have no lasting effect.
    """

    def __init__(
        self,
        function: Callable[[], None],
        graphs: bool,
        pool: GraphPool | None = None,
        still: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._function = function
        self._graphs = graphs
        self._pool = pool
        self._still = still
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run it once; on a GPU, launch it on the current stream."""
        if not self._graphs:
            self._function()
            return
        if self._graph is None:
            self._graph = self._capture()
        self._graph.replay()

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Capture the function: it runs before the capture, not during it."""
        current = torch.cuda.current_stream()
        side = torch.cuda.Stream()
        side.wait_stream(current)
        with torch.cuda.stream(side), self._still():
            for _ in range(_WARM_UPS):
                self._function()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the GPU meanwhile: only calls of this thread are checked and captured.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            self._function()
        return graph


class Lane:
    """Work that may overlap with the caller's: a separate stream on a GPU, nothing special elsewhere.

    Args:
        device: Where the work runs.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def entered(self) -> AbstractContextManager[object]:
        """A context in which work is queued on the lane."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def hand_over(self, *tensors: Tensor) -> None:
        """Make the caller's stream wait for tensors computed in the lane; the host does not wait."""
        if self._stream is not None:
            current = torch.cuda.current_stream()
            current.wait_stream(self._stream)
            for tensor in tensors:
                tensor.record_stream(current)


class Download:
    """A copy of tensors on the host, as they are when the device reaches this point of its stream.

    Args:
        tensors: On one device.
    """

    def __init__(self, *tensors: Tensor) -> None:
        # PyTorch copies to pinned memory, so the copy is asynchronous. A CPU tensor is copied, too.
        self._copies = [tensor.to("cpu", non_blocking=True, copy=True) for tensor in tensors]
        self._event: torch.cuda.Event | None = None
        if tensors[0].device.type == "cuda":
            self._event = torch.cuda.Event()
            self._event.record()

    def wait(self) -> list[Tensor]:
        """The copies, once they are complete."""
        if self._event is not None:
            self._event.synchronize()
        return self._copies
