"""The state of a set of slots, in tensors that are allocated once and then written in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum

import torch
from torch import Tensor

from model.decoding.sentence import MAX_REQUIRED_IDS, Sentence
from model.decoding.slots.buckets import Bucket
from model.network.padding import pad

_STATE_DIMENSIONS = 4
"""Dimensions of the states of recurrent layers; keys and values have six."""


class Setting(IntEnum):
    """Columns of :attr:`SlotTensors.settings`: a sentence's options and rule, each as a number."""

    ANSWER_COLUMN = 0
    """The column of the first token of the answer: behind the start token and forced ones."""
    NUM_INPUTS = 1
    """Start token, forced ones and prefix."""
    MIN_NEW_TOKENS = 2
    MAX_NEW_TOKENS = 3
    NUM_HYPOTHESES = 4
    NGRAM_SIZE = 5
    # The properties of model.decoding.scoring.ScoringRule, in its order:
    LENGTH_PENALTY = 6
    LENGTH_OFFSET = 7
    LENGTH_SCALE = 8
    NARROWS = 9
    STOPS_WHEN_FULL = 10
    LEADER_MUST_END = 11
    FORCE_END = 12


@dataclass(frozen=True)
class SlotTensors:
    """N slots of K rows, T target and S source columns, by name; dimension 0 is the slot, except in the two caches.

    A sentence's rows are all at the same column. Row k of a slot writes its keys and values at column ``k * T + t``;
    a hypothesis that continues another row's copies that row's ``ancestors``, and no key or value moves.

    Args:
        bucket: N, K, S and T.
        target_cache: Keys and values of the target, (L, 2, N, H, K * T, D); or the states of recurrent layers,
            (L, N, K, C), float32, which the step gives to the hypotheses that continue them.
        cross_cache: Keys and values of the source, (L, 2, N, H, S, D).
        may_attend_memory: True where the source is no padding, (N, 1, 1, S).
        settings: By :class:`Setting`, then :attr:`required_ids`, (N, settings), float64, which represents all of them
            exactly.
        active: Whether the slot's sentence still decodes, (N,). Other slots are computed, and left unchanged.
        failed: Whether it ended because the model gave no usable token, (N,).
        position: Column of the newest input, (N,).
        history: Inputs by column, the newest and given ones included, (N, K, T).
        ancestors: The row that wrote a hypothesis' keys and values at a column, (N, K, T).
        suffixes: Tokens before a column that equal those before the next one, counted backwards, (N, K, T): where
            they are n - 1, the token at that column would complete a sequence of n that occurred already.
        sums: Log-probability of each running hypothesis, float32, -inf for a dead row, (N, K).
        leader_ended: Whether the best candidate of some step was one that ended, (N,).
        num_ended: Hypotheses that ended, (N,).
        pool_scores: Scores of the K best that ended, best first, float64, padded with -inf, (N, K).
        pool_lengths: Their chosen tokens, without the closing one, (N, K).
        pool_cut: Whether they were cut, (N, K).
        pool_history: Their inputs and last token by column, (N, K, T).
    """

    bucket: Bucket
    target_cache: Tensor
    cross_cache: Tensor
    may_attend_memory: Tensor
    settings: Tensor
    active: Tensor
    failed: Tensor
    position: Tensor
    history: Tensor
    ancestors: Tensor
    suffixes: Tensor
    sums: Tensor
    leader_ended: Tensor
    num_ended: Tensor
    pool_scores: Tensor
    pool_lengths: Tensor
    pool_cut: Tensor
    pool_history: Tensor

    @classmethod
    def allocate(cls, bucket: Bucket, like: Tensor, recurrent: bool = False) -> SlotTensors:
        """Empty slots.

        Args:
            bucket: Their number and size.
            like: Projected memory of any sentences, (L, 2, n, H, s, D): gives layers, heads, type and device.
            recurrent: Whether the decoder has recurrent layers.
        """
        layers, _, _, heads, _, head_width = like.shape
        slots, width, source, target = bucket.slots, bucket.width, bucket.source, bucket.target

        def zeros(*shape: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=like.device)

        if recurrent:
            target_cache = zeros(layers, slots, width, heads * head_width, dtype=torch.float32)
        else:
            target_cache = zeros(layers, 2, slots, heads, width * target, head_width, dtype=like.dtype)
        return cls(
            bucket=bucket,
            target_cache=target_cache,
            cross_cache=zeros(layers, 2, slots, heads, source, head_width, dtype=like.dtype),
            # True, so that attention in a slot that was never used is not NaN.
            may_attend_memory=~zeros(slots, 1, 1, source, dtype=torch.bool),
            settings=zeros(slots, len(Setting) + MAX_REQUIRED_IDS, dtype=torch.float64),
            active=zeros(slots, dtype=torch.bool),
            failed=zeros(slots, dtype=torch.bool),
            position=zeros(slots),
            history=zeros(slots, width, target),
            ancestors=zeros(slots, width, target),
            suffixes=zeros(slots, width, target),
            sums=zeros(slots, width, dtype=torch.float32),
            leader_ended=zeros(slots, dtype=torch.bool),
            num_ended=zeros(slots),
            pool_scores=zeros(slots, width, dtype=torch.float64),
            pool_lengths=zeros(slots, width),
            pool_cut=zeros(slots, width, dtype=torch.bool),
            pool_history=zeros(slots, width, target),
        )

    @property
    def num_bytes(self) -> int:
        """Memory of the caches; the other tensors are small."""
        return self.target_cache.nbytes + self.cross_cache.nbytes

    @property
    def has_states(self) -> bool:
        """Whether the decoder has recurrent layers."""
        return self.target_cache.dim() == _STATE_DIMENSIONS

    def setting(self, which: Setting) -> Tensor:
        """One setting of every slot, (N,)."""
        return self.settings[:, which]

    def flag(self, which: Setting) -> Tensor:
        """One setting of every slot that is true or false, (N,)."""
        return self.settings[:, which] > 0

    @property
    def required_ids(self) -> Tensor:
        """Tokens that each sentence requires, filled up with -1, (N, :data:`MAX_REQUIRED_IDS`)."""
        return self.settings[:, len(Setting) :].long()

    def put(
        self, slots: Sequence[int], sentences: Sequence[Sentence], inputs: Sequence[Sequence[int]], encoded: Encoded
    ) -> None:
        """Put new sentences into free slots.

        Args:
            slots: Indices of free slots, n of them.
            sentences: The sentences, n.
            inputs: Start token, forced ones and prefix of each.
            encoded: Their sources, no longer than the bucket's.
        """
        device = self.active.device
        indices = upload(torch.tensor(list(slots)), device)
        # Old contents are cleared even in masked columns: 0 times NaN is NaN.
        self.target_cache.index_fill_(1 if self.has_states else 2, indices, 0)
        self.cross_cache.index_fill_(2, indices, 0)
        length = encoded.cross_cache.size(4)
        self.cross_cache[..., :length, :].index_copy_(2, indices, encoded.cross_cache)
        self.may_attend_memory.index_fill_(0, indices, False)
        self.may_attend_memory[..., :length].index_copy_(0, indices, encoded.may_attend)
        settings = torch.tensor([_numbers(sentence) for sentence in sentences], dtype=torch.float64)
        self.settings.index_copy_(0, indices, upload(settings, device))
        for tensor in (self.failed, self.leader_ended):
            tensor.index_fill_(0, indices, False)
        for tensor in (self.position, self.history, self.suffixes, self.num_ended):
            tensor.index_fill_(0, indices, 0)
        # The columns after short inputs are written before they are read.
        rows = upload(pad(inputs, 0), device).unsqueeze(1).expand(-1, self.bucket.width, -1)
        self.history[..., : rows.size(2)].index_copy_(0, indices, rows)
        # One live row for each sentence, which all K continue.
        self.sums.index_fill_(0, indices, -math.inf)
        self.sums[:, 0].index_fill_(0, indices, 0.0)
        self.pool_scores.index_fill_(0, indices, -math.inf)
        self.active.index_fill_(0, indices, True)

    def free(self, slots: Sequence[int]) -> None:
        """Stop the sentences in these slots."""
        self.active.index_fill_(0, upload(torch.tensor(list(slots)), self.active.device), False)

    def take_over(self, other: SlotTensors, slots: Sequence[int]) -> None:
        """Move sentences here, into the first slots; the others are free.

        Args:
            other: The slots that they leave; of the same width, with no column in use beyond those of this bucket.
            slots: Their indices there, 1 to the number of slots here.
        """
        self.active.zero_()
        number, device = len(slots), self.active.device
        indices = upload(torch.tensor(list(slots)), device)
        width = self.bucket.width
        source = min(self.bucket.source, other.bucket.source)
        target = min(self.bucket.target, other.bucket.target)
        if self.has_states:
            self.target_cache[:, :number] = other.target_cache.index_select(1, indices)
        else:
            own, others = (
                tensors.target_cache.unflatten(4, (width, tensors.bucket.target))[..., :target, :]
                for tensors in (self, other)
            )
            self.target_cache[:, :, :number] = 0
            own[:, :, :number] = others.index_select(2, indices)
        self.cross_cache[:, :, :number] = 0
        self.cross_cache[:, :, :number, :, :source] = other.cross_cache[..., :source, :].index_select(2, indices)
        self.may_attend_memory[:number] = False
        self.may_attend_memory[:number, ..., :source] = other.may_attend_memory[..., :source].index_select(0, indices)
        for name in ("history", "ancestors", "suffixes", "pool_history"):
            getattr(self, name)[:number, :, :target] = getattr(other, name)[..., :target].index_select(0, indices)
        for name in (
            *("settings", "active", "failed", "position", "sums", "leader_ended", "num_ended"),
            *("pool_scores", "pool_lengths", "pool_cut"),
        ):
            getattr(self, name)[:number] = getattr(other, name).index_select(0, indices)


@dataclass(frozen=True)
class Encoded:
    """Encoded sources.

    Args:
        cross_cache: Keys and values, (L, 2, n, H, s, D).
        may_attend: True where a source is no padding, (n, 1, 1, s).
    """

    cross_cache: Tensor
    may_attend: Tensor


def upload(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to the device, from pinned memory so that the host does not wait for work queued there."""
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def _numbers(sentence: Sentence) -> list[float]:
    """A row of the settings, in the order of :class:`Setting`, and the tokens that the sentence requires."""
    required_ids = sentence.request.required_ids
    return [
        1 + sentence.num_forced,
        1 + sentence.num_given,
        sentence.options.min_new_tokens,
        sentence.max_new_tokens,
        sentence.options.num_hypotheses,
        sentence.options.no_repeat_ngram_size,
        *astuple(sentence.rule),
        *required_ids,
        *[-1] * (MAX_REQUIRED_IDS - len(required_ids)),
    ]
