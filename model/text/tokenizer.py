"""Subword tokenisation with SentencePiece (Kudo & Richardson 2018), and the characters that each token covers.

A source sentence is encoded as ``<2xx> pieces </s>``. The first token selects the target language (Johnson et al.
2017), so one model serves several directions. A target is encoded as ``pieces </s>`` after the start token ``<s>``.
Characters without a piece are encoded as byte tokens, so that emoji, for example, can be copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Protocol

import sentencepiece

from model.errors import ArtifactError, ConfigError
from model.text.known_characters import KnownCharacters
from model.text.pieces import WORD_START, encodable, load_processor, split_with_offsets, text_pieces, without_space
from model.text.subword_sampling import SubwordSampler
from model.text.symbols import Part, Span, Symbol, TargetText, reserved_symbols

PAD_ID = 0
UNKNOWN_ID = 1
START_ID = 2
END_ID = 3


class Tokenizer(Protocol):
    """The interface of all tokenizers, whatever their model family."""

    pad_id: int
    """The padding token; -1 (:data:`model.network.padding.NO_PAD_ID`) if all tokens may occur in a sentence."""

    start_id: int
    """The first input of the decoder; any token if the architecture starts with a vector of zeros."""

    end_id: int
    """The end token."""

    @property
    def largest_ids(self) -> tuple[int, int]:
        """The largest tokens that a source and a target may have."""
        ...

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Tokens that never occur in a translation, unless the decoding policy lists others."""
        ...

    @property
    def known_characters(self) -> KnownCharacters:
        """The characters of sources that the vocabulary has."""
        ...

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Tokens after the start token that select the target language."""
        ...

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """Encode a source sentence, markers and end token included."""
        ...

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` that each token covers."""
        ...

    def encode_target(self, text: str) -> list[int]:
        """Encode a target sentence: its pieces and the end token."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Decode target ids; special tokens are left out."""
        ...

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """As :meth:`decode`, with the characters of the text that each token covers."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text."""
        ...

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""
        ...


MARKER = re.compile(r"<2([a-z]{2,3})>")
"""The marker of a target language, such as ``<2de>``."""


