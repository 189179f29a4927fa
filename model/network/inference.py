"""A model as it is served: without dropout, and with int8 layers where its precision asks for them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from model.network.layers import Dropout

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "int8": torch.float32,
}
"""Types of the tensors that are not in int8 layers, by the precision of a bundle."""


def replace_layers(module: nn.Module, linear: Callable[[str, nn.Linear], nn.Module], path: str = "") -> None:
    """Remove dropout from a model, and replace its linear layers.

    Args:
        module: The model; changed.
        linear: Takes the dotted name and the layer; gives the layer to be served, which may be the same one.
        path: The dotted name of ``module`` and a dot; empty for the whole model.
    """
    for name, child in module.named_children():
        if isinstance(child, Dropout):
            # It acts in training only, and TorchScript cannot compile its random numbers.
            setattr(module, name, nn.Identity())
        elif isinstance(child, nn.Linear):
            setattr(module, name, linear(f"{path}{name}", child))
        else:
            replace_layers(child, linear, f"{path}{name}.")
