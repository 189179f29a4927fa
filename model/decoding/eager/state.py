"""The inputs of sentences in a model, by column, and its caches.

All rows write the same column in a step: columns are right-aligned, and a mask hides the columns before a row's start.
Columns that no sentence uses any more are dropped now and then. Keys and values of the sources are stored once per
sentence, whatever its beam size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from model.decoding.eager.target_cache import States, TargetCache, empty_cache, widen
from model.network.masks import padding_mask
from model.network.padding import pad
from model.network.transformer import Transformer

_GROWTH = 32
"""Columns are added in this number if all are in use, and dropped in this number if they are no longer needed."""


class TorchState:
    """Sentences inside a model, each with ``width`` rows, in the order they joined; for any device and any model.

    Only this class handles columns: their number, the start of each sentence, and when to drop some.

    Args:
        model: Computes logits.
        width: Rows of each sentence, K.
        pad_id: The padding token of sources.
        device: The device of the model.

    Attributes:
        columns: Columns in use.
        starts: The column of each sentence's start token, N.
        history: Inputs by column, the newest of all rows in one, (N, K, capacity).
    """

    def __init__(self, model: Transformer, width: int, pad_id: int, device: torch.device) -> None:
        self._model = model
        self._width = width
        self._pad_id = pad_id
        self._device = device
        self.clear()

    def clear(self) -> None:
        """Forget all sentences."""
        none = torch.empty(0, device=self._device)
        self.columns = 0
        self._set_starts([])
        self.history = none.long()
        self._target_cache: TargetCache = States(none)
        self._cross_cache = none  # (L, 2, N, H, S, D)
        self._may_attend_memory = none  # (N, 1, 1, S)

    def _set_starts(self, starts: list[int]) -> None:
        self.starts = starts
        self._starts_on_device = torch.tensor(starts, dtype=torch.long, device=self._device)

    def join(self, sources: Sequence[Sequence[int]], inputs: Tensor) -> Tensor:
        """Encode sentences and feed the first inputs of each.

        Args:
            sources: Their tokens.
            inputs: Start token, forced ones and prefix, (n, P).

        Returns:
            Logits of the next token, (n, 1, V), float32.
        """
        source = pad(sources, self._pad_id).to(self._device)
        cross_cache = self._model.project_memory(self._model.encode(source))  # (L, 2, n, H, S, D)
        may_attend_memory = padding_mask(source, self._pad_id)
        num_joining = inputs.size(0)
        target_cache = empty_cache(self._model, cross_cache, num_joining, inputs.size(1))
        logits = cross_cache
        for column in range(inputs.size(1)):
            token_ids = inputs[:, column : column + 1]
            logits = self._model.step(
                token_ids,
                torch.full_like(token_ids, column),
                target_cache.tensor,
                cross_cache,
                column,
                torch.ones(num_joining, 1, 1, column + 1, dtype=torch.bool, device=self._device),
                may_attend_memory,
            )
        self._append(inputs, target_cache, cross_cache, may_attend_memory)
        return logits.float()

    def _append(
        self, inputs: Tensor, target_cache: TargetCache, cross_cache: Tensor, may_attend_memory: Tensor
    ) -> None:
        """Append sentences that took their first steps, with their inputs in the newest columns."""
        num_joining, num_inputs = inputs.shape
        if not self.starts:
            self.columns = num_inputs
            capacity = max(_GROWTH, num_inputs)
            self.history = inputs.new_zeros(0, self._width, capacity)
            self._target_cache = empty_cache(self._model, cross_cache, 0, capacity)
            self._cross_cache = cross_cache[:, :, :0]
            self._may_attend_memory = may_attend_memory[:0]
        self._add_columns_before(num_inputs - self.columns)
        start, capacity = self.columns - num_inputs, self.history.size(2)
        history = inputs.new_zeros(num_joining, self._width, capacity)
        history[:, :, start : self.columns] = inputs.unsqueeze(1)
        self.history = torch.cat([self.history, history])
        self._target_cache.append(target_cache.tensor, num_inputs, self.columns, self._width)
        length = max(cross_cache.size(4), self._cross_cache.size(4))
        self._cross_cache = torch.cat([widen(self._cross_cache, 4, length), widen(cross_cache, 4, length)], dim=2)
        self._may_attend_memory = torch.cat(
            [widen(self._may_attend_memory, 3, length), widen(may_attend_memory, 3, length)]
        )
        self._set_starts([*self.starts, *[start] * num_joining])

    def _add_columns_before(self, number: int) -> None:
        """Add columns for sentences that join with more inputs than there are columns."""
        if number > 0:
            self.history = torch.nn.functional.pad(self.history, (number, 0))
            self._target_cache.add_before(number)
            self._set_starts([start + number for start in self.starts])
            self.columns += number

    def step(self, tokens: Tensor) -> Tensor:
        """Feed one token to every row.

        Args:
            tokens: (N, K).

        Returns:
            Logits of the next token, (N, K, V), float32.
        """
        self._fit_columns()
        column = self.columns
        self.history[:, :, column] = tokens
        starts = self._starts_on_device.unsqueeze(1)
        may_attend = torch.arange(column + 1, device=self._device) >= starts  # (N, column + 1)
        logits = self._model.step(
            tokens,
            column - starts,
            self._target_cache.tensor,
            self._cross_cache,
            column,
            may_attend.repeat_interleave(self._width, dim=0).unsqueeze(1).unsqueeze(2),
            self._may_attend_memory,
        )
        self.columns += 1
        return logits.float()

    def _fit_columns(self) -> None:
        """Make room for one more column; drop those before every sentence's start."""
        unused = min(self.starts)
        if unused >= _GROWTH:
            self.history = self.history[..., unused:].contiguous()
            self._target_cache.drop_before(unused)
            self._set_starts([start - unused for start in self.starts])
            self.columns -= unused
        if self.columns >= self.history.size(2):
            self.history = widen(self.history, 2, self.columns + _GROWTH)
            self._target_cache.widen(self.columns + _GROWTH)

    def reorder(self, parents: Tensor) -> None:
        """Let each row continue another of its sentence, (N, K); only rows that change are copied."""
        own = torch.arange(self._width, device=parents.device)
        base = torch.arange(parents.size(0), device=parents.device).unsqueeze(1) * self._width
        moved = (parents != own).flatten().nonzero().flatten()
        if not len(moved):
            return
        origin = (base + parents).flatten()[moved]
        used = self.columns
        history = self.history.view(-1, self.history.size(2))
        history[moved, :used] = history[origin, :used]
        self._target_cache.copy_rows(moved, origin, used)

    def keep(self, indices: Sequence[int]) -> None:
        """Forget all sentences but these."""
        if not indices:
            self.clear()
            return
        sentences = torch.tensor(list(indices), device=self._device)
        rows = (sentences.unsqueeze(1) * self._width + torch.arange(self._width, device=self._device)).flatten()
        self._set_starts([self.starts[index] for index in indices])
        self.history = self.history[sentences]
        self._may_attend_memory = self._may_attend_memory[sentences]
        length = int(self._may_attend_memory.sum(-1).max())  # padding is on the right
        self._may_attend_memory = self._may_attend_memory[..., :length]
        self._target_cache.keep(rows)
        self._cross_cache = self._cross_cache[..., :length, :].index_select(2, sentences)
