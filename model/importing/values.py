"""Typed values of a checkpoint's JSON and vocabulary files. A value of another type raises an error."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import sentencepiece

from model.errors import ArtifactError
from model.importing.folder import CheckpointFolder


def whole_number(values: Mapping[str, Any], name: str, default: int | None = None, file: str = "config.json") -> int:
    """A whole number.

    Args:
        values: A JSON object.
        name: The key.
        default: The value if the key is missing; None if the key is required.
        file: The object's file, for messages.

    Raises:
        ArtifactError: The value is missing or has another type.
    """
    value = values.get(name)
    if value is None:
        value = default
    if value is None:
        raise ArtifactError(f"{file} has no {name}; it is cut short, or of another architecture.")
    if type(value) is not int:
        raise ArtifactError(f"{file} has {name} {shown(value)}; it must be a whole number.")
    return value


def number(values: Mapping[str, Any], name: str, default: float, file: str = "config.json") -> float:
    """A finite number, or the default if it is missing.

    Raises:
        ArtifactError: The value has another type.
    """
    value = values.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not abs(value) < math.inf or abs(value) > 1e9:
        raise ArtifactError(f"{file} has {name} {shown(value)}; it must be a number.")
    return float(value)


def flag(values: Mapping[str, Any], name: str, *, default: bool, file: str = "tokenizer_config.json") -> bool:
    """A boolean, or the default if it is missing.

    Raises:
        ArtifactError: The value has another type.
    """
    value = values.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise ArtifactError(f"{file} has {name} {shown(value)}; it must be true or false.")
    return value


def special_token(tokenizer_config: Mapping[str, Any], role: str, default: str) -> str:
    """A special token's text."""
    entry = tokenizer_config.get(role)
    text = default if entry is None else content_of(entry)
    if text is None:
        raise ArtifactError(f"tokenizer_config.json has {role} {shown(entry)}; it must be a token's text.")
    return text


def content_of(entry: object) -> str | None:
    """A token's text, given as a string or as an object with ``content``; None if it is neither."""
    text = entry.get("content") if isinstance(entry, dict) else entry
    return text if isinstance(text, str) else None


def id_of(vocabulary: Mapping[str, int], piece: str, name: str) -> int:
    """The id of a required piece.

    Args:
        vocabulary: Ids by piece.
        piece: The piece.
        name: The vocabulary's file, for messages.

    Raises:
        ArtifactError: The vocabulary does not contain it.
    """
    if piece not in vocabulary:
        raise ArtifactError(f"{name} has no {shown(piece)}; it is cut short, or of another tokenizer.")
    return vocabulary[piece]


def read_ids(folder: CheckpointFolder, name: str) -> dict[str, int]:
    """Read a vocabulary file; its ids must be the whole numbers from 0, each used once."""
    ids = folder.json(name)
    pieces: dict[int, str] = {}
    for piece, token_id in ids.items():
        if type(token_id) is not int or token_id < 0:
            raise ArtifactError(
                f"{folder.path / name} gives piece {shown(piece)} the id {shown(token_id)}; ids must be whole "
                "numbers from 0. Download it again."
            )
        if token_id in pieces:
            raise ArtifactError(
                f"{folder.path / name} gives id {token_id} to {shown(pieces[token_id])} and to {shown(piece)}; each "
                "piece must have its own. Download it again."
            )
        pieces[token_id] = piece
    missing = next((number for number in range(len(pieces)) if number not in pieces), None)
    if missing is not None:
        raise ArtifactError(
            f"{folder.path / name} has no piece for id {missing} and one for id {max(pieces)}; it is cut short. "
            "Download it again."
        )
    return ids


def num_pieces_of(spm: bytes, name: str) -> int:
    """The number of pieces of a SentencePiece model.

    Args:
        spm: The serialised model.
        name: Its file, for messages.

    Raises:
        ArtifactError: The bytes are not a SentencePiece model.
    """
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(spm)
    except (RuntimeError, UnicodeDecodeError) as error:  # its message may have bytes of the file
        raise ArtifactError(f"{name} is damaged: it is no SentencePiece model; download it again.") from error
    return len(processor)


def shown(value: object) -> str:
    """A value as JSON, shortened for a message."""
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= 100 else f"{text[:97]}..."
