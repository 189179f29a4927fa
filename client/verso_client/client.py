"""The client for programs without asyncio."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
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


class Client:
    """A client of a Verso service; several threads may share one.

    Every method raises a :class:`~verso_client.errors.VersoError` if it fails.

    Args:
        base_url: The address of the service, with its root path, if any.
        timeout: Seconds for connecting and for each read or write, or httpx's timeouts; 60 s, and 5 s to connect, by
            default.
        retries: Bounds of retries; ``NO_RETRIES`` for none.
        headers: Headers of every request.
        http: A configured httpx client (certificates, proxies), which the caller closes; its timeouts apply unless
            ``timeout`` is given.
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
        http: httpx.Client | None = None,
        sleep: Callable[[float], object] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self._session = Session(base_url, timeout, retries, headers, clock, rng)
        self._http = httpx.Client(timeout=DEFAULT_TIMEOUT) if http is None else http
        self._owns_http = http is None
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        if self._owns_http:
            self._http.close()

    def translate(self, text: str | Sequence[str], **options: Unpack[TranslateOptions]) -> TranslateAnswer:
        """Translate one text or a list of texts.

        Args:
            text: The text or texts.
            options: The fields of the request; ``target="de"`` suffices if the service has one source language for it.
        """
        return self._call(calls.translate(text, options))

    @contextmanager
    def stream(self, text: str | Sequence[str], **options: Unpack[TranslateOptions]) -> Iterator[Iterator[StreamEvent]]:
        """Translate, and receive each sentence as soon as it is finished.

        The sentences of a text arrive in order, followed by the whole text or its error; the last event is
        :class:`~verso_client.answers.Done`. Leaving the ``with`` block before that cancels the request. A broken
        stream is not started again.

        Args:
            text: The text or texts.
            options: The fields of the request.
        """
        response = self._response(calls.stream(text, options), stream=True)
        try:
            yield _events(response)
        finally:
            response.close()

    def attention(self, text: str, **options: Unpack[AttentionOptions]) -> Attention:
        """The attention weights of one sentence and its translation.

        Args:
            text: The sentence.
            options: The fields of the request.
        """
        return self._call(calls.attention(text, options))

    def attention_arrays(self, text: str, **options: Unpack[AttentionOptions]) -> dict[str, npt.NDArray[Any]]:
        """As :meth:`attention`, as NumPy arrays: ``encoder``, ``decoder``, ``cross``, their layers, heads and tokens.

        Steps are arrays named ``steps_scores`` and so on; in ``steps_masked``, None is minus infinity.

        Args:
            text: The sentence.
            options: The fields of the request.

        Raises:
            ImportError: numpy is not installed.
        """
        return self._call(calls.attention_arrays(text, options))

    def attention_png(self, text: str, **options: Unpack[AttentionOptions]) -> bytes:
        """A labelled heat map of one kind and one layer.

        Args:
            text: The sentence.
            options: The fields of the request.
        """
        return self._call(calls.attention_png(text, options))

    def models(self) -> tuple[Model, ...]:
        """The loaded models and their limits."""
        return self._call(calls.models())

    def detect(self, text: str) -> Detected | None:
        """Detect the language of a text among the loaded languages.

        Args:
            text: The text, not empty; only its beginning is read.

        Returns:
            The language; None if no loaded language is detected, or if the text has no letters.
        """
        return self._call(calls.detect(text))

    def upload_document(self, file: File, filename: str | None = None, **options: Unpack[MemoryOptions]) -> Document:
        """Upload a document, which the service then translates.

        The upload is not repeated if the answer is lost, as the service would translate the document twice.

        Args:
            file: Its path, or its content.
            filename: Its name, whose ending names the format; that of the path by default.
            options: The fields of the request.
        """
        return self._call(calls.upload_document(file, filename, options))

    def document(self, document_id: str) -> Document:
        """The state of a document.

        Args:
            document_id: Its id.
        """
        return self._call(calls.document(document_id))

    def wait_for_document(
        self, document_id: str, *, progress: Progress = True, timeout_s: float | None = None
    ) -> Document:
        """Wait until a document is translated.

        Args:
            document_id: Its id.
            progress: Whether to show a progress bar, which needs tqdm; or a function that is called with every state.
            timeout_s: Seconds to wait; None for no limit.

        Raises:
            DocumentFailed: The document failed or was cancelled.
            TimedOut: The document is not done in time; the service continues.
        """
        with reporting(progress) as report:
            polling = Polling(report, timeout_s, self._session.clock)
            document = self.document(document_id)
            while (wait_s := polling.wait_after(document)) is not None:
                self._sleep(wait_s)
                document = self.document(document_id)
            return document

    def document_result(self, document_id: str, *, partial: bool = False) -> bytes:
        """The translated document.

        Args:
            document_id: Its id.
            partial: Whether to accept a document of which only a part is translated.
        """
        return self._call(calls.document_result(document_id, partial))

    def document_sentences(
        self,
        document_id: str,
        *,
        after: int | None = None,
        limit: int | None = None,
        only_unconfirmed: bool = False,
    ) -> SentencePage:
        """Sentences of a translated document, to edit their translations.

        Args:
            document_id: Its id.
            after: The ``next`` of the page before; None for the first page.
            limit: The most sentences of the page.
            only_unconfirmed: Whether to leave out confirmed sentences.
        """
        return self._call(calls.document_sentences(document_id, after, limit, only_unconfirmed))

    def edit_document(self, document_id: str, edits: Sequence[SentenceEdit]) -> ChangedSentences:
        """Change translations of a document; ``document_result`` then returns the file with them.

        Args:
            document_id: Its id.
            edits: The changes; all of them are made, or none.

        Raises:
            ProblemError: A translation cannot be written to the file; ``problem.errors`` says which and why.
        """
        return self._call(calls.edit_document(document_id, edits))

    def cancel_document(self, document_id: str) -> Document:
        """Cancel the translation of a document, or delete a document that has ended.

        ``document_result(id, partial=True)`` returns the translated part of a cancelled document.

        Args:
            document_id: Its id.

        Returns:
            The cancelled or deleted document.
        """
        return self._call(calls.cancel_document(document_id))

    def translate_document(
        self,
        file: File,
        filename: str | None = None,
        *,
        progress: Progress = True,
        timeout_s: float | None = None,
        **options: Unpack[MemoryOptions],
    ) -> bytes:
        """Upload a document, wait for it, and return the translated one.

        Args:
            file: Its path, or its content.
            filename: Its name; that of the path by default.
            progress: As for :meth:`wait_for_document`.
            timeout_s: As for :meth:`wait_for_document`.
            options: The fields of the request.
        """
        document = self.upload_document(file, filename, **options)
        self.wait_for_document(document.id, progress=progress, timeout_s=timeout_s)
        return self.document_result(document.id)

    def _call(self, call: Call[T]) -> T:
        return call.parse(self._response(call))

    def _response(self, call: Call[T], stream: bool = False) -> httpx.Response:
        """A successful answer, with retries."""
        attempts = self._session.attempts(call)
        while True:
            try:
                return self._send(self._session.request(call, self._http), stream)
            except VersoError as error:
                wait_s = attempts.wait_after(error)
                if wait_s is None:
                    raise
            self._sleep(wait_s)

    def _send(self, request: httpx.Request, stream: bool) -> httpx.Response:
        with foreign_errors(request):
            response = self._http.send(request, stream=stream)
            if stream and not response.is_success:
                response.read()
        check_status(response)
        return response


def _events(response: httpx.Response) -> Iterator[StreamEvent]:
    reader = EventReader(request_id_of(response))
    with stream_errors(response.request):
        for data in response.iter_bytes():
            yield from reader.feed(data)
    yield from reader.finish()
