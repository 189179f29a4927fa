"""What a decoder keeps of the inputs so far: keys and values for self-attention, or the states of recurrent layers.

The rows are those of the sentences, in their order. Keys and values have columns, which grow; states do not.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from model.network.transformer import Transformer


class TargetCache(Protocol):
    """The cache of all rows of a batch."""

    tensor: Tensor
    """As the network reads and writes it (:meth:`model.network.transformer.Transformer.step`)."""

    def append(self, other: Tensor, num_inputs: int, columns: int, width: int) -> None:
        """Add the rows of sentences that took their first steps.

        Args:
            other: Their cache, a row for each.
            num_inputs: Its columns in use, which become the newest ones.
            columns: Columns in use here.
            width: Rows that each row becomes.
        """

    def add_before(self, number: int) -> None:
        """Insert columns before the first."""

    def drop_before(self, number: int) -> None:
        """Drop the first columns."""

    def widen(self, capacity: int) -> None:
        """Make room for this many columns."""

    def copy_rows(self, targets: Tensor, origins: Tensor, columns: int) -> None:
        """Let rows continue others.

        Args:
            targets: The rows to overwrite.
            origins: The rows that they continue.
            columns: Columns in use.
        """

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""


class KeysAndValues:
    """Keys and values of self-attention.

    Args:
        tensor: (L, 2, rows, H, columns, D).
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def append(self, other: Tensor, num_inputs: int, columns: int, width: int) -> None:
        """Add the rows of sentences that took their first steps; see :class:`TargetCache`."""
        layers, parts, num_joining, heads, _, head_width = other.shape
        joining = other.new_zeros(layers, parts, num_joining * width, heads, self.tensor.size(4), head_width)
        joining[..., columns - num_inputs : columns, :] = other.repeat_interleave(width, dim=2)
        self.tensor = torch.cat([self.tensor, joining], dim=2)

    def add_before(self, number: int) -> None:
        """Insert columns before the first."""
        self.tensor = torch.nn.functional.pad(self.tensor, (0, 0, number, 0))

    def drop_before(self, number: int) -> None:
        """Drop the first columns."""
        self.tensor = self.tensor[..., number:, :].contiguous()

    def widen(self, capacity: int) -> None:
        """Make room for this many columns."""
        self.tensor = widen(self.tensor, 4, capacity)

    def copy_rows(self, targets: Tensor, origins: Tensor, columns: int) -> None:
        """Let rows continue others; see :class:`TargetCache`."""
        self.tensor[:, :, targets, :, :columns] = self.tensor[:, :, origins, :, :columns]

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.tensor = self.tensor.index_select(2, rows)


class States:
    """States of recurrent layers, which have no columns.

    Args:
        tensor: (L, rows, C), float32.
    """

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def append(self, other: Tensor, num_inputs: int, columns: int, width: int) -> None:
        """Add the rows of sentences that took their first steps; see :class:`TargetCache`."""
        self.tensor = torch.cat([self.tensor, other.repeat_interleave(width, dim=1)], dim=1)

    def add_before(self, number: int) -> None:
        """Do nothing."""

    def drop_before(self, number: int) -> None:
        """Do nothing."""

    def widen(self, capacity: int) -> None:
        """Do nothing."""

    def copy_rows(self, targets: Tensor, origins: Tensor, columns: int) -> None:
        """Let rows continue others; see :class:`TargetCache`."""
        self.tensor[:, targets] = self.tensor[:, origins]

    def keep(self, rows: Tensor) -> None:
        """Drop all rows but these."""
        self.tensor = self.tensor.index_select(1, rows)


def empty_cache(model: Transformer, cross_cache: Tensor, rows: int, capacity: int) -> TargetCache:
    """The cache of rows that have read no input.

    Args:
        model: The network, scripted or not.
        cross_cache: Keys and values of sources, (L, 2, B, H, S, D), which have the shapes of those of targets.
        rows: Number of rows.
        capacity: Number of columns.
    """
    layers, parts, _, heads, _, head_width = cross_cache.shape
    if is_recurrent(model):
        return States(cross_cache.new_zeros(layers, rows, heads * head_width, dtype=torch.float32))
    return KeysAndValues(cross_cache.new_zeros(layers, parts, rows, heads, capacity, head_width))


def is_recurrent(model: Transformer) -> bool:
    """Whether the decoder has recurrent layers; bundles of earlier releases do not say so, and have none."""
    return bool(getattr(model, "is_recurrent", False))


def widen(x: Tensor, dim: int, size: int) -> Tensor:
    """Append zeros (False) along ``dim`` up to ``size``."""
    missing = size - x.size(dim)
    if missing <= 0:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return torch.cat([x, x.new_zeros(shape)], dim=dim)
