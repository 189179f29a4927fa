"""The edits of documents that are done: their sentences in pages, changes of translations, and the file with them.

A document costs nothing more before its sentences are first requested, except the bytes of its translations.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.documents.document import KEPT_S, Document
from app.documents.edit_check import flaw_in
from app.documents.file_process import FileProcess
from app.documents.formats.table import DocumentFormat, format_of
from app.documents.store_thread import StoreThread
from app.documents.stored_sentence import SentenceChange, StoredSentence
from app.errors import DocumentNotDone, DocumentNotEditable, DocumentNotFound, FieldProblem, InvalidRequest

if TYPE_CHECKING:
    from app.documents.sentence_store import Editing
    from app.documents.store import DocumentStore

_ROWS_A_CALL = 5_000
"""Sentences that are stored in one call of the store's thread, which other documents need, too."""

_NEEDED_BYTES = 8
"""Bytes that the sentences need for each character of the document: both sides in UTF-8, and the log of SQLite."""


@dataclass(frozen=True)
class SentencePage:
    """Some sentences of a document.

    Args:
        document: The document.
        sentences: The sentences.
        total: The number of all its sentences.
        num_edited: The number of those with another translation than the machine's.
        num_confirmed: The number of confirmed ones.
    """

    document: Document
    sentences: Sequence[StoredSentence]
    total: int
    num_edited: int
    num_confirmed: int


class DocumentEditor:
    """Edits the documents of a store. Belongs to the event loop.

    Args:
        store: The documents.
        store_thread: Calls the functions of the store.
        files: Reads and writes their files.
        clock: Seconds since 1970.
    """

    def __init__(
        self, store: DocumentStore, store_thread: StoreThread, files: FileProcess, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._sentences = store.sentences
        self._store_thread = store_thread
        self._files = files
        self._clock = clock
        self._one_document = asyncio.Lock()  # whose sentences are listed, or whose file is written

    async def page(
        self, document: Document, after: int = -1, limit: int = 50, *, only_unconfirmed: bool = False
    ) -> SentencePage:
        """Sentences of a document, in order.

        Args:
            document: The document.
            after: The number of the sentence before them; -1 for the first ones.
            limit: At most so many.
            only_unconfirmed: Whether to leave out confirmed ones.

        Raises:
            DocumentNotDone: It is not translated.
            DocumentNotEditable: Its translations are not stored.
            DocumentNotFound: It was deleted meanwhile.
            DocumentTooComplex: Dividing it takes more time or memory than allowed.
        """
        await self._ensure_listed(document)
        sentences = await self._store_thread.run(
            self._sentences.page, document.id, after, limit, only_unconfirmed=only_unconfirmed
        )
        return await self._page_of(document, sentences)

    async def change(self, document: Document, changes: Sequence[SentenceChange]) -> SentencePage:
        """Change translations of a document, all of them or none.

        Args:
            document: The document, which is kept for another day.
            changes: The changes.

        Returns:
            The changed sentences.

        Raises:
            InvalidRequest: A sentence is unknown or occurs twice, or a translation cannot be written to the file.
            DocumentNotDone: As for :meth:`page`, and so are the others.
        """
        total = await self._ensure_listed(document)
        numbers = [change.number for change in changes]
        stored = await self._store_thread.run(self._sentences.sentences, document.id, numbers)
        changes = [
            replace(change, translation=change.translation.strip()) if change.translation is not None else change
            for change in changes
        ]
        problems: list[FieldProblem] = []
        for index, change in enumerate(changes):
            sentence = stored.get(change.number)
            if sentence is None:
                flaw = f"there is no such sentence; the document has {total}, from 0"
                problems.append(FieldProblem(f"sentences[{index}].number", flaw, change.number))
            elif change.number in numbers[:index]:
                problems.append(FieldProblem(f"sentences[{index}].number", "occurs twice", change.number))
            elif change.translation is not None and (
                reason := flaw_in(change.translation, sentence.source, sentence.machine_translation, sentence.markers)
            ):
                problems.append(FieldProblem(f"sentences[{index}].translation", reason))
        if problems:
            raise InvalidRequest(problems)
        expires_at = self._clock() + KEPT_S
        await self._store_thread.run(self._sentences.change, document.id, changes, expires_at)
        changed = await self._store_thread.run(self._sentences.sentences, document.id, numbers)
        return await self._page_of(
            replace(document, expires_at=max(document.expires_at, expires_at)),
            [changed[number] for number in numbers if number in changed],
        )

    async def result(self, document: Document, source: bytes, format: DocumentFormat) -> bytes:
        """The translated file with all edits. It is written when it is first requested after a change.

        Args:
            document: The document, which is done.
            source: Its file.
            format: The format of the file.

        Raises:
            DocumentNotFound: It was deleted meanwhile.
            DocumentTooComplex: Writing it takes more time or memory than allowed.
        """
        async with self._one_document:
            editing = await self._editing(document)
            if editing.num_changes == editing.num_written:
                return await self._store_thread.run(self._store.result, document.id)
            run, id = self._store_thread.run, document.id
            translations = await run(self._store.translations, id)
            positions = await run(self._sentences.positions, id)
            edits = await run(self._sentences.edits, id)
            content = await self._files.write(format, source, translations, document.target, positions, edits)
            await run(self._store.rewrite, id, content, editing.num_changes)
            return content

    async def _ensure_listed(self, document: Document) -> int:
        """Store the sentences of a document that has not been edited yet; returns their number."""
        if document.status != "done":
            raise DocumentNotDone(document.status, "its sentences can be edited when it is done")
        num_listed = (await self._editing(document)).num_listed
        if num_listed is not None:
            return num_listed
        async with self._one_document:
            editing = await self._editing(document)
            if editing.num_listed is not None:
                return editing.num_listed
            if not editing.keeps_translations:
                raise DocumentNotEditable
            return await self._list(document)

    async def _list(self, document: Document) -> int:
        run, id = self._store_thread.run, document.id
        await run(self._store.require_free, _NEEDED_BYTES * document.num_characters)
        source = await run(self._store.source, id)
        translations = await run(self._store.translations, id)
        positions = await run(self._sentences.positions, id)
        format = format_of(document.filename, source)
        rows = await self._files.sentences(format, source, translations, positions)
        for first in range(0, len(rows), _ROWS_A_CALL):
            if not await run(self._sentences.add, id, first, rows[first : first + _ROWS_A_CALL]):
                raise DocumentNotFound(id)
        await run(self._sentences.complete, id, len(rows))
        return len(rows)

    async def _editing(self, document: Document) -> Editing:
        editing = await self._store_thread.run(self._sentences.editing, document.id)
        if editing is None:
            raise DocumentNotFound(document.id)
        return editing

    async def _page_of(self, document: Document, sentences: Sequence[StoredSentence]) -> SentencePage:
        editing = await self._editing(document)
        return SentencePage(document, sentences, editing.num_listed or 0, editing.num_edited, editing.num_confirmed)
