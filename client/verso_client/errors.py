"""Errors of the client.

::

    VersoError
    ├─ ConnectionFailed      no answer arrived; ``sent`` says whether the service may have received the request
    │  ├─ TimedOut           no answer arrived in time
    │  └─ StreamBroken       a stream ended before its last event
    ├─ ProblemError          the service answered with a problem (RFC 9457), or something in front of it with an error
    │  ├─ TextFailed         one text of several could not be translated
    │  └─ DocumentFailed     a document could not be translated, or was cancelled
    └─ InvalidAnswer         the answer does not come from a Verso service

Each has ``code``, ``detail``, ``status``, ``errors`` and ``request_id``. Exceptions of httpx never leave the client.
"""

from __future__ import annotations

import email.utils
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import httpx

from verso_client.answers import FieldProblem, Problem
from verso_client.decoding import Unexpected, decode

REQUEST_ID = "X-Request-ID"
"""Header of the id of a request; the service's log has it."""

_SHOWN_CHARACTERS = 200
"""Characters of a foreign error page that a message quotes."""


class VersoError(Exception):
    """The base class of the client's errors.

    Args:
        code: The kind of error, for programs. It is the service's own, or ``connection_failed``, ``timed_out``,
            ``stream_broken``, ``invalid_answer``, ``document_cancelled`` or ``http_NNN``.
        detail: What happened, for people.
        status: The HTTP status, or None without an answer.
        errors: The fields that the service refused.
        request_id: The id of the request.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        status: int | None = None,
        errors: tuple[FieldProblem, ...] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.status = status
        self.errors = errors
        self.request_id = request_id


class ConnectionFailed(VersoError):
    """No answer arrived.

    Args:
        detail: What happened.
        sent: Whether the service may have received the request.
        request_id: The id of the request.
        code: The kind of error.
    """

    def __init__(
        self, detail: str, *, sent: bool, request_id: str | None = None, code: str = "connection_failed"
    ) -> None:
        super().__init__(code, detail, request_id=request_id)
        self.sent = sent


class TimedOut(ConnectionFailed):
    """No answer arrived in time; the arguments are those of :class:`ConnectionFailed`."""

    def __init__(self, detail: str, *, sent: bool, request_id: str | None = None) -> None:
        super().__init__(detail, sent=sent, request_id=request_id, code="timed_out")


class StreamBroken(ConnectionFailed):
    """A stream ended before its last event; the arguments are those of :class:`ConnectionFailed`."""

    def __init__(self, detail: str, *, request_id: str | None = None) -> None:
        super().__init__(detail, sent=True, request_id=request_id, code="stream_broken")


class ProblemError(VersoError):
    """The service refused the request or failed.

    Args:
        problem: The service's answer.
        request_id: The id of the request.
        retry_after_s: Seconds after which a retry may succeed, if the answer names them.
        from_service: Whether the answer is a problem of the service itself, not of a proxy in front of it.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        request_id: str | None = None,
        retry_after_s: float | None = None,
        from_service: bool = True,
    ) -> None:
        super().__init__(
            problem.code,
            problem.detail or problem.title,
            status=problem.status,
            errors=problem.errors,
            request_id=request_id,
        )
        self.title = problem.title
        self.retry_after_s = retry_after_s
        self.from_service = from_service


class TextFailed(ProblemError):
    """One text of several could not be translated; the others may have been.

    Args:
        problem: Why.
        index: Its index in the list of texts.
        request_id: The id of the request.
    """

    def __init__(self, problem: Problem, index: int, request_id: str | None = None) -> None:
        super().__init__(problem, request_id=request_id)
        self.index = index


class DocumentFailed(ProblemError):
    """A document could not be translated, or was cancelled.

    Args:
        problem: Why.
        document_id: The document.
        request_id: The id of the request.
    """

    def __init__(self, problem: Problem, document_id: str, request_id: str | None = None) -> None:
        super().__init__(problem, request_id=request_id)
        self.document_id = document_id


class InvalidAnswer(VersoError):
    """The answer does not come from a Verso service: it is not valid JSON, or a field is missing or of a wrong type.

    Args:
        detail: The reason.
        status: The HTTP status.
        request_id: The id of the request.
    """

    def __init__(self, detail: str, *, status: int | None = None, request_id: str | None = None) -> None:
        super().__init__("invalid_answer", detail, status=status, request_id=request_id)


