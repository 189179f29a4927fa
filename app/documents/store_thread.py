"""The thread of the store: its functions would block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from functools import cached_property
from typing import ParamSpec, TypeVar

from app.storage import storage_errors
from app.threads import SYSTEM, Threads

_P = ParamSpec("_P")
_T = TypeVar("_T")


class StoreThread:
    """Calls functions of the store on one thread. No thread is started before the first one.

    Args:
        threads: Makes the thread.
    """

    def __init__(self, threads: Threads = SYSTEM) -> None:
        self._threads = threads

    @cached_property
    def _thread(self) -> Executor:
        return self._threads.pool(1, "verso-documents")

    async def run(self, function: Callable[_P, _T], *arguments: _P.args, **options: _P.kwargs) -> _T:
        """Call a function of the store; calls are made one at a time, in order.

        Args:
            function: The function.
            arguments: Its arguments.
            options: Its keyword arguments.

        Raises:
            StorageFull: There is no room left on the disk.
            StorageUnavailable: The disk cannot be read or written.
        """
        with storage_errors():
            return await asyncio.wrap_future(self._thread.submit(function, *arguments, **options))

    def run_soon(self, function: Callable[_P, None], *arguments: _P.args, **options: _P.kwargs) -> None:
        """As :meth:`run`, without waiting for the result."""
        self._thread.submit(function, *arguments, **options)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)
