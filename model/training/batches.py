"""Batches of like-long sentence pairs, the same ones for the same seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from model.errors import DataError
from model.padding import pad
from model.tokenizer import PAD_ID, START_ID, Tokenizer
from model.training.corpus import Pair


@dataclass(frozen=True)
class Batch:
    """Sentence pairs padded to rectangles.

    Args:
        source: Token ids, (B, S), padded on the right.
        target: Token ids, (B, T + 1): start token, the sentence, end token, padding.
    """

    source: Tensor
    target: Tensor

    @property
    def num_target_tokens(self) -> int:
        """Tokens to be predicted: without start token and padding."""
        return int((self.target[:, 1:] != PAD_ID).sum())


class BatchMaker:
    """Turns parallel text into batches, every direction of every pair once an epoch.

    The text is tokenised once. An epoch shuffles, sorts by length with some noise, cuts where the padded size
    reaches the budget, and shuffles the batches, all from (seed, epoch): a run that resumes in the middle of an
    epoch sees exactly the batches it would have seen.

    Args:
        pairs: Sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to learn.
        tokenizer: Makes the tokens.
        batch_tokens: Largest padded size of one batch, rows times the longer of source and target, before sources
            are lower-cased or cut at random, which can lengthen them.
        max_tokens: Longer sentences are left out and counted in ``num_too_long``.
        seed: Decides the order.
        subword_sampling: Share of sources cut at random, anew every epoch.
        lowercase_share: Share of sources lower-cased, anew every epoch.

    Raises:
        DataError: Every sentence is too long.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        languages: tuple[str, str],
        directions: Sequence[tuple[str, str]],
        tokenizer: Tokenizer,
        *,
        batch_tokens: int,
        max_tokens: int,
        seed: int,
        subword_sampling: float = 0.0,
        lowercase_share: float = 0.0,
    ) -> None:
        self._tokenizer = tokenizer
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._subword_sampling = subword_sampling
        self._lowercase_share = lowercase_share
        self._max_tokens = max_tokens
        self._examples: list[tuple[list[int], list[int], str, str]] = []
        self.num_too_long = 0
        for source_language, target_language in directions:
            swapped = source_language != languages[0]
            for pair in pairs:
                source, target = (pair[1], pair[0]) if swapped else pair
                source_ids = tokenizer.encode(source, target_language)
                target_ids = tokenizer.encode_target(target)
                if max(len(source_ids), len(target_ids)) > max_tokens:
                    self.num_too_long += 1
                else:
                    self._examples.append((source_ids, target_ids, source, target_language))
        if not self._examples:
            raise DataError(f"Every sentence is longer than max_tokens_per_sentence, which is {max_tokens}.")
        self._lengths = np.array([(len(s), len(t)) for s, t, _, _ in self._examples], dtype=np.int32)

    @property
    def num_examples(self) -> int:
        """Sentence pairs of an epoch, each direction counted."""
        return len(self._examples)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of one epoch.

        Args:
            number: Which epoch, from 0.
            skip: Batches at its start that were trained on already.
        """
        rng = np.random.default_rng([self._seed, number])
        noisy = self._lengths + rng.uniform(0.0, 1.0, self._lengths.shape)
        order = np.lexsort((noisy[:, 0], np.floor(noisy[:, 1])))
        groups: list[list[int]] = []
        group: list[int] = []
        longest = 0
        for index in order:
            length = int(self._lengths[index].max())
            if group and (len(group) + 1) * max(longest, length) > self._batch_tokens:
                groups.append(group)
                group, longest = [], 0
            group.append(int(index))
            longest = max(longest, length)
        groups.append(group)
        for which in rng.permutation(len(groups))[skip:]:
            # A generator of its own, so that skipped batches need not be made to keep the numbers in step.
            yield self._make(groups[which], np.random.default_rng([self._seed, number, int(which)]))

    def _make(self, indices: list[int], rng: np.random.Generator) -> Batch:
        sources: list[list[int]] = []
        for index in indices:
            ids, _, text, target_language = self._examples[index]
            other = ids
            if self._lowercase_share and rng.random() < self._lowercase_share:
                other = self._tokenizer.encode(text.lower(), target_language)
            elif self._subword_sampling and rng.random() < self._subword_sampling:
                seed = int(rng.integers(2**32))
                other = self._tokenizer.encode_sampled(text, target_language, alpha=0.2, seed=seed)
            sources.append(other if len(other) <= self._max_tokens else ids)
        targets = [[START_ID, *self._examples[index][1]] for index in indices]
        return Batch(pad(sources, PAD_ID), pad(targets, PAD_ID))
