"""How long work reports its progress: the caller passes something that wraps an iterable, such as a progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]
"""Wraps an iterable, with a label and its length, in a progress bar."""


def no_progress(items: Iterable[Any], label: str, total: int) -> Iterable[Any]:
    """A progress that shows nothing."""
    return items
