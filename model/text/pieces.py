"""What all tokenizers need of SentencePiece: loading a model, and splitting a text into pieces with their offsets."""

from __future__ import annotations

import re
from typing import NamedTuple

import sentencepiece

from model.errors import ArtifactError
from model.text.symbols import Span

WORD_START = "\u2581"
"""The character for the space before a word in SentencePiece's pieces."""

SURROGATE = re.compile("[\ud800-\udfff]")


class SplitText(NamedTuple):
    """The pieces of a text, their ids, and the characters of the text that each covers."""

    pieces: list[str]
    ids: list[int]
    spans: list[Span]


def load_processor(model_proto: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a serialised SentencePiece model, whatever its special tokens are.

    Raises:
        ArtifactError: The bytes are not a SentencePiece model, or one of its pieces is not UTF-8.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model_proto)
    except (RuntimeError, UnicodeDecodeError) as error:  # its message may have bytes of the file
        raise ArtifactError("The tokenizer is damaged: it cannot be read as a SentencePiece model.") from error
    try:
        processor.IdToPiece(list(range(processor.GetPieceSize())))
    except UnicodeDecodeError as error:
        raise ArtifactError("The tokenizer is damaged: it has pieces that are not UTF-8.") from error
    return processor


def encodable(text: str) -> str:
    """A text of the same length that has a UTF-8 form: U+FFFD replaces unpaired surrogates, which strings may have."""
    return text if text.isascii() else SURROGATE.sub("\ufffd", text)


def split_with_offsets(processor: sentencepiece.SentencePieceProcessor, text: str) -> SplitText:
    """Split a text into pieces.

    Args:
        processor: The vocabulary.
        text: The text.
    """
    mapping = processor.encode_as_offset_mapping(encodable(text))
    spans = [without_space(text, span) for span in mapping["offsets"]]
    return SplitText(mapping["pieces"], mapping["ids"], spans)


def text_pieces(processor: sentencepiece.SentencePieceProcessor) -> dict[str, int]:
    """The pieces that a text may be split into, without tokens of single bytes, and their ids.

    Args:
        processor: The vocabulary.
    """
    return {
        processor.IdToPiece(token_id): token_id
        for token_id in range(processor.GetPieceSize())
        if not (
            processor.IsControl(token_id)
            or processor.IsUnknown(token_id)
            or processor.IsByte(token_id)
            or processor.IsUnused(token_id)
        )
    }


def without_space(text: str, span: Span) -> Span:
    """A span without leading whitespace, which SentencePiece counts as part of a word's first piece."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    return start, end
