"""Documents as jobs: accepted, translated one at a time, kept for a day.

Before the first document nothing is opened, started or imported, unless ``VERSO_DATA_DIR`` has documents when the
service starts.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from app.documents.document import (
    ANYBODY,
    DATABASE,
    KEPT_S,
    MEMORY,
    OPTIONS,
    Document,
    DocumentResult,
    MemoryOf,
    Sender,
)
from app.documents.editing import DocumentEditor, SentencePage
from app.documents.file_process import FileProcess
from app.documents.formats.document_file import Unit
from app.documents.formats.table import format_of, translated_name
from app.documents.store_thread import StoreThread
from app.documents.stored_sentence import SentenceChange
from app.documents.submission import check_target, options_of_documents, shown_name
from app.documents.worker import Worker
from app.errors import (
    DocumentNotDone,
    DocumentNotFound,
    DocumentRefused,
    DocumentsFull,
    DocumentTooLarge,
    ServiceError,
    SettingsError,
    StorageFull,
    StorageUnavailable,
)
from app.serving.backend import TranslationBackend
from app.serving.detection import MAX_CHARACTERS
from app.serving.request import MemoryChoice, TranslationRequest
from app.settings import Settings
from app.threads import SYSTEM, Threads
from model.text.glossary import Glossary
from model.translation.options import TranslationOptions

if TYPE_CHECKING:
    from app.documents.store import DocumentStore

logger = logging.getLogger("app.documents")

_FIRST_LOOK_S, _LAST_LOOK_S = 0.02, 0.2
"""Seconds between looks at a document that is waited for, at the beginning and at the end."""


class _Open(NamedTuple):
    """An open store, the task that translates its documents, and what edits them."""

    store: DocumentStore
    worker: Worker
    editor: DocumentEditor


class DocumentService:
    """Documents and their translations. Its methods belong to the event loop.

    Args:
        settings: The folder of the documents, and their limits.
        translation: Translates their texts.
        clock: Seconds since 1970.
        memory_of: Gives the memories that an owner has chosen; None if documents use none.
        threads: Makes the thread of the store.
        make_files: Makes what reads and writes files, for requests and for the worker.
        make_id: Makes the id of a document, which is a secret.
    """

    def __init__(
        self,
        settings: Settings,
        translation: TranslationBackend[Any],
        clock: Callable[[], float] = time.time,
        memory_of: MemoryOf | None = None,
        threads: Threads = SYSTEM,
        make_files: Callable[[], FileProcess] = FileProcess,
        make_id: Callable[[], str] = partial(secrets.token_hex, 16),  # noqa: B008
    ) -> None:
        self._memory_of = memory_of
        self._settings = settings
        self._translation = translation
        self._clock = clock
        self._store_thread = StoreThread(threads)
        self._make_files = make_files
        self._make_id = make_id
        self._files = make_files()  # of requests; the worker has one of its own
        self._opening = asyncio.Lock()
        self._open: _Open | None = None

    async def start(self) -> None:
        """Continue the documents of a process that ended before they were done.

        Raises:
            SettingsError: Another process uses the folder, or it cannot be written.
        """
        folder = self._settings.data_dir
        if folder is None or not (folder / "documents" / DATABASE).exists():
            return
        try:
            (await self._ensure_open()).worker.work_on()
        except (StorageFull, StorageUnavailable) as error:
            raise SettingsError(
                f"VERSO_DATA_DIR: documents cannot be stored in {folder / 'documents'} ({error.__cause__}); it must be "
                "writable, and no other process may use it."
            ) from error

    async def stop(self) -> None:
        """Stop translating; the next start continues with the documents, unless their folder is a private one."""
        if self._open is None:
            return
        (store, worker, _), self._open = self._open, None
        try:
            await self._files.close()
            await worker.stop()
            await self._store_thread.run(store.close)
        finally:
            self._store_thread.close()

    async def add(
        self,
        content: bytes,
        filename: str,
        source: str | None,
        target: str | None,
        options: TranslationOptions,
        sender: Sender = ANYBODY,
        terms: Callable[[Sequence[str]], Awaitable[Glossary]] | None = None,
        memory: MemoryChoice | None = None,
    ) -> Document:
        """Accept a document; it is translated in the background.

        Args:
            content: The file.
            filename: Its name, whose ending names the format; without a known ending, its content does.
            source: Its language, ``auto``, or None.
            target: The target language, or None.
            options: How to translate it.
            sender: The caller.
            terms: Returns the glossary for the texts of the document; None if the options have it.
            memory: The memories in which its sentences are looked up; None for none.

        Returns:
            The document, or the one that an earlier attempt of the same request added.

        Raises:
            UnsupportedDocument: The format is not supported.
            DocumentTooLarge: It has more bytes than allowed.
            DocumentRefused: It is damaged or dangerous.
            DocumentTooComplex: Reading it takes more time or memory than allowed.
            DocumentsFull: The limit of stored documents, or of those of one owner, is reached.
            ServiceError: It could not be translated: see :meth:`app.serving.service.TranslationService.translate`.
        """
        name = shown_name(filename)
        format = format_of(name, content)
        if len(content) > self._settings.max_document_bytes:
            raise DocumentTooLarge(self._settings.max_document_bytes)
        store = (await self._ensure_open()).store
        await self._require_room(store, sender)
        contents = await self._files.read(format, content)
        units = contents.units
        num_characters = self._num_characters(units)
        await sender.admit(num_characters)
        if terms is not None:
            options = replace(options, glossary=await terms([unit.text for unit in units]))
        options = options_of_documents(options)
        pair = await self._pair_of(units, source, target, options)
        check_target(contents.target_language, pair[1])
        now = self._clock()
        document = Document(
            id=self._make_id(),
            filename=name,
            source=pair[0],
            target=pair[1],
            options=OPTIONS.dump_json(options).decode(),
            status="queued",
            num_characters=num_characters,
            owner=sender.owner or "",
            priority=sender.priority,
            request=sender.request,
            memory="" if memory is None else MEMORY.dump_json(memory).decode(),
            created_at=now,
            expires_at=now + KEPT_S,
        )
        await self._require_room(store, sender)
        return await self._store(document, content, sender)

    def _num_characters(self, units: Sequence[Unit]) -> int:
        """The number of characters in units.

        Raises:
            DocumentRefused: A unit is longer than a text may be.
        """
        lengths = [len(unit.text) for unit in units]
        bound = self._settings.max_text_characters
        longest = max((len(unit.words) for unit in units if len(unit.text) > bound), default=0)  # without tags
        if longest > bound:
            raise DocumentRefused(f"A paragraph of the document has {longest} characters; the limit is {bound}.")
        return sum(lengths)

    async def _store(self, document: Document, content: bytes, sender: Sender) -> Document:
        """Store and count a document; returns it, or the one that an earlier attempt of the same request added."""
        store, worker, _ = await self._ensure_open()
        try:
            stored = await self._store_thread.run(store.add, document, content)
        except asyncio.CancelledError:
            self._store_thread.run_soon(store.remove, document.id)  # no client knows its id
            raise
        try:
            await sender.count()  # also if the client leaves meanwhile, so the document is then kept
        except ServiceError:
            worker.cancel(document.id)
            await self._store_thread.run(store.remove, document.id)  # not the one of an earlier attempt
            raise
        finally:
            worker.work_on()
        if stored is document:
            logger.info("document added", extra={"fields": {"document": document.id[:8], "bytes": len(content)}})
        return stored

    async def get(self, id: str, owner: str | None = None) -> Document:
        """The current state of a document.

        Args:
            id: Its id.
            owner: The owner that it must have, or None for any.

        Raises:
            DocumentNotFound: The owner has no document with this id, or it has expired.
        """
        store, worker, _ = self._opened_for(id)
        document = await self._store_thread.run(store.get, id)
        if document is None or owner not in (None, document.owner):
            raise DocumentNotFound(id)
        if document.expires_at <= self._clock() and not document.is_active:
            raise DocumentNotFound(id)
        return replace(document, seconds_left=worker.seconds_left(document))

    async def states(self, document: Document) -> AsyncIterator[Document]:
        """Watch a document until it is done.

        Args:
            document: The document.

        Yields:
            Its state: first the given one, then that of each look, and last that in which it is done.

        Raises:
            DocumentNotFound: It was deleted meanwhile.
        """
        yield document
        wait_s = _FIRST_LOOK_S
        while document.is_active:
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LAST_LOOK_S)
            document = await self.get(document.id)
            yield document

    async def settled(self, document: Document, age_s: float = math.inf) -> Document:
        """Wait until a new document is done.

        Args:
            document: The document; an older one is returned as it is.
            age_s: Seconds for which a document is new, and for which to wait at most.

        Returns:
            Its state then.

        Raises:
            DocumentNotFound: It was deleted meanwhile.
        """
        if self._clock() - document.created_at >= age_s:
            return document
        now = asyncio.get_running_loop().time
        ends_at = now() + age_s
        async for state in self.states(document):
            document = state
            if now() >= ends_at:
                break
        return document

    async def newest(self, owner: str, limit: int, after: str | None = None) -> Sequence[Document]:
        """The documents of an owner, the newest first.

        Args:
            owner: The owner.
            limit: At most so many.
            after: The id of a document; only those are listed that were added before it.

        Raises:
            DocumentNotFound: The owner has no document with the id ``after``.
        """
        last = None if after is None else await self.get(after, owner)
        if self._open is None:
            return []
        return await self._store_thread.run(self._open.store.newest, owner, self._clock(), limit, last)

    async def result(self, id: str, partial_result: bool = False, owner: str | None = None) -> DocumentResult:
        """The translated file, with the edits of its translation.

        Args:
            id: The document.
            partial_result: Whether untranslated parts may be as in the source.
            owner: The owner that it must have, or None for any.

        Raises:
            DocumentNotFound: The owner has no document with this id, or it has expired.
            DocumentNotDone: It is not done, and the result may not be partial.
        """
        store, _, editor = self._opened_for(id)
        document = await self.get(id, owner)
        source = await self._store_thread.run(store.source, id)
        format = format_of(document.filename, source)
        if document.status == "done":
            content = await editor.result(document, source, format)
        elif partial_result:
            translations = await self._store_thread.run(store.translations, id)
            content = await self._files.write(format, source, translations, document.target)
        else:
            raise DocumentNotDone(document.status)
        filename = translated_name(document.filename, document.target)
        return DocumentResult(filename, format.result_media_type, content)

    async def sentences(
        self, id: str, owner: str | None = None, *, after: int = -1, limit: int = 50, only_unconfirmed: bool = False
    ) -> SentencePage:
        """Sentences of a document that is done, beside their translations.

        Args:
            id: The document.
            owner: The owner that it must have, or None for any.
            after: As for :meth:`app.documents.editing.DocumentEditor.page`.
            limit: At most so many.
            only_unconfirmed: Whether to leave out confirmed ones.

        Raises:
            DocumentNotFound: The owner has no document with this id, or it has expired.
            ServiceError: See :meth:`app.documents.editing.DocumentEditor.page`.
        """
        editor = self._opened_for(id).editor
        document = await self.get(id, owner)
        return await editor.page(document, after, limit, only_unconfirmed=only_unconfirmed)

    async def change_sentences(
        self, id: str, changes: Sequence[SentenceChange], owner: str | None = None
    ) -> SentencePage:
        """Change translations of a document that is done.

        Args:
            id: The document.
            changes: The changes.
            owner: The owner that it must have, or None for any.

        Returns:
            The changed sentences.

        Raises:
            DocumentNotFound: The owner has no document with this id, or it has expired.
            ServiceError: See :meth:`app.documents.editing.DocumentEditor.change`.
        """
        editor = self._opened_for(id).editor
        return await editor.change(await self.get(id, owner), changes)

    async def cancel(self, id: str, owner: str | None = None) -> Document:
        """Cancel an active document, or delete another one.

        Args:
            id: The document.
            owner: The owner that it must have, or None for any.

        Returns:
            The cancelled document, or the deleted one.

        Raises:
            DocumentNotFound: The owner has no document with this id, or it has expired.
        """
        store, worker, _ = self._opened_for(id)
        document = await self.get(id, owner)
        if not document.is_active:
            await self._store_thread.run(store.remove, id)
            return document
        await self._store_thread.run(store.end, id, "cancelled", self._clock() + KEPT_S)
        worker.cancel(id)
        return await self.get(id)

    async def _ensure_open(self) -> _Open:
        async with self._opening:
            if self._open is None:
                # Imported here: the service starts without SQLite.
                from app.documents.store import DocumentStore

                folder = self._settings.data_dir
                path = None if folder is None else folder / "documents"
                store = await self._store_thread.run(lambda: DocumentStore(path))
                worker = Worker(
                    store, self._translation, self._store_thread, self._clock, self._make_files(), self._memory_of
                )
                editor = DocumentEditor(store, self._store_thread, self._files, self._clock)
                self._open = _Open(store, worker, editor)
            return self._open

    def _opened_for(self, id: str) -> _Open:
        """The store and its worker; without an open store there is no document."""
        if self._open is None:
            raise DocumentNotFound(id)
        return self._open

    async def _require_room(self, store: DocumentStore, sender: Sender) -> None:
        """Refuse a document if there is no room for it; a repeated request needs none.

        Raises:
            DocumentsFull: The limit of stored documents, or of those of one owner, is reached.
        """
        now = self._clock()
        await self._store_thread.run(store.remove_expired, now)
        if await self._store_thread.run(store.of_request, sender.request) is not None:
            return
        bounds: list[tuple[int, str | None]] = [(self._settings.max_documents, None)]
        if sender.owner is not None:
            bounds.append((self._settings.documents_per_key, sender.owner))
        for bound, owner in bounds:
            if await self._store_thread.run(store.count, owner) >= bound:
                first = await self._store_thread.run(store.first_expiry, owner)
                raise DocumentsFull(bound, KEPT_S if first is None else first - now, is_of_key=owner is not None)

    async def _pair_of(
        self, units: Sequence[Unit], source: str | None, target: str | None, options: TranslationOptions
    ) -> tuple[str, str]:
        """The language pair of a document; a source of ``auto`` is detected from its beginning.

        Raises:
            ServiceError: The document could not be translated.
        """
        sample = ""
        for unit in units:
            if len(sample) > MAX_CHARACTERS:
                break
            sample += unit.words + "\n"
        pair = await self._translation.pair_of(sample, source, target)
        if pair[0] == pair[1]:
            return pair  # it comes back unchanged
        # Refuse options that the model does not support now, and not when the document's turn comes.
        (text,) = (await self._translation.translate(TranslationRequest([""], *pair, options))).results
        if isinstance(text, Exception):
            raise text
        return pair
