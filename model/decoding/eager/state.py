"""What the model remembers of the sentences that decode: keys and values, in torch tensors.

All rows write the same cache column in a step, whatever their own position: caches are right-aligned, and a mask hides
what stands before a row's start. Columns that nobody needs any more are dropped now and then. Keys and values of the
sources are kept once per sentence, however wide its beam.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.decoding.search import StepModel
from model.network.masks import padding_mask
from model.network.padding import pad

_GROWTH = 32
"""Columns added at once when the caches are full, and dropped at once when as many are no longer needed."""


class DecoderState(Protocol):
    """Sentences inside a model, each with ``width`` rows; the order is the caller's, new ones come last."""

    def join(self, sources: Sequence[Sequence[int]], prefix: Tensor) -> Tensor:
        """Encode sentences and feed the first inputs of each.

        Args:
            sources: Their tokens.
            prefix: Start token and what is forced behind it, (n, P).

        Returns:
            Logits of the next token, (n, 1, V).
        """
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Feed one token to every row.

        Args:
            tokens: (N, K).

        Returns:
            Logits of the next token, (N, K, V), float32.
        """
        ...

    def reorder(self, parents: Tensor) -> None:
        """Let each row go on from another of its sentence, (N, K)."""
        ...

    def keep(self, indices: Sequence[int]) -> None:
        """Forget all sentences but these; at least one."""
        ...

    def clear(self) -> None:
        """Forget all sentences."""
        ...


class TorchState:
    """Caches as tensors, for any device and any model.

    Args:
        model: Computes logits.
        width: Rows of each sentence, K.
        pad_id: Fills short sources.
        device: Where the model lives.
    """

    def __init__(self, model: StepModel, width: int, pad_id: int, device: torch.device) -> None:
        self._model = model
        self._width = width
        self._pad_id = pad_id
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forget all sentences."""
        none = torch.empty(0, device=self._device)
        self._columns = 0  # in use
        self._self_cache = none  # (L, 2, N * K, H, capacity, D)
        self._cross_cache = none  # (L, 2, N, H, S, D)
        self._may_attend_memory = none  # (N, 1, 1, S)
        self._starts = none  # (N,): the column of each start token

    def join(self, sources: Sequence[Sequence[int]], prefix: Tensor) -> Tensor:
        """Encode sentences and feed the first inputs of each; see :meth:`DecoderState.join`."""
        source = pad(sources, self._pad_id).to(self._device)
        cross_cache = self._model.project_memory(self._model.encode(source))  # (L, 2, n, H, S, D)
        may_attend_memory = padding_mask(source, self._pad_id)
        layers, _, num_joining, heads, _, head_width = cross_cache.shape
        own_cache = cross_cache.new_zeros(layers, 2, num_joining, heads, prefix.size(1), head_width)
        logits = cross_cache
        for column in range(prefix.size(1)):
            token_ids = prefix[:, column : column + 1]
            logits = self._model.step(
                token_ids,
                torch.full_like(token_ids, column),
                own_cache,
                cross_cache,
                column,
                torch.ones(num_joining, 1, 1, column + 1, dtype=torch.bool, device=self._device),
                may_attend_memory,
            )
        self._append(own_cache, cross_cache, may_attend_memory)
        return logits.float()

    def _append(self, own_cache: Tensor, cross_cache: Tensor, may_attend_memory: Tensor) -> None:
        """Put sentences that took their first steps beside the others, their inputs at the newest columns."""
        layers, _, num_joining, heads, num_inputs, head_width = own_cache.shape
        if not self._columns:
            self._columns = num_inputs
            self._self_cache = cross_cache.new_zeros(layers, 2, 0, heads, _GROWTH, head_width)
            self._cross_cache = cross_cache[:, :, :0]
            self._may_attend_memory = may_attend_memory[:0]
            self._starts = torch.empty(0, dtype=torch.long, device=self._device)
        column = self._columns - num_inputs
        capacity = self._self_cache.size(4)
        joining = cross_cache.new_zeros(layers, 2, num_joining * self._width, heads, capacity, head_width)
        joining[..., column : self._columns, :] = own_cache.repeat_interleave(self._width, dim=2)
        length = max(cross_cache.size(4), self._cross_cache.size(4))
        self._self_cache = torch.cat([self._self_cache, joining], dim=2)
        self._cross_cache = torch.cat([widen(self._cross_cache, 4, length), widen(cross_cache, 4, length)], dim=2)
        self._may_attend_memory = torch.cat(
            [widen(self._may_attend_memory, 3, length), widen(may_attend_memory, 3, length)]
        )
        self._starts = torch.cat([self._starts, self._starts.new_full((num_joining,), column)])

    def step(self, tokens: Tensor) -> Tensor:
        """Feed one token to every row; see :meth:`DecoderState.step`."""
        self._fit_columns()
        column = self._columns
        seen = torch.arange(column + 1, device=self._device) >= self._starts.unsqueeze(1)  # (N, column + 1)
        logits = self._model.step(
            tokens,
            (column - self._starts).unsqueeze(1),
            self._self_cache,
            self._cross_cache,
            column,
            seen.repeat_interleave(self._width, dim=0).unsqueeze(1).unsqueeze(2),
            self._may_attend_memory,
        )
        self._columns += 1
        return logits.float()

    def _fit_columns(self) -> None:
        """Make room for one more column; forget those before everybody's start."""
        unused = int(self._starts.min())
        if unused >= _GROWTH:
            self._self_cache = self._self_cache[..., unused:, :].contiguous()
            self._starts = self._starts - unused
            self._columns -= unused
        if self._columns >= self._self_cache.size(4):
            self._self_cache = widen(self._self_cache, 4, self._columns + _GROWTH)

    def reorder(self, parents: Tensor) -> None:
        """Let each row go on from its parent; only rows that change are copied."""
        own = torch.arange(self._width, device=parents.device)
        base = torch.arange(parents.size(0), device=parents.device).unsqueeze(1) * self._width
        moved = (parents != own).flatten().nonzero().flatten()
        if not len(moved):
            return
        origin = (base + parents).flatten()[moved]
        used = self._columns
        self._self_cache[:, :, moved, :, :used] = self._self_cache[:, :, origin, :, :used]

    def keep(self, indices: Sequence[int]) -> None:
        """Forget all sentences but these."""
        kept = torch.tensor(list(indices), device=self._device)
        rows = (kept.unsqueeze(1) * self._width + torch.arange(self._width, device=self._device)).flatten()
        self._may_attend_memory = self._may_attend_memory[kept]
        length = int(self._may_attend_memory.sum(-1).max())  # padding stands on the right
        self._may_attend_memory = self._may_attend_memory[..., :length]
        self._self_cache = self._self_cache.index_select(2, rows)
        self._cross_cache = self._cross_cache[..., :length, :].index_select(2, kept)
        self._starts = self._starts[kept]


def widen(x: Tensor, dim: int, size: int) -> Tensor:
    """Append zeros (False) along ``dim`` up to ``size``."""
    missing = size - x.size(dim)
    if missing <= 0:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return torch.cat([x, x.new_zeros(shape)], dim=dim)
