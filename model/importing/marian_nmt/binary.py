"""Marian's binary format: models in float32, and Firefox's models with int8 matrices (``intgemm8``).

Little-endian: version and number of items (u64 each); for each item the length of its name, its type, rank and number
of bytes (u64 each); all names, each with a closing zero byte; all shapes (i32); a number of bytes to skip (u64); the
bytes of the items, back to back.

An ``intgemm8`` matrix (C in, C out) is stored transposed, one byte for each value, followed by its multiplier
(float32). Embeddings are stored as they are.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import numpy as np

from model.errors import ArtifactError
from model.importing.marian_nmt.items import MAX_ITEMS, MAX_NAME_BYTES, MAX_RANK, Item, MarianFile

_VERSION = 1
_HEADER = struct.Struct("<QQ")
_HEAD = struct.Struct("<QQQQ")
_PADDING = struct.Struct("<Q")
_MULTIPLIER_BYTES = 4

_FLOAT32, _INT8, _INTGEMM8 = 0x404, 0x101, 0x4101
_VALUE_BYTES = {_FLOAT32: 4, _INT8: 1, _INTGEMM8: 1}
"""Bytes of a value, by type."""


class _Head(NamedTuple):
    """Type, shape and position of an item; positions and sizes in bytes."""

    kind: int
    shape: tuple[int, ...]
    start: int
    size: int


def is_binary_model(path: Path) -> bool:
    """Whether a file begins as a model in this format does.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(_HEADER.size + _HEAD.size)
    if len(start) < _HEADER.size + _HEAD.size:
        return False
    version, num_items = _HEADER.unpack_from(start)
    name_length, _, rank, _ = _HEAD.unpack_from(start, _HEADER.size)
    return (
        version == _VERSION
        and 1 <= num_items <= MAX_ITEMS
        and 2 <= name_length <= MAX_NAME_BYTES
        and 1 <= rank <= MAX_RANK
    )


class BinaryFile(MarianFile):
    """A model in Marian's binary format. The file is mapped into memory; only its table of items is read at once.

    Args:
        path: The file.

    Raises:
        ArtifactError: It is damaged, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            with path.open("rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise self.damaged(str(error)) from error
        self._position = 0
        self._heads = self._read_heads()

    @property
    def names(self) -> Collection[str]:
        """Names of all items."""
        return self._heads.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """The dimensions of an item."""
        return self._heads[name].shape

    def text(self, name: str) -> bytes:
        """The bytes of an item."""
        head = self._heads[name]
        return self._data[head.start : head.start + math.prod(head.shape)]

    def item(self, name: str) -> Item:
        """Read an item."""
        head = self._heads[name]
        size = math.prod(head.shape)
        if head.kind == _FLOAT32:
            return Item(name, np.frombuffer(self._data, np.dtype("<f4"), size, head.start).reshape(head.shape))
        if head.kind != _INTGEMM8:
            raise self.damaged(f"{name} has type {head.kind:#x}, which a tensor of a model does not have")
        levels = np.frombuffer(self._data, np.int8, size, head.start)
        (multiplier,) = np.frombuffer(self._data, np.dtype("<f4"), 1, head.start + size)
        if not np.finfo(np.float32).tiny <= multiplier < np.inf:  # its reciprocal is finite
            raise self.damaged(f"{name} has the multiplier {multiplier}, which must be above 0")
        if (levels == -128).any():
            raise self.damaged(f"{name} has the level -128; levels are -127 to 127")
        if "Wemb" in name or len(head.shape) != 2:
            return Item(name, levels.reshape(head.shape), multiplier)
        return Item(name, levels.reshape(head.shape[::-1]).T, multiplier)

    def _read_heads(self) -> dict[str, _Head]:
        """The table of items; each size is compared with the length of the file."""
        version, num_items = self._take(_HEADER, "the number of items")
        if version != _VERSION:
            raise self.damaged(f"it has version {version}; version {_VERSION} is supported")
        if num_items > MAX_ITEMS:
            raise self.damaged(f"it has {num_items} items; the limit is {MAX_ITEMS}")
        heads = [self._take(_HEAD, "the table of items") for _ in range(num_items)]
        names = [self._take_name(length) for length, *_ in heads]
        shapes = [self._take_shape(name, rank) for name, (_, _, rank, _) in zip(names, heads, strict=True)]
        (padding,) = self._take(_PADDING, "the table of items")
        self._skip(padding, "the padding before the first item")
        items: dict[str, _Head] = {}
        for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
            if name in items:
                raise self.damaged(f"it has the item {name} twice")
            self._check_size(name, kind, shape, size)
            items[name] = _Head(kind, shape, self._position, size)
            self._skip(size, name)
        if self._position != len(self._data):
            raise self.damaged(f"it has {len(self._data) - self._position} bytes after the last item")
        return items

    def _take(self, layout: struct.Struct, part: str) -> tuple[int, ...]:
        start = self._position
        self._skip(layout.size, part)
        return layout.unpack_from(self._data, start)

    def _take_name(self, length: int) -> str:
        start = self._position
        if not 2 <= length <= MAX_NAME_BYTES:
            raise self.damaged(f"a name of an item has {length} bytes; the limit is {MAX_NAME_BYTES}")
        self._skip(length, "the names of the items")
        raw = self._data[start : self._position]
        if not raw.isascii() or raw.find(0) != length - 1:
            raise self.damaged(f"the name {raw[:40]!r} of an item is not text with a closing zero byte")
        return raw[:-1].decode()

    def _take_shape(self, name: str, rank: int) -> tuple[int, ...]:
        if not 1 <= rank <= MAX_RANK:
            raise self.damaged(f"{name} has {rank} dimensions; 1 to {MAX_RANK} are supported")
        shape = self._take(struct.Struct(f"<{rank}i"), "the shapes of the items")
        if min(shape) < 1:
            raise self.damaged(f"{name} has the shape {shape}")
        return shape

    def _check_size(self, name: str, kind: int, shape: tuple[int, ...], size: int) -> None:
        if kind not in _VALUE_BYTES:
            raise ArtifactError(
                f"{self.path}: {name} has the type {kind:#x}; float32 ({_FLOAT32:#x}) and intgemm8 "
                f"({_INTGEMM8:#x}) are supported. Convert the model's float32 .npz instead."
            )
        needed = math.prod(shape) * _VALUE_BYTES[kind] + (_MULTIPLIER_BYTES if kind == _INTGEMM8 else 0)
        if size < needed:
            raise self.damaged(f"{name} of shape {shape} needs {needed} bytes and has {size}")

    def _skip(self, num_bytes: int, part: str) -> None:
        """Move the position forward within the file."""
        if num_bytes > len(self._data) - self._position:
            raise self.damaged(f"it ends in {part}, after {len(self._data)} bytes")
        self._position += num_bytes
