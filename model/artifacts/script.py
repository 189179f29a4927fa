"""The eager model as TorchScript, in the precision it is served in.

Everything that touches ``torch.jit`` is deprecated by torch and kept because TorchScript is what a bundle is; see
docs/decisions/0002.
"""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings
from collections.abc import Iterator

import torch
from torch.jit import _recursive

from model.artifacts.manifest import Precision
from model.artifacts.scripted import as_transformer
from model.network.inference import DTYPES, replace_layers
from model.network.quantised import quantise
from model.network.transformer import Transformer

_COMPILING = threading.Lock()
"""What torch collects while it compiles, and the filters of warnings, belong to all threads."""

EXPORTED = (
    Transformer.encode,
    Transformer.project_memory,
    Transformer.step,
    Transformer.step_slots,
    Transformer.attend,
)
"""Methods of the model that a bundle has."""

for _method in EXPORTED:
    # Marked here and not where they are written, so that the network does not depend on TorchScript.
    torch.jit.export(_method)


def script(transformer: Transformer, precision: Precision) -> Transformer:
    """A scripted copy of a model in a precision, on the CPU.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    return compile_model(convert_in_place(copy.deepcopy(transformer), precision))


def convert_in_place(transformer: Transformer, precision: Precision) -> Transformer:
    """Convert a model to a precision, on the CPU; there is no second copy. :func:`compile_model` makes it TorchScript.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    served = transformer.cpu()
    replace_layers(served, lambda name, layer: quantise(layer) if precision == "int8" else layer)
    served.eval().requires_grad_(False)
    return served.to(DTYPES[precision])


def compile_model(served: Transformer) -> Transformer:
    """A model as it is served, as TorchScript. Any thread may call it."""
    with _COMPILING, warnings.catch_warnings(), _constants_in_order():
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
        return as_transformer(torch.jit.script(served), "The scripted model")


class _SortedSet(set[str]):
    """A set whose iteration order does not depend on the process."""

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(super().__iter__()))


@contextlib.contextmanager
def _constants_in_order() -> Iterator[None]:
    """Let torch write the constants of its layers in one order, so that the same model gives the same bytes.

    It collects their names in a set, and a set of strings has another order in each process.
    """
    vars(_recursive)["set"] = _SortedSet
    try:
        yield
    finally:
        del vars(_recursive)["set"]