class VersoTokenizer:
    """A learned SentencePiece vocabulary with the special tokens of this project.

    Args:
        model_proto: The serialised SentencePiece model.
        target_proto: The model for targets, if source and target have separate vocabularies.

    Raises:
        ArtifactError: The bytes are not a SentencePiece model, or its special tokens have other ids.
    """

    pad_id, start_id, end_id = PAD_ID, START_ID, END_ID

    def __init__(self, model_proto: bytes, target_proto: bytes | None = None) -> None:
        self.model_proto = model_proto
        self.target_proto = target_proto
        self._processor = _load(model_proto)
        self._target = self._processor if target_proto is None else _load(target_proto)
        self._marker_ids = _markers(self._processor)
        self._symbol_ids = _symbols(self._processor)
        self._symbol_names = {token_id: name for name, token_id in self._symbol_ids.items()}

    @classmethod
    def load(cls, path: Path) -> VersoTokenizer:
        """Read a SentencePiece model file.

        Raises:
            ArtifactError: The file is missing or not a tokenizer of this project.
        """
        try:
            return cls(path.read_bytes())
        except OSError as error:
            raise ArtifactError(f"The tokenizer {path} cannot be read: {error.strerror}.") from error

    @property
    def vocab_size(self) -> int:
        """Number of tokens, special tokens included; of the source vocabulary if there are two."""
        return int(self._processor.GetPieceSize())

    @property
    def target_vocab_size(self) -> int:
        """Number of tokens of the target vocabulary, special tokens included."""
        return int(self._target.GetPieceSize())

    @property
    def languages(self) -> tuple[str, ...]:
        """Target languages, in the order of their markers."""
        return tuple(self._marker_ids)

    @property
    def largest_ids(self) -> tuple[int, int]:
        """The largest tokens that a source and a target may have."""
        return self.vocab_size - 1, self.target_vocab_size - 1

    @cached_property
    def never_generated(self) -> tuple[int, ...]:
        """Tokens that occur in no translation: padding, unknown, start, markers, reserved symbols, unused pieces."""
        unused = (token_id for token_id in range(self.target_vocab_size) if self._target.IsUnused(token_id))
        symbols = _symbols(self._target).values()
        return (PAD_ID, UNKNOWN_ID, START_ID, *_markers(self._target).values(), *symbols, *unused)

    @property
    def byte_ids(self) -> tuple[int, ...]:
        """The target tokens that are single bytes."""
        return tuple(token_id for token_id in range(self.target_vocab_size) if self._target.IsByte(token_id))

    @cached_property
    def known_characters(self) -> KnownCharacters:
        """The characters that sources are encoded with, without tokens of single bytes."""
        return KnownCharacters(text_pieces(self._processor), self._processor.Normalize)

    @property
    def is_char(self) -> bool:
        """Whether every token of a target is one character or byte."""
        return all(
            self._target.IsControl(token_id)
            or self._target.IsUnknown(token_id)
            or self._target.IsByte(token_id)
            or len(self._target.IdToPiece(token_id)) == 1
            for token_id in range(self._target.GetPieceSize())
        )

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Empty: the marker in the source selects the language."""
        return ()

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """Encode a source sentence: marker of the target language, pieces, end token.

        Args:
            text: The sentence.
            target: The target language.
            source: The source language, which this tokenizer does not use.
        """
        return [self._marker(target), *self._processor.EncodeAsIds(encodable(text)), END_ID]

    def encode_sampled(self, text: str, target: str, alpha: float, seed: int) -> list[int]:
        """As :meth:`encode`, with randomly sampled pieces (subword regularisation, Kudo 2018).

        Args:
            text: The sentence.
            target: The target language.
            alpha: Smoothing parameter; larger values favour the most probable segmentation.
            seed: Seed of the random numbers.
        """
        return [self._marker(target), *self._sampler.sample(text, alpha, seed), END_ID]

    def encode_parts(self, parts: Sequence[Part], target: str) -> list[int]:
        """As :meth:`encode`, for a sentence with symbols in it.

        A text after a symbol is split as if a space preceded it, unless it begins with punctuation.

        Args:
            parts: The sentence.
            target: The target language.

        Raises:
            ConfigError: The vocabulary was learned without a symbol.
        """
        return [self._marker(target), *self._part_ids(parts), END_ID]

    def encode_target_parts(self, parts: Sequence[Part]) -> list[int]:
        """As :meth:`encode_target`, for a sentence with symbols in it.

        Raises:
            ConfigError: The vocabulary was learned without a symbol, or source and target have a vocabulary each.
        """
        return [*self._part_ids(parts), END_ID]

    def part_offsets(self, part: Part, *, begins: bool) -> list[Span]:
        """The characters of a part that each of its tokens covers; a symbol covers none.

        Args:
            part: A part of a sentence.
            begins: Whether it is the sentence's first.
        """
        if isinstance(part, Symbol):
            return [(0, 0)]
        return split_with_offsets(self._part_processor(part, begins=begins), part).spans if part.strip() else []

    def _part_ids(self, parts: Sequence[Part]) -> list[int]:
        ids: list[int] = []
        for part in parts:
            if isinstance(part, Symbol):
                ids.append(self.symbol_id(part.name))
            elif part.strip():
                ids += self._part_processor(part, begins=not ids).EncodeAsIds(encodable(part))
        return ids

    def _part_processor(self, part: str, *, begins: bool) -> sentencepiece.SentencePieceProcessor:
        """The vocabulary, which inserts a space before a text that begins the sentence or a word."""
        return self._processor if begins or part[0].isspace() or part[0].isalnum() else self._unprefixed

    @cached_property
    def _sampler(self) -> SubwordSampler:
        return SubwordSampler(self._processor)

    @cached_property
    def _target_sampler(self) -> SubwordSampler:
        return self._sampler if self._target is self._processor else SubwordSampler(self._target)

    @cached_property
    def _unprefixed(self) -> sentencepiece.SentencePieceProcessor:
        """The same vocabulary, which inserts no space before a text."""
        # Concatenated messages of a protobuf are merged: the appended one sets add_dummy_prefix to false.
        return load_processor(self.model_proto + b"\x1a\x02\x18\x00")

    def symbol_id(self, name: str) -> int:
        """The token of a reserved symbol.

        Args:
            name: One of :func:`model.text.symbols.reserved_symbols`.

        Raises:
            ConfigError: The vocabulary does not contain it.
        """
        try:
            return self._symbol_ids[name]
        except KeyError:
            raise ConfigError(
                f"The vocabulary has no symbol {name!r}; learn one with 'reserve_symbols: true'."
            ) from None

    def tagged(self, ids: Sequence[int], symbol: str) -> list[int]:
        """Insert a reserved symbol after the language marker of a source.

        Args:
            ids: The result of :meth:`encode`.
            symbol: One of :func:`reserved_symbols`.

        Raises:
            ConfigError: The vocabulary does not contain the symbol.
        """
        return [ids[0], self.symbol_id(symbol), *ids[1:]]

    def encode_target(self, text: str) -> list[int]:
        """A target sentence as ids: pieces, end token."""
        return [*self._target.EncodeAsIds(encodable(text)), END_ID]

    def encode_target_sampled(self, text: str, alpha: float, seed: int) -> list[int]:
        """As :meth:`encode_target`, with randomly sampled pieces (see :meth:`encode_sampled`)."""
        return [*self._target_sampler.sample(text, alpha, seed), END_ID]

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` that each token covers."""
        split = split_with_offsets(self._processor, text)
        return [self._marker(target), *split.ids, END_ID], [(0, 0), *split.spans, (len(text), len(text))]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode target ids; special tokens are left out."""
        return str(self._target.DecodeIds(list(ids)))

    def decode_parts(self, ids: Sequence[int]) -> list[Symbol | TargetText]:
        """Decode target ids with reserved symbols among them.

        Args:
            ids: Target tokens.
        """
        parts: list[Symbol | TargetText] = []
        for name, run in groupby(ids, self._symbol_names.get):
            tokens = list(run)
            if name is not None:
                parts += [Symbol(name)] * len(tokens)
                continue
            text, spans = self.decode_with_offsets(tokens)
            parts.append(TargetText(text, tuple(spans), self._target.IdToPiece(tokens[0]).startswith(WORD_START)))
        return parts

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """As :meth:`decode`, with the characters of the text that each token covers."""
        mapping = self._target.Decode(list(ids), return_type="offset_mapping")
        return mapping["text"], [without_space(mapping["text"], span) for span in mapping["offsets"]]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text; the first piece of a word starts with U+2581."""
        return [self._processor.IdToPiece(token_id) for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""
        return [self._target.IdToPiece(token_id) for token_id in ids]

    def counterparts(self, other: VersoTokenizer) -> list[list[int]]:
        """The source tokens of another vocabulary that have the text of each source token of this one.

        Args:
            other: The other vocabulary.

        Returns:
            One token where the other vocabulary has the same; no token for a symbol or byte that it does not have.
        """
        counterparts: list[list[int]] = []
        for token_id, piece in enumerate(self.pieces(range(self.vocab_size))):
            same = int(other._processor.PieceToId(piece))
            if token_id == UNKNOWN_ID or (same != UNKNOWN_ID and not other._processor.IsUnused(same)):
                counterparts.append([same])
            elif self._processor.IsControl(token_id) or self._processor.IsByte(token_id):
                counterparts.append([])
            else:
                processor = other._processor if piece.startswith(WORD_START) else other._unprefixed
                counterparts.append(processor.EncodeAsIds(piece.replace(WORD_START, " ").strip()))
        return counterparts

    def _marker(self, target: str) -> int:
        try:
            return self._marker_ids[target]
        except KeyError:
            raise ArtifactError(
                f"The tokenizer has no marker for target language {target!r}; it has {', '.join(self._marker_ids)}."
            ) from None


def _load(model_proto: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a model and check that its special tokens have the ids of this project."""
    processor = load_processor(model_proto)
    specials = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if specials != (PAD_ID, UNKNOWN_ID, START_ID, END_ID):
        raise ArtifactError(
            f"The tokenizer's pad, unknown, start and end ids are {specials}, but this model format needs "
            f"{(PAD_ID, UNKNOWN_ID, START_ID, END_ID)}; learn one with 'verso tokenizer'."
        )
    return processor


def _markers(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The ids of the language markers of a vocabulary by language, in the order of the ids."""
    pieces = ((token_id, processor.IdToPiece(token_id)) for token_id in range(processor.GetPieceSize()))
    matches = ((token_id, MARKER.fullmatch(piece)) for token_id, piece in pieces if processor.IsControl(token_id))
    return {match[1]: token_id for token_id, match in matches if match}


def _symbols(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The ids of the reserved symbols of a vocabulary, by symbol."""
    ids = {symbol: processor.PieceToId(symbol) for symbol in reserved_symbols()}
    return {symbol: token_id for symbol, token_id in ids.items() if processor.IsControl(token_id)}
