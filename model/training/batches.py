"""Batches of like-long sentence pairs, the same ones for the same seed and epoch."""

from __future__ import annotations

import contextlib
import queue
import threading
from array import array
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from model.errors import ConfigError, DataError
from model.text.symbols import Part
from model.text.tokenizer import PAD_ID, TextTokenizer, Tokenizer
from model.training.augmentation import Augmentation, join_sentences
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus

Ids = npt.NDArray[np.int32]
"""Token ids of one sentence."""

Item = TypeVar("Item")

_SHARPNESS = 0.2
"""How random cuts favour the likeliest one (alpha of Kudo 2018)."""


@dataclass(frozen=True)
class Batch:
    """Sentence pairs padded to rectangles.

    Args:
        source: Token ids, (B, S), padded on the right.
        target: Token ids, (B, T + 1): start token, the sentence, end token, padding.
        pad_id: What padding is.
    """

    source: Tensor
    target: Tensor
    pad_id: int = PAD_ID

    @property
    def num_target_tokens(self) -> int:
        """Tokens to be predicted: without start token and padding."""
        return int((self.target[:, 1:] != self.pad_id).sum())

    @property
    def places(self) -> Tensor | None:
        """Which of the B * T positions hold a token to be predicted, in order; None if all do."""
        counts = (self.target[:, 1:] != self.pad_id).flatten()
        return None if counts.all() else counts.nonzero().squeeze(1)

    def pinned(self) -> Batch:
        """The same in memory from which a GPU fetches by itself."""
        return Batch(self.source.pin_memory(), self.target.pin_memory(), self.pad_id)


@dataclass(frozen=True)
class _Context:
    """What a sentence pair is read with: source and target language, and the symbols its source begins with."""

    source: str
    target: str
    tag: str | None
    address: str | None = None


_Text = tuple[str, str, _Context]


