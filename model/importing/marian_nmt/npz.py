"""Marian's ``.npz``: an archive of numpy arrays in float32, in which matrices of layers are (C in, C out)."""

from __future__ import annotations

import math
import tokenize
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from model.artifacts.data_form import ARCHIVE_ERRORS, is_archive
from model.importing.marian_nmt.items import DESCRIPTION, MAX_ITEMS, MAX_NAME_BYTES, MAX_RANK, Item, MarianFile

_SUFFIX = ".npy"
_ENCRYPTED = 0x1
"""Bit of a member's flags."""

_MAX_HEADER_BYTES = 10_000
_FLOAT32 = np.dtype("<f4")
_BYTES = (np.dtype("i1"), np.dtype("u1"))
"""Types of a text."""


class _Member(NamedTuple):
    """An array of the archive; positions in bytes from the start of the member."""

    info: zipfile.ZipInfo
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    start: int


def is_npz_model(path: Path) -> bool:
    """Whether a file is an archive of arrays with the description of a Marian model.

    Raises:
        OSError: It cannot be read.
    """
    if not is_archive(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{DESCRIPTION}{_SUFFIX}" in archive.namelist()
    except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeDecodeError):
        return False


class NpzFile(MarianFile):
    """A model in Marian's ``.npz``. Only the headers of the arrays are read at once.

    Members are stored uncompressed, as Marian writes them, so together they are no larger than the file.

    Args:
        path: The file.

    Raises:
        ArtifactError: It is damaged, or cannot be read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with self._reading() as archive:
            self._members = dict(self._read_members(archive))

    @property
    def names(self) -> Collection[str]:
        """Names of all items."""
        return self._members.keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """The dimensions of an item."""
        return self._members[name].shape

    def text(self, name: str) -> bytes:
        """The bytes of an item that is a text."""
        member = self._members[name]
        if member.dtype not in _BYTES:
            raise self.damaged(f"{name} has type {member.dtype}; it must be text")
        return self._content(member)

    def item(self, name: str) -> Item:
        """Read an item."""
        member = self._members[name]
        if member.dtype != _FLOAT32:
            raise self.damaged(f"{name} has type {member.dtype}; float32 is supported")
        return Item(name, np.frombuffer(self._content(member), _FLOAT32).reshape(member.shape))

    def _content(self, member: _Member) -> bytes:
        with self._reading() as archive, archive.open(member.info) as content:
            content.seek(member.start)
            return content.read()

    def _read_members(self, archive: zipfile.ZipFile) -> Iterator[tuple[str, _Member]]:
        infos = archive.infolist()
        if len(infos) > MAX_ITEMS:
            raise self.damaged(f"it has {len(infos)} arrays; the limit is {MAX_ITEMS}")
        size = self.path.stat().st_size
        if sum(info.file_size for info in infos) > size:
            raise self.damaged("its arrays are larger than the file")
        names: set[str] = set()
        for info in infos:
            name = info.filename.removesuffix(_SUFFIX)
            if len(name) > MAX_NAME_BYTES or not name.isascii():
                raise self.damaged(f"it has an array called {name[:40]!r}")
            if name in names:
                raise self.damaged(f"it has the array {name} twice")
            if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
                raise self.damaged(f"{name} is compressed; arrays are stored as they are, as numpy.savez does")
            if info.flag_bits & _ENCRYPTED:
                raise self.damaged(f"{name} is encrypted")
            names.add(name)
            with archive.open(info) as content:
                yield name, self._read_header(name, info, content)

    def _read_header(self, name: str, info: zipfile.ZipInfo, content: IO[bytes]) -> _Member:
        """Type and shape of an array, compared with its number of bytes."""
        version = np.lib.format.read_magic(content)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise self.damaged(f"{name} has version {version} of numpy's format; 1.0 and 2.0 are supported")
        shape, is_transposed, dtype = readers[version](content, max_header_size=_MAX_HEADER_BYTES)
        if dtype != _FLOAT32 and dtype not in _BYTES:
            raise self.damaged(f"{name} has type {dtype}; float32 is supported")
        if is_transposed or not 1 <= len(shape) <= MAX_RANK or min(shape) < 1:
            raise self.damaged(f"{name} has the shape {str(shape)[:60]} in an order that Marian does not write")
        start = content.tell()
        if start + math.prod(shape) * dtype.itemsize != info.file_size:
            raise self.damaged(f"{name} of shape {shape} and type {dtype} has {info.file_size - start} bytes")
        return _Member(info, dtype, shape, start)

    @contextmanager
    def _reading(self) -> Iterator[zipfile.ZipFile]:
        """Open the archive, and report what cannot be read of it."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        # numpy evaluates the header of an array as a Python literal, which raises what the parser of Python does.
        except (*ARCHIVE_ERRORS, ValueError, TypeError, SyntaxError, MemoryError, tokenize.TokenError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise self.damaged(reason[0][:200]) from error
