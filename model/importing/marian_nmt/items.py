"""Items: the tensors of a Marian model file, and what both of its formats have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from model.errors import ArtifactError

DESCRIPTION = "special:model.yml"
"""The item that describes the architecture; not a tensor, but text."""

MAX_ITEMS = 100_000
"""Most items of a file. The largest published models have about a thousand."""

MAX_RANK = 4
"""Most dimensions of an item."""

MAX_NAME_BYTES = 256

_MAX_DESCRIPTION_BYTES = 65_536


@dataclass(frozen=True)
class Item:
    """A tensor of a file.

    Args:
        name: Its name.
        values: float32, or int8 with a multiplier; matrices of layers as (C in, C out), embeddings as (V, C).
        multiplier: The number that a value was multiplied by before it was rounded to int8; None for float32.
    """

    name: str
    values: NDArray[np.float32] | NDArray[np.int8]
    multiplier: np.float32 | None = None

    @property
    def scale(self) -> np.float32:
        """The value of one int8 level: 1 / multiplier, rounded to float32 as Marian does."""
        assert self.multiplier is not None
        return np.float32(1) / self.multiplier

    def floats(self) -> Tensor:
        """A copy of the values in float32; int8 levels are multiplied by :attr:`scale`.

        Raises:
            ArtifactError: A value is not finite.
        """
        values = self.values.astype(np.float32)
        if self.multiplier is not None:
            values *= self.scale
        if not np.isfinite(values).all():
            raise ArtifactError(f"Tensor {self.name} contains NaN or infinity; the file is damaged or diverged.")
        return torch.from_numpy(np.ascontiguousarray(values))


class MarianFile(ABC):
    """A model file.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    @abstractmethod
    def names(self) -> Collection[str]:
        """Names of all items."""

    @abstractmethod
    def shape(self, name: str) -> tuple[int, ...]:
        """The dimensions of an item that exists."""

    @abstractmethod
    def item(self, name: str) -> Item:
        """Read an item that exists.

        Raises:
            ArtifactError: It is damaged.
        """

    @abstractmethod
    def text(self, name: str) -> bytes:
        """The bytes of an item that exists and is a text."""

    def description(self) -> str:
        """The text that describes the architecture.

        Raises:
            ArtifactError: There is none, or it is too long or not a text.
        """
        if DESCRIPTION not in self.names:
            raise self.damaged(f"it has no {DESCRIPTION}, which describes the architecture")
        size = math.prod(self.shape(DESCRIPTION))
        if size > _MAX_DESCRIPTION_BYTES:
            raise self.damaged(f"{DESCRIPTION} has {size} bytes; the limit is {_MAX_DESCRIPTION_BYTES}")
        try:
            return self.text(DESCRIPTION).rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{DESCRIPTION} is not valid UTF-8") from error

    def damaged(self, fault: str) -> ArtifactError:
        """The error for a file that cannot be read.

        Args:
            fault: What is wrong with it, as a clause.
        """
        return ArtifactError(f"{self.path} cannot be read as a Marian model: {fault}. Download it again.")