class BatchMaker:
    """Turns parallel text into batches, every direction of every pair once an epoch, or as often as its weight says.

    The text is tokenised once. An epoch decides which sentences are augmented or cut at random, sorts by length
    (with sentences of a length in random order), cuts where the padded size reaches the budget, and shuffles the
    batches, all from (seed, epoch): a run that resumes in the middle of an epoch sees exactly the batches it would
    have seen. Random cuts double a sentence's tokens now and then; made before the sorting, they cost no padding.
    ``num_batches`` is how many the epoch begun last has.

    Args:
        corpora: Sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to learn.
        tokenizer: Makes the tokens.
        batch_tokens: Largest padded size of one batch, rows times the longer of source and target.
        max_tokens: Longer sentences are left out and counted in ``num_too_long``.
        seed: Decides the order.
        subword_sampling: Share of sources cut at random, anew every epoch.
        target_subword_sampling: Share of targets cut at random, anew every epoch.
        augmentation: Pairs that are augmented before that, anew every epoch; nothing by default.
        controlled: Makes pairs with placeholders, terms and forms of address, anew every epoch; none by default.

    Raises:
        ConfigError: Sentences are to be cut at random, and the tokenizer cuts in one way only.
        DataError: Every sentence is too long.
    """

    def __init__(
        self,
        corpora: Sequence[LoadedCorpus],
        languages: tuple[str, str],
        directions: Sequence[tuple[str, str]],
        tokenizer: TextTokenizer,
        *,
        batch_tokens: int,
        max_tokens: int,
        seed: int,
        subword_sampling: float = 0.0,
        target_subword_sampling: float = 0.0,
        augmentation: Augmentation = Augmentation(),  # noqa: B008  (frozen)
        controlled: ControlledPairs | None = None,
    ) -> None:
        if (subword_sampling or target_subword_sampling) and (
            not isinstance(tokenizer, Tokenizer) or tokenizer.is_char
        ):
            raise ConfigError(
                "subword_sampling and target_subword_sampling need a vocabulary of subwords that 'python -m model "
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
        self._texts: list[_Text] = []
        weights = array("d")
        self._sources, self._targets = _Rows(), _Rows()
        self.num_too_long = 0
        self.num_batches = 0
        for source_language, target_language in directions:
            swapped = source_language != languages[0]
            for corpus in corpora:
                if corpus.direction not in (None, (source_language, target_language)):
                    continue
                context = _Context(source_language, target_language, corpus.tag)
                for pair in corpus.pairs:
                    source, target = (pair[1], pair[0]) if swapped else pair
                    source_ids, target_ids = self._encoded(source, target, context)
                    if max(len(source_ids), len(target_ids)) > max_tokens:
                        self.num_too_long += 1
                    else:
                        self._texts.append((source, target, context))
                        self._sources.append(source_ids)
                        self._targets.append(target_ids)
                        weights.append(corpus.weight)
        if not self._texts:
            raise DataError(f"Every sentence is longer than max_tokens_per_sentence, which is {max_tokens}.")
        self._lengths = np.stack([self._sources.lengths(), self._targets.lengths()], axis=1)
        self._weights = np.array(weights)
        self._addresses = self._known_addresses()

    @property
    def num_examples(self) -> int:
        """Sentence pairs of an epoch, each direction counted."""
        return len(self._texts)

    def epoch(self, number: int, skip: int = 0) -> Iterator[Batch]:
        """The batches of one epoch.

        Args:
            number: Which epoch, from 0.
            skip: Batches at its start that were trained on already.
        """
        return (make() for make in self.planned_epoch(number, skip))

    def planned_epoch(self, number: int, skip: int = 0) -> Iterator[Callable[[], Batch]]:
        """What makes each batch of one epoch, so that only those that are needed are made.

        Args:
            number: Which epoch, from 0.
            skip: Batches at its start that were trained on already.
        """
        rng = np.random.default_rng([self._seed, number])
        augmented, sources, targets = self._variants(rng)
        lengths = self._lengths.copy()
        for side, changed in enumerate((sources, targets)):
            for index, ids in changed.items():
                lengths[index, side] = len(ids)
        order = np.lexsort((lengths[:, 0] + rng.uniform(0.0, 1.0, len(lengths)), lengths[:, 1]))
        if (self._weights != 1.0).any():
            copies = np.floor(self._weights + rng.uniform(0.0, 1.0, len(lengths))).astype(np.int64)
            order = np.repeat(order, copies[order])
        groups: list[list[int]] = []
        group: list[int] = []
        longest = 0
        for index in order.tolist():
            length = int(lengths[index].max())
            if group and (len(group) + 1) * max(longest, length) > self._batch_tokens:
                groups.append(group)
                group, longest = [], 0
            group.append(index)
            longest = max(longest, length)
        groups.append(group)
        self.num_batches = len(groups)
        joined = rng.random(len(groups)) < self._augmentation.joined
        for which in rng.permutation(len(groups))[skip:]:
            indices = groups[which]
            # A generator of its own, so that batches that are not made need not be made to keep the numbers in step.
            own = np.random.default_rng([self._seed, number, int(which)]) if joined[which] else None
            yield partial(self._planned, indices, augmented, sources, targets, own)

    def _planned(
        self,
        indices: Sequence[int],
        augmented: Mapping[int, tuple[str, str]],
        sources: Mapping[int, Ids],
        targets: Mapping[int, Ids],
        joining: np.random.Generator | None,
    ) -> Batch:
        """A batch of pairs as they are in this epoch; they are joined if there is a generator for that."""
        pairs = [
            (sources.get(index, self._sources[index]), targets.get(index, self._targets[index])) for index in indices
        ]
        if joining is not None:
            pairs = self._joined(indices, augmented, joining) or pairs
        return self._batch(pairs)

    def _batch(self, pairs: Sequence[tuple[Ids, Ids]]) -> Batch:
        pad_id, start = self._tokenizer.pad_id, np.array([self._tokenizer.start_id], dtype=np.int32)
        return Batch(
            _rectangle([source for source, _ in pairs], pad_id),
            _rectangle([np.concatenate([start, target]) for _, target in pairs], pad_id),
            pad_id,
        )

    def _joined(
        self, group: Sequence[int], augmented: Mapping[int, tuple[str, str]], rng: np.random.Generator
    ) -> list[tuple[Ids, Ids]]:
        """The pairs of a batch strung together, two to six, to fewer and longer ones; none where there is no room.

        They are augmented as in this epoch, and not cut at random.
        """
        number = min(int(rng.integers(2, 7)), self._max_tokens // int(self._lengths[list(group)].max()))
        if number < 2:
            return []
        by_context: dict[_Context, list[int]] = {}
        for index in group:
            by_context.setdefault(self._texts[index][2], []).append(index)
        pairs: list[tuple[Ids, Ids]] = []
        for context, indices in by_context.items():
            order = rng.permutation(indices).tolist()
            for begin in range(0, len(order), number):
                some = order[begin : begin + number]
                texts = [augmented.get(index, self._texts[index][:2]) for index in some]
                pair = self._encoded(*join_sentences(texts, rng), context)
                if max(map(len, pair)) <= self._max_tokens:
                    pairs.append(pair)
                else:  # punctuation can cost a token more
                    pairs += [(self._sources[index], self._targets[index]) for index in some]
        longest = max(len(side) for pair in pairs for side in pair)
        return pairs if len(pairs) * longest <= self._batch_tokens else []

    def _encoded(self, source: str, target: str, context: _Context) -> tuple[Ids, Ids]:
        source_ids = self._tagged(self._tokenizer.encode(source, context.target, context.source), context)
        target_ids = [*self._tokenizer.forced_ids(context.target), *self._tokenizer.encode_target(target)]
        return np.array(source_ids, dtype=np.int32), np.array(target_ids, dtype=np.int32)

    def _tagged(self, source_ids: list[int], context: _Context) -> list[int]:
        symbols = [symbol for symbol in (context.address, context.tag) if symbol is not None]
        if not symbols:
            return source_ids
        if not isinstance(self._tokenizer, Tokenizer):
            raise ConfigError("tag needs a vocabulary that 'python -m model train' learned with reserve_symbols.")
        for symbol in symbols:
            source_ids = self._tokenizer.tagged(source_ids, symbol)
        return source_ids

    def _variants(self, rng: np.random.Generator) -> tuple[dict[int, tuple[str, str]], dict[int, Ids], dict[int, Ids]]:
        """The pairs augmented in this epoch, and the sources and targets with other tokens than before, by index."""
        number = len(self._texts)
        cut = rng.random(number) < self._subword_sampling
        target_cut = rng.random(number) < self._target_subword_sampling
        seeds = rng.integers(2**32, size=(number, 2))
        augmented = self._augmented(rng)
        controlled = self._controlled_texts(rng)
        tags = self._drawn_addresses(rng)
        sources: dict[int, Ids] = {}
        targets: dict[int, Ids] = {}
        for index in sorted({*augmented, *controlled, *tags, *np.flatnonzero(cut | target_cut).tolist()}):
            source, target, context = self._texts[index]
            if index in tags:
                context = replace(context, address=tags[index])
            if index in controlled:
                pair = list(self._encoded_parts(*controlled[index], context))
                if max(map(len, pair)) <= self._max_tokens:
                    sources[index], targets[index] = pair
                    continue
            source, target = augmented.get(index, (source, target))
            pair = [self._sources[index], self._targets[index]]
            if index in augmented or index in tags:
                pair = list(self._encoded(source, target, context))
            if isinstance(self._tokenizer, Tokenizer):
                source_seed, target_seed = map(int, seeds[index])
                if cut[index]:
                    ids = self._tokenizer.encode_sampled(source, context.target, _SHARPNESS, source_seed)
                    pair[0] = np.array(self._tagged(ids, context), dtype=np.int32)
                if target_cut[index]:
                    ids = self._tokenizer.encode_target_sampled(target, _SHARPNESS, target_seed)
                    pair[1] = np.array(ids, dtype=np.int32)
            # Both or none: one side alone might be no translation of the other.
            if max(map(len, pair)) <= self._max_tokens:
                sources[index], targets[index] = pair
        return augmented, sources, targets

    def _known_addresses(self) -> dict[int, str]:
        """The form of address of each text that has one, by index."""
        if self._controlled is None:
            return {}
        found = {
            index: self._controlled.address(source, target, context.target)
            for index, (source, target, context) in enumerate(self._texts)
        }
        return {index: symbol for index, symbol in found.items() if symbol is not None}

    def _drawn_addresses(self, rng: np.random.Generator) -> dict[int, str]:
        """The forms of address that sources name in this epoch, by index."""
        if self._controlled is None:
            return {}
        drawn = rng.random(len(self._texts)) < self._controlled.address_share
        return {index: symbol for index, symbol in self._addresses.items() if drawn[index]}

    def _controlled_texts(self, rng: np.random.Generator) -> dict[int, tuple[list[Part], list[Part]]]:
        """The pairs that get placeholders or terms in this epoch, by index."""
        if self._controlled is None:
            return {}
        found: dict[int, tuple[list[Part], list[Part]]] = {}
        drawn = np.flatnonzero(rng.random(len(self._texts)) < self._controlled.share)
        own = np.random.default_rng(rng.integers(2**63))
        for index in drawn.tolist():
            source, target, context = self._texts[index]
            # Words of a back-translated source are not aligned well enough.
            if context.tag is None and (pair := self._controlled.make(source, target, context.source, own)) is not None:
                found[index] = pair
        return found

    def _encoded_parts(self, source: list[Part], target: list[Part], context: _Context) -> tuple[Ids, Ids]:
        assert isinstance(self._tokenizer, Tokenizer)
        source_ids = self._tagged(self._tokenizer.encode_parts(source, context.target), context)
        target_ids = self._tokenizer.encode_target_parts(target)
        return np.array(source_ids, dtype=np.int32), np.array(target_ids, dtype=np.int32)

    def _augmented(self, rng: np.random.Generator) -> dict[int, tuple[str, str]]:
        """The pairs that are augmented in this epoch, by their index."""
        if not self._augmentation.changes_sentences:
            return {}
        found: dict[int, tuple[str, str]] = {}
        for index, (source, target, _) in enumerate(self._texts):
            augmented = self._augmentation.apply(source, target, rng)
            if augmented != (source, target):
                found[index] = augmented
        return found


class _Rows:
    """Many sequences of ids, in a tenth of the memory that lists of them take."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])

    def append(self, ids: Ids) -> None:
        self._ids.frombytes(ids.tobytes())
        self._ends.append(len(self._ids))

    def lengths(self) -> npt.NDArray[np.int64]:
        ends = np.frombuffer(self._ends, dtype=np.int64)
        return ends[1:] - ends[:-1]

    def __getitem__(self, index: int) -> Ids:
        start, end = self._ends[index], self._ends[index + 1]
        return np.frombuffer(self._ids, dtype=np.int32, count=end - start, offset=4 * start)


def _rectangle(rows: Sequence[Ids], pad_id: int) -> Tensor:
    """Rows padded on the right: (B, longest), int64."""
    out = np.full((len(rows), max(map(len, rows))), pad_id, dtype=np.int64)
    for place, ids in enumerate(rows):
        out[place, : len(ids)] = ids
    return torch.from_numpy(out)


@contextlib.contextmanager
def made_ahead(items: Generator[Item], number: int = 4) -> Generator[Iterator[Item]]:
    """The same items, made by a thread of their own while whoever asked for them is busy with others.

    Args:
        items: What to make; closed at the end, wherever it is.
        number: How many may wait.
    """
    waiting: queue.Queue[Item | _Ended] = queue.Queue(number)
    stopped = threading.Event()

    def put(item: Item | _Ended) -> None:
        while not stopped.is_set():
            with contextlib.suppress(queue.Full):
                waiting.put(item, timeout=0.1)
                return

    def make() -> None:
        error: Exception | None = None
        try:
            with contextlib.closing(items):
                for item in items:
                    put(item)
                    if stopped.is_set():
                        return
        except Exception as raised:  # noqa: BLE001  (whoever waits for the item raises it)
            error = raised
        put(_Ended(error))

    def take() -> Iterator[Item]:
        while not isinstance(item := waiting.get(), _Ended):
            yield item
        if item.error is not None:
            raise item.error

    thread = threading.Thread(target=make, name="batches", daemon=True)
    thread.start()
    try:
        yield take()
    finally:
        stopped.set()
        thread.join()


@dataclass(frozen=True)
class _Ended:
    """No item follows: there is none, or making it failed."""

    error: Exception | None
