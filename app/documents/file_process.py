"""Documents read and written in processes of their own (:mod:`app.documents.file_worker`)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.documents.file_worker import FILE_FAILED, read_message, write_message
from app.documents.formats.document_file import Unit
from app.documents.formats.table import DocumentFormat
from app.errors import DocumentRefused, DocumentTooComplex, NotReady
from app.threads import SYSTEM, Threads

logger = logging.getLogger("app.documents")

_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE")
"""Variables of the environment that the process gets. It needs no settings and no secrets of the service."""


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
    """A process that reads and writes documents, one at a time. It is started by the first one.

    A call that is cancelled ends the process, and the next call starts another. Belongs to the event loop.

    Args:
        threads: Makes the thread that waits for the process.
    """

    def __init__(self, threads: Threads = SYSTEM) -> None:
        self._threads = threads
        self._one_file = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @cached_property
    def _thread(self) -> Executor:
        return self._threads.pool(1, "verso-documents-file")

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
        if "_thread" not in vars(self):
            return
        self._kill()  # also while it handles a file
        await asyncio.get_running_loop().run_in_executor(self._thread, self._end)
        self._thread.shutdown(wait=False)

    async def _call(self, *job: Any) -> Any:
        async with self._one_file:
            is_cancelled = threading.Event()
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._exchange, job, is_cancelled)
            work.add_done_callback(lambda done: done.exception())  # not retrieved if the call is cancelled
            try:
                kind, value = await asyncio.shield(work)
            except asyncio.CancelledError:
                is_cancelled.set()
                self._kill()  # then the thread is free for the next call
                raise
        if kind == "refused":
            raise DocumentRefused(value)
        if kind == "complex":
            raise DocumentTooComplex(value)
        if kind == "error":
            raise RuntimeError(f"A document could not be read or written.\n{value}")
        return value

    def _exchange(self, job: tuple[Any, ...], is_cancelled: threading.Event) -> Any:
        """Send a job and wait for its answer, on the thread.

        Args:
            job: The job.
            is_cancelled: Whether no caller waits for the answer any more.

        Raises:
            DocumentTooComplex: The process of the file has ended.
            NotReady: The system starts no process.
        """
        process = self._process
        if process is None or process.poll() is not None:
            self._end()
            process = self._process = _started()
        if is_cancelled.is_set():
            _kill(process)
        assert process.stdin is not None and process.stdout is not None
        try:
            write_message(process.stdin, job)
            kind, value = read_message(process.stdout)
        except (OSError, EOFError):
            self._end()
            if process.returncode in (FILE_FAILED, -signal.SIGKILL):
                logger.warning("the process of a document has ended", extra={"fields": {"bytes": len(job[1])}})
                raise DocumentTooComplex from None
            raise NotReady(5.0, "no_process") from None
        # On this thread: 100,000 units would hold up the event loop for a tenth of a second.
        return unpacked_answer(kind, value)

    def _kill(self) -> None:
        if self._process is not None:
            _kill(self._process)

    def _end(self) -> None:
        """Wait until the process has ended, on the thread; it is killed, or its pipes have ended."""
        process, self._process = self._process, None
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        try:
            process.wait(1.0)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()


def unpacked_answer(kind: str, value: Any) -> tuple[str, Any]:
    """An answer with units as objects.

    Args:
        kind: Its kind (:func:`app.documents.file_worker.answer`).
        value: Its value.
    """
    if kind != "units":
        return kind, value
    texts, formats, *others = value
    return kind, UnitList([Unit(*pair) for pair in zip(texts, formats, strict=True)], *others)


def kept_environment() -> dict[str, str]:
    """The environment of a process that reads a file."""
    variables = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return variables | {"PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}


def _started() -> subprocess.Popen[bytes]:
    """A new process, which leads a group of its own: it and its forks are ended together."""
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "app.documents.file_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept_environment(),
            start_new_session=True,
        )
    except OSError as error:
        logger.error("no process can be started for documents: %s", error)
        raise NotReady(5.0, "no_process") from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
