"""Files that survive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def put_in_place(written: Path, path: Path) -> None:
    """Give a complete file its name. When this returns, a power cut leaves it there and whole; until then what was.

    Args:
        written: The file, in the same folder.
        path: Its name; a file that has it is replaced.
    """
    with written.open("rb+") as file:
        os.fsync(file.fileno())
    os.replace(written, path)
    _write_through(path.parent)


def _write_through(folder: Path) -> None:
    """Wait until the names of the files in a folder are on the disk."""
    if os.name == "nt":
        return  # folders cannot be opened
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
