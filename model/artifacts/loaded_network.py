"""A bundle's network, which can be freed while a decoder has its weights in another form."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from model.network.transformer import Transformer

KEPT_S = 60.0
"""How long a rebuilt network stays in memory after its last use."""


class LoadedNetwork:
    """A network that can be freed, and is rebuilt when it is needed. Any thread may use it.

    Args:
        module: The network.
        clock: Returns the time in seconds.
    """

    def __init__(self, module: Transformer, clock: Callable[[], float] = time.monotonic) -> None:
        self._module: Transformer | None = module
        self._clock = clock
        self._rebuild: Callable[[], Transformer] | None = None
        self._used = clock()
        self._lock = threading.Lock()

    @property
    def in_memory(self) -> bool:
        """Whether the network need not be rebuilt."""
        return self._module is not None

    def get(self) -> Transformer:
        """The network, rebuilt if it is not in memory."""
        with self._lock:
            if self._module is None:
                assert self._rebuild is not None
                self._module = self._rebuild()
            self._used = self._clock()
            return self._module

    def free(self, rebuild: Callable[[], Transformer]) -> None:
        """Free the network now, and let :meth:`tidy` free it again after it was rebuilt.

        Args:
            rebuild: Returns an equal network.
        """
        with self._lock:
            self._rebuild, self._module = rebuild, None

    def tidy(self) -> None:
        """Free the network if it can be rebuilt and has not been used for :data:`KEPT_S`."""
        if not self._lock.acquire(blocking=False):
            return  # it is being rebuilt
        try:
            if self._rebuild is not None and self._clock() - self._used >= KEPT_S:
                self._module = None
        finally:
            self._lock.release()
