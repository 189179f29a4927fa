"""The tokenizer of Marian's SentencePiece vocabularies, whose piece ids are the token ids of the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from model.text.known_characters import KnownCharacters
from model.text.pieces import encodable, load_processor, split_with_offsets, text_pieces, without_space
from model.text.symbols import Span


class PieceTokenizer:
    """One or two SentencePiece models. They have no tokens for padding and for the start of a translation.

    A text is encoded to pieces of text only. Vocabularies that have symbols in their texts are changed when they are
    imported (:mod:`model.importing.marian_nmt.vocabulary`).

    Args:
        metadata: The manifest's ``tokenizer``.
        source_spm: The SentencePiece model for sources.
        target_spm: The one for targets; None if both have one vocabulary.

    Raises:
        ArtifactError: The bytes are not a SentencePiece model.
    """

    kind = "sentencepiece"

    def __init__(self, metadata: Mapping[str, Any], source_spm: bytes, target_spm: bytes | None = None) -> None:
        self.pad_id = int(metadata["pad_id"])
        self.start_id = int(metadata["start_id"])
        self.end_id = int(metadata["end_id"])
        self._source = load_processor(source_spm)
        self._target = self._source if target_spm is None else load_processor(target_spm)

    @property
    def largest_ids(self) -> tuple[int, int]:
        """The largest tokens that a source and a target may have."""
        return len(self._source) - 1, len(self._target) - 1

    @property
    def never_generated(self) -> tuple[int, ...]:
        """Empty: the decoding policy of a model lists the tokens that are forbidden."""
        return ()

    @cached_property
    def known_characters(self) -> KnownCharacters:
        """The characters that sources are encoded with, without tokens of single bytes."""
        return KnownCharacters(text_pieces(self._source), self._source.Normalize)

    def forced_ids(self, target: str) -> tuple[int, ...]:
        """Empty: the model has one target language."""
        return ()

    def encode(self, text: str, target: str, source: str | None = None) -> list[int]:
        """Encode a source sentence: its pieces and the end token."""
        return [*self._source.EncodeAsIds(encodable(text)), self.end_id]

    def encode_with_offsets(self, text: str, target: str, source: str | None = None) -> tuple[list[int], list[Span]]:
        """As :meth:`encode`, with the characters of ``text`` that each token covers."""
        split = split_with_offsets(self._source, text)
        return [*split.ids, self.end_id], [*split.spans, (len(text), len(text))]

    def encode_target(self, text: str) -> list[int]:
        """Encode a target sentence: its pieces and the end token."""
        return [*self._target.EncodeAsIds(encodable(text)), self.end_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Decode target ids; special tokens are left out."""
        return str(self._target.DecodeIds(list(ids)))

    def decode_with_offsets(self, ids: Sequence[int]) -> tuple[str, list[Span]]:
        """As :meth:`decode`, with the characters of the text that each token covers."""
        mapping = self._target.Decode(list(ids), return_type="offset_mapping")
        return mapping["text"], [without_space(mapping["text"], span) for span in mapping["offsets"]]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Source tokens as text."""
        return [self._source.IdToPiece(token_id) for token_id in ids]

    def target_pieces(self, ids: Iterable[int]) -> list[str]:
        """Target tokens as text."""
        return [self._target.IdToPiece(token_id) for token_id in ids]
