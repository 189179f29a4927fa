"""Tensors of the simulated GPU: to torch they are on ``cuda``, and their values are in tensors of the CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from tests.simulated_gpu.device import Block, Capture, Device, Stream, the_device

_CPU = torch.device("cpu")
_NOT_YET = 77
"""Value of a copy on the host until the host has waited for it."""
_MULTIPLIES = ("mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "_scaled_dot_product")
_HAS_SIZE_BY_VALUE = ("nonzero", "masked_select", "_unique2", "unique_dim", "repeat_interleave", "bincount")


class SimulatedTensor(torch.Tensor):
    """A tensor on the simulated GPU.

    Args:
        on_cpu: Its values.
        block: Its memory.
    """

    block: Block

    # Its operations come to __torch_dispatch__ in any case.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, on_cpu: Tensor, block: Block) -> SimulatedTensor:
        tensor: SimulatedTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            on_cpu.size(),
            strides=on_cpu.stride(),
            storage_offset=on_cpu.storage_offset(),
            dtype=on_cpu.dtype,
            device=torch.device("cuda", 0),
        )
        return tensor

    def __init__(self, on_cpu: Tensor, block: Block) -> None:
        self.on_cpu = on_cpu
        self.block = block

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: OpOverload, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _run(the_device(), func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: object = None) -> str:  # type: ignore[override]
        return f"SimulatedTensor({self.on_cpu})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")

    def record_stream(self, stream: Stream) -> None:  # type: ignore[override]
        self.block.streams.append(stream)


@dataclass(frozen=True)
class _Kind:
    """What is known of an operation.

    Args:
        is_composite: Whether it is replaced by the operations that it consists of.
        writes: Indices and names of the arguments that it writes.
        is_view: Whether its results are views of its arguments.
        multiplies: Whether cuBLAS computes it.
        waits: Whether the size of its result depends on values, which the host has to wait for.
    """

    is_composite: bool
    writes: tuple[tuple[int, str], ...]
    is_view: bool
    multiplies: bool
    waits: bool


@cache
def _kind(func: OpOverload) -> _Kind:
    name = func._schema.name.removeprefix("aten::")
    written = [
        (index, argument.name)
        for index, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]
    return _Kind(
        # Where no result may be an argument, all of it is done at once.
        torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
        and any(item.alias_info is not None for item in (*func._schema.arguments, *func._schema.returns)),
        tuple(written),
        not written and any(result.alias_info is not None for result in func._schema.returns),
        name.startswith(_MULTIPLIES),
        name in _HAS_SIZE_BY_VALUE,
    )


def _run(device: Device, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Do one operation on the values, as the device would."""
    # Of this thread: lists of indices become tensors of the CPU, which are copied in a way that a subclass sees.
    torch._C._set_only_lift_cpu_tensors(True)
    kind = _kind(func)
    if kind.is_composite:
        return func.decompose(*args, **kwargs)
    name = func._schema.name
    if name == "aten::_local_scalar_dense":
        device.waits_for("item")
        return args[0].on_cpu.item()
    if name == "aten::_has_compatible_shallow_copy_type":
        return False  # Module.to() replaces the parameter
    if name == "aten::copy_":
        return _copy(device, *args, **kwargs)
    if name == "aten::_to_copy" and _type_of(kwargs.get("device"), args[0]) != args[0].device.type:
        like = torch.empty_like(_on_cpu(args[0]), dtype=kwargs.get("dtype"), memory_format=kwargs.get("memory_format"))
        target = like if isinstance(args[0], SimulatedTensor) else place(like)
        return _copy(device, target, args[0], kwargs.get("non_blocking", False))
    tensors = list(_tensors((args, tuple(kwargs.values()))))
    _check_devices(device, name, tensors)
    if kind.waits or (name == "aten::index" and any(arg is not None and arg.dtype == torch.bool for arg in args[1])):
        device.waits_for(name)
    own = [tensor for tensor in tensors if isinstance(tensor, SimulatedTensor)]
    targets = tuple(args[index] if index < len(args) else kwargs.get(key) for index, key in kind.writes)
    written = [first for first in _tensors(targets) if isinstance(first, SimulatedTensor)]
    for first in written:
        _keep_for_undo(device.capturing, first)
    compute = partial(func, *_on_cpu(args), **{key: _on_cpu(value) for key, value in kwargs.items()})
    if "device" in kwargs:
        compute.keywords["device"] = _CPU
    results = compute()
    assert all(first.shape == first.on_cpu.shape for first in written), f"{name} changes sizes, which is not simulated"
    if torch.device(kwargs.get("device") or "cuda").type == "cpu":
        return results
    if kind.is_view:
        with torch.inference_mode(own[0].is_inference()):
            return _wrapped(results, lambda view: SimulatedTensor(view, own[0].block))
    same = {id(first.on_cpu): first for first in own}
    new: list[SimulatedTensor] = []

    def wrap(result: Tensor) -> SimulatedTensor:
        if id(result) not in same:
            new.append(place(result))
            return new[-1]
        return same[id(result)]

    actual = _wrapped(results, wrap)
    if new or written:
        reads = [first.block for first in own if not any(first is other for other in written)]
        device.launch(reads, [first.block for first in (*written, *new)], kind.multiplies)
        if device.capturing is not None:
            device.capturing.operations.append(partial(_again, compute, [first.on_cpu for first in new]))
    return actual


