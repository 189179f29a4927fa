"""The client for programs with asyncio."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, Unpack

import httpx

from verso_client import calls
from verso_client.answers import Detected, Document, StreamEvent
from verso_client.attention import Attention
from verso_client.calls import Call, File, T
from verso_client.documents import Polling, Progress, reporting
from verso_client.edits import ChangedSentences, SentenceEdit, SentencePage
from verso_client.errors import VersoError, check_status, foreign_errors, request_id_of, stream_errors
from verso_client.models import Model
from verso_client.options import AttentionOptions, MemoryOptions, TranslateOptions
from verso_client.retries import RetryPolicy
from verso_client.session import DEFAULT_TIMEOUT, DEFAULT_URL, Session
from verso_client.stream import EventReader
from verso_client.translations import TranslateAnswer

if TYPE_CHECKING:
    import numpy.typing as npt


class AsyncClient:
    """:class:`verso_client.client.Client` with coroutine methods; the arguments are the same.

    Args:
        base_url: The address of the service, with its root path, if any.
        timeout: Seconds for connecting and for each read or write, or httpx's timeouts.
        retries: Bounds of retries; ``NO_RETRIES`` for none.
        headers: Headers of every request.
        http: A configured httpx client, which the caller closes.
        sleep: Sleeps for a number of seconds.
        clock: A monotonic clock, in seconds.
        rng: Random numbers for the jitter of waits.

    Raises:
        ValueError: The address is not an HTTP URL.
    """

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        timeout: float | httpx.Timeout | None = None,
        retries: RetryPolicy = RetryPolicy(),  # noqa: B008 - it is frozen
        headers: Mapping[str, str] | None = None,
        http: httpx.AsyncClient | None = None,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._session = Session(base_url, timeout, retries, headers, clock, rng)
        self._http = httpx.AsyncClient(timeout=DEFAULT_TIMEOUT) if http is None else http
        self._owns_http = http is None
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            await self._http.aclose()

    async def translate(self, text: str | Sequence[str], **options: Unpack[TranslateOptions]) -> TranslateAnswer:
        """As :meth:`Client.translate <verso_client.client.Client.translate>`."""
        return await self._call(calls.translate(text, options))

    @asynccontextmanager
    async def stream(
        self, text: str | Sequence[str], **options: Unpack[TranslateOptions]
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """As :meth:`Client.stream <verso_client.client.Client.stream>`."""
        response = await self._response(calls.stream(text, options), stream=True)
        try:
            yield _events(response)
        finally:
            await response.aclose()

    async def attention(self, text: str, **options: Unpack[AttentionOptions]) -> Attention:
        """As :meth:`Client.attention <verso_client.client.Client.attention>`."""
        return await self._call(calls.attention(text, options))

    async def attention_arrays(self, text: str, **options: Unpack[AttentionOptions]) -> dict[str, npt.NDArray[Any]]:
        """As :meth:`Client.attention_arrays <verso_client.client.Client.attention_arrays>`."""
        return await self._call(calls.attention_arrays(text, options))

    async def attention_png(self, text: str, **options: Unpack[AttentionOptions]) -> bytes:
        """As :meth:`Client.attention_png <verso_client.client.Client.attention_png>`."""
        return await self._call(calls.attention_png(text, options))

    async def models(self) -> tuple[Model, ...]:
        """As :meth:`Client.models <verso_client.client.Client.models>`."""
        return await self._call(calls.models())

    async def detect(self, text: str) -> Detected | None:
        """As :meth:`Client.detect <verso_client.client.Client.detect>`."""
        return await self._call(calls.detect(text))

    async def upload_document(
        self, file: File, filename: str | None = None, **options: Unpack[MemoryOptions]
    ) -> Document:
        """As :meth:`Client.upload_document <verso_client.client.Client.upload_document>`."""
        return await self._call(await asyncio.to_thread(calls.upload_document, file, filename, options))

    async def document(self, document_id: str) -> Document:
        """As :meth:`Client.document <verso_client.client.Client.document>`."""
        return await self._call(calls.document(document_id))

    async def wait_for_document(
        self, document_id: str, *, progress: Progress = True, timeout_s: float | None = None
    ) -> Document:
        """As :meth:`Client.wait_for_document <verso_client.client.Client.wait_for_document>`."""
        with reporting(progress) as report:
            polling = Polling(report, timeout_s, self._session.clock)
            document = await self.document(document_id)
            while (wait_s := polling.wait_after(document)) is not None:
                await self._sleep(wait_s)
                document = await self.document(document_id)
            return document

    async def document_result(self, document_id: str, *, partial: bool = False) -> bytes:
        """As :meth:`Client.document_result <verso_client.client.Client.document_result>`."""
        return await self._call(calls.document_result(document_id, partial))

    async def document_sentences(
        self,
        document_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        only_unconfirmed: bool = False,
    ) -> SentencePage:
        """As :meth:`Client.document_sentences <verso_client.client.Client.document_sentences>`."""
        return await self._call(calls.document_sentences(document_id, after, limit, only_unconfirmed))

    async def edit_document(self, document_id: str, edits: Sequence[SentenceEdit]) -> ChangedSentences:
        """As :meth:`Client.edit_document <verso_client.client.Client.edit_document>`."""
        return await self._call(calls.edit_document(document_id, edits))

    async def cancel_document(self, document_id: str) -> Document:
        """As :meth:`Client.cancel_document <verso_client.client.Client.cancel_document>`."""
        return await self._call(calls.cancel_document(document_id))

    async def translate_document(
        self,
        file: File,
        filename: str | None = None,
        *,
        progress: Progress = True,
        timeout_s: float | None = None,
        **options: Unpack[MemoryOptions],
    ) -> bytes:
        """As :meth:`Client.translate_document <verso_client.client.Client.translate_document>`."""
        document = await self.upload_document(file, filename, **options)
        await self.wait_for_document(document.id, progress=progress, timeout_s=timeout_s)
        return await self.document_result(document.id)

    async def _call(self, call: Call[T]) -> T:
        return call.parse(await self._response(call))

    async def _response(self, call: Call[T], stream: bool = False) -> httpx.Response:
        """A successful answer, with retries."""
        attempts = self._session.attempts(call)
        while True:
            try:
                return await self._send(self._session.request(call, self._http), stream)
            except VersoError as error:
                wait_s = attempts.wait_after(error)
                if wait_s is None:
                    raise
            await self._sleep(wait_s)

    async def _send(self, request: httpx.Request, stream: bool) -> httpx.Response:
        with foreign_errors(request):
            response = await self._http.send(request, stream=stream)
            if stream and not response.is_success:
                await response.aread()
        check_status(response)
        return response


async def _events(response: httpx.Response) -> AsyncIterator[StreamEvent]:
    reader = EventReader(request_id_of(response))
    with stream_errors(response.request):
        async for data in response.aiter_bytes():
            for event in reader.feed(data):
                yield event
    for event in reader.finish():
        yield event
