"""A model of a disk: what it has after a kill and after a power cut, from a record of the operations.

The processes see every operation in its order. A disk keeps less: the content of a file that was not synced may be
lost page by page, and a name that was made, replaced or removed may be as before until its folder is synced, each in
any order (Pillai et al. 2014, "All File Systems Are Not Created Equal", section 3). No file system loses all that this
model loses. A replacement is atomic: the new name and the loss of the old one are kept or lost together.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PAGE_BYTES = 4096
"""A part of a file that is written whole or not at all."""

Content = bytes | None
"""Of a file; None for a folder."""

Tree = dict[str, Content]
"""Files and folders by their path, relative to the watched folder."""


@dataclass(frozen=True)
class Operation:
    """An entry of a record (``files.cpp``).

    Args:
        kind: ``o`` open, ``c`` close, ``w`` write, ``t`` truncate, ``a`` allocate room, ``f`` sync, ``r`` rename,
            ``u`` remove, ``m`` make a folder, ``x`` one of these that failed by itself, ``n`` a note.
        fd: The descriptor.
        first: The flags, offset or size.
        second: The size.
        path: The path.
        target: The new path.
        data: What is written or noted.
    """

    kind: str
    fd: int
    first: int
    second: int
    path: str
    target: str
    data: bytes

    @property
    def is_counted(self) -> bool:
        """Whether it can fail."""
        return self.kind not in "cn"


def read_record(path: Path) -> Iterator[Operation]:
    """The operations of a record."""
    content = path.read_bytes()
    position = 0
    while position < len(content):
        end = content.index(b"\n", position)
        kind, *numbers = content[position:end].split()
        fd, first, second, *lengths = map(int, numbers)
        position = end + 1
        parts = []
        for length in lengths:
            parts.append(content[position : position + length])
            position += length
        name, target, data = parts
        yield Operation(kind.decode(), fd, first, second, os.fsdecode(name), os.fsdecode(target), data)


@dataclass(eq=False)
class File:
    """A file: what processes see, what is on the disk for certain, and the changes since then.

    Args:
        content: What processes see.
        synced: What the last sync wrote.
        pending: Changes since then: an offset and bytes, or a size and None for one that was set.
    """

    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)

    def change(self, position: int, data: bytes | None) -> None:
        """Write at an offset, or set the size."""
        _apply(self.content, position, data)
        self.pending.append((position, data))

    def sync(self) -> None:
        """Write everything to the disk."""
        self.synced = bytes(self.content)
        self.pending.clear()

    def after_power_cut(self, keeps: Keeps) -> bytes:
        """What the disk has after a power cut."""
        content = bytearray(self.synced)
        for position, data in self.pending:
            if data is None:
                if keeps():
                    _apply(content, position, None)
                continue
            begin = position
            while begin < position + len(data):
                end = min((begin // PAGE_BYTES + 1) * PAGE_BYTES, position + len(data))
                if keeps():
                    _apply(content, begin, data[begin - position : end - position])
                begin = end
        return bytes(content)


class Keeps:
    """Decides what a disk kept.

    Args:
        rng: Decides, unless the share is 0 or 1.
        share: The share that it kept.
    """

    def __init__(self, rng: random.Random, share: float) -> None:
        self._rng = rng
        self._share = share

    def __call__(self) -> bool:
        """Whether it kept the next change."""
        return self._rng.random() < self._share


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if len(content) < position:
        content.extend(bytes(position - len(content)))
    if data is None:
        del content[position:]
    else:
        content[position : position + len(data)] = data


Node = File | None
"""A file; None for a folder."""

_MISSING = object()


class Disk:
    """The watched folder, as operations change it.

    Args:
        root: The folder. What it has now is on the disk for certain.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._names: dict[str, Node] = {}
        self._open: dict[int, Node | str] = {}
        for path in root.rglob("*"):
            content = b"" if path.is_dir() else path.read_bytes()
            self._names[str(path)] = None if path.is_dir() else File(bytearray(content), content)
        self._synced = dict(self._names)
        self._pending: list[dict[str, Node | object]] = []

    def apply(self, operation: Operation) -> None:
        """Follow one operation."""
        fd, path = operation.fd, operation.path
        match operation.kind:
            case "o":
                self._open[fd] = self._opened(path, operation.first)
            case "c":
                self._open.pop(fd, None)
            case "w":
                self._file(fd).change(operation.first, operation.data)
            case "t":
                self._file(fd).change(operation.first, None)
            case "a":
                file, size = self._file(fd), operation.first + operation.second
                if size > len(file.content):
                    file.change(size, None)
            case "f":
                self._sync(fd)
            case "m":
                self._rename({path: None})
            case "u":
                self._rename({path: _MISSING})
            case "r":
                self._rename({operation.target: self._names[path], path: _MISSING})
            case _:
                pass

    def as_seen(self, half: Operation | None = None) -> Tree:
        """What the next process finds after a kill.

        Args:
            half: A write of which a half was made before it.
        """
        tree = {path: None if node is None else bytes(node.content) for path, node in self._names.items()}
        if half is not None and (node := self._open.get(half.fd)) and isinstance(node, File):
            content = bytearray(node.content)
            _apply(content, half.first, half.data[: len(half.data) // 2])
            tree.update({path: bytes(content) for path, named in self._names.items() if named is node})
        return self._relative(tree)

    def after_power_cut(self, rng: random.Random, names: float, contents: float) -> Tree:
        """What the next process finds after a power cut.

        Args:
            rng: Decides what was kept.
            names: The share of changes of names that was kept.
            contents: The share of pages.
        """
        kept: dict[str, Node | object] = dict(self._synced)
        keeps = Keeps(rng, names)
        for change in self._pending:
            if keeps():
                kept.update(change)
        keeps = Keeps(rng, contents)
        tree: dict[str, Content] = {}
        for path, node in sorted(kept.items()):
            parent = os.path.dirname(path)
            if node is not _MISSING and (parent == self._root or parent in tree):
                tree[path] = node.after_power_cut(keeps) if isinstance(node, File) else None
        return self._relative(tree)

    def _opened(self, path: str, flags: int) -> Node | str:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return File()
        if path == self._root or (path in self._names and self._names[path] is None):
            return path
        file = self._names.get(path)
        if file is None:
            file = File()
            self._rename({path: file})
        elif flags & os.O_TRUNC and file.content:
            file.change(0, None)
        return file

    def _file(self, fd: int) -> File:
        file = self._open[fd]
        assert isinstance(file, File)
        return file

    def _rename(self, change: dict[str, Node | object]) -> None:
        for path, node in change.items():
            if node is _MISSING:
                self._names.pop(path, None)
            else:
                assert node is None or isinstance(node, File)
                self._names[path] = node
        self._pending.append(change)

    def _sync(self, fd: int) -> None:
        node = self._open[fd]
        if isinstance(node, File):
            node.sync()
            return
        remaining = []
        for change in self._pending:
            if any(os.path.dirname(path) == node for path in change):
                for path, named in change.items():
                    if named is _MISSING:
                        self._synced.pop(path, None)
                    else:
                        assert named is None or isinstance(named, File)
                        self._synced[path] = named
            else:
                remaining.append(change)
        self._pending = remaining

    def _relative(self, tree: Mapping[str, Content]) -> Tree:
        return {path[len(self._root) + 1 :]: content for path, content in sorted(tree.items())}


def write_tree(tree: Tree, folder: Path) -> None:
    """Make a folder that has a tree, and nothing else."""
    for path, content in sorted(tree.items()):
        if content is None:
            (folder / path).mkdir(mode=0o700)
        else:
            (folder / path).write_bytes(content)
            (folder / path).chmod(0o600)


def read_tree(folder: Path) -> Tree:
    """The files and folders of a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }
