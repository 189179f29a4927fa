"""CUDA graphs without a GPU: operations are recorded once and replayed without running Python code in between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.decoding.slots import check
from model.decoding.slots.model import SlotModel

_POOLS = itertools.count(1)


class RecordedGraph:
    """Replaces ``torch.cuda.CUDAGraph``: repeats the same operations on the same tensors with their current values.

    Unlike a capture, a recording executes the operations, so the first replay does nothing.
    """

    num_replays = 0

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self._executed = True

    def replay(self) -> None:
        RecordedGraph.num_replays += 1
        if self._executed:
            self._executed = False
            return
        for function, args, kwargs, results in self.operations:
            again = function(*args, **kwargs)
            for old, new in zip(_tensors(results), _tensors(again), strict=True):
                # Views and tensors written in place keep their memory; others are copied to the recorded memory.
                if _address(old) not in {_address(one) for one in _tensors(args)}:
                    old.copy_(new)


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        self._graph.operations.append((function, args, kwargs or {}, results))
        return results


class _NoStream:
    """A stream of a device that has none."""

    def __init__(self, device: object = None) -> None:
        """Nothing."""

    def wait_stream(self, other: object) -> None:
        """Does nothing: there are no streams."""

    def synchronize(self) -> None:
        """Does nothing."""


@contextmanager
def _record(graph: RecordedGraph, pool: object, stream: object, capture_error_mode: str) -> Iterator[None]:
    with _Recorder(graph):
        yield


def use_recorded_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace CUDA graphs by recordings, and streams by nothing."""
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RecordedGraph)
    monkeypatch.setattr(torch.cuda, "graph", _record)
    monkeypatch.setattr(torch.cuda, "Stream", _NoStream)
    monkeypatch.setattr(torch.cuda, "current_stream", _NoStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, next(_POOLS)))
    monkeypatch.setattr(RecordedGraph, "num_replays", 0)
    monkeypatch.setattr(check, "_MAX_BLOCKS", 2)


def record(model: SlotModel) -> SlotModel:
    """Turn on the graphs of a model that is not on a GPU. Private: no option does that."""
    model.graphs.why_off = None
    model.graphs._open_stream()
    return model


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in _tensors(part)] if isinstance(value, (list, tuple)) else []


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
