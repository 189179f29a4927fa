"""CUDA graphs without a GPU: operations are recorded once and replayed without running Python code in between."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model.decoding import graph_check
from model.decoding.slots.model import SlotModel


class RecordedGraph:
    """Replaces ``torch.cuda.CUDAGraph``: repeats the same operations on the same tensors with their current values.

    Unlike a capture, a recording executes the operations, so the first replay does nothing.
    """

    num_replays = 0
    num_alive = 0

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self._executed = True
        RecordedGraph.num_alive += 1

    def __del__(self) -> None:
        RecordedGraph.num_alive -= 1

    def replay(self) -> None:
        RecordedGraph.num_replays += 1
        if self._executed:
            self._executed = False
            return
        for function, args, kwargs, results in self.operations:
            again = function(*args, **kwargs)
            for old, new in zip(_tensors(results), _tensors(again), strict=True):
                # Views and tensors written in place keep their memory; others are copied to the recorded memory.
                if _address(old) not in {_address(tensor) for tensor in _tensors(args)}:
                    old.copy_(new)


class _Recorder(TorchDispatchMode):
    def __init__(self, graph: RecordedGraph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        results = function(*args, **(kwargs or {}))
        self._graph.operations.append((function, args, kwargs or {}, results))
        return results


class NoStream:
    """Replaces ``torch.cuda.Stream``: nothing runs beside anything. As in torch, there are 32, handed out in turn."""

    _numbers = itertools.count()
    current: NoStream | None = None

    def __init__(self, device: object = None) -> None:
        self.number = next(self._numbers) % 32

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NoStream) and other.number == self.number

    def __hash__(self) -> int:
        return self.number

    def wait_stream(self, other: object) -> None:
        """Does nothing."""

    def synchronize(self) -> None:
        """Does nothing."""


@contextmanager
def _on(stream: NoStream) -> Iterator[None]:
    before, NoStream.current = NoStream.current, stream
    try:
        yield
    finally:
        NoStream.current = before


@contextmanager
def _record(graph: RecordedGraph, pool: object, stream: NoStream, capture_error_mode: str) -> Iterator[None]:
    assert NoStream.current == stream, "captured on another stream than warmed up"
    with _Recorder(graph):
        yield


def use_recorded_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace CUDA graphs by recordings, and streams by nothing."""
    pools = itertools.count(1)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", RecordedGraph)
    monkeypatch.setattr(torch.cuda, "graph", _record)
    monkeypatch.setattr(torch.cuda, "Stream", NoStream)
    monkeypatch.setattr(torch.cuda, "current_stream", NoStream)
    monkeypatch.setattr(torch.cuda, "stream", _on)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, next(pools)))
    monkeypatch.setattr(RecordedGraph, "num_replays", 0)
    monkeypatch.setattr(RecordedGraph, "num_alive", 0)
    monkeypatch.setattr(graph_check, "_MAX_BLOCKS", 2)
    monkeypatch.setattr(graph_check, "_BLOCK", 1000)


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
