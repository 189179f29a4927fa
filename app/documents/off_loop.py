"""What would block the event loop: the store, on a thread of its own, and files, one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TypeVar

from app.documents.formats.document_file import DocumentFile
from app.documents.formats.table import DocumentFormat
from app.steady_pool import SteadyPool
from app.storage import storage_errors

_T = TypeVar("_T")


class OffLoop:
    """Runs functions on other threads. No thread is started before the first function."""

    def __init__(self) -> None:
        """No thread yet."""
        self._one_file = asyncio.Semaphore(1)  # files take memory while they are unpacked and parsed

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

    async def read(self, format: DocumentFormat, content: bytes) -> DocumentFile:
        """Read a file.

        Args:
            format: Its format.
            content: Its bytes.

        Raises:
            DocumentRefused: It is broken or dangerous.
        """
        async with self._one_file:
            return await asyncio.to_thread(format.read, content)

    async def write(
        self, format: DocumentFormat, content: bytes, known: Mapping[int, str | None], target: str
    ) -> bytes:
        """A file with those of its units translated that are known.

        Args:
            format: Its format.
            content: Its bytes.
            known: The translations of its units, by their index.
            target: The target language.
        """

        def write() -> bytes:
            file = format.read(content)
            return file.write([known.get(index) for index in range(len(file.units))], target)

        async with self._one_file:
            return await asyncio.to_thread(write)

    def close(self) -> None:
        """Let the thread end."""
        self._thread.shutdown(wait=False)
