"""The sentences that decode together: they join, step and leave, and none waits for a longer one.

All rows write the same cache column in a step, whatever their own position: caches are right-aligned, and a mask
hides what stands before a row's start. Who joins takes its first step alone and is put in at the newest column;
columns that nobody needs any more are dropped now and then. Keys and values of the sources are kept once per
sentence, however wide its beam.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import torch
from torch import Tensor

from model.decoding.beam import BeamSearch
from model.decoding.filters import TokenFilter
from model.decoding.greedy import GreedySearch
from model.decoding.policy import DecodingPolicy
from model.decoding.sentence import Choice, DecodingRequest, Finished, Past, Sentence
from model.masks import padding_mask
from model.padding import pad

_GROWTH = 32
"""Columns added at once when the caches are full, and dropped at once when as many are no longer needed."""


class StepModel(Protocol):
    """What decoding needs of a model; see :class:`model.transformer.Transformer` for shapes."""

    def encode(self, source: Tensor) -> Tensor:
        """Read the source."""
        ...

    def project_memory(self, memory: Tensor) -> Tensor:
        """Keys and values of the memory."""
        ...

    def step(
        self,
        token_ids: Tensor,
        positions: Tensor,
        self_cache: Tensor,
        cross_cache: Tensor,
        column: int,
        may_attend_target: Tensor,
        may_attend_memory: Tensor,
    ) -> Tensor:
        """Logits of the next token."""
        ...


class Vocabulary(Protocol):
    """The special tokens decoding needs to know."""

    @property
    def pad_id(self) -> int:
        """Fills short sources."""
        ...

    @property
    def start_id(self) -> int:
        """The first input of the decoder."""
        ...

    @property
    def end_id(self) -> int:
        """The closing token."""
        ...

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Tokens that are no part of any translation."""
        ...


