"""What a scripted model offers to those who decode with it, compare it or write it, and the check that it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, Self, TypeGuard, cast

import torch
from torch import Tensor, nn

from model.decoding.search import StepModel
from model.errors import ArtifactError
from model.network.quantised import Int8Linear


class ScriptedModel(StepModel, Protocol):
    """A :class:`model.network.transformer.Transformer`, usually as TorchScript; its methods have that class's shapes.

    Bundles of the first releases have no ``step_slots``, which is therefore no part of this.
    """

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits of the token after each target position."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """The model and its parts."""
        ...

    def parameters(self) -> Iterator[nn.Parameter]:
        """Weights; tied ones once."""
        ...

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Weights by name."""
        ...

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """The model and its parts by name."""
        ...

    def buffers(self) -> Iterator[Tensor]:
        """Tensors that are not trained."""
        ...

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Tensors that are not trained, by name."""
        ...

    def to(self, device: torch.device | str) -> Self:
        """Move to a device."""
        ...


_METHODS = ("forward", "encode", "project_memory", "step", "attend")
"""Methods of :class:`ScriptedModel` that TorchScript compiles; ``nn.Module`` has the others."""


def as_scripted_model(module: nn.Module, origin: str) -> ScriptedModel:
    """A module of TorchScript as the model it has to be.

    Args:
        module: As torch loaded or compiled it.
        origin: Where it comes from, for the message.

    Raises:
        ArtifactError: It lacks a method.
    """
    missing = [name for name in _METHODS if not callable(getattr(module, name, None))]
    if missing:
        raise ArtifactError(
            f"{origin} holds another model: it has no {', '.join(missing)}; export it again with this release."
        )
    return cast(ScriptedModel, module)


class Int8Layer(Protocol):
    """What can be read and set of an :class:`model.network.quantised.Int8Linear`, scripted or not."""

    packed: Any  # a torch.ScriptObject, which torch.ops.quantized.linear_unpack takes
    bias: Tensor
    levels: int
    multiplies_bytes: bool


def is_int8_layer(part: nn.Module) -> TypeGuard[Int8Layer]:
    """Whether a part of a model is an int8 layer, scripted or not."""
    # TorchScript keeps the name of the class, not the class.
    scripted = isinstance(part, torch.jit.ScriptModule) and part.original_name == Int8Linear.__name__
    return scripted or isinstance(part, Int8Linear)


def int8_layers(module: ScriptedModel) -> Iterator[Int8Layer]:
    """The int8 layers of a model, scripted or not."""
    return (part for part in module.modules() if is_int8_layer(part))
