"""Differences between a scripted model and :class:`model.network.transformer.Transformer`, its type in annotations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard, cast

import torch
from torch import nn

from model.errors import ArtifactError
from model.network.quantised import Int8Linear
from model.network.transformer import Transformer

_METHODS = ("forward", "encode", "project_memory", "step", "attend")
"""Methods that every scripted model has. Those of the first releases have no ``step_slots``."""


def as_transformer(module: nn.Module, origin: str) -> Transformer:
    """Check that a module of TorchScript is a model, and return it as one.

    Args:
        module: As torch loaded or compiled it.
        origin: Where it comes from, for the message.

    Raises:
        ArtifactError: It lacks a method.
    """
    missing = [name for name in _METHODS if not callable(getattr(module, name, None))]
    if missing:
        raise ArtifactError(
            f"{origin} contains another model: it has no {', '.join(missing)}; export it again with this release."
        )
    return cast(Transformer, module)


def is_int8_layer(part: nn.Module) -> TypeGuard[Int8Linear]:
    """Whether a part of a model is an int8 layer, scripted or not."""
    # TorchScript keeps the name of the class, not the class.
    scripted = isinstance(part, torch.jit.ScriptModule) and part.original_name == Int8Linear.__name__
    return scripted or isinstance(part, Int8Linear)


def int8_layers(module: Transformer) -> Iterator[Int8Linear]:
    """The int8 layers of a model, scripted or not."""
    return (part for part in module.modules() if is_int8_layer(part))
