"""Files that are written whole or not at all, and SHA-256 digests of files."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

if sys.platform != "win32":
    import fcntl

UNFINISHED = ".unfinished"
"""The ending of a file that is being written."""

_FOLDER = ".folder"
_DIGEST = re.compile("[0-9a-fA-F]{64}")


@contextlib.contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Write a file under another name in the same folder, and give it its own name when it is complete.

    After an error in the block the file with the other name is deleted, and ``path`` is as it was. A process that is
    killed leaves the file with the other name, which the next one that writes ``path`` takes over. Several processes
    and threads may write ``path`` at once: each has a file of its own.

    Args:
        path: The file; its folder is made if needed.

    Yields:
        The file to write. It exists, is empty, and must not be replaced by another one.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    make_folder(path.parent)
    with _unfinished(path) as unfinished:
        try:
            yield unfinished
            put_in_place(unfinished, path)
        except BaseException:
            with contextlib.suppress(OSError):
                unfinished.unlink(missing_ok=True)
            raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, as :func:`atomic_write` does.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(content)


@contextlib.contextmanager
def working_folder(unfinished: Path) -> Iterator[Path]:
    """A folder for what is needed to write a file; it is deleted at the end.

    Args:
        unfinished: The file, of :func:`atomic_write`.

    Yields:
        The folder, beside it, empty.

    Raises:
        OSError: It cannot be made.
    """
    folder = _folder_of(unfinished)
    shutil.rmtree(folder, ignore_errors=True)  # of a process that was killed
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(folder: Path) -> None:
    """Delete the unfinished files of processes that were killed; not on Windows, where they are not locked.

    What cannot be deleted stays.

    Args:
        folder: A folder in which only this program writes.
    """
    folders = folder.glob(f"*{UNFINISHED}{_FOLDER}")
    for unfinished in {*folder.glob(f"*{UNFINISHED}"), *(path.with_suffix("") for path in folders)}:
        with contextlib.suppress(OSError), _locked(unfinished) as handle:
            if handle is not None:
                shutil.rmtree(_folder_of(unfinished), ignore_errors=True)
                unfinished.unlink()


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents. When this returns, a power cut leaves those that were created.

    Args:
        folder: The folder; an existing one stays as it is.
        mode: The access to those that are created.

    Raises:
        OSError: It cannot be created.
    """
    missing = itertools.takewhile(lambda parent: not parent.exists(), (folder, *folder.parents))
    for parent in reversed(list(missing)):
        parent.mkdir(mode=mode, exist_ok=True)
        sync_folder(parent.parent)


def put_in_place(written: Path, path: Path) -> None:
    """Give a complete file its name. When this returns, a power cut leaves it there and whole; until then what was.

    Args:
        written: The file, in the same folder.
        path: Its name; a file that has it is replaced.

    Raises:
        OSError: The disk is full or fails.
    """
    with written.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(written, path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write to the disk which files a folder has.

    Raises:
        OSError: The disk fails.
    """
    if sys.platform == "win32":  # where folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _unfinished(path: Path) -> Iterator[Path]:
    """A file for the content of another one that no other process or thread writes."""
    if sys.platform == "win32":  # where an open file cannot be renamed, so that it cannot stay locked
        unfinished = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}{UNFINISHED}")
        unfinished.write_bytes(b"")
        yield unfinished
        return
    for number in itertools.count():
        unfinished = path.with_name(f"{path.name}{f'.{number}' if number else ''}{UNFINISHED}")
        with _locked(unfinished) as handle:
            if handle is not None:
                os.ftruncate(handle, 0)
                yield unfinished
                return


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Lock a file while the context is open; yields its descriptor, or None if another process or thread locked it.

    Args:
        path: The file; a missing one is made.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        yield handle if _lock(handle) and _is_at(handle, path) else None
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether a path still names an open file: the process that had locked it may have renamed or deleted it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _folder_of(unfinished: Path) -> Path:
    return unfinished.with_name(f"{unfinished.name}{_FOLDER}")


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 digest in hexadecimal."""
    return _DIGEST.fullmatch(text) is not None


def file_digest(path: Path) -> str:
    """The SHA-256 digest of a file, in lower-case hexadecimal digits.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
