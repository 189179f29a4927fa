"""The eager model as TorchScript, in the precision it is served in.

Everything that touches ``torch.jit`` is deprecated by torch and kept because TorchScript is what a bundle is; see
docs/decisions/0002.
"""

from __future__ import annotations

import copy
import warnings

import torch
from torch import nn

from model.artifacts.bundle import Precision
from model.artifacts.scripted import ScriptedModel, as_scripted_model
from model.network.layers import Dropout
from model.network.quantised import Int8Linear
from model.network.transformer import Transformer

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

_DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.float32,
}


def script(transformer: Transformer, precision: Precision) -> ScriptedModel:
    """A scripted copy of a model in a precision, on the CPU.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    return script_in_place(copy.deepcopy(transformer), precision)


def script_in_place(transformer: Transformer, precision: Precision) -> ScriptedModel:
    """As :func:`script`, but of the model itself, which cannot be used afterwards: memory holds no second copy.

    Raises:
        DeviceError: int8 on a processor without int8 kernels.
    """
    served = transformer.cpu().eval()
    _replace_modules(served, precision)
    served.requires_grad_(False)
    served.to(_DTYPES[precision])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*deprecated.*")
        return as_scripted_model(torch.jit.script(served), "The scripted model")


def _replace_modules(module: nn.Module, precision: Precision) -> None:
    for name, child in module.named_children():
        if isinstance(child, Dropout):
            # It acts in training only, and TorchScript cannot compile its random numbers.
            setattr(module, name, nn.Identity())
        elif isinstance(child, nn.Linear) and precision == "int8":
            setattr(module, name, Int8Linear(child))
        else:
            _replace_modules(child, precision)
