"""What is fuzzed: a function of bytes that either returns or refuses them, and the files that it begins with."""

from __future__ import annotations

import atexit
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

Change = Callable[[bytes], bytes]
"""Changes bytes, knowing nothing of what they mean."""

Mutate = Callable[[bytes, Change, random.Random], bytes]
"""Changes an input in a way that fits its form; given a change of bytes for the parts that have none."""


def _as_bytes(data: bytes, change: Change, rng: random.Random) -> bytes:
    return change(data)


@dataclass(frozen=True)
class Target:
    """A part of Verso that reads what anybody may have written.

    Args:
        name: What the command calls it.
        run: Reads an input, and asserts what must be true of the result.
        seeds: Makes valid and nearly valid inputs.
        refusals: The errors by which ``run`` may refuse an input; any other is a finding.
        mutate: Changes an input.
        size: The bytes that an input's time may depend on.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], list[bytes]]
    refusals: tuple[type[Exception], ...] = ()
    mutate: Mutate = _as_bytes
    size: Callable[[bytes], int] = len


@cache
def scratch_folder() -> Path:
    """A folder for the files of inputs; it is removed when the process ends."""
    folder = Path(tempfile.mkdtemp(prefix="verso-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
