"""TMX files of callers, read by a process of their own (:mod:`app.memories.tmx_worker`) while they arrive."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.errors import MemoryFileRefused, MemoryFileTooLarge, NotReady
from app.processes.messages import SIZE_BYTES, read_message
from app.processes.worker import kept_environment, kill

logger = logging.getLogger("app.memories")


class TmxBatch(NamedTuple):
    """Some units of a file.

    Args:
        source_language: The language of the source texts, as the header names it; empty if it names none.
        units: For each unit its texts by language.
    """

    source_language: str
    units: Sequence[Mapping[str, str]]


async def read_tmx(chunks: AsyncIterator[bytes], max_bytes: int, processor_s: int) -> AsyncGenerator[TmxBatch, None]:
    """The units of a file that arrives in pieces; no more than some hundred units are in memory. Always close it.

    Args:
        chunks: The bytes of the file.
        max_bytes: The largest file.
        processor_s: Seconds of processor time for reading it.

    Raises:
        MemoryFileRefused: It is not valid TMX, exceeds a limit of the format, or takes too much memory or time.
        MemoryFileTooLarge: It has more bytes.
        NotReady: The system starts no process.
    """
    process = await _started(processor_s)
    assert process.stdin is not None and process.stdout is not None
    sending = asyncio.create_task(_send(chunks, process.stdin, max_bytes))
    try:
        while True:
            message = await _next_message(process.stdout)
            if message is None:
                await _raise_failure(sending)
                logger.warning("the process of a TMX file has ended")
                raise MemoryFileRefused("Reading the file takes more memory or time than is allowed; divide it.")
            kind, *values = message
            if kind == "units":
                yield TmxBatch(*values)
            elif kind == "refused":
                await _raise_failure(sending)
                raise MemoryFileRefused(values[0])
            else:
                await sending
                return
    finally:
        sending.cancel()
        kill(process.pid)
        await asyncio.gather(sending, process.wait(), return_exceptions=True)


async def _started(processor_s: int) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "app.memories.tmx_worker", str(processor_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=kept_environment(),
            start_new_session=True,
        )
    except OSError as error:
        logger.error("no process can be started for a TMX file: %s", error)
        raise NotReady(5.0, "no_process") from None


async def _send(chunks: AsyncIterator[bytes], stdin: asyncio.StreamWriter, max_bytes: int) -> None:
    """Pass a file on, as fast as it is read.

    Raises:
        MemoryFileTooLarge: It has too many bytes.
        Exception: It could not be received.
    """
    num_bytes = 0
    try:
        async for chunk in chunks:
            num_bytes += len(chunk)
            if num_bytes > max_bytes:
                raise MemoryFileTooLarge(max_bytes)
            with contextlib.suppress(ConnectionError):  # the process has refused the file
                stdin.write(chunk)
                await stdin.drain()
    finally:
        stdin.close()


async def _next_message(stdout: asyncio.StreamReader) -> tuple[Any, ...] | None:
    """The next message of the process, or None if it has ended."""
    try:
        size = await stdout.readexactly(SIZE_BYTES)
        data = await stdout.readexactly(int.from_bytes(size, "little"))
    except asyncio.IncompleteReadError:
        return None
    message: tuple[Any, ...] = read_message(io.BytesIO(size + data))
    return message


async def _raise_failure(sending: asyncio.Task[None]) -> None:
    """Raise the error of sending a file, which is the reason for a file that seems cut off."""
    if sending.done() and not sending.cancelled() and (error := sending.exception()) is not None:
        raise error
