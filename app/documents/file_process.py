"""Documents read and written in processes of their own (:mod:`app.documents.file_worker`)."""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.documents.file_worker import FILE_FAILED
from app.documents.formats.document_file import Unit
from app.documents.formats.table import DocumentFormat
from app.errors import DocumentRefused, DocumentTooComplex, NotReady
from app.processes.worker import WorkerEnded, WorkerProcess
from app.threads import SYSTEM, Threads

logger = logging.getLogger("app.documents")


@dataclass(frozen=True)
class UnitList:
    """What a document holds.

    Args:
        units: Its units, in order.
        num_sentences: How many sentences each of them has; empty if they were not counted.
        target_language: The language of the translations that it has, as it names it; empty if it has none.
    """

    units: Sequence[Unit]
    num_sentences: Sequence[int]
    target_language: str = ""


class FileProcess:
    """A process that reads and writes documents, one at a time, as :class:`WorkerProcess` says.

    Args:
        threads: Makes the thread that waits for the process.
    """

    def __init__(self, threads: Threads = SYSTEM) -> None:
        self._worker = WorkerProcess("app.documents.file_worker", "verso-documents-file", threads)

    async def read(self, format: DocumentFormat, content: bytes, language: str | None = None) -> UnitList:
        """Read a file.

        Args:
            format: Its format.
            content: Its bytes.
            language: Its language without a region, to count its sentences.

        Raises:
            DocumentRefused: It is broken or dangerous.
            DocumentTooComplex: It takes more time or memory than it may.
            NotReady: The system starts no process.
        """
        units: UnitList = await self._call(format.suffix, content, language, None, "")
        return units

    async def write(
        self,
        format: DocumentFormat,
        content: bytes,
        translations: Mapping[int, str | None],
        target: str,
        positions: Mapping[int, bytes] | None = None,
        edits: Mapping[int, Mapping[int, str | None]] | None = None,
    ) -> bytes:
        """A file with those of its units translated that have a translation.

        Args:
            format: Its format.
            content: Its bytes.
            translations: The translations of its units, by their index.
            target: The target language.
            positions: The positions of the sentences in the translations, if some are edited.
            edits: The edited sentences (:func:`app.documents.file_worker.answer`).

        Raises:
            DocumentTooComplex: It takes more time or memory than it may.
            NotReady: The system starts no process.
        """
        written: bytes = await self._call(
            format.suffix, content, None, dict(translations), target, *([positions, edits] if edits else [])
        )
        return written

    async def sentences(
        self,
        format: DocumentFormat,
        content: bytes,
        translations: Mapping[int, str | None],
        positions: Mapping[int, bytes],
    ) -> list[tuple[int, int, str, str, dict[int, str]]]:
        """The sentences of a file beside their translations.

        Args:
            format: Its format.
            content: Its bytes.
            translations: The translations of its units, by their index.
            positions: The positions of the sentences in them.

        Returns:
            For each sentence its unit, its index in the unit, the sentence, its translation and its markers
            (:class:`app.documents.sentences.Sentence`).

        Raises:
            DocumentTooComplex: It takes more time or memory than it may.
            NotReady: The system starts no process.
        """
        rows: list[tuple[int, int, str, str, dict[int, str]]] = await self._call(
            format.suffix, content, None, dict(translations), "", dict(positions)
        )
        return rows

    async def close(self) -> None:
        """End the process."""
        await self._worker.close()

    async def _call(self, *job: Any) -> Any:
        try:
            # Unpacked on the thread: 100,000 units would hold up the event loop for a tenth of a second.
            kind, value = await self._worker.call(job, _unpacked)
        except WorkerEnded as ended:
            if ended.exit_code in (FILE_FAILED, -signal.SIGKILL):
                logger.warning("the process of a document has ended", extra={"fields": {"bytes": len(job[1])}})
                raise DocumentTooComplex from None
            raise NotReady(5.0, "no_process") from None
        if kind == "refused":
            raise DocumentRefused(value)
        if kind == "complex":
            raise DocumentTooComplex(value)
        if kind == "error":
            raise RuntimeError(f"A document could not be read or written.\n{value}")
        return value


def _unpacked(answer: tuple[str, Any]) -> tuple[str, Any]:
    """An answer of :func:`app.documents.file_worker.answer` with units as objects."""
    kind, value = answer
    if kind != "units":
        return kind, value
    texts, formats, *others = value
    return kind, UnitList([Unit(*pair) for pair in zip(texts, formats, strict=True)], *others)
