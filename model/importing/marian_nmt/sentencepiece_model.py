"""The types of pieces in a serialised SentencePiece model, which is a protocol buffer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

_PIECES, _TYPE = 1, 3
"""Numbers of the fields ``ModelProto.pieces`` and ``SentencePiece.type`` (sentencepiece_model.proto)."""

_CONTROL, _USER_DEFINED = 3, 4
"""Types of pieces: one that no text is encoded to, and one that a text is always encoded to where it contains it."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Kinds of fields, by how the end of a value is found."""


class _Field(NamedTuple):
    """A field of a message; ``start`` and ``end`` bound its value."""

    number: int
    start: int
    end: int


def without_user_symbols(model_proto: bytes) -> bytes:
    """A model that encodes user-defined symbols in a text, such as ``__source__``, as any other text.

    The symbols become control pieces, and keep their ids.

    Args:
        model_proto: The serialised model.

    Raises:
        ValueError: It is not a protocol buffer.
    """
    changed = bytearray(model_proto)
    for piece in _fields(model_proto, 0, len(model_proto)):
        if piece.number == _PIECES:
            for field in _fields(model_proto, piece.start, piece.end):
                if field.number == _TYPE and model_proto[field.start : field.end] == bytes([_USER_DEFINED]):
                    changed[field.start] = _CONTROL
    return bytes(changed)


def _fields(data: bytes, position: int, end: int) -> Iterator[_Field]:
    """The fields of the message ``data[position:end]``."""
    while position < end:
        key, position = _varint(data, position, end)
        start = position
        kind = key & 7
        if kind == _VARINT:
            _, position = _varint(data, position, end)
        elif kind == _BYTES:
            length, start = _varint(data, position, end)
            position = start + length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"it has a field of kind {kind}")
        if position > end:
            raise ValueError("a field ends after its message")
        yield _Field(key >> 3, start, position)


def _varint(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A number of variable length, and the position after it."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= end:
            raise ValueError("it was cut short")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ValueError("it has a number of more than ten bytes")
