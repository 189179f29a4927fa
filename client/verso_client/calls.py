"""The calls of the service: their requests, how their answers are parsed, and whether they may be repeated.

A :class:`Call` describes a call; :mod:`verso_client.client` and :mod:`verso_client.async_client` send it.
"""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from verso_client.answers import Detected, Document
from verso_client.attention import Attention
from verso_client.decoding import Unexpected, decode
from verso_client.edits import ChangedSentences, SentenceEdit, SentencePage
from verso_client.errors import REQUEST_ID, InvalidAnswer, request_id_of
from verso_client.models import Model
from verso_client.options import AttentionOptions, MemoryOptions, TranslateOptions, body_of
from verso_client.retries import Repeatable
from verso_client.stream import NDJSON
from verso_client.translations import TranslateAnswer

if TYPE_CHECKING:
    import numpy.typing as npt

JSON = "application/json"
NPZ = "application/x-npz"
PNG = "image/png"

DETECTED_CHARACTERS = 4_000
"""Characters that are sent to detect a language; the service reads fewer."""

T = TypeVar("T")
Kind = TypeVar("Kind")

File = str | os.PathLike[str] | bytes
"""A document: its path, or its content."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request to the service.

    Args:
        method: The HTTP method.
        path: The path below the address of the service.
        parse: Converts a successful answer to the result.
        repeatable: The failures after which it may be sent again.
        accept: The media type of the answer.
        body: The body, if it is JSON.
        form: Fields of a form, sent with ``file``.
        file: Name and content of a file that is uploaded.
        query: Fields of the query string.
        idempotency_key: The same for every attempt, so that a service with keys counts the call once; sent with POST.
    """

    method: str
    path: str
    parse: Callable[[httpx.Response], T]
    repeatable: Repeatable
    accept: str = JSON
    body: Mapping[str, Any] | None = None
    form: Mapping[str, Any] | None = None
    file: tuple[str, bytes] | None = None
    query: Mapping[str, str] | None = None
    idempotency_key: str = field(default_factory=lambda: uuid.uuid4().hex, compare=False)

    def request(
        self,
        http: httpx.Client | httpx.AsyncClient,
        base_url: str,
        headers: Mapping[str, str],
        timeout: httpx.Timeout | None,
    ) -> httpx.Request:
        """The request to send.

        Args:
            http: Adds its own headers and timeouts.
            base_url: The address of the service, without a trailing slash.
            headers: Headers of every request of this client.
            timeout: Timeouts, or None for those of ``http``.
        """
        own = {REQUEST_ID: uuid.uuid4().hex, "Accept": self.accept}
        if self.method == "POST":
            own["Idempotency-Key"] = self.idempotency_key
        return http.build_request(
            self.method,
            base_url + self.path,
            headers={**own, **headers},
            json=self.body,
            data=self.form,
            files=None if self.file is None else {"file": self.file},
            params=self.query,
            timeout=httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
        )


def translate(text: str | Sequence[str], options: TranslateOptions) -> Call[TranslateAnswer]:
    """``POST /translate``."""
    return Call("POST", "/translate", _translate_answer, Repeatable.UNLESS_TIMED_OUT, body=_texts(text, options))


def stream(text: str | Sequence[str], options: TranslateOptions) -> Call[None]:
    """``POST /translate`` whose answer is a stream, which the client reads."""
    return Call(
        "POST", "/translate", lambda _: None, Repeatable.UNLESS_TIMED_OUT, accept=NDJSON, body=_texts(text, options)
    )


def detect(text: str) -> Call[Detected | None]:
    """``POST /libretranslate/detect``, which services before ``POST /detect`` have too."""
    body = {"q": text[:DETECTED_CHARACTERS]}
    return Call("POST", "/libretranslate/detect", _detected, Repeatable.UNLESS_TIMED_OUT, body=body)


def attention(text: str, options: AttentionOptions) -> Call[Attention]:
    """``POST /attention``, answered as JSON."""
    return _attention(text, options, JSON, lambda response: _json(Attention, response))


def attention_arrays(text: str, options: AttentionOptions) -> Call[dict[str, npt.NDArray[Any]]]:
    """``POST /attention``, answered as arrays.

    Raises:
        ImportError: numpy is not installed.
    """
    import numpy  # noqa: F401 - fail before the service computes them

    return _attention(text, options, NPZ, _arrays)


def attention_png(text: str, options: AttentionOptions) -> Call[bytes]:
    """``POST /attention``, answered as a picture."""
    return _attention(text, options, PNG, _content)


def models() -> Call[tuple[Model, ...]]:
    """``GET /models``."""
    return Call("GET", "/models", lambda response: _json(_Models, response).models, Repeatable.ALWAYS)


