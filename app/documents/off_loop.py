"""What would block the event loop: the store, on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from app.steady_pool import SteadyPool
from app.storage import storage_errors

_T = TypeVar("_T")


class OffLoop:
    """Runs functions of the store. No thread is started before the first one."""

    @cached_property
    def _thread(self) -> SteadyPool:
        return SteadyPool(max_workers=1, thread_name_prefix="verso-documents")

    async def on_store(self, run: Callable[[], _T]) -> _T:
        """Call a function of the store; such calls are made one after the other.

        Args:
            run: The function.

        Raises:
            StorageFull: There is no room left on the disk.
            StorageUnavailable: The disk cannot be read or written.
        """
        with storage_errors():
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def on_store_soon(self, run: Callable[[], None]) -> None:
        """As :meth:`on_store`, without waiting for it."""
        self._thread.submit(run)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)
