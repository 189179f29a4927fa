"""The background task, which translates documents in turns and deletes expired ones.

One document is translated at a time. Owners take turns, by the document, or by half minutes if it takes longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from app.documents.document import KEPT_S, MEMORY, OPTIONS, Document, MemoryCounts, MemoryOf
from app.documents.file_process import FileProcess
from app.documents.formats.table import format_of
from app.documents.job import Job, Suspended
from app.documents.store_thread import StoreThread
from app.errors import DocumentTooComplex, NotReady, StorageFull, StorageUnavailable, problem_for
from app.serving.backend import TranslationBackend
from model.languages import plain_code

if TYPE_CHECKING:
    from app.documents.store import DocumentStore

logger = logging.getLogger("app.documents")

RETRY_S = 5.0
"""Seconds until a document is tried again after a fault of the disk, or without a thread or process."""

TURN_S = 30.0
"""Seconds after which a document lets those of other owners go first."""

_WAITS_FOR = (StorageFull, StorageUnavailable, NotReady)
"""Faults that do not depend on the document. :class:`Job` handles those of the translation."""


class _TurnOver(Exception):
    """The current document lets another one go first."""


@dataclass
class _Running:
    """The document that is being translated.

    Args:
        id: Its id.
        task: Translates it.
        began: When this turn began, on a monotonic clock.
        num_done: Sentences processed since then.
    """

    id: str
    task: asyncio.Task[None]
    began: float = 0.0
    num_done: int = 0


class Worker:
    """Translates the documents of a store. Belongs to the event loop.

    Args:
        store: The documents.
        translation: Translates their texts.
        store_thread: Calls the functions of the store.
        clock: Seconds since 1970.
        files: Reads and writes their files.
        memory_of: Gives the memories that an owner has chosen; None if documents use none.
    """

    def __init__(
        self,
        store: DocumentStore,
        translation: TranslationBackend[Any],
        store_thread: StoreThread,
        clock: Callable[[], float],
        files: FileProcess,
        memory_of: MemoryOf | None,
    ) -> None:
        self._memory_of = memory_of
        self._store = store
        self._translation = translation
        self._store_thread = store_thread
        self._files = files
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._running: _Running | None = None
        self._wake = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether there is no task."""
        return self._task is None or self._task.done()

    def work_on(self) -> None:
        """Start the task, or wake it."""
        self._wake.set()
        if self.is_idle:
            # A context of its own: the trace and the id of the request that adds a document do not apply.
            self._task = asyncio.create_task(self._work(), context=contextvars.Context())

    async def stop(self) -> None:
        """End the task; the current document stays as it is."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._files.close()

    def cancel(self, id: str) -> None:
        """Stop translating a document that was cancelled in the store."""
        if self._running is not None and self._running.id == id:
            self._running.task.cancel()

    def seconds_left(self, document: Document) -> float | None:
        """Estimated seconds until a document is done, from its speed so far; None if unknown."""
        running = self._running
        if running is None or running.id != document.id or not running.num_done or document.num_sentences is None:
            return None
        elapsed_s = asyncio.get_running_loop().time() - running.began
        return max(0, document.num_sentences - document.num_done) * elapsed_s / running.num_done

    async def _work(self) -> None:
        try:
            while await self._turn_or_wait():
                pass
        except Suspended:
            logger.info("documents wait for the next start")
        except Exception:
            logger.exception("documents wait for the next one to be added")

    async def _turn_or_wait(self) -> bool:
        """As :meth:`_turn`; after a fault of the disk or without a thread, the document is tried again later."""
        try:
            return await self._turn()
        except _WAITS_FOR as error:
            awaited = "a thread or process" if isinstance(error, NotReady) else "the disk"
            logger.warning(f"documents wait for {awaited}", extra={"fields": {"retry_s": RETRY_S}})
            await asyncio.sleep(RETRY_S)
            return True

    async def _turn(self) -> bool:
        """Translate a document, or wait for one, or until one expires; returns False without documents."""
        self._wake.clear()
        await self._store_thread.run(self._store.remove_expired, self._clock())
        document = await self._store_thread.run(self._store.next_active)
        if document is not None:
            await self._run(document)
            await self._store_thread.run(self._store.end_turn, document.owner, self._clock())
            return True
        expiry = await self._store_thread.run(self._store.first_expiry)
        if self._wake.is_set():
            return True
        if expiry is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, expiry - self._clock())):
                await self._wake.wait()
        return True

    async def _run(self, document: Document) -> None:
        """Translate a document in a task that :meth:`cancel` can end."""
        self._running = _Running(document.id, asyncio.create_task(self._finish(document)))
        try:
            await self._running.task
        except asyncio.CancelledError:
            this_task = asyncio.current_task()
            if this_task is not None and this_task.cancelling():
                raise  # the service stops
        finally:
            self._running = None

    async def _finish(self, document: Document) -> None:
        """Translate a document; errors are stored with it."""
        try:
            await self._translate(document)
        except _TurnOver:
            pass  # it continues after the turns of the others
        except (Suspended, *_WAITS_FOR, asyncio.CancelledError):
            raise
        except Exception as error:
            problem = problem_for(error)
            level = logging.ERROR if problem.status == 500 else logging.INFO
            fields = {"document": document.id[:8], "code": problem.code}
            logger.log(level, "document failed", exc_info=level == logging.ERROR, extra={"fields": fields})
            end = partial(self._store.end, document.id, "failed", self._clock() + KEPT_S, problem.to_dict())
            await self._store_thread.run(end)

    async def _translate(self, document: Document) -> None:
        began = asyncio.get_running_loop().time()
        await self._translation.wait_loaded()
        if self._has_failed():
            raise Suspended  # this attempt says nothing about the document
        content = await self._store_thread.run(self._store.source, document.id)
        format = format_of(document.filename, content)
        async with self._marked(document):
            contents = await self._files.read(format, content, plain_code(document.source))
        units, num_sentences = contents.units, contents.num_sentences
        attempt = await self._store_thread.run(self._store.begin, document.id, sum(num_sentences))
        if not attempt:
            return  # it was cancelled meanwhile
        translations = await self._store_thread.run(self._store.translations, document.id)
        if document.source != document.target:
            options = OPTIONS.validate_json(document.options)
            note = partial(self._note, document)
            pair = document.source, document.target
            memory = None
            if document.memory and self._memory_of is not None:
                memory = self._memory_of(document.owner, MEMORY.validate_json(document.memory))
            job = Job(self._translation, *pair, options, document.owner, note, format.is_bilingual, memory)
            if self._running is not None:
                self._running.began = asyncio.get_running_loop().time()
            try:
                await job.run(units, num_sentences, translations, attempt)
            finally:
                if not self._has_failed():  # else the engine has given up, maybe at this document
                    self._store_thread.run_soon(self._store.pause, document.id)
        translations = await self._store_thread.run(self._store.translations, document.id)
        async with self._marked(document):
            result = await self._files.write(format, content, translations, document.target)
        await self._store_thread.run(self._store.finish, document.id, result, self._clock() + KEPT_S)
        fields = {
            "document": document.id[:8],
            "sentences": sum(num_sentences),
            "duration_s": round(asyncio.get_running_loop().time() - began, 3),
        }
        logger.info("document done", extra={"fields": fields})

    def _has_failed(self) -> bool:
        return self._translation.state == "failed"

    @contextlib.asynccontextmanager
    async def _marked(self, document: Document) -> AsyncIterator[None]:
        """Mark a document while its file is read or written, so that a file that ends the service is not read again.

        Raises:
            DocumentTooComplex: An earlier process of the service ended meanwhile.
        """
        try:
            if not await self._store_thread.run(self._store.mark, document.id):
                raise DocumentTooComplex("The service ended while it was reading or writing the document")
            yield
        finally:
            # Not awaited: a second cancellation would leave the mark. Also after a cancelled mark.
            self._store_thread.run_soon(self._store.unmark, document.id)

    async def _note(
        self,
        document: Document,
        translations: Mapping[int, str | None],
        num_sentences: int,
        num_left: int,
        positions: Mapping[int, bytes],
        memory: MemoryCounts,
    ) -> None:
        """Store translations of units.

        Raises:
            _TurnOver: The turn of the document is over, and other owners wait.
        """
        id, running = document.id, self._running
        add = partial(self._store.add_translations, positions=positions, memory=memory)
        await self._store_thread.run(add, id, translations, num_sentences, num_left)
        if running is None:
            return
        running.num_done += num_sentences
        is_over = asyncio.get_running_loop().time() - running.began >= TURN_S
        if is_over and await self._store_thread.run(self._store.others_wait, document):
            raise _TurnOver
