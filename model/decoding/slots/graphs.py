"""The CUDA graphs of a model, and their substitutes on devices without them."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import ClassVar
from weakref import WeakSet

import torch
from torch import Tensor

from model.process.gpus import is_lost
from model.process.memory import available_bytes, is_out_of_memory

logger = logging.getLogger("model.graphs")

_WARM_UPS = 3
"""Calls before capture: TorchScript specialises a method in its first two, libraries make their workspaces."""

_MAX_GRAPHS, _MEMORY_SHARE, _GRAPH_BYTES = 256, 1 / 8, 16 * 2**20
"""Graphs may take a share of the free memory. A captured step takes at most 240 kernels of 64 kB each."""

_CAPTURING = threading.Lock()
"""torch allows one capture at a time in the process."""


class Graphs:
    """The CUDA graphs of one model, and the stream on which everything of the model runs.

    cuBLAS has a workspace for each stream, whose address is part of every graph captured there, and torch frees it when
    any of these graphs is destroyed. Therefore no other model has this stream, and no graph is destroyed alone: they
    are kept, also those that are no longer used, until :meth:`drop` destroys all of them.

    Args:
        device: Where the model is.
        wanted: Whether to capture graphs, if the device is a GPU.

    Attributes:
        why_off: Why nothing is captured; None if graphs are on.
        num_captures: Captures so far.
        num_failures: Captures that failed.
        capture_s: Seconds that captures took, with the calls before them.
        max_graphs: Number of graphs that are kept: what a share of the free memory allows.
    """

    _all: ClassVar[WeakSet[Graphs]] = WeakSet()

    def __init__(self, device: torch.device, *, wanted: bool = True) -> None:
        self.num_captures = self.num_failures = 0
        self.capture_s = 0.0
        self.why_off: str | None = None
        self._device = device
        self._stream: torch.cuda.Stream | None = None
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._numbers = itertools.count()
        self.max_graphs = _MAX_GRAPHS
        if device.type != "cuda":
            self.why_off = "the model is not on a GPU"
            return
        room = int(_MEMORY_SHARE * available_bytes(str(device)))
        self.max_graphs = max(1, min(_MAX_GRAPHS, room // _GRAPH_BYTES))
        if not wanted:
            self.why_off = "they are switched off"
        self._open_stream()

    def _open_stream(self) -> None:
        # torch hands out 32 streams of a device in turn.
        used = [graphs._stream for graphs in Graphs._all]
        streams = [torch.cuda.Stream(self._device) for _ in range(32)]
        free = [stream for stream in streams if stream not in used]
        if not free:
            self.why_off = "each of the 32 streams is that of another model"
        self._stream = (free or streams)[0]
        self._stream.wait_stream(torch.cuda.current_stream(self._device))  # which has loaded the model
        self._pool = torch.cuda.graph_pool_handle()
        Graphs._all.add(self)

    @property
    def num_kept(self) -> int:
        """Graphs in memory."""
        return len(self._graphs)

    @property
    def are_on(self) -> bool:
        """Whether functions are captured."""
        return self.why_off is None

    def entered(self) -> AbstractContextManager[object]:
        """The context of all work of the model: its device and its stream."""
        return nullcontext() if self._stream is None else torch.cuda.stream(self._stream)

    def call(
        self, function: Callable[[], object], still: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> Callable[[], None]:
        """A function that is captured when it is first called, and launched as one graph from then on.

        Args:
            function: Reads and writes tensors whose addresses do not change. It waits for nothing and copies nothing
                from or to the host.
            still: Entered around the calls before the capture, which must have no lasting effect.

        Returns:
            Launches it once within :meth:`entered`; without a graph from then on if the capture fails.
        """
        number = next(self._numbers)
        may_capture = True

        def run() -> None:
            nonlocal may_capture
            if self.are_on and may_capture:
                graph = self._graphs.get(number) or self._capture(number, function, still)
                if graph is not None:
                    graph.replay()
                    return
                may_capture = False
            function()

        return run

    def drop(self) -> None:
        """Destroy all graphs; functions that are still used are captured again. No other thread may run the model."""
        if self._stream is None:
            return
        self._stream.synchronize()
        self._graphs.clear()
        self._pool = torch.cuda.graph_pool_handle()  # the pool before ends with its last graph
        torch.cuda.empty_cache()

    def _capture(
        self, number: int, function: Callable[[], object], still: Callable[[], AbstractContextManager[None]]
    ) -> torch.cuda.CUDAGraph | None:
        """Call a function, then capture it; None if that fails. Errors of the calls are raised."""
        began = time.perf_counter()
        if self.num_kept >= self.max_graphs:
            self.drop()
        with still():
            for _ in range(_WARM_UPS):
                function()
        # Kept before it is captured: destroying one that failed has the same effect as destroying another.
        graph = self._graphs[number] = torch.cuda.CUDAGraph()
        try:
            # Other threads may use the GPU meanwhile: only calls of this thread are checked and captured.
            with (
                _CAPTURING,
                torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"),
            ):
                function()
        except Exception as error:
            if is_lost(error):
                raise
            self.num_failures += 1
            fields = {"reason": str(error).strip().partition("\n")[0], "out_of_memory": is_out_of_memory(error)}
            logger.warning("a CUDA graph could not be captured: it is not used", extra={"fields": fields})
        else:
            return graph
        finally:
            self.num_captures += 1
            self.capture_s += time.perf_counter() - began
        with suppress(RuntimeError, AttributeError):  # torch may have ended it
            torch._C._cuda_endAllocateToPool(self._device.index or 0, self._pool)
        del graph
        self.drop()
        return None


def download(*tensors: Tensor) -> list[Tensor]:
    """Copies of tensors on the host, as they are when the device reaches this point of its stream; waits for it."""
    # PyTorch copies to pinned memory, so that one wait is enough for all. A CPU tensor is copied, too.
    copies = [tensor.to("cpu", non_blocking=True, copy=True) for tensor in tensors]
    if tensors[0].device.type == "cuda":
        event = torch.cuda.Event()
        event.record()
        event.synchronize()
    return copies
