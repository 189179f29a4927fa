"""Translation memories on threads of their own: one that changes them and one that looks sentences up.

Nothing is opened, imported or started before a memory is created, unless ``VERSO_DATA_DIR`` has memories.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

from app.errors import ImportRunning, MemoryFileRefused, MemoryNotFound
from app.memories.chosen import ChosenMemories
from app.memories.database import FILE_NAME
from app.memories.file_units import add_texts, source_of
from app.memories.lookup import Lookup
from app.memories.store import CORRECTIONS, Added, MemoryBounds, MemoryInfo, MemoryStore
from app.memories.unit import StoredUnit, Unit
from app.serving.request import MemoryChoice
from app.settings import Settings
from app.steady_pool import SteadyPool
from app.storage import storage_errors
from model.languages import standard_code
from model.translation.memory import MemoryMatch

_T = TypeVar("_T")

MAX_IMPORTS = 2
"""Imports that run at the same time, one for each key."""

PAGE_UNITS = 500
"""Units of an export that are read at once."""

_NOTE_S = 5.0
"""Seconds after which it is stored which units have answered requests."""

_MAX_NOTED = 10_000


@dataclass(frozen=True)
class Imported:
    """The result of an import.

    Args:
        memory: The memory.
        added: What was added to it.
        skipped: Units of the file without a source and a translation that can be stored.
    """

    memory: MemoryInfo
    added: Added
    skipped: int


class MemoryService:
    """The translation memories of a process. Its methods belong to the event loop.

    An owner is the id of a key, empty for memories without an owner, or None for those of all owners.

    Args:
        settings: The folder, and the limits of one owner.
        clock: Seconds since 1970.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._clock = clock
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._stores: dict[SteadyPool, MemoryStore] = {}
        self._importing: set[str] = set()
        self._purging: asyncio.Task[None] | None = None
        self._used: set[int] = set()
        self._next_note: asyncio.TimerHandle | None = None

    @property
    def has_any(self) -> bool:
        """Whether there may be memories; nothing is opened to find out."""
        folder = self._settings.data_dir
        return bool(self._stores) or (folder is not None and (folder / FILE_NAME).exists())

    async def close(self) -> None:
        """Close the file."""
        if self._purging is not None:
            self._purging.cancel()
        if self._next_note is not None:
            self._next_note.cancel()
            with contextlib.suppress(Exception):
                await self._store_used()
        for pool, store in list(self._stores.items()):
            await asyncio.wrap_future(pool.submit(store.close))
        for name in ("_writer", "_reader"):
            if name in vars(self):
                getattr(self, name).shutdown(wait=False)
        self._stores = {}
        if self._temporary is not None:
            self._temporary.cleanup()

    async def create(self, owner: str | None, name: str, source: str) -> MemoryInfo:
        """A new, empty memory.

        Args:
            owner: Its owner.
            name: Its name.
            source: The language of its source texts.

        Raises:
            MemoryStoreFull: The owner has too many.
        """
        return await self._change(lambda store: store.create(owner, name, standard_code(source), self._clock()))

    async def all(self, owner: str | None) -> list[MemoryInfo]:
        """The memories of an owner, the oldest first."""
        return await self._read(lambda store: store.all(owner)) if self.has_any else []

    async def get(self, owner: str | None, id: str) -> MemoryInfo:
        """A memory.

        Raises:
            MemoryNotFound: The owner has none with this id.
        """
        self._require_any(id)
        return await self._read(lambda store: store.get(owner, id))

    async def delete(self, owner: str | None, id: str) -> MemoryInfo:
        """Delete a memory.

        Raises:
            MemoryNotFound: The owner has none with this id.
        """
        self._require_any(id)
        memory = await self._change(lambda store: store.delete(owner, id))
        self._purge_soon()
        return memory

    async def delete_all(self, owner: str | None) -> int:
        """Delete all memories of an owner; returns their number."""
        memories = await self.all(owner)
        for memory in memories:
            with contextlib.suppress(MemoryNotFound):  # deleted meanwhile
                await self.delete(owner, memory.id)
        return len(memories)

    async def add(self, owner: str | None, id: str, units: Sequence[Unit]) -> Added:
        """Add units to a memory; those with the same source and language are replaced.

        Args:
            owner: The owner of the memory.
            id: The memory.
            units: The units, without flaws.

        Raises:
            MemoryNotFound: The owner has no such memory.
            MemoryStoreFull: There would be too many units or bytes.
        """
        self._require_any(id)
        units = [replace(unit, language=standard_code(unit.language)) for unit in units]
        return await self._change(lambda store: store.add(owner, id, units, self._clock()))

    async def add_corrections(
        self, owner: str | None, source_language: str, units: Sequence[Unit]
    ) -> tuple[MemoryInfo, Added]:
        """Store corrected or confirmed translations of sentences in the memory of the owner's corrections.

        Args:
            owner: The owner.
            source_language: The language of the sentences.
            units: The sentences with their translations, without flaws.

        Returns:
            The memory of corrections for this language, and what was added to it.

        Raises:
            MemoryStoreFull: There would be too many units or bytes.
        """
        units = [replace(unit, language=standard_code(unit.language)) for unit in units]

        def add(store: MemoryStore) -> tuple[MemoryInfo, Added]:
            memory = store.corrections(owner, standard_code(source_language), self._clock())
            return memory, store.add(owner, memory.id, units, self._clock())

        return await self._change(add)

    async def units(
        self, owner: str | None, id: str, after: int = 0, limit: int = 50, language: str | None = None
    ) -> list[StoredUnit]:
        """Units of a memory, the oldest first; see :meth:`app.memories.store.MemoryStore.units`."""
        self._require_any(id)
        return await self._read(lambda store: store.units(owner, id, after, limit, language))

    async def delete_unit(self, owner: str | None, id: str, unit: int) -> StoredUnit:
        """Delete a unit of a memory.

        Raises:
            MemoryNotFound: The owner has no such memory.
            MemoryUnitNotFound: The memory has no such unit.
        """
        self._require_any(id)
        return await self._change(lambda store: store.delete_unit(owner, id, unit, self._clock()))

    async def pages(self, owner: str | None, id: str) -> AsyncGenerator[list[StoredUnit], None]:
        """All units of a memory, some hundred at a time.

        Raises:
            MemoryNotFound: The owner has no such memory.
        """
        after = 0
        while page := await self.units(owner, id, after, PAGE_UNITS):
            yield page
            after = page[-1].id

    async def import_tmx(
        self, owner: str | None, chunks: AsyncIterator[bytes], id: str | None = None, name: str = ""
    ) -> Imported:
        """Add the units of a TMX file, which is read by a process of its own while it arrives.

        Args:
            owner: The owner of the memory.
            chunks: The bytes of the file.
            id: The memory, which keeps the units that came before an error; None for a new one.
            name: The name of a new memory; its source language is that of the file.

        Raises:
            MemoryNotFound: The owner has no such memory.
            MemoryStoreFull: There would be too many units or bytes.
            MemoryFileRefused: It is not valid TMX, has no unit that can be used, or takes too long.
            MemoryFileTooLarge: It has too many bytes.
            ImportRunning: The owner has a running import, or the service has too many.
        """
        memory = None if id is None else await self.get(owner, id)
        with self._import_of(owner or ""):
            try:
                async with asyncio.timeout(self._settings.max_memory_import_s):
                    return await self._imported(owner, chunks, memory, name)
            except TimeoutError:
                raise MemoryFileRefused(
                    f"The import was not finished within {self._settings.max_memory_import_s} s; divide the file."
                ) from None

    async def check(self, owner: str | None, choice: MemoryChoice) -> None:
        """Check that memories exist.

        Args:
            owner: Their owner.
            choice: Their ids, or :data:`~app.memories.store.CORRECTIONS`.

        Raises:
            MemoryNotFound: The owner has no memory with one of the ids.
        """
        if set(choice.ids) == {CORRECTIONS}:
            return
        own_ids = {memory.id for memory in await self.all(owner)} | {CORRECTIONS}
        for id in choice.ids:
            if id not in own_ids:
                raise MemoryNotFound(id)

    def chosen(self, owner: str | None, choice: MemoryChoice) -> ChosenMemories:
        """Memories for :class:`app.serving.request.TranslationRequest`.

        Args:
            owner: Their owner.
            choice: Their ids; none for all memories of the owner.
        """
        return ChosenMemories(self, owner, choice)

    async def look_up(self, search: Callable[[Lookup], _T]) -> _T:
        """The result of a look-up, on the thread of look-ups.

        Args:
            search: The look-up.
        """
        return await self._read(lambda store: search(Lookup(store.connection)))

    def note_used(self, matches: Sequence[MemoryMatch | None]) -> None:
        """Note that matches have answered a request; it is stored after some seconds."""
        self._used.update(match.unit for match in matches if match is not None and len(self._used) < _MAX_NOTED)
        if self._used and self._next_note is None:
            loop = asyncio.get_running_loop()
            self._next_note = loop.call_later(_NOTE_S, lambda: loop.create_task(self._store_used()))

    async def _store_used(self) -> None:
        used, self._used, self._next_note = list(self._used), set(), None
        with contextlib.suppress(Exception):  # it is of little use; the reason is logged
            await self._change(lambda store: store.note_used(used, self._clock()))

    async def _imported(
        self, owner: str | None, chunks: AsyncIterator[bytes], memory: MemoryInfo | None, name: str
    ) -> Imported:
        # Imported here: only imports need it.
        from app.memories.tmx_process import read_tmx

        added, skipped, is_new = Added(), 0, memory is None
        settings = self._settings
        batches = read_tmx(chunks, settings.max_memory_file_bytes, settings.max_memory_import_s)
        try:
            async with contextlib.aclosing(batches):
                async for batch in batches:
                    if memory is None:
                        source = source_of(batch.source_language, batch.units)
                        memory = await self._change(partial(_create, owner, name, source, self._clock()))
                    add = partial(add_texts, owner=owner, memory=memory, texts=batch.units, now=self._clock())
                    more, num_skipped = await self._change(add)
                    added, skipped = added + more, skipped + num_skipped
            if memory is None or added == Added():
                source = "any language" if memory is None else memory.source
                raise MemoryFileRefused(
                    f"The file has no unit with a text in {source} and a translation ({skipped} units were skipped)."
                )
        except BaseException:
            if is_new and memory is not None:
                await asyncio.shield(self.delete(owner, memory.id))
            raise
        return Imported(await self.get(owner, memory.id), added, skipped)

    @contextlib.contextmanager
    def _import_of(self, owner: str) -> Iterator[None]:
        if owner in self._importing or len(self._importing) >= MAX_IMPORTS:
            raise ImportRunning(MAX_IMPORTS)
        self._importing.add(owner)
        try:
            yield
        finally:
            self._importing.discard(owner)

    def _purge_soon(self) -> None:
        if self._purging is None or self._purging.done():
            self._purging = asyncio.get_running_loop().create_task(self._purge())

    async def _purge(self) -> None:
        while await self._change(lambda store: store.purge()):
            await asyncio.sleep(0)

    def _require_any(self, id: str) -> None:
        if not self.has_any:
            raise MemoryNotFound(id)

    @cached_property
    def _writer(self) -> SteadyPool:
        return SteadyPool(max_workers=1, thread_name_prefix="verso-memories")

    @cached_property
    def _reader(self) -> SteadyPool:
        return SteadyPool(max_workers=1, thread_name_prefix="verso-look-ups")

    async def _change(self, function: Callable[[MemoryStore], _T]) -> _T:
        is_first = self._writer not in self._stores
        result = await self._on(self._writer, function)
        if is_first:
            self._purge_soon()  # what an earlier process has not finished
        return result

    async def _read(self, function: Callable[[MemoryStore], _T]) -> _T:
        return await self._on(self._reader, function)

    async def _on(self, pool: SteadyPool, function: Callable[[MemoryStore], _T]) -> _T:
        """Call a function of the store of a thread.

        Raises:
            StorageFull: The disk is full.
            StorageUnavailable: The disk cannot be read or written.
        """

        def call() -> _T:
            if pool not in self._stores:
                self._stores[pool] = MemoryStore(self._folder(), self._bounds)
            return function(self._stores[pool])

        with storage_errors():
            return await asyncio.wrap_future(pool.submit(call))

    def _folder(self) -> Path:
        if self._settings.data_dir is not None:
            return self._settings.data_dir
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="verso-memories-", ignore_cleanup_errors=True)
        return Path(self._temporary.name)

    @property
    def _bounds(self) -> MemoryBounds:
        return bounds_of(self._settings)


def bounds_of(settings: Settings) -> MemoryBounds:
    """The limits of one owner."""
    return MemoryBounds(
        settings.max_memories_per_key, settings.max_memory_units_per_key, settings.max_memory_bytes_per_key
    )


def _create(owner: str | None, name: str, source: str, now: float, store: MemoryStore) -> MemoryInfo:
    return store.create(owner, name, source, now)