class Cohort:
    """Sentences of one beam width that decode together. Not thread-safe: one thread owns it.

    Args:
        model: Computes logits.
        vocabulary: Special tokens.
        width: Rows of each sentence: the beam size, 1 for greedy search.
        longest_target: Tokens the model can produce at all, forced ones included.
        device: Where the model lives.
        policy: The model's way of decoding.
    """

    def __init__(
        self,
        model: StepModel,
        vocabulary: Vocabulary,
        width: int,
        longest_target: int,
        device: torch.device,
        policy: DecodingPolicy = DecodingPolicy(),  # noqa: B008  (frozen)
    ) -> None:
        self._model = model
        self._vocabulary = vocabulary
        self._longest_target = longest_target
        self._device = device
        self._policy = policy
        never = vocabulary.never_generated if policy.forbidden is None else policy.forbidden
        token_filter = TokenFilter(never, vocabulary.end_id, device)
        self._search: GreedySearch | BeamSearch = (
            GreedySearch(token_filter, vocabulary.end_id, policy)
            if width == 1
            else BeamSearch(token_filter, vocabulary.end_id, width, policy)
        )
        self._sentences: list[Sentence] = []
        self._columns = 0
        none = torch.empty(0, device=device)
        self._tokens = none  # (N, K): the next input of every row
        self._history = none  # (N, K, capacity): inputs by column
        self._self_cache = none  # (L, 2, N * K, H, capacity, D)
        self._cross_cache = none  # (L, 2, N, H, S, D)
        self._may_attend_memory = none  # (N, 1, 1, S)
        self._starts = none  # (N,)

    @property
    def width(self) -> int:
        """Rows of each sentence."""
        return self._search.width

    @property
    def num_sentences(self) -> int:
        """Sentences that decode now, N."""
        return len(self._sentences)

    @property
    def num_rows(self) -> int:
        """Rows of the model's batch, N * K."""
        return len(self._sentences) * self.width

    @property
    def keys(self) -> list[int]:
        """The sentences' keys, in the order they joined."""
        return [sentence.key for sentence in self._sentences]

    @property
    def longest_source(self) -> int:
        """Tokens of the longest source, markers included; all others are padded to it."""
        return max((sentence.num_source_tokens for sentence in self._sentences), default=0)

    @property
    def longest_target(self) -> int:
        """Cache columns in use."""
        return self._columns

    def join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        """Take sentences in: encode them together and choose their first token.

        Args:
            requests: New sentences, with keys no sentence of the cohort has, all of this cohort's width.

        Returns:
            Those that are finished already.
        """
        if not requests:
            return []
        with torch.inference_mode():
            return self._join(requests)

    def step(self) -> list[Finished]:
        """One token further for everybody.

        Returns:
            Sentences that finished, and have left.
        """
        if not self._sentences:
            return []
        with torch.inference_mode():
            return self._step()

    def leave(self, keys: Collection[int]) -> None:
        """Drop sentences nobody waits for any more; unknown keys are ignored."""
        wanted = [index for index, sentence in enumerate(self._sentences) if sentence.key not in keys]
        if len(wanted) < len(self._sentences):
            with torch.inference_mode():
                self._keep(wanted)

    def _join(self, requests: Sequence[DecodingRequest]) -> list[Finished]:
        joining = [
            Sentence(
                request.key,
                request.options,
                self._policy.rule(request.options),
                len(request.source_ids),
                request.options.longest_answer(
                    len(request.source_ids), self._longest_target - len(request.target_prefix)
                ),
                len(request.target_prefix),
            )
            for request in requests
        ]
        source = pad([request.source_ids for request in requests], self._vocabulary.pad_id).to(self._device)
        cross_cache = self._model.project_memory(self._model.encode(source))  # (L, 2, n, H, S, D)
        may_attend_memory = padding_mask(source, self._vocabulary.pad_id)

        inputs = torch.tensor(
            [[self._vocabulary.start_id, *request.target_prefix] for request in requests], device=self._device
        )
        layers, _, num_joining, heads, _, head_width = cross_cache.shape
        first_cache = cross_cache.new_zeros(layers, 2, num_joining, heads, inputs.size(1), head_width)
        logits = cross_cache
        for column in range(inputs.size(1)):
            token_ids = inputs[:, column : column + 1]
            logits = self._model.step(
                token_ids,
                torch.full_like(token_ids, column),
                first_cache,
                cross_cache,
                column,
                torch.ones(num_joining, 1, 1, column + 1, dtype=torch.bool, device=self._device),
                may_attend_memory,
            )
        choice = self._search.first(logits.float(), Past(joining, inputs.unsqueeze(1), inputs.size(1)))
        self._append(joining, inputs, first_cache, cross_cache, may_attend_memory, choice)
        offset = len(self._sentences) - len(joining)
        finished = {offset + index: outcome for index, outcome in choice.finished.items()}
        return self._retire(finished)

    def _append(
        self,
        joining: list[Sentence],
        inputs: Tensor,
        first_cache: Tensor,
        cross_cache: Tensor,
        may_attend_memory: Tensor,
        choice: Choice,
    ) -> None:
        """Put sentences that took their first step beside the others, their inputs at the newest columns."""
        layers, _, num_joining, heads, _, head_width = cross_cache.shape
        if not self._sentences:
            self._columns = inputs.size(1)
            self._tokens = choice.tokens.new_empty(0, self.width)
            self._history = choice.tokens.new_zeros(0, self.width, _GROWTH)
            self._self_cache = cross_cache.new_zeros(layers, 2, 0, heads, _GROWTH, head_width)
            self._cross_cache = cross_cache[:, :, :0]
            self._may_attend_memory = may_attend_memory[:0]
            self._starts = choice.tokens.new_empty(0)
        column = self._columns - inputs.size(1)
        for sentence in joining:
            sentence.start = column
        capacity = self._history.size(-1)
        history = choice.tokens.new_zeros(num_joining, self.width, capacity)
        history[:, :, column : self._columns] = inputs.unsqueeze(1)
        own_cache = cross_cache.new_zeros(layers, 2, num_joining * self.width, heads, capacity, head_width)
        own_cache[..., column : self._columns, :] = first_cache.repeat_interleave(self.width, dim=2)
        length = max(cross_cache.size(4), self._cross_cache.size(4))
        self._sentences = [*self._sentences, *joining]
        self._tokens = torch.cat([self._tokens, choice.tokens])
        self._history = torch.cat([self._history, history])
        self._self_cache = torch.cat([self._self_cache, own_cache], dim=2)
        self._cross_cache = torch.cat([_widen(self._cross_cache, 4, length), _widen(cross_cache, 4, length)], dim=2)
        self._may_attend_memory = torch.cat(
            [_widen(self._may_attend_memory, 3, length), _widen(may_attend_memory, 3, length)]
        )
        self._starts = torch.cat([self._starts, self._starts.new_full((num_joining,), column)])

    def _step(self) -> list[Finished]:
        self._fit_columns()
        column = self._columns
        seen = torch.arange(column + 1, device=self._device) >= self._starts.unsqueeze(1)  # (N, column + 1)
        logits = self._model.step(
            self._tokens,
            (column - self._starts).unsqueeze(1),
            self._self_cache,
            self._cross_cache,
            column,
            seen.repeat_interleave(self.width, dim=0).unsqueeze(1).unsqueeze(2),
            self._may_attend_memory,
        ).float()
        self._history[:, :, column] = self._tokens
        self._columns += 1
        choice = self._search.next(logits, Past(self._sentences, self._history, self._columns))
        if choice.parents is not None:
            self._reorder(choice.parents)
        self._tokens = choice.tokens
        return self._retire(choice.finished)

    def _fit_columns(self) -> None:
        """Make room for one more column; forget those before everybody's start."""
        unused = min(sentence.start for sentence in self._sentences)
        if unused >= _GROWTH:
            self._history = self._history[..., unused:].contiguous()
            self._self_cache = self._self_cache[..., unused:, :].contiguous()
            self._starts = self._starts - unused
            self._columns -= unused
            for sentence in self._sentences:
                sentence.start -= unused
        if self._columns >= self._history.size(-1):
            self._history = _widen(self._history, 2, self._columns + _GROWTH)
            self._self_cache = _widen(self._self_cache, 4, self._columns + _GROWTH)

    def _reorder(self, parents: Tensor) -> None:
        """Let each row go on from its parent; only rows that change are copied."""
        own = torch.arange(self.width, device=parents.device)
        base = torch.arange(parents.size(0), device=parents.device).unsqueeze(1) * self.width
        moved = (parents != own).flatten().nonzero().flatten()
        if not len(moved):
            return
        origin = (base + parents).flatten()[moved]
        used = self._columns
        self._self_cache[:, :, moved, :, :used] = self._self_cache[:, :, origin, :, :used]
        rows = self._history.flatten(0, 1)
        rows[moved] = rows[origin]

    def _retire(self, finished: dict[int, Finished]) -> list[Finished]:
        if finished:
            self._keep([index for index in range(len(self._sentences)) if index not in finished])
        return list(finished.values())

    def _keep(self, indices: list[int]) -> None:
        """Let all sentences but these leave."""
        self._search.keep(indices)
        self._sentences = [self._sentences[index] for index in indices]
        if not indices:
            return  # whoever joins next starts afresh
        kept = torch.tensor(indices, device=self._device)
        rows = (kept.unsqueeze(1) * self.width + torch.arange(self.width, device=self._device)).flatten()
        length = self.longest_source
        self._tokens = self._tokens[kept]
        self._history = self._history[kept]
        self._self_cache = self._self_cache.index_select(2, rows)
        self._cross_cache = self._cross_cache[..., :length, :].index_select(2, kept)
        self._may_attend_memory = self._may_attend_memory[kept][..., :length]
        self._starts = self._starts[kept]


def _widen(x: Tensor, dim: int, size: int) -> Tensor:
    """Append zeros (False) along ``dim`` up to ``size``."""
    missing = size - x.size(dim)
    if missing <= 0:
        return x
    shape = list(x.shape)
    shape[dim] = missing
    return torch.cat([x, x.new_zeros(shape)], dim=dim)
