"""A bundle's network in memory, or out of it while a decoder has its weights in another form."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from model.network.transformer import Transformer

KEPT_S = 60.0
"""How long a network that was made again stays in memory after its last use."""


class LoadedNetwork:
    """A network that can leave memory, and is rebuilt when it is needed. Any thread may use it.

    Args:
        module: The network.
        clock: Gives the time in seconds.
    """

    def __init__(self, module: Transformer, clock: Callable[[], float] = time.monotonic) -> None:
        self._module: Transformer | None = module
        self._clock = clock
        self._make: Callable[[], Transformer] | None = None
        self._used = clock()
        self._lock = threading.Lock()

    @property
    def in_memory(self) -> bool:
        """Whether the network is there and need not be made."""
        return self._module is not None

    def get(self) -> Transformer:
        """The network, which is made if it is not in memory."""
        with self._lock:
            module = self._module
            if module is None:
                assert self._make is not None
                module = self._module = self._make()
            self._used = self._clock()
            return module

    def leave_memory(self, make: Callable[[], Transformer]) -> None:
        """Let the network leave memory now, and again when it has not been used for some time (:meth:`tidy`).

        Args:
            make: Makes an equal one.
        """
        with self._lock:
            self._make, self._module = make, None

    def tidy(self) -> None:
        """Let a network that can be made again leave memory if it has not been used for :data:`KEPT_S`."""
        if not self._lock.acquire(blocking=False):
            return  # it is being made
        try:
            if self._make is not None and self._clock() - self._used >= KEPT_S:
                self._module = None
        finally:
            self._lock.release()
