"""SHA-256 digests of files, and what a digest looks like."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

_DIGEST = re.compile("[0-9a-fA-F]{64}")


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 digest in hexadecimal."""
    return _DIGEST.fullmatch(text) is not None


def file_digest(path: Path) -> str:
    """The SHA-256 digest of a file, in small hexadecimal letters.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