def _tensors(arguments: Any) -> Iterator[Tensor]:
    """The tensors among arguments."""
    for argument in arguments:
        if isinstance(argument, Tensor):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from _tensors(argument)


def _on_cpu(argument: Any) -> Any:
    """An argument with the values of tensors in their place."""
    if isinstance(argument, SimulatedTensor):
        return argument.on_cpu
    return type(argument)(map(_on_cpu, argument)) if isinstance(argument, (list, tuple)) else argument


def _wrapped(results: Any, wrap: Callable[[Tensor], SimulatedTensor]) -> Any:
    """Results with simulated tensors in the place of values."""
    if isinstance(results, Tensor):
        return wrap(results)
    return tuple(_wrapped(result, wrap) for result in results) if isinstance(results, (list, tuple)) else results


def _again(compute: Callable[[], Any], into: Sequence[Tensor]) -> None:
    """Compute again, with new results where they were."""
    results = compute()
    if into:
        for old, new in zip(into, _tensors((results,)), strict=True):
            old.copy_(new)


def _copy(device: Device, target: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """A copy between devices or on the GPU."""
    reads, writes = ([item.block] if isinstance(item, SimulatedTensor) else [] for item in (source, target))
    values, arguments = _on_cpu(target), _on_cpu(source)
    if not writes and non_blocking:
        device.forbid_in_capture()
        device.launch(reads, writes)
        device.download(partial(values.copy_, arguments.clone()))
        values.fill_(_NOT_YET)
        return target
    if not (reads and writes) and not (non_blocking and getattr(source, "is_pinned_here", False)):
        device.waits_for("copy")
    if isinstance(target, SimulatedTensor):
        _keep_for_undo(device.capturing, target)
    device.launch(reads, writes)
    values.copy_(arguments)
    if device.capturing is not None:
        device.capturing.operations.append(partial(values.copy_, arguments))
    return target


def place(values: Tensor) -> SimulatedTensor:
    """Values in memory of the GPU that is allocated for them."""
    return SimulatedTensor(values, the_device().allocate(values.untyped_storage().nbytes()))


def _type_of(device: Any, otherwise: Tensor) -> str:
    return otherwise.device.type if device is None else torch.device(device).type


def _check_devices(device: Device, name: str, tensors: Sequence[Tensor]) -> None:
    """Numbers may be on the CPU, and indices, which are copied."""
    if any(not isinstance(tensor, SimulatedTensor) and tensor.dim() > 0 for tensor in tensors):
        if not name.startswith("aten::index"):
            raise RuntimeError(f"Expected all tensors to be on the same device, but found cuda:0 and cpu! ({name})")
        device.waits_for(f"{name} with indices of the CPU")


def _keep_for_undo(capture: Capture | None, tensor: SimulatedTensor) -> None:
    """Keep the values of memory that a captured operation overwrites: a capture computes nothing."""
    if capture is None or tensor.block.pool is capture.pool or id(tensor.block) in capture.undo:
        return
    stored = tensor.on_cpu.untyped_storage()
    before = stored.clone()
    capture.undo[id(tensor.block)] = partial(stored.copy_, before)


def _empty(size: Sequence[int], dtype: torch.dtype | None = None, *_: Any, **__: Any) -> Tensor:
    return place(torch.empty(size, dtype=dtype))


def _empty_strided(
    size: Sequence[int], stride: Sequence[int], dtype: torch.dtype | None = None, *_: Any, **__: Any
) -> Tensor:
    return place(torch.empty_strided(size, stride, dtype=dtype))


def _arange(*args: Any, device: Any = None, pin_memory: Any = None, **kwargs: Any) -> Tensor:
    return place(torch.arange(*args, **kwargs))


@contextmanager
def device_of_torch() -> Iterator[None]:
    """A context in which torch itself makes tensors on ``cuda``."""
    library = torch.library.Library("aten", "IMPL")
    for name, function in {
        "empty.memory_format": _empty,
        "empty_strided": _empty_strided,
        "arange": _arange,
        "arange.start": _arange,
        "arange.start_step": _arange,
    }.items():
        library.impl(name, function, "CUDA", allow_override=True)
    with _device_guard():
        try:
            yield
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
            library._destroy()


@contextmanager
def _device_guard() -> Iterator[None]:
    """A context in which torch can choose the device, in its CPU build as well.

    torch has a guard for devices that do nothing, and installs it in the place of one that knows of no device: that of
    a CUDA build without a driver, or here of lazy tensors.
    """
    cuda, lazy = 1, 17  # c10::DeviceType
    library = ctypes.CDLL(str(Path(torch.__path__[0]) / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * (lazy + 1)).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    before = guards[cuda]
    if before is None:
        guards[cuda] = guards[lazy]
    torch._C._ensureCUDADeviceGuardSet()
    try:
        yield
    finally:
        guards[cuda] = before
