"""Batches of sentence pairs of similar length, the same ones for the same seed, epoch and piece."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from model.errors import ConfigError
from model.text.tokenizer import PAD_ID, Tokenizer, VersoTokenizer
from model.training.augmentation import Augmentation, join_sentences
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus
from model.training.examples import Context, Examples, Ids

PIECE = 50_000
"""Approximate number of examples that are planned together: enough for batches with little padding, in seconds."""

_SAMPLING_ALPHA = 0.2
"""How much random segmentations favour the most probable one (alpha of Kudo 2018)."""


@dataclass(frozen=True)
class Batch:
    """Sentence pairs padded to rectangles.

    Args:
        source: Token ids, (B, S), padded on the right.
        target: Token ids, (B, T + 1): start token, the sentence, end token, padding.
        pad_id: The padding token.
    """

    source: Tensor
    target: Tensor
    pad_id: int = PAD_ID

    @property
    def num_target_tokens(self) -> int:
        """Tokens to be predicted: without start token and padding."""
        return int((self.target[:, 1:] != self.pad_id).sum())

    @property
    def predicted_positions(self) -> Tensor | None:
        """Indices of the B * T positions with a token to be predicted; None if all positions have one."""
        counts = (self.target[:, 1:] != self.pad_id).flatten()
        return None if counts.all() else counts.nonzero().squeeze(1)

    def pinned(self) -> Batch:
        """The same in memory from which a GPU fetches by itself."""
        return Batch(self.source.pin_memory(), self.target.pin_memory(), self.pad_id)


@dataclass(frozen=True)
class _Plan:
    """The examples of one piece of an epoch, after their random changes.

    Args:
        indices: Their indices; an example may occur several times.
        texts: The augmented texts, by position in the piece.
        pairs: Source and target ids, by position in the piece.
    """

    indices: list[int]
    texts: Mapping[int, tuple[str, str]]
    pairs: list[tuple[Ids, Ids]]


@dataclass(frozen=True)
class _Choices:
    """What is drawn for each example of a piece, (N,) or (N, 2) for source and target.

    Args:
        sampled: Whether a side is segmented at random, (N, 2).
        sampling_seeds: The seeds of these segmentations, (N, 2).
        controlled: Whether the example gets placeholders or terms, (N,).
        addressed: Whether the source gets the symbol of its form of address, (N,).
    """

    sampled: npt.NDArray[np.bool_]
    sampling_seeds: npt.NDArray[np.int64]
    controlled: npt.NDArray[np.bool_]
    addressed: npt.NDArray[np.bool_]

    def changes(self, position: int) -> bool:
        """Whether anything was drawn for an example."""
        return bool(self.sampled[position].any() or self.controlled[position] or self.addressed[position])


class BatchMaker:
    """Makes batches of parallel text: each pair in each direction once an epoch, or as often as its weight says.

    The text is tokenised once. An epoch draws its examples by their weights, shuffles them and splits them into pieces.
    A piece changes some of its examples at random: it augments them, adds placeholders, terms or forms of address, and
    segments them at random. Then it sorts them by length (examples of equal length in random order), cuts where the
    padded size reaches the budget, and shuffles the batches. Random segmentations sometimes double the tokens of an
    example; made before the sorting, they cost no padding.

    All random numbers follow from (seed, epoch, piece), so that a run that resumes within an epoch gets the batches of
    an uninterrupted run. Batches that are not used are not made.

    Args:
        corpora: Sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to learn.
        tokenizer: Makes the tokens.
        batch_tokens: Largest padded size of one batch, rows times the longer of source and target.
        max_tokens: Longer sentences are left out and counted in ``num_too_long``.
        seed: Decides the order.
        subword_sampling: Share of sources segmented at random, drawn again in every epoch.
        target_subword_sampling: Share of targets segmented at random, drawn again in every epoch.
        augmentation: Shares of the pairs that are augmented, drawn again in every epoch; none by default.
        controlled: Makes pairs with placeholders, terms and forms of address; none by default.
        kept_in: Folder that caches the token ids for resumed runs; None for no cache.

    Raises:
        ConfigError: A share is segmented at random, but the tokenizer segments in one way only.
        DataError: Every sentence is too long.
    """

    def __init__(
        self,
        corpora: Sequence[LoadedCorpus],
        languages: tuple[str, str],
        directions: Sequence[tuple[str, str]],
        tokenizer: Tokenizer,
        *,
        batch_tokens: int,
        max_tokens: int,
        seed: int,
        subword_sampling: float = 0.0,
        target_subword_sampling: float = 0.0,
        augmentation: Augmentation = Augmentation(),  # noqa: B008  (frozen)
        controlled: ControlledPairs | None = None,
        kept_in: Path | None = None,
    ) -> None:
        if (subword_sampling or target_subword_sampling) and (
            not isinstance(tokenizer, VersoTokenizer) or tokenizer.is_char
        ):
            raise ConfigError(
                "subword_sampling and target_subword_sampling need a vocabulary of subwords that 'verso "
                "train' learned; leave them out to train on an imported model or on characters."
            )
        self._tokenizer = tokenizer
        self._batch_tokens = batch_tokens
        self._seed = seed
        self._subword_sampling = subword_sampling
        self._target_subword_sampling = target_subword_sampling
        self._augmentation = augmentation
        self._controlled = controlled
        self._max_tokens = max_tokens
        self._examples = Examples(
            corpora,
            languages,
            directions,
            tokenizer,
            max_tokens=max_tokens,
            controlled=controlled,
            kept_in=kept_in,
        )
        self._drawn: tuple[int, npt.NDArray[np.int64]] | None = None

    @property
    def num_examples(self) -> int:
        """Sentence pairs, each direction counted; weights change their number in an epoch."""
        return len(self._examples)

    @property
    def num_too_long(self) -> int:
        """Sentence pairs left out for their length, each direction counted."""
        return self._examples.num_too_long

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of one epoch.

        Args:
            number: Index of the epoch.
            skip: Batches at its start that are left out.
        """
        makers = (make for piece in range(self.num_pieces(number)) for make in self.piece(number, piece))
        return (make() for make in islice(makers, skip, None))

    def num_pieces(self, epoch: int) -> int:
        """The number of pieces of an epoch."""
        return max(1, math.ceil(len(self._draw(epoch)) / PIECE))

    def piece(self, epoch: int, number: int) -> list[Callable[[], Batch]]:
        """A function for each batch of a piece that makes it, so that only the batches in use are made.

        Args:
            epoch: Index of the epoch.
            number: Index of the piece in it.
        """
        # numpy takes seeds that differ only by zeros at their end for equal.
        seeds = [self._seed, epoch, number + 1]
        rng = np.random.default_rng(seeds)
        plan = self._plan(np.array_split(self._draw(epoch), self.num_pieces(epoch))[number].tolist(), rng)
        groups = self._groups(plan, rng)
        is_joined = rng.random(len(groups)) < self._augmentation.joined
        return [
            # A generator for each, so that a batch does not depend on the batches that were made before it.
            partial(self._make, plan, groups[group], np.random.default_rng([*seeds, group + 1]))
            if is_joined[group]
            else partial(self._make, plan, groups[group], None)
            for group in rng.permutation(len(groups)).tolist()
        ]

    def _groups(self, plan: _Plan, rng: np.random.Generator) -> list[list[int]]:
        """The positions of the examples of each batch: of similar length, within the budget of padded tokens."""
        lengths = np.array([[len(source), len(target)] for source, target in plan.pairs], dtype=np.int64).reshape(-1, 2)
        order = np.lexsort((lengths[:, 0] + rng.uniform(0.0, 1.0, len(lengths)), lengths[:, 1]))
        groups: list[list[int]] = []
        group: list[int] = []
        longest = 0
        for position in order.tolist():
            length = int(lengths[position].max())
            if group and (len(group) + 1) * max(longest, length) > self._batch_tokens:
                groups.append(group)
                group, longest = [], 0
            group.append(position)
            longest = max(longest, length)
        return [*groups, group] if group else groups

    def _draw(self, epoch: int) -> npt.NDArray[np.int64]:
        """The indices of the examples of an epoch in random order, drawn by their weights."""
        if self._drawn is None or self._drawn[0] != epoch:
            rng = np.random.default_rng([self._seed, epoch])
            weights = self._examples.weights
            copies = np.floor(weights + rng.uniform(0.0, 1.0, len(weights))).astype(np.int64)
            self._drawn = epoch, rng.permutation(np.repeat(np.arange(len(weights)), copies))
        return self._drawn[1]

    def _make(self, plan: _Plan, positions: Sequence[int], joining: np.random.Generator | None) -> Batch:
        """A batch of examples of a piece; they are joined if there is a generator."""
        pairs = [plan.pairs[position] for position in positions]
        if joining is not None:
            pairs = self._join(plan, positions, joining) or pairs
        pad_id, start = self._tokenizer.pad_id, np.array([self._tokenizer.start_id], dtype=np.int32)
        return Batch(
            _rectangle([source for source, _ in pairs], pad_id),
            _rectangle([np.concatenate([start, target]) for _, target in pairs], pad_id),
            pad_id,
        )

    def _join(self, plan: _Plan, positions: Sequence[int], rng: np.random.Generator) -> list[tuple[Ids, Ids]]:
        """The examples of a batch, joined in groups of two to six; none if there is no room.

        They are augmented as in their piece, but not segmented at random.
        """
        examples = self._examples
        longest = int(examples.lengths[[plan.indices[position] for position in positions]].max())
        number = min(int(rng.integers(2, 7)), self._max_tokens // longest)
        if number < 2:
            return []
        by_context: dict[Context, list[int]] = {}
        for position in positions:
            by_context.setdefault(examples.text(plan.indices[position])[2], []).append(position)
        pairs: list[tuple[Ids, Ids]] = []
        for context, members in by_context.items():
            order = rng.permutation(members).tolist()
            for begin in range(0, len(order), number):
                group = order[begin : begin + number]
                texts = [plan.texts.get(position, examples.text(plan.indices[position])[:2]) for position in group]
                pair = examples.encode(*join_sentences(texts, rng), context)
                if max(map(len, pair)) <= self._max_tokens:
                    pairs.append(pair)
                else:  # punctuation can cost a token more
                    pairs += [examples.ids(plan.indices[position]) for position in group]
        longest = max(len(side) for pair in pairs for side in pair)
        return pairs if len(pairs) * longest <= self._batch_tokens else []

    def _choose(self, indices: list[int], rng: np.random.Generator) -> _Choices:
        """Draw which examples of a piece are changed, and how."""
        controlled, number = self._controlled, len(indices)
        sampled = rng.random((number, 2)) < (self._subword_sampling, self._target_subword_sampling)
        sampling_seeds = rng.integers(2**32, size=(number, 2))
        draws = rng.random((number, 2))
        return _Choices(
            sampled,
            sampling_seeds,
            controlled=draws[:, 0] < (controlled.share if controlled else 0),
            addressed=(draws[:, 1] < (controlled.address_share if controlled else 0))
            & self._examples.has_address[indices],
        )

    def _plan(self, indices: list[int], rng: np.random.Generator) -> _Plan:
        """Change the examples of a piece at random."""
        choices = self._choose(indices, rng)
        texts: dict[int, tuple[str, str]] = {}
        pairs: list[tuple[Ids, Ids]] = []
        for position, index in enumerate(indices):
            pair = self._examples.ids(index)
            if self._augmentation.changes_sentences:
                text = self._examples.text(index)[:2]
                augmented = self._augmentation.apply(*text, rng)
                if augmented != text:
                    texts[position] = augmented
            if position in texts or choices.changes(position):
                changed = self._changed(index, position, texts.get(position), choices, rng)
                # Both sides or none: one side alone might be no translation of the other.
                if max(map(len, changed)) <= self._max_tokens:
                    pair = changed
            pairs.append(pair)
        return _Plan(indices, texts, pairs)

    def _changed(
        self,
        index: int,
        position: int,
        augmented: tuple[str, str] | None,
        choices: _Choices,
        rng: np.random.Generator,
    ) -> tuple[Ids, Ids]:
        """An example with the changes that were drawn for it.

        Args:
            index: Index of the example.
            position: Its position in the piece.
            augmented: Its augmented text, if it was augmented.
            choices: What was drawn for the piece.
            rng: Chooses placeholders and terms.
        """
        source, target, context = self._examples.text(index)
        if choices.addressed[position]:
            context = replace(context, address=self._examples.address(index))
        if choices.controlled[position]:
            pair = self._controlled_pair(source, target, context, rng)
            if pair is not None:  # in place of an augmentation
                return pair
        source, target = augmented or (source, target)
        if augmented or choices.addressed[position]:
            pair = self._examples.encode(source, target, context)
        else:
            pair = self._examples.ids(index)
        return self._sampled_pair(
            pair, source, target, context, choices.sampled[position], choices.sampling_seeds[position]
        )

    def _controlled_pair(
        self, source: str, target: str, context: Context, rng: np.random.Generator
    ) -> tuple[Ids, Ids] | None:
        """An example with placeholders or terms; None if its words are not aligned well enough or it is too long."""
        assert self._controlled is not None
        # Words of a back-translated source are not aligned well enough.
        if context.tag is not None or (parts := self._controlled.make(source, target, context.source, rng)) is None:
            return None
        pair = self._examples.encode_parts(*parts, context)
        return pair if max(map(len, pair)) <= self._max_tokens else None

    def _sampled_pair(
        self,
        pair: tuple[Ids, Ids],
        source: str,
        target: str,
        context: Context,
        sampled: npt.NDArray[np.bool_],
        seeds: npt.NDArray[np.int64],
    ) -> tuple[Ids, Ids]:
        """An example whose sides are segmented at random if that was drawn for them."""
        source_ids, target_ids = pair
        if isinstance(self._tokenizer, VersoTokenizer):
            if sampled[0]:
                ids = self._tokenizer.encode_sampled(source, context.target, _SAMPLING_ALPHA, int(seeds[0]))
                source_ids = np.array(self._examples.tag(ids, context), dtype=np.int32)
            if sampled[1]:
                ids = self._tokenizer.encode_target_sampled(target, _SAMPLING_ALPHA, int(seeds[1]))
                target_ids = np.array(ids, dtype=np.int32)
        return source_ids, target_ids


def _rectangle(rows: Sequence[Ids], pad_id: int) -> Tensor:
    """Rows padded on the right: (B, longest), int64."""
    out = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for row, ids in enumerate(rows):
        out[row, : len(ids)] = ids
    return torch.from_numpy(out)