def upload_document(file: File, filename: str | None, options: MemoryOptions) -> Call[Document]:
    """``POST /documents``.

    Raises:
        ValueError: The file is given as bytes without a name.
        OSError: The file cannot be read.
    """
    if isinstance(file, bytes):
        if filename is None:
            raise ValueError("A document given as bytes needs a filename, whose ending names the format.")
        upload = (filename, file)
    else:
        upload = (filename or Path(file).name, Path(file).read_bytes())
    return Call(
        "POST",
        "/documents",
        lambda response: _json(Document, response),
        Repeatable.IF_REFUSED,
        form=_form(options),
        file=upload,
    )


def document(document_id: str) -> Call[Document]:
    """``GET /documents/{id}``."""
    return Call("GET", _path_of(document_id), lambda response: _json(Document, response), Repeatable.ALWAYS)


def document_result(document_id: str, partial: bool) -> Call[bytes]:
    """``GET /documents/{id}/result``."""
    return Call(
        "GET",
        f"{_path_of(document_id)}/result",
        _content,
        Repeatable.ALWAYS,
        accept="*/*",
        query={"partial": "true"} if partial else None,
    )


def document_sentences(
    document_id: str, after: int | None, limit: int | None, only_unconfirmed: bool
) -> Call[SentencePage]:
    """``GET /documents/{id}/sentences``."""
    query = {"after": after, "limit": limit, "unconfirmed": "true" if only_unconfirmed else None}
    return Call(
        "GET",
        f"{_path_of(document_id)}/sentences",
        lambda response: _json(SentencePage, response),
        Repeatable.ALWAYS,
        query={name: str(value) for name, value in query.items() if value is not None},
    )


def edit_document(document_id: str, edits: Sequence[SentenceEdit]) -> Call[ChangedSentences]:
    """``PATCH /documents/{id}/sentences``; repeated, it changes nothing more."""
    return Call(
        "PATCH",
        f"{_path_of(document_id)}/sentences",
        lambda response: _json(ChangedSentences, response),
        Repeatable.ALWAYS,
        body={"sentences": [body_of(asdict(edit)) for edit in edits]},
    )


def cancel_document(document_id: str) -> Call[Document]:
    """``DELETE /documents/{id}``: the first cancels and the second deletes, so it is repeated only if refused."""
    return Call("DELETE", _path_of(document_id), lambda response: _json(Document, response), Repeatable.IF_REFUSED)


@dataclass(frozen=True)
class _Models:
    models: tuple[Model, ...]


@dataclass(frozen=True)
class _Detections:
    detections: tuple[Detected, ...]


def _texts(text: str | Sequence[str], options: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": text if isinstance(text, str) else list(text), **body_of(options)}


def _form(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as fields of a form: strings unchanged, other values as JSON."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in body_of(options).items()
    }


def _attention(
    text: str, options: AttentionOptions, accept: str, parse: Callable[[httpx.Response], Kind]
) -> Call[Kind]:
    body = {"text": text, **body_of(options)}
    return Call("POST", "/attention", parse, Repeatable.UNLESS_TIMED_OUT, accept=accept, body=body)


def _path_of(document_id: str) -> str:
    return f"/documents/{quote(document_id, safe='')}"


def _translate_answer(response: httpx.Response) -> TranslateAnswer:
    return replace(_json(TranslateAnswer, response), request_id=request_id_of(response))


def _detected(response: httpx.Response) -> Detected | None:
    """The most probable language; LibreTranslate's confidence is in percent, and 0 if no language is detected."""
    parsed = _json(_Detections, response, wrapped_in="detections").detections
    if not parsed or parsed[0].confidence == 0.0:
        return None
    return Detected(parsed[0].language, parsed[0].confidence / 100)


def _json(kind: type[Kind], response: httpx.Response, wrapped_in: str | None = None) -> Kind:
    """The JSON of an answer as a dataclass; a list becomes the field ``wrapped_in``."""
    try:
        value = response.json()
        return decode(kind, value if wrapped_in is None else {wrapped_in: value})
    except (ValueError, Unexpected) as error:
        raise InvalidAnswer(
            f"The answer does not come from a Verso service: {error}.",
            status=response.status_code,
            request_id=request_id_of(response),
        ) from error


def _arrays(response: httpx.Response) -> dict[str, npt.NDArray[Any]]:
    import numpy as np

    try:
        with np.load(io.BytesIO(response.content), allow_pickle=False) as archive:
            return dict(archive)
    except (ValueError, OSError) as error:
        raise InvalidAnswer(
            f"The answer is not a valid archive of arrays: {error}.",
            status=response.status_code,
            request_id=request_id_of(response),
        ) from error


def _content(response: httpx.Response) -> bytes:
    return response.content
