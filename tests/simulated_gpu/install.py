"""Puts the simulated GPU in the place of torch's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.simulated_gpu import device as simulation
from tests.simulated_gpu.device import Device, Event, Graph, Stream, new_pool_handle
from tests.simulated_gpu.tensors import SimulatedTensor, device_of_torch


@contextmanager
def installed(device: Device) -> Iterator[Device]:
    """A context in which torch has this GPU, and no other."""

    def set_stream(stream: Stream) -> None:
        device.stream = stream

    def set_fraction(fraction: float, device_: Any = None) -> None:
        device.fraction = fraction

    def set_sync_debug_mode(mode: str) -> None:
        device.sync_debug_mode = mode

    properties = SimpleNamespace(
        name="simulated", major=9, minor=0, total_memory=device.total_bytes, multi_processor_count=100
    )
    functions: dict[str, Any] = {
        "_lazy_init": lambda: None,
        "_exchange_device": lambda index: 0,
        "_maybe_exchange_device": lambda index: 0,
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device_=None: "simulated",
        "get_device_capability": lambda device_=None: (9, 0),
        "get_device_properties": lambda device_=None: properties,
        "get_arch_list": lambda: ["sm_90"],
        "Stream": Stream,
        "Event": Event,
        "CUDAGraph": Graph,
        "graph_pool_handle": new_pool_handle,
        "current_stream": lambda device_=None: device.stream,
        "default_stream": lambda device_=None: Stream(number=0),
        "set_stream": set_stream,
        "is_current_stream_capturing": lambda: device.capturing is not None,
        "synchronize": device.synchronize,
        "set_sync_debug_mode": set_sync_debug_mode,
        "empty_cache": device.empty_cache,
        "mem_get_info": lambda device_=None: (device.free_bytes, device.total_bytes),
        "memory_allocated": lambda device_=None: device.allocated,
        "memory_reserved": lambda device_=None: device.reserved,
        "set_per_process_memory_fraction": set_fraction,
    }
    with pytest.MonkeyPatch.context() as patch, device_of_torch(), _one_thread():
        for name, function in functions.items():
            patch.setattr(torch.cuda, name, function)
        patch.setattr(torch.cuda.graph, "default_capture_stream", None)
        for name in ("_host_emptyCache", "_cuda_endAllocateToPool"):
            patch.setattr(torch._C, name, lambda *args: None, raising=False)
        patch.setattr(torch.Tensor, "pin_memory", _pin)
        patch.setattr(torch, "tensor", _tensor)
        # Module.to() replaces parameters: their type changes.
        patch.setattr(torch.__future__, "_overwrite_module_params_on_conversion", True)
        patch.setattr(torch.jit.ScriptModule, "to", _move)
        patch.setattr(simulation, "_device", [device])
        yield device


@contextmanager
def _one_thread() -> Iterator[None]:
    """A context without more threads: the tensors of tests are tiny."""
    number = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(number)


def _move(module: Any, *args: Any, **kwargs: Any) -> Any:
    """``ScriptModule.to`` for tensors whose type changes; tensors that modules share stay shared."""
    moved: dict[tuple[object, ...], Tensor] = {}
    for part in module.modules():
        for name, tensor in [*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)]:
            if isinstance(tensor, SimulatedTensor):
                continue
            key = tensor.data_ptr(), tensor.shape, tensor.stride()
            if key not in moved:
                moved[key] = tensor.detach().to(*args, **kwargs)
            part._c.setattr(name, moved[key])
    return module


_make_tensor = torch.tensor


def _tensor(data: Any, *, device: Any = None, **kwargs: Any) -> Tensor:
    """``torch.tensor``, whose own copy to the device is hidden from subclasses."""
    product = _make_tensor(data, **kwargs)
    return product if device is None else product.to(device)


def _pin(tensor: Tensor) -> Tensor:
    pinned = tensor.clone()
    setattr(pinned, "is_pinned_here", True)  # noqa: B010  (mypy knows no such attribute)
    return pinned
