"""Folders of this user."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """Where files are kept that can be built again: ``$XDG_CACHE_HOME/verso`` or ``~/.cache/verso``.

    Raises:
        RuntimeError: The user has no home.
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "verso"