def check_status(response: httpx.Response) -> None:
    """Raise the error of an unsuccessful answer.

    Args:
        response: An answer whose body has been read.

    Raises:
        ProblemError: Its status is not 2xx.
    """
    if response.is_success:
        return
    problem = _problem_of(response)
    raise ProblemError(
        problem or _foreign_problem(response),
        request_id=request_id_of(response),
        retry_after_s=_retry_after_s(response.headers.get("Retry-After")),
        from_service=problem is not None,
    )


def request_id_of(response: httpx.Response) -> str | None:
    """The id of an answered request: the service's, or the one that was sent."""
    request_id: str | None = response.headers.get(REQUEST_ID) or response.request.headers.get(REQUEST_ID)
    return request_id


@contextmanager
def foreign_errors(request: httpx.Request) -> Iterator[None]:
    """Convert exceptions of httpx to errors of this module.

    Args:
        request: The request that is being sent.

    Raises:
        ConnectionFailed: httpx raised an exception.
        InvalidAnswer: The answer cannot be decompressed.
    """
    address = f"{request.url.scheme}://{request.url.netloc.decode()}"
    request_id = request.headers.get(REQUEST_ID)
    try:
        yield
    except (httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        raise TimedOut(
            f"No connection to {address} within the time allowed ({type(error).__name__}).",
            sent=False,
            request_id=request_id,
        ) from error
    except httpx.TimeoutException as error:
        raise TimedOut(
            f"{address} did not answer within the time allowed ({type(error).__name__}); it may have received the "
            "request. Send less at once, or raise the timeout.",
            sent=True,
            request_id=request_id,
        ) from error
    except (httpx.ConnectError, httpx.ProxyError, httpx.UnsupportedProtocol) as error:
        raise ConnectionFailed(
            f"No connection to {address}: {error}. Is the service running there?", sent=False, request_id=request_id
        ) from error
    except httpx.TransportError as error:
        raise ConnectionFailed(
            f"The connection to {address} broke before the answer was complete: {error or type(error).__name__}.",
            sent=True,
            request_id=request_id,
        ) from error
    except httpx.DecodingError as error:
        raise InvalidAnswer(
            f"The answer of {address} cannot be decompressed: {error}.", request_id=request_id
        ) from error


@contextmanager
def stream_errors(request: httpx.Request) -> Iterator[None]:
    """Convert exceptions of httpx while a stream is read to errors of this module.

    Args:
        request: The request whose answer is read.

    Raises:
        StreamBroken: The connection broke.
        TimedOut: No bytes arrived for too long.
    """
    try:
        with foreign_errors(request):
            yield
    except TimedOut:
        raise
    except ConnectionFailed as error:
        raise StreamBroken(error.detail, request_id=error.request_id) from error


def _problem_of(response: httpx.Response) -> Problem | None:
    """The problem in an answer; None if it has none."""
    try:
        return decode(Problem, response.json())
    except (ValueError, Unexpected):
        return None


def _foreign_problem(response: httpx.Response) -> Problem:
    """A problem for the error answer of another program, such as a proxy."""
    if response.is_redirect:
        detail = f"The service is at another address: {response.headers['Location']}"
    else:
        text = _message_of(response)[:_SHOWN_CHARACTERS]
        detail = f"The answer has status {response.status_code} and is not an error of Verso: {text or '(empty)'}"
    return Problem(
        title=response.reason_phrase, status=response.status_code, code=f"http_{response.status_code}", detail=detail
    )


def _message_of(response: httpx.Response) -> str:
    """The message of a foreign error answer: its field ``error``, as in LibreTranslate, or its text in one line."""
    try:
        message = response.json()["error"]
    except (ValueError, LookupError, TypeError):
        message = response.text
    return " ".join(str(message).split())


def _retry_after_s(header: str | None) -> float | None:
    """Seconds until the time in a ``Retry-After`` header: a number, or a date (RFC 9110, section 10.2.3)."""
    if header is None:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        date = email.utils.parsedate_to_datetime(header)
    except ValueError:
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
