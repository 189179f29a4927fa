"""Metrics of GPUs, read when they are asked for: memory, and the CUDA graphs of the models."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from model.translator import Translator

logger = logging.getLogger("app.metrics")


class GpuMemory(NamedTuple):
    """The memory of a GPU, in bytes.

    Args:
        free: What the driver could still give, to any process.
        allocated: What tensors of this process take.
        reserved: What torch keeps for tensors of this process, used or not. Graphs and the context are not in it.
    """

    free: int
    allocated: int
    reserved: int


def gpu_memory(device: str) -> GpuMemory:
    """The memory of a GPU.

    Args:
        device: ``cuda`` or ``cuda:N``.

    Raises:
        RuntimeError: The GPU does not answer.
    """
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    return GpuMemory(free, torch.cuda.memory_allocated(device), torch.cuda.memory_reserved(device))


class GpuCollector(Collector):
    """Metrics of the GPUs that models are on; none where all are on the CPU."""

    def __init__(self) -> None:
        self.translators: Callable[[], Sequence[Translator]] = tuple
        """Gives the loaded models; called on any thread."""

    @property
    def in_use(self) -> bool:
        """Whether a model is on a GPU."""
        return bool(self._on_gpus())

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        translators = self._on_gpus()
        return (
            [*_memory(sorted({translator.device for translator in translators})), *_graphs(translators)]
            if translators
            else []
        )

    def _on_gpus(self) -> list[Translator]:
        return [translator for translator in self.translators() if translator.device.startswith("cuda")]


def _memory(devices: Iterable[str]) -> Iterable[Metric]:
    free = GaugeMetricFamily(
        "verso_gpu_free_bytes", "Memory of the GPU that no process has, in bytes.", labels=["device"]
    )
    allocated = GaugeMetricFamily(
        "verso_gpu_allocated_bytes", "Memory of the GPU that tensors of this process take, in bytes.", labels=["device"]
    )
    reserved = GaugeMetricFamily(
        "verso_gpu_reserved_bytes",
        "Memory of the GPU that torch holds for tensors of this process, in use or not, in bytes.",
        labels=["device"],
    )
    for device in devices:
        try:
            memory = gpu_memory(device)
        except RuntimeError as error:  # after an error that stays, every call of CUDA fails
            logger.debug("the memory of a GPU cannot be read", extra={"fields": {"reason": str(error)}})
            continue
        free.add_metric([device], memory.free)
        allocated.add_metric([device], memory.allocated)
        reserved.add_metric([device], memory.reserved)
    return [free, allocated, reserved]


def _graphs(translators: Iterable[Translator]) -> Iterable[Metric]:
    enabled = GaugeMetricFamily(
        "verso_graphs_enabled", "1 if the steps of a model are replayed as CUDA graphs.", labels=["model"]
    )
    number = GaugeMetricFamily("verso_graphs", "CUDA graphs that a model holds.", labels=["model"])
    captures = CounterMetricFamily("verso_graph_captures", "CUDA graphs captured for a model.", labels=["model"])
    seconds = CounterMetricFamily(
        "verso_graph_capture_seconds", "Seconds spent on capturing CUDA graphs for a model.", labels=["model"]
    )
    for translator in translators:
        graphs = translator.backend.graphs
        if graphs is not None:
            labels = [translator.manifest.name]
            enabled.add_metric(labels, graphs.are_on)
            number.add_metric(labels, graphs.num_kept)
            captures.add_metric(labels, graphs.num_captures)
            seconds.add_metric(labels, graphs.capture_s)
    return [enabled, number, captures, seconds]
