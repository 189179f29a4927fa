"""Documents as jobs: taken in, translated one after the other, kept for a day.

Nothing here costs anything before the first document: the store is opened, the threads and the task are started, and
the libraries are imported when one comes. Only if ``VERSO_DATA_DIR`` holds documents, they are looked at when the
service starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, TypeVar

from pydantic import TypeAdapter

from app.documents.document import DATABASE, Document, DocumentResult
from app.documents.formats.document_file import DocumentFile, Unit
from app.documents.formats.table import DocumentFormat, format_of
from app.documents.job import Job, Suspended, count_sentences
from app.errors import (
    DocumentNotDone,
    DocumentNotFound,
    DocumentRefused,
    DocumentsFull,
    DocumentTooLarge,
    StorageFull,
    problem_for,
)
from app.serving.detection import MAX_CHARACTERS
from app.serving.service import TranslationService
from app.settings import Settings
from model.decoding.options import DecodingOptions

if TYPE_CHECKING:
    from app.documents.store import DocumentStore

logger = logging.getLogger("app.documents")

_T = TypeVar("_T")

KEPT_S = 86_400.0
"""Seconds for which a document is kept."""

_MAX_NAME = 200
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_FOLDERS = re.compile(r".*[/\\]", re.DOTALL)
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_OPTIONS = TypeAdapter(DecodingOptions)


@dataclass
class _Running:
    """The document in work.

    Args:
        id: Its id.
        task: Translates it.
        began: When the first of its sentences that are not yet translated was begun, on a monotonic clock.
        num_done: Sentences translated since then.
    """

    id: str
    task: asyncio.Task[None]
    began: float = 0.0
    num_done: int = 0


class DocumentService:
    """Documents and their translations. Its methods belong to the event loop.

    Args:
        settings: Where documents are kept, and how many.
        translation: Translates their texts.
        clock: Seconds since 1970.
    """

    def __init__(
        self, settings: Settings, translation: TranslationService, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings
        self._translation = translation
        self._clock = clock
        self._store: DocumentStore | None = None
        self._opening = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None
        self._running: _Running | None = None
        self._wake = asyncio.Event()
        self._reading = asyncio.Semaphore(1)  # files take memory while they are unpacked and parsed

    async def start(self) -> None:
        """Go on with the documents of a process that ended before they were done.

        Raises:
            SettingsError: Another process uses the folder, or it cannot be written.
        """
        folder = self._settings.data_dir
        if folder is not None and (folder / "documents" / DATABASE).exists():
            await self._opened()
            self._work_on()

    async def stop(self) -> None:
        """Stop translating; documents that are not done stay so, unless their folder is a private one."""
        if self._worker is not None:
            self._worker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._worker
        if self._store is not None:
            await self._on_thread(self._store.close)
            self._store = None
            self._thread.shutdown(wait=False)

    async def add(
        self, content: bytes, filename: str, source: str | None, target: str | None, options: DecodingOptions
    ) -> Document:
        """Take a document in; it is translated in the background.

        Args:
            content: The file.
            filename: Its name, whose ending says what it is.
            source: Its language, ``auto``, or None.
            target: The target language, or None.
            options: How to translate it.

        Raises:
            UnsupportedDocument: Its format is not known.
            DocumentTooLarge: It has more bytes than accepted.
            DocumentRefused: It is broken or dangerous.
            DocumentsFull: As many documents are kept as may be.
            ServiceError: It could not be translated: see :meth:`app.serving.service.TranslationService.translate`.
        """
        name = _shown_name(filename)
        format = format_of(name)
        if len(content) > self._settings.max_document_bytes:
            raise DocumentTooLarge(self._settings.max_document_bytes)
        store = await self._opened()
        await self._require_room(store)
        async with self._reading:
            file = await asyncio.to_thread(format.read, content)
        units = file.units
        longest = max((len(unit.text) for unit in units), default=0)
        if longest > self._settings.max_text_characters:
            raise DocumentRefused(
                f"A paragraph of the document has {longest} characters; at most {self._settings.max_text_characters} "
                "are allowed."
            )
        pair = await self._pair_of(units, source, target, options)
        now = self._clock()
        document = Document(
            id=secrets.token_hex(16),
            filename=name,
            source=pair[0],
            target=pair[1],
            options=_OPTIONS.dump_json(options).decode(),
            status="queued",
            num_characters=sum(len(unit.text) for unit in units),
            created_at=now,
            expires_at=now + KEPT_S,
        )
        await self._require_room(store)
        try:
            await self._on_thread(partial(store.add, document, content))
        except asyncio.CancelledError:
            self._thread.submit(store.remove, document.id)  # nobody knows its id
            raise
        logger.info("document added", extra={"fields": {"document": document.id[:8], "bytes": len(content)}})
        self._work_on()
        return document

    async def get(self, id: str) -> Document:
        """A document in its present state.

        Args:
            id: Its id.

        Raises:
            DocumentNotFound: There is none, or no longer.
        """
        store = await self._store_of(id)
        document = await self._on_thread(partial(store.get, id))
        if document is None or (document.expires_at <= self._clock() and not document.is_active):
            raise DocumentNotFound(id)
        return replace(document, seconds_left=self._seconds_left(document))

    async def result(self, id: str, partial_result: bool = False) -> DocumentResult:
        """The translated file.

        Args:
            id: The document.
            partial_result: Whether a file is wanted whose last part may be as in the source.

        Raises:
            DocumentNotFound: There is none, or no longer.
            DocumentNotDone: It is not done, and no partial result is wanted.
        """
        store = await self._store_of(id)
        document = await self.get(id)
        format = format_of(document.filename)
        if document.status == "done":
            content = await self._on_thread(partial(store.result, id))
        elif partial_result:
            known = await self._on_thread(partial(store.translations, id))
            source = await self._on_thread(partial(store.source, id))
            content = await self._written(format, source, known, document.target)
        else:
            raise DocumentNotDone(document.status)
        stem, _, ending = document.filename.rpartition(".")
        return DocumentResult(f"{stem}.{document.target}.{ending}", format.media_type, content)

    async def cancel(self, id: str) -> Document:
        """Stop translating a document; one that is no longer in work is deleted.

        Args:
            id: The document.

        Returns:
            The document, cancelled, or as it was before it was deleted.

        Raises:
            DocumentNotFound: There is none, or no longer.
        """
        store = await self._store_of(id)
        document = await self.get(id)
        if not document.is_active:
            await self._on_thread(partial(store.remove, id))
            return document
        await self._on_thread(partial(store.end, id, "cancelled", self._clock() + KEPT_S))
        if self._running is not None and self._running.id == id:
            self._running.task.cancel()
        return await self.get(id)

    @cached_property
    def _thread(self) -> ThreadPoolExecutor:
        """The thread of the store."""
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="verso-documents")

    async def _on_thread(self, run: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except Exception as error:
            if getattr(error, "errno", None) in _DISK_FULL or "disk is full" in str(error):  # of files; of SQLite
                raise StorageFull from error
            raise

    async def _opened(self) -> DocumentStore:
        async with self._opening:
            if self._store is None:
                # Imported here: the service starts without SQLite.
                from app.documents.store import DocumentStore

                folder = self._settings.data_dir
                path = None if folder is None else folder / "documents"
                self._store = await self._on_thread(lambda: DocumentStore(path))
            return self._store

    async def _store_of(self, id: str) -> DocumentStore:
        """The store, which is not opened to find that there is no document."""
        if self._store is None:
            raise DocumentNotFound(id)
        return self._store

    async def _require_room(self, store: DocumentStore) -> None:
        now = self._clock()
        await self._on_thread(partial(store.remove_expired, now))
        if await self._on_thread(store.count) >= self._settings.max_documents:
            first = await self._on_thread(store.first_expiry)
            raise DocumentsFull(self._settings.max_documents, KEPT_S if first is None else first - now)

    async def _pair_of(
        self, units: list[Unit], source: str | None, target: str | None, options: DecodingOptions
    ) -> tuple[str, str]:
        """The language pair of a document, which is detected from its beginning if it is not named.

        Raises:
            ServiceError: It could not be translated.
        """
        sample = ""
        for unit in units:
            if len(sample) > MAX_CHARACTERS:
                break
            sample += unit.words + "\n"
        pair = await self._translation.pair_of(sample, source, target)
        if pair[0] == pair[1]:
            return pair  # it comes back unchanged
        # Options that a model does not have are refused now, and not when the document's turn comes.
        result = await self._translation.translate([""], source=pair[0], target=pair[1], options=options)
        for found in result.results:
            if isinstance(found, Exception):
                raise found
        return pair

    def _seconds_left(self, document: Document) -> float | None:
        running = self._running
        if running is None or running.id != document.id or not running.num_done or document.num_sentences is None:
            return None
        elapsed_s = time.monotonic() - running.began
        return max(0, document.num_sentences - document.num_done) * elapsed_s / running.num_done

    def _work_on(self) -> None:
        """Start the task in the background, or tell it that there is something to do."""
        self._wake.set()
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())

    async def _work(self) -> None:
        """Translate the documents one after the other, and delete those whose time is over; ends without documents."""
        store = await self._opened()
        try:
            while await self._turn(store):
                pass
        except Suspended:
            logger.info("documents wait for the next start")
        except Exception:
            logger.exception("documents wait for the next one to be added")

    async def _turn(self, store: DocumentStore) -> bool:
        """Translate a document, or wait for one, or until one expires; returns False without documents."""
        self._wake.clear()
        await self._on_thread(partial(store.remove_expired, self._clock()))
        document = await self._on_thread(store.next_active)
        if document is not None:
            await self._run(store, document)
            return True
        expiry = await self._on_thread(store.first_expiry)
        if self._wake.is_set():
            return True
        if expiry is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, expiry - self._clock())):
                await self._wake.wait()
        return True

    async def _run(self, store: DocumentStore, document: Document) -> None:
        """Translate a document in a task of its own, which :meth:`cancel` ends."""
        self._running = _Running(document.id, asyncio.create_task(self._translate(store, document)))
        try:
            await self._running.task
        except asyncio.CancelledError:
            this_task = asyncio.current_task()
            if this_task is not None and this_task.cancelling():
                raise  # the service stops
        finally:
            self._running = None

    async def _translate(self, store: DocumentStore, document: Document) -> None:
        """Translate a document; what goes wrong is noted in it."""
        began = time.monotonic()
        try:
            await self._translation.wait_loaded()
            options = _OPTIONS.validate_json(document.options)
            content = await self._on_thread(partial(store.source, document.id))
            format = format_of(document.filename)
            async with self._reading:
                file = await asyncio.to_thread(format.read, content)
            num_sentences = await asyncio.to_thread(count_sentences, file.units, document.source)
            if not await self._on_thread(partial(store.begin, document.id, sum(num_sentences))):
                return  # it was cancelled meanwhile
            known = await self._on_thread(partial(store.translations, document.id))
            if document.source != document.target:
                job = Job(
                    self._translation,
                    document.source,
                    document.target,
                    options,
                    partial(self._note, store, document.id),
                )
                if self._running is not None:
                    self._running.began = time.monotonic()
                await job.run(file.units, num_sentences, known)
            known = await self._on_thread(partial(store.translations, document.id))
            result = await self._written(format, content, known, document.target)
            await self._on_thread(partial(store.finish, document.id, result, self._clock() + KEPT_S))
            logger.info(
                "document done",
                extra={
                    "fields": {
                        "document": document.id[:8],
                        "sentences": sum(num_sentences),
                        "duration_s": round(time.monotonic() - began, 3),
                    }
                },
            )
        except (Suspended, asyncio.CancelledError):
            raise
        except Exception as error:
            problem = problem_for(error)
            level = logging.ERROR if problem.status == 500 else logging.INFO
            fields = {"document": document.id[:8], "code": problem.code}
            logger.log(level, "document failed", exc_info=level == logging.ERROR, extra={"fields": fields})
            end = partial(store.end, document.id, "failed", self._clock() + KEPT_S, problem.to_dict())
            await self._on_thread(end)

    async def _note(
        self, store: DocumentStore, id: str, found: Mapping[int, str | None], num_sentences: int, num_left: int
    ) -> None:
        """Store translations of units."""
        await self._on_thread(partial(store.add_translations, id, found, num_sentences, num_left))
        if self._running is not None:
            self._running.num_done += num_sentences

    async def _written(
        self, format: DocumentFormat, source: bytes, known: Mapping[int, str | None], target: str
    ) -> bytes:
        """A file with those of its units translated that are known."""

        def write() -> bytes:
            file: DocumentFile = format.read(source)
            return file.write([known.get(index) for index in range(len(file.units))], target)

        async with self._reading:
            return await asyncio.to_thread(write)


def _shown_name(filename: str) -> str:
    """What a client calls a file, without folders and signs that cannot be shown."""
    name = _UNPRINTABLE.sub("", _FOLDERS.sub("", filename)).strip()
    stem, dot, ending = name.rpartition(".")
    return f"{stem[: _MAX_NAME - len(ending) - 1]}{dot}{ending}" if len(name) > _MAX_NAME else name
