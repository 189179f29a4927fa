"""The corpora that a folder of corpora lacks: one that ``scripts.data`` built names them in absent.txt."""

from __future__ import annotations

from pathlib import Path

from model.errors import DataError

LIST = "absent.txt"


def absent(data: Path) -> frozenset[str]:
    """The names of the corpora that a folder lacks: the parts of the lines of its absent.txt before the colon.

    Raises:
        DataError: The file cannot be read.
    """
    path = data / LIST
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}.") from error
    return frozenset(line.partition(":")[0] for line in lines)
