"""Tokenizers of imported models, and the choice of one. Ids and texts are those of transformers' slow tokenizers.

One difference is deliberate: special tokens are not recognised in texts. If a text contains ``</s>`` or
``__fr__``, these are ordinary characters here; transformers would treat them as the end token or a language token.
"""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from model.errors import ArtifactError
from model.text.known_characters import KnownCharacters
from model.text.piece_tokenizer import PieceTokenizer
from model.text.pieces import WORD_START, encodable, load_processor, split_with_offsets, without_space
from model.text.symbols import Span
from model.text.tokenizer import Tokenizer, VersoTokenizer

SOURCE_SPM = "source.spm"
TARGET_SPM = "target.spm"
VOCABULARY = "vocab.json"
TARGET_VOCABULARY = "target_vocab.json"
SHARED_SPM = "sentencepiece.bpe.model"
OWN_SPM = "tokenizer.model"
OWN_TARGET_SPM = "target-tokenizer.model"

_CLEAN_UP = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
"""Patterns whose spaces clean_up_tokenization_spaces in tokenizer_config.json removes, in transformers' order."""


class _HuggingFaceTokenizer(ABC):
    """The common parts of all families.

    Args:
        metadata: The manifest's ``tokenizer``: ids of special tokens, languages, options.
        source_spm: The SentencePiece model that splits sources into pieces.
        target_spm: The SentencePiece model that splits targets into pieces and joins pieces to text.
    """

    def __init__(self, metadata: Mapping[str, Any], source_spm: bytes, target_spm: bytes) -> None:
        self.pad_id = int(metadata["pad_id"])
        self.start_id = int(metadata["start_id"])
        self.end_id = int(metadata["end_id"])
        self._unknown_id = int(metadata["unknown_id"])
        self._special_ids = frozenset(int(token_id) for token_id in metadata["special_ids"])
        self._clean_up = bool(metadata.get("clean_up", False))
        self._source_spm = load_processor(source_spm)
        self._target_spm = self._source_spm if target_spm is source_spm else load_processor(target_spm)

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Empty: the decoding policy of a model lists the tokens its family forbids."""
        return ()

    @abstractmethod
    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Tokens after the start token that select the target language."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text."""

    @abstractmethod
    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""

    @cached_property
    def known_characters(self) -> KnownCharacters:
        """The characters of sources that the vocabulary has."""
        pieces = (piece for token_id, piece in self._vocabulary().items() if token_id not in self._special_ids)
        return KnownCharacters(pieces, self._source_spm.Normalize)

    @property
    def largest_ids(self) -> tuple[int, int]:
        """The largest tokens that a source and a target may have."""
        shared = (self.pad_id, self.start_id, self.end_id, self._unknown_id, *self._special_ids)
        source, target = self._largest()
        return max(source, *shared), max(target, *shared)

    @abstractmethod
    def _largest(self) -> tuple[int, int]:
        """As :attr:`largest_ids`, but without the special tokens that all families have."""

    @abstractmethod
    def _vocabulary(self) -> Mapping[int, str]:
        """The pieces of sources, by token."""

    @abstractmethod
    def _source_ids(self, pieces: Sequence[str]) -> list[int]: ...

    @abstractmethod
    def _target_ids(self, pieces: Sequence[str]) -> list[int]: ...

    @abstractmethod
    def _leading(self, target: str, source: str | None) -> list[int]:
        """Tokens before those of the text."""

    def _trailing(self, source: str | None) -> list[int]:
        return [self.end_id]

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """Encode a source sentence, with the special tokens of the family."""
        pieces = self._source_spm.EncodeAsPieces(encodable(text))
        return [*self._leading(target, source), *self._source_ids(pieces), *self._trailing(source)]

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` that each token covers."""
        leading, trailing = self._leading(target, source), self._trailing(source)
        split = split_with_offsets(self._source_spm, text)
        return (
            [*leading, *self._source_ids(split.pieces), *trailing],
            [*[(0, 0)] * len(leading), *split.spans, *[(len(text), len(text))] * len(trailing)],
        )

    def encode_target(self, text: str) -> list[int]:
        """Encode a target sentence: its pieces and the end token."""
        return [*self._target_ids(self._target_spm.EncodeAsPieces(encodable(text))), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode target ids; special tokens are left out."""
        return self.decode_with_offsets(ids)[0]

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """As :meth:`decode`, with the characters of the text that each token covers."""
        ids = list(ids)
        visible = [index for index, token_id in enumerate(ids) if token_id not in self._special_ids]
        text, spans = self._join(self.target_pieces(ids[index] for index in visible))
        text, spans = _strip(text, spans)
        if self._clean_up:
            text, spans = _clean_up_spaces(text, spans)
        all_spans = [(0, 0)] * len(ids)
        for index, span in zip(visible, spans, strict=True):
            all_spans[index] = without_space(text, span)
        return text, all_spans

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        mapping = self._target_spm.Decode(list(pieces), return_type="offset_mapping")
        return mapping["text"], list(mapping["offsets"])


class MarianTokenizer(_HuggingFaceTokenizer):
    """OPUS-MT: two SentencePiece models give the pieces, separate vocabulary files give their ids.

    In multilingual models the first source token selects the target language, for example ``>>fra<<``. Unlike in
    transformers such a token is never read from a text: there, ``>>`` is text like any other.

    Args:
        metadata: The manifest's ``tokenizer``; ``language_tokens``, if present, maps codes to tokens.
        files: The vocabulary files by name.
    """

    kind = "marian"

    def __init__(self, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(metadata, files[SOURCE_SPM], files[TARGET_SPM])
        self._language_tokens: dict[str, str] = dict(metadata.get("language_tokens", {}))
        self._source_end_id = int(metadata["source_end_id"])
        self._target_unknown_id = int(metadata["target_unknown_id"])
        self._ids = read_vocabulary(files[VOCABULARY], VOCABULARY)
        self._target_ids_by_piece = (
            read_vocabulary(files[TARGET_VOCABULARY], TARGET_VOCABULARY) if TARGET_VOCABULARY in files else self._ids
        )
        self._source_pieces = {token_id: piece for piece, token_id in self._ids.items()}
        self._target_pieces = {token_id: piece for piece, token_id in self._target_ids_by_piece.items()}

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Empty: a source token selects the language."""
        return ()

    def _largest(self) -> tuple[int, int]:
        source = max(self._source_end_id, *self._source_pieces)
        return source, max(self._target_unknown_id, *self._target_pieces)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text."""
        return [self._source_pieces.get(token_id, "<unk>") for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""
        return [self._target_pieces.get(token_id, "<unk>") for token_id in ids]

    def _vocabulary(self) -> Mapping[int, str]:
        return self._source_pieces

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        ids, unknown_id = self._ids, self._unknown_id
        return [unknown_id if _is_language_token(piece) else ids.get(piece, unknown_id) for piece in pieces]

    def _target_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._target_ids_by_piece.get(piece, self._target_unknown_id) for piece in pieces]

    def _trailing(self, source: str | None) -> list[int]:
        return [self._source_end_id]

    def _leading(self, target: str, source: str | None) -> list[int]:
        token = self._language_tokens.get(target)
        return [] if token is None else [self._ids[token]]

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        text, spans = super()._join(pieces)
        # The target's SentencePiece model does not know all pieces of a shared vocabulary and keeps their U+2581.
        return text.replace(WORD_START, " "), spans


def _is_language_token(piece: str) -> bool:
    """Whether a piece of a Marian vocabulary selects a target language."""
    return piece.startswith(">>") and piece.endswith("<<") and len(piece) > len(">><<")


class M2M100Tokenizer(_HuggingFaceTokenizer):
    """M2M100: one SentencePiece model gives the pieces, a vocabulary file gives their ids; language tokens follow.

    Args:
        metadata: The manifest's ``tokenizer``; ``language_ids`` maps codes to tokens.
        files: The vocabulary files by name.
    """

    kind = "m2m_100"

    def __init__(self, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(metadata, files[SHARED_SPM], files[SHARED_SPM])
        self._language_ids: dict[str, int] = dict(metadata["language_ids"])
        self._languages = {token_id: f"__{code}__" for code, token_id in self._language_ids.items()}
        self._ids = self._read_ids(files)
        self._pieces = {token_id: piece for piece, token_id in self._ids.items()}

    def _read_ids(self, files: Mapping[str, bytes]) -> dict[str, int]:
        return read_vocabulary(files[VOCABULARY], VOCABULARY)

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """The language token that starts every translation."""
        return (self._language_ids[target],)

    def _largest(self) -> tuple[int, int]:
        largest = max((*self._language_ids.values(), *self._pieces), default=0)
        return largest, largest

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text."""
        return [self._languages.get(token_id) or self._piece(token_id) for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""
        return self.pieces(ids)

    def _piece(self, token_id: int) -> str:
        return self._pieces.get(token_id, "<unk>")

    def _vocabulary(self) -> Mapping[int, str]:
        return self._pieces

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        return [self._ids.get(piece, self._unknown_id) for piece in pieces]

    def _target_ids(self, pieces: Sequence[str]) -> list[int]:
        return self._source_ids(pieces)

    def _leading(self, target: str, source: str | None) -> list[int]:
        return [self._source_language(source)]

    def _source_language(self, source: str | None) -> int:
        if source is None:
            raise ArtifactError("This model needs the language of the source.")
        return self._language_ids[source]


class NllbTokenizer(M2M100Tokenizer):
    """NLLB-200: ids are those of the SentencePiece model plus one; the language tokens follow them.

    Args:
        metadata: The manifest's ``tokenizer``; ``legacy_behaviour`` puts the source language after the text.
        files: The vocabulary files by name.
    """

    kind = "nllb"

    def __init__(self, metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
        super().__init__(metadata, files)
        self._legacy = bool(metadata.get("legacy_behaviour", False))
        self._languages = {token_id: str(code) for code, token_id in metadata["language_tokens"].items()}
        self._specials = {self.pad_id: "<pad>", self.end_id: "</s>", self._unknown_id: "<unk>", 0: "<s>"}

    def _read_ids(self, files: Mapping[str, bytes]) -> dict[str, int]:
        return {}  # there is no vocabulary file: ids come from the SentencePiece model

    def _largest(self) -> tuple[int, int]:
        largest = max((len(self._source_spm), *self._language_ids.values()))
        return largest, largest

    def _piece(self, token_id: int) -> str:
        if token_id in self._specials:
            return self._specials[token_id]
        return str(self._source_spm.IdToPiece(token_id - 1)) if token_id <= len(self._source_spm) else "<unk>"

    def _source_ids(self, pieces: Sequence[str]) -> list[int]:
        ids = (self._source_spm.PieceToId(piece) for piece in pieces)
        return [token_id + 1 if token_id else self._unknown_id for token_id in ids]

    def _leading(self, target: str, source: str | None) -> list[int]:
        return [] if self._legacy else [self._source_language(source)]

    def _trailing(self, source: str | None) -> list[int]:
        return [self.end_id, self._source_language(source)] if self._legacy else [self.end_id]

    def _join(self, pieces: Sequence[str]) -> tuple[str, list[Span]]:
        spans: list[Span] = []
        start = 0
        for piece in pieces:
            spans.append((start, start + len(piece)))
            start += len(piece)
        return "".join(pieces).replace(WORD_START, " "), spans


_KINDS: dict[str, Callable[[Mapping[str, Any], Mapping[str, bytes]], Tokenizer]] = {
    **{kind.kind: kind for kind in (MarianTokenizer, M2M100Tokenizer, NllbTokenizer)},
    PieceTokenizer.kind: lambda metadata, files: PieceTokenizer(metadata, files[SOURCE_SPM], files.get(TARGET_SPM)),
}


def own_files(tokenizer: VersoTokenizer) -> dict[str, bytes]:
    """The vocabulary files of a tokenizer of Verso by name, as :func:`restore_tokenizer` reads them."""
    files = {OWN_SPM: tokenizer.model_proto}
    if tokenizer.target_proto is not None:
        files[OWN_TARGET_SPM] = tokenizer.target_proto
    return files


def restore_tokenizer(metadata: Mapping[str, Any], files: Mapping[str, bytes]) -> Tokenizer:
    """The tokenizer that a manifest describes.

    Args:
        metadata: The manifest's ``tokenizer``; empty for a tokenizer of Verso.
        files: The vocabulary files by name.

    Raises:
        ArtifactError: A file is missing or damaged, or the kind is unknown.
    """
    try:
        if not metadata:
            return VersoTokenizer(files[OWN_SPM], files.get(OWN_TARGET_SPM))
        if metadata["kind"] not in _KINDS:
            raise ArtifactError(
                f"The bundle's tokenizer is of the unknown kind {metadata['kind']!r}; this release reads "
                f"{', '.join(_KINDS)}: upgrade Verso."
            )
        return _KINDS[metadata["kind"]](metadata, files)
    except KeyError as error:
        raise ArtifactError(
            f"The bundle's tokenizer is incomplete: it has no {error}; make the bundle again."
        ) from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ArtifactError(f"The bundle's tokenizer is damaged ({error}); make the bundle again.") from error


def read_vocabulary(content: bytes, name: str) -> dict[str, int]:
    """Parse a vocabulary file, which maps pieces to ids.

    Raises:
        ArtifactError: It is not a JSON object of whole numbers.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{name} is not valid JSON: {error}.") from error
    if not isinstance(values, dict) or not all(type(value) is int and value >= 0 for value in values.values()):
        raise ArtifactError(f"{name} is not a vocabulary: it must map pieces to whole numbers.")
    return values


def _strip(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """The text without whitespace at its ends, and the spans in that text."""
    lead = len(text) - len(text.lstrip())
    text = text.strip()
    return text, [(min(max(0, start - lead), len(text)), min(max(0, end - lead), len(text))) for start, end in spans]


def _clean_up_spaces(text: str, spans: Sequence[Span]) -> tuple[str, list[Span]]:
    """The text without the spaces of :data:`_CLEAN_UP`, and the spans in that text."""
    indices = list(range(len(text)))  # original index of each remaining character
    for pattern in _CLEAN_UP:
        index = text.find(pattern)
        while index >= 0:
            text = text[:index] + pattern.strip() + text[index + len(pattern) :]
            del indices[index]
            if pattern.endswith(" "):
                del indices[index + len(pattern) - 2]
            index = text.find(pattern, index + len(pattern.strip()))
    remaining = set(indices)
    new_index = [
        0,
        *itertools.accumulate(int(original in remaining) for original in range(max(indices, default=-1) + 1)),
    ]
    last = len(new_index) - 1
    return text, [(new_index[min(start, last)], new_index[min(end, last)]) for start, end in spans]
