"""Files that are written whole or not at all, and SHA-256 digests of files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

_DIGEST = re.compile("[0-9a-fA-F]{64}")


@contextlib.contextmanager
def atomic_write(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Write a file under another name in the same folder, and give it its own name when it is complete.

    After an error in the block the file with the other name is deleted, and ``path`` is as it was.

    Args:
        path: The file; its folder is made if needed.
        shared: Whether several processes or threads may write ``path`` at once.

    Yields:
        The file to write.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = f".{os.getpid()}-{threading.get_ident()}" if shared else ""
    unfinished = path.with_name(f"{path.name}{writer}.unfinished")
    try:
        yield unfinished
        put_in_place(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)
        raise


def put_in_place(written: Path, path: Path) -> None:
    """Give a complete file its name. When this returns, a power cut leaves it there and whole; until then what was.

    Args:
        written: The file, in the same folder.
        path: Its name; a file that has it is replaced.
    """
    with written.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(written, path)
    if os.name != "nt":  # where folders cannot be opened
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
