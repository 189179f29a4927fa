"""A process of a benchmark that only reads its environment; its file imports little, as the process imports it too."""

from __future__ import annotations

import os
from collections.abc import Callable


def variable_reader(name: str) -> Callable[[object], list[str | None]]:
    """Load a worker process whose jobs return the value of an environment variable.

    Args:
        name: Name of the variable.
    """
    return lambda job: [os.environ.get(name)]
