"""The training text as token ids: each sentence pair in each direction is an example."""

from __future__ import annotations

import contextlib
import hashlib
import zipfile
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from model.errors import ConfigError, DataError
from model.process.files import atomic_write
from model.text.symbols import Part
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.training.controlled_pairs import ControlledPairs
from model.training.corpus import LoadedCorpus, Pair

Ids = npt.NDArray[np.int32]
"""Token ids of one sentence."""

_ARRAYS = ("kept", "sources", "source_ends", "targets", "target_ends", "addresses")
"""Fields of the examples of a corpus that are kept."""

_FORMAT = "1"
"""Version of the kept files; to be raised when the same text gets other ids or other forms of address."""


@dataclass(frozen=True)
class Context:
    """How an example is read: its languages, and the symbols at the start of its source.

    Args:
        source: The source language.
        target: The target language.
        tag: A reserved symbol, such as ``<bt>``, or None.
        address: The symbol of a form of address, or None.
    """

    source: str
    target: str
    tag: str | None
    address: str | None = None


@dataclass(frozen=True)
class _Part:
    """The examples of one corpus in one direction.

    Args:
        context: How they are read.
        pairs: All pairs of the corpus.
        swapped: Whether the source is the second side of a pair.
        symbols: The forms of address that occur.
        kept: Indices of the pairs that are examples; the others are too long.
        sources: Ids of the sources, one after another.
        source_ends: Where each source ends in ``sources``; begins with 0.
        targets: Likewise for the targets.
        target_ends: Likewise.
        addresses: Index of each example's form of address in ``symbols``, -1 for none.
    """

    context: Context
    pairs: list[Pair]
    swapped: bool
    symbols: tuple[str, ...]
    kept: npt.NDArray[np.int32]
    sources: Ids
    source_ends: npt.NDArray[np.int64]
    targets: Ids
    target_ends: npt.NDArray[np.int64]
    addresses: npt.NDArray[np.int8]

    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of source and target of each example, (N, 2)."""
        return np.stack([np.diff(self.source_ends), np.diff(self.target_ends)], axis=1)


class Examples:
    """The examples of a run, by index: first all of one direction, corpus by corpus, then those of the other.

    Args:
        corpora: Sentences in the order of ``languages``.
        languages: The two languages.
        directions: (source, target) to learn.
        tokenizer: Makes the tokens.
        max_tokens: Examples with a longer side are left out and counted in ``num_too_long``.
        controlled: Finds the forms of address; none by default.
        kept_in: Folder that keeps the ids from one start of a run to the next; they are made again for a corpus or a
            vocabulary that has changed. Nothing is kept without a folder, or with an imported vocabulary.

    Raises:
        DataError: Every sentence is too long.
    """

    def __init__(
        self,
        corpora: Sequence[LoadedCorpus],
        languages: tuple[str, str],
        directions: Sequence[tuple[str, str]],
        tokenizer: Tokenizer,
        *,
        max_tokens: int,
        controlled: ControlledPairs | None = None,
        kept_in: Path | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._controlled = controlled
        self._max_tokens = max_tokens
        self.num_too_long = 0
        self._parts: list[_Part] = []
        weights: list[npt.NDArray[np.float64]] = []
        if not isinstance(tokenizer, VersoTokenizer):
            kept_in = None  # an imported vocabulary has no bytes that would tell it from another
        files: set[Path] = set()
        digests = [_digest(corpus.pairs) if kept_in else "" for corpus in corpora]
        for source, target in directions:
            for corpus, digest in zip(corpora, digests, strict=True):
                if corpus.direction not in (None, (source, target)):
                    continue
                context = Context(source, target, corpus.tag)
                file = kept_in / f"{self._key(context, digest)}.npz" if kept_in else None
                part = self._part(corpus.pairs, context, source != languages[0], file)
                if file:
                    files.add(file)
                self.num_too_long += len(corpus.pairs) - len(part.kept)
                self._parts.append(part)
                weights.append(np.full(len(part.kept), corpus.weight))
        if kept_in and kept_in.is_dir():
            for stale in set(kept_in.glob("*.npz")) - files:
                stale.unlink()
        if not sum(map(len, weights)):
            raise DataError(f"Every sentence is longer than max_tokens_per_sentence, which is {max_tokens}.")
        self.weights = np.concatenate(weights)
        self.lengths = np.concatenate([part.lengths() for part in self._parts])
        self.has_address = np.concatenate([part.addresses >= 0 for part in self._parts])

    def __len__(self) -> int:
        return len(self.weights)

    def text(self, index: int) -> tuple[str, str, Context]:
        """Source, target and context of an example."""
        part, place = self._find(index)
        first, second = part.pairs[part.kept[place]]
        return (second, first, part.context) if part.swapped else (first, second, part.context)

    def ids(self, index: int) -> tuple[Ids, Ids]:
        """Source and target ids of an example."""
        part, place = self._find(index)
        return (
            part.sources[part.source_ends[place] : part.source_ends[place + 1]],
            part.targets[part.target_ends[place] : part.target_ends[place + 1]],
        )

    def address(self, index: int) -> str | None:
        """The form of address of an example, if it has one."""
        part, place = self._find(index)
        symbol = int(part.addresses[place])
        return part.symbols[symbol] if symbol >= 0 else None

    def encode(self, source: str, target: str, context: Context) -> tuple[Ids, Ids]:
        """Source and target ids of a text.

        Raises:
            ConfigError: The vocabulary does not contain a symbol of the context.
        """
        source_ids = self.tag(self._tokenizer.encode(source, context.target, context.source), context)
        target_ids = [*self._tokenizer.forced_ids(context.target), *self._tokenizer.encode_target(target)]
        return np.array(source_ids, dtype=np.int32), np.array(target_ids, dtype=np.int32)

    def encode_parts(self, source: list[Part], target: list[Part], context: Context) -> tuple[Ids, Ids]:
        """As :meth:`encode`, of a text with symbols in it."""
        assert isinstance(self._tokenizer, VersoTokenizer)
        source_ids = self.tag(self._tokenizer.encode_parts(source, context.target), context)
        target_ids = self._tokenizer.encode_target_parts(target)
        return np.array(source_ids, dtype=np.int32), np.array(target_ids, dtype=np.int32)

    def tag(self, source_ids: list[int], context: Context) -> list[int]:
        """Source ids with the symbols of their context.

        Raises:
            ConfigError: The vocabulary does not contain a symbol.
        """
        symbols = [symbol for symbol in (context.address, context.tag) if symbol is not None]
        if not symbols:
            return source_ids
        if not isinstance(self._tokenizer, VersoTokenizer):
            raise ConfigError("tag needs a vocabulary that 'verso train' learned with reserve_symbols.")
        for symbol in symbols:
            source_ids = self._tokenizer.tagged(source_ids, symbol)
        return source_ids

    @cached_property
    def _starts(self) -> list[int]:
        """The index of the first example of each part."""
        return [0, *np.cumsum([len(part.kept) for part in self._parts]).tolist()]

    def _find(self, index: int) -> tuple[_Part, int]:
        which = bisect_right(self._starts, index) - 1
        return self._parts[which], index - self._starts[which]

    def _key(self, context: Context, digest: str) -> str:
        """The name under which the examples of a corpus in one direction are kept."""
        assert isinstance(self._tokenizer, VersoTokenizer)
        vocabulary = self._tokenizer.model_proto + (self._tokenizer.target_proto or b"")
        has_addresses = self._controlled is not None and self._controlled.address_share > 0
        names = f"{_FORMAT} {context} {self._max_tokens} {has_addresses} {digest}"
        return hashlib.sha256(names.encode() + vocabulary).hexdigest()

    def _part(self, pairs: list[Pair], context: Context, swapped: bool, file: Path | None) -> _Part:
        """The examples of a corpus in one direction, read from a file or made and kept there."""
        if file and (arrays := _read(file)) is not None:
            return _Part(context, pairs, swapped, tuple(arrays.pop("symbols").tolist()), **arrays)
        indices: list[int] = []
        sides: tuple[list[Ids], list[Ids]] = ([], [])
        addresses: list[str | None] = []
        for index, (first, second) in enumerate(pairs):
            source, target = (second, first) if swapped else (first, second)
            ids = self.encode(source, target, context)
            if max(map(len, ids)) > self._max_tokens:
                continue
            indices.append(index)
            for side, side_ids in zip(sides, ids, strict=True):
                side.append(side_ids)
            addresses.append(self._controlled.address(source, target, context.target) if self._controlled else None)
        symbols = sorted({symbol for symbol in addresses if symbol is not None})
        numbers = {symbol: number for number, symbol in enumerate(symbols)}
        arrays = {
            "kept": np.array(indices, dtype=np.int32),
            "addresses": np.array([-1 if symbol is None else numbers[symbol] for symbol in addresses], dtype=np.int8),
        }
        for name, side in zip(("source", "target"), sides, strict=True):
            arrays[f"{name}s"] = np.concatenate([np.zeros(0, dtype=np.int32), *side])
            arrays[f"{name}_ends"] = np.cumsum([0, *map(len, side)], dtype=np.int64)
        if file:
            _write(file, {**arrays, "symbols": np.array(symbols, dtype=np.str_)})
        return _Part(context, pairs, swapped, tuple(symbols), **arrays)


def _digest(pairs: Sequence[Pair]) -> str:
    """The SHA-256 of the text of a corpus."""
    digest = hashlib.sha256()
    for first, second in pairs:
        digest.update(f"{first}\n{second}\n".encode())
    return digest.hexdigest()


def _read(file: Path) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of a kept file; None if it is missing or damaged, so that it is made again."""
    with contextlib.suppress(OSError, ValueError, KeyError, zipfile.BadZipFile), file.open("rb") as content:
        arrays = np.load(content)
        return {name: arrays[name] for name in (*_ARRAYS, "symbols")}
    return None


def _write(file: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Keep arrays."""
    with atomic_write(file) as unfinished, unfinished.open("wb") as sink:
        np.savez(sink, allow_pickle=False, **arrays)
