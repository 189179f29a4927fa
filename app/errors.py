"""Errors of the service; each class says which HTTP problem it is on the wire.

A new error is a class with its code, status and title. Those of :mod:`model.errors` are in :data:`PROBLEMS` below.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from model import errors as model_errors
from model.languages import LanguagePairs

MAX_PROBLEMS = 20
"""Fields that an answer says something about; validation stops behind them."""

MAX_DETAIL_CHARACTERS = 2_000
"""Characters of a message to a client; what is longer is cut."""

MAX_ERROR_BYTES = 16_000
"""Bytes of the JSON body of an error."""


@dataclass(frozen=True)
class ProblemRow:
    """How one kind of error is answered.

    Args:
        code: Stable name for programs.
        status: HTTP status.
        title: Short summary for people, the same for every occurrence.
        show_detail: Whether the error's own message is sent.
        retry_after: Whether the answer has a ``Retry-After`` header, with the error's ``retry_after_s``.
        challenge: The ``WWW-Authenticate`` header, if the answer has one.
    """

    code: str
    status: int
    title: str
    show_detail: bool = True
    retry_after: bool = False
    challenge: str | None = None


PROBLEMS: dict[type[Exception], ProblemRow] = {
    model_errors.EmptySource: ProblemRow("empty_source", 422, "The text is empty"),
    model_errors.SourceTooLong: ProblemRow("source_too_long", 422, "The sentence is too long"),
    model_errors.TargetTooLong: ProblemRow("target_too_long", 422, "The given translation is too long"),
    model_errors.SeveralSentences: ProblemRow("several_sentences", 422, "One sentence was expected"),
    model_errors.InvalidPrefix: ProblemRow("invalid_prefix", 422, "The translation cannot begin with this text"),
    model_errors.UnsupportedPair: ProblemRow("unsupported_pair", 422, "The language pair is not served"),
    model_errors.UnsupportedFormality: ProblemRow("unsupported_formality", 422, "The model does not support formality"),
    model_errors.UnknownHead: ProblemRow("unknown_head", 422, "The model has no such attention head"),
    model_errors.InvalidPattern: ProblemRow("invalid_pattern", 422, "A pattern of protected spans cannot be used"),
    model_errors.InvalidMarkup: ProblemRow("invalid_markup", 422, "The document cannot be parsed"),
    model_errors.MarkupNotKept: ProblemRow("markup_not_kept", 500, "The markup could not be kept", show_detail=False),
    model_errors.InvalidOptions: ProblemRow("invalid_options", 422, "The decoding options do not fit together"),
    model_errors.DecodingError: ProblemRow("decoding_failed", 500, "The model gave no answer", show_detail=False),
}
"""Every error that a request may end in: those of the model, and each class of the service as it is defined."""


class ServiceError(Exception):
    """The root: everything ``app`` raises on purpose to refuse a request. They can be sent to other processes.

    A class without a code of its own is answered as its base class is.
    """

    retry_after_s: float | None = None
    """Seconds after which a retry may succeed."""

    def __init_subclass__(
        cls,
        code: str | None = None,
        status: int = 500,
        title: str = "",
        show_detail: bool = True,
        retry_after: bool = False,
        challenge: str | None = None,
    ) -> None:
        """Define a problem; see :class:`ProblemRow`."""
        super().__init_subclass__()
        if code is not None:
            PROBLEMS[cls] = ProblemRow(code, status, title, show_detail, retry_after, challenge)

    def __reduce__(self) -> tuple[Any, ...]:
        return model_errors.restored, (type(self), self.args, self.__dict__)


class SettingsError(Exception):
    """A setting is unknown or out of bounds; the process does not start."""


class QueueFull(ServiceError, code="queue_full", status=429, title="Too many sentences are waiting", retry_after=True):
    """Too many sentences are waiting for the model.

    Args:
        retry_after_s: Seconds until there is probably room again.
        num_sentences: Sentences of this request.
        num_waiting: Sentences that are waiting already.
        bound: Sentences that may wait.
    """

    def __init__(self, retry_after_s: float, num_sentences: int = 0, num_waiting: int = 0, bound: int = 0) -> None:
        super().__init__(
            f"The queue is full: {num_waiting} of {bound} sentences are waiting, and the request has {num_sentences}; "
            f"try again in {retry_after_s:.0f} s, or send less at once."
        )
        self.retry_after_s = retry_after_s


class DeadlineUnreachable(
    ServiceError,
    code="deadline_unreachable",
    status=429,
    title="The request would take too long at present",
    retry_after=True,
):
    """A request would probably not be finished before its deadline, so it is not begun.

    Args:
        estimate_s: Estimated seconds until it would be finished.
        within_s: Seconds until its deadline.
        num_sentences: Its sentences.
        retry_after_s: Seconds until it would probably be finished in time; None if it is too large at any time.
    """

    def __init__(self, estimate_s: float, within_s: float, num_sentences: int, retry_after_s: float | None) -> None:
        advice = "send less at once"
        if retry_after_s is not None:
            advice = f"try again in {retry_after_s:.0f} s, or {advice}"
        super().__init__(
            f"The request has {num_sentences} sentences, which would take about {estimate_s:.1f} s, and "
            f"{max(0.0, within_s):.1f} s are left until its deadline; {advice}."
        )
        self.estimate_s = estimate_s
        self.retry_after_s = retry_after_s


class NotReady(ServiceError, code="not_ready", status=503, title="The service is not ready", retry_after=True):
    """The service does not take requests.

    Args:
        retry_after_s: Seconds until a retry may succeed.
        reason: ``loading``, ``empty``, ``draining``, ``failed``, ``stopped``, ``unloaded``, ``hung``, ``no_thread`` or
            ``no_process``.
    """

    def __init__(self, retry_after_s: float, reason: str) -> None:
        meaning = {
            "loading": "The model is still loading",
            "empty": "No model is loaded",
            "unloaded": "The model was unloaded before the request was finished",
            "draining": "The service is shutting down and takes no new requests",
            "failed": "The model could not be loaded or no longer works",
            "stopped": "The service has stopped",
            "hung": "The model stopped responding on this request and was restarted",
            "no_thread": "The machine lets the service start no more threads",
            "no_process": "The machine lets the service start no process to read documents",
        }.get(reason, reason)
        super().__init__(f"{meaning}; try again in {retry_after_s:.0f} s.")
        self.retry_after_s = retry_after_s
        self.reason = reason


class DeadlineExceeded(ServiceError, code="deadline_exceeded", status=504, title="The request took too long"):
    """A request took longer than ``deadline_s`` seconds and was stopped."""

    def __init__(self, deadline_s: float) -> None:
        super().__init__(
            f"The request was not finished within {deadline_s:g} s and was stopped; send less text at once, "
            "use greedy decoding or a smaller beam, or try again when there is less load."
        )


class InferenceFailed(ServiceError, code="inference_failed", status=500, title="The model failed", show_detail=False):
    """The model raised an unexpected error; the log has it."""

    def __init__(self) -> None:
        super().__init__("The model failed on this text; the operator finds the reason in the log.")


class BodyTooLarge(ServiceError, code="body_too_large", status=413, title="The body is too large"):
    """The request body has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit} bytes; send fewer or shorter texts in one request.")


class BodiesTooLarge(
    ServiceError, code="bodies_too_large", status=503, title="Too much is being received", retry_after=True
):
    """The bodies of all requests that are received or in work would have more than ``limit`` bytes."""

    retry_after_s = 2.0

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The bodies of all requests in work would have more than {limit} bytes together; try again in "
            f"{self.retry_after_s:.0f} s, or send less at once."
        )


class RequestTooSlow(ServiceError, code="request_too_slow", status=408, title="The request came too slowly"):
    """A request did not arrive within ``limit_s`` seconds, and one for each ``bytes_per_s`` bytes of it."""

    def __init__(self, limit_s: float, bytes_per_s: int) -> None:
        super().__init__(
            f"The request stopped for {limit_s:g} s, or came more slowly than {bytes_per_s} bytes per second; send it "
            "faster, or in parts."
        )


class UnsupportedMediaType(
    ServiceError, code="unsupported_media_type", status=415, title="The body is of the wrong type"
):
    """The Content-Type is ``given``, and the route reads only those ``accepted``."""

    def __init__(self, given: str, accepted: Sequence[str]) -> None:
        super().__init__(f"Content-Type is {given!r}; send {' or '.join(accepted)}.")


class NotAcceptable(ServiceError, code="not_acceptable", status=406, title="No acceptable form of the answer"):
    """The Accept header is ``given``, and the route answers only with those ``accepted``."""

    def __init__(self, given: str, accepted: Sequence[str]) -> None:
        super().__init__(f"Accept is {given!r}; this route answers with {', '.join(accepted)}.")


class MalformedBody(ServiceError, code="malformed_body", status=400, title="The body is not valid JSON"):
    """The body cannot be parsed as JSON; the message says where."""


class MalformedForm(ServiceError, code="malformed_form", status=400, title="The body is not a valid form"):
    """The body cannot be parsed as a multipart form; the message says why."""


class NotFound(ServiceError, code="not_found", status=404, title="There is no such path"):
    """There is no path ``path``; those in ``close`` are similar."""

    def __init__(self, path: str, close: Sequence[str]) -> None:
        hint = f"did you mean {close[0]}?" if close else "see /docs."
        super().__init__(f"There is no path {path[:200]!r}; {hint}")


class MethodNotAllowed(ServiceError, code="method_not_allowed", status=405, title="The path does not take this method"):
    """The path exists, but not with this method."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{path} does not take {method}; the Allow header names what it takes.")


@dataclass(frozen=True)
class FieldProblem:
    """What is wrong with one field.

    Args:
        field: Its path, such as ``text[2]``.
        message: What is wrong and what would be right.
        value: What was sent, if it is short.
        bound: The bound it exceeds, if there is one.
    """

    field: str
    message: str
    value: Any = None
    bound: Any = None

    def to_dict(self) -> dict[str, Any]:
        """For the problem's ``errors`` list, without what is unknown."""
        known = {"field": self.field, "message": self.message, "value": self.value, "bound": self.bound}
        return {key: value for key, value in known.items() if value is not None}


class InvalidRequest(ServiceError, code="invalid_request", status=422, title="Invalid fields"):
    """Fields are missing, unknown or wrong; ``problems`` are all of them, or the first ``MAX_PROBLEMS``."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems[:MAX_PROBLEMS]))
        self.problems = tuple(problems[:MAX_PROBLEMS])


class LimitExceeded(ServiceError, code="limit_exceeded", status=422, title="The request asks for too much"):
    """A request asks for more than the operator allows.

    Args:
        field: The field that asks.
        value: How much it asks for.
        bound: How much is allowed.
        what: What is counted.
    """

    def __init__(self, field: str, value: int, bound: int, what: str) -> None:
        super().__init__(f"{field} asks for {value}; at most {bound} are allowed: {what}.")
        self.problems = (FieldProblem(field, f"at most {bound} are allowed: {what}", value, bound),)


class LanguageNotDetected(
    ServiceError, code="language_not_detected", status=422, title="The language could not be detected"
):
    """``source`` is ``auto``, and no loaded language is detected: none has the text's letters. ``pairs`` are loaded."""

    def __init__(self, pairs: LanguagePairs) -> None:
        super().__init__(
            "The language of the text cannot be detected: it is none of the loaded ones, or no detector knows it; "
            f"name it as source. Loaded: {pairs.describe()}."
        )


class DetectedPairNotServed(
    ServiceError, code="detected_pair_not_served", status=422, title="The detected pair is not served"
):
    """``source`` is ``auto``, and no single pair translates from the detected language to the target.

    Args:
        language: The language detected.
        confidence: The confidence in it, 0 to 1.
        target: The target language, or None if none was named.
        pairs: The loaded pairs.
    """

    def __init__(self, language: str, confidence: float, target: str | None, pairs: LanguagePairs) -> None:
        wanted = "no target is named" if target is None else f"target is {target!r}"
        super().__init__(
            f"The text seems to be {language!r} (confidence {confidence:.2f}) and {wanted}: no single loaded pair "
            f"fits. Name source and target; loaded: {pairs.describe()}."
        )
        self.language = language


class Unauthorized(
    ServiceError,
    code="unauthorized",
    status=401,
    title="The admin token is missing or wrong",
    challenge='Bearer realm="verso"',
):
    """An admin route was requested without its token, or with a wrong one."""

    def __init__(self) -> None:
        super().__init__("This route needs the header 'Authorization: Bearer TOKEN', with the operator's token.")


class HostRefused(ServiceError, code="host_refused", status=403, title="The host is not allowed"):
    """The header ``Host`` is ``given``, and the operator has not allowed it; or there are several of it."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"This service does not answer for the host {given[:100]!r}; the operator can allow it with "
            "VERSO_ALLOWED_HOSTS."
        )


class CrossSiteRefused(
    ServiceError, code="cross_site_refused", status=403, title="Pages of other sites are not allowed"
):
    """A browser says that a page of another site, ``origin``, sent the request; None if it does not say which."""

    def __init__(self, origin: str | None) -> None:
        site = "another site" if origin is None else repr(origin[:100])
        super().__init__(
            f"The request was sent by a page of {site}. Pages of other sites may use this service only if the operator "
            "allows them with VERSO_CORS_ORIGINS."
        )


class KeyRequired(
    ServiceError, code="key_required", status=401, title="A key is needed", challenge='Bearer realm="verso"'
):
    """Callers need a key, and a request has none."""

    def __init__(self) -> None:
        super().__init__("This service needs a key: send the header 'Authorization: Bearer KEY'.")


class KeyBehindBody(
    ServiceError, code="key_behind_body", status=401, title="A key is needed", challenge='Bearer realm="verso"'
):
    """Callers need a key, and there is none in the header, the query or the first ``limit`` bytes of the body."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"There is no key in the first {limit} bytes of the body, and no more are read without one: send it in the "
            "header 'Authorization', in the query, or as the first field of the body."
        )


class InvalidKey(
    ServiceError,
    code="invalid_key",
    status=401,
    title="The key cannot be used",
    challenge='Bearer realm="verso", error="invalid_token"',
):
    """A key cannot be used.

    Args:
        reason: ``unknown``, ``expired`` or ``revoked``; only a caller who has the whole key learns of the last two.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"The key is {reason}; ask the operator for another one.")


class ScopeMissing(ServiceError, code="scope_missing", status=403, title="The key may not do this"):
    """A key has the scopes ``given``, and the route needs the scope ``needed``."""

    def __init__(self, needed: str, given: Sequence[str]) -> None:
        super().__init__(f"The key may use: {', '.join(given) or 'nothing'}; this route needs the scope {needed!r}.")


class RateLimited(ServiceError, code="rate_limited", status=429, title="Too many requests a minute", retry_after=True):
    """A caller sends more requests a minute than allowed.

    Args:
        limit: How many are allowed.
        retry_after_s: Seconds until the next one is.
    """

    def __init__(self, limit: int, retry_after_s: float) -> None:
        super().__init__(f"More than {limit} requests a minute; try again in {retry_after_s:.1f} s.")
        self.retry_after_s = retry_after_s


class ConcurrencyExceeded(
    ServiceError,
    code="concurrency_exceeded",
    status=429,
    title="Too many sentences of this key at a time",
    retry_after=True,
):
    """A key has more sentences in translation than allowed.

    Args:
        num_sentences: Sentences of this request.
        num_running: Sentences of other requests with the key.
        bound: How many are allowed at a time.
    """

    retry_after_s = 1.0

    def __init__(self, num_sentences: int, num_running: int, bound: int) -> None:
        super().__init__(
            f"The request has {num_sentences} sentences and {num_running} of this key are being translated; the "
            f"limit is {bound} at once. Try again when they are finished."
        )


class QuotaExceeded(
    ServiceError, code="quota_exceeded", status=429, title="The key's characters are used up", retry_after=True
):
    """A key has no characters left in this month.

    Args:
        num_characters: Characters of this request.
        num_used: Characters used in this month, with those of requests that are running.
        bound: How many are allowed a month.
        retry_after_s: Seconds until the next month (UTC).
    """

    def __init__(self, num_characters: int, num_used: int, bound: int, retry_after_s: float) -> None:
        super().__init__(
            f"The request has {num_characters} characters and {num_used} of this month's {bound} are used; the next "
            "month begins at midnight UTC on its first day."
        )
        self.retry_after_s = retry_after_s


class InvalidIdempotencyKey(
    ServiceError, code="invalid_idempotency_key", status=422, title="The Idempotency-Key cannot be used"
):
    """An ``Idempotency-Key`` is malformed, or was sent with another request; the message says which."""


class AccountsUnavailable(
    ServiceError, code="accounts_unavailable", status=503, title="Keys cannot be checked", retry_after=True
):
    """The database of keys and usage cannot be read or written; the log has the reason."""

    retry_after_s = 5.0

    def __init__(self) -> None:
        super().__init__("Keys and usage cannot be read or written now, so nothing is answered; try again in 5 s.")


class BundleNotFound(ServiceError, code="bundle_not_found", status=404, title="There is no such bundle"):
    """There is no bundle ``file`` to load; ``there`` are those that exist."""

    def __init__(self, file: str, there: Sequence[str]) -> None:
        listed = ", ".join(there[:20]) or "none"
        super().__init__(f"There is no bundle {file[:200]!r}; there are: {listed}.")


class BundleOutside(
    ServiceError, code="bundle_outside", status=422, title="The bundle lies outside of the folders allowed"
):
    """The bundle ``file`` is outside the folders that bundles may be loaded from; a bundle is a program."""

    def __init__(self, file: str) -> None:
        super().__init__(
            f"The bundle {file[:200]!r} is outside the folders of the bundles configured (VERSO_MODELS, "
            "VERSO_MODEL); put it there, or start with another folder."
        )


class BundleRefused(ServiceError, code="bundle_refused", status=422, title="The bundle cannot be served"):
    """A bundle cannot be served: it is damaged, foreign, has another digest than expected, or needs another device.

    The message is that of the error the bundle was refused with.
    """


class ModelAlreadyLoaded(ServiceError, code="model_already_loaded", status=409, title="A model of this name is loaded"):
    """The bundle to load has the name of a model that is loaded."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A model called {name!r} is loaded already; unload it first.")


class UnknownModel(ServiceError, code="unknown_model", status=404, title="No such model is loaded"):
    """The model ``name`` to unload is not among those ``loaded``."""

    def __init__(self, name: str, loaded: Sequence[str]) -> None:
        super().__init__(f"No model called {name[:200]!r} is loaded; loaded are: {', '.join(loaded) or 'none'}.")


class GlossaryNotFound(ServiceError, code="glossary_not_found", status=404, title="There is no such glossary"):
    """No stored glossary has the id ``glossary_id``."""

    def __init__(self, glossary_id: str) -> None:
        super().__init__(f"There is no glossary {glossary_id[:100]!r}.")


class GlossaryPairMissing(
    ServiceError, code="glossary_pair_missing", status=422, title="The glossary has no terms for these languages"
):
    """A stored glossary has no terms, or those of several pairs, for the languages of a request.

    Args:
        source: The language of the text, or None if none was named.
        target: The target language, or None if none was named.
        pairs: The pairs that the glossary has terms for.
    """

    def __init__(self, source: str | None, target: str | None, pairs: Sequence[tuple[str, str]]) -> None:
        listed = ", ".join(f"{one}-{other}" for one, other in pairs)
        super().__init__(
            f"No single dictionary of the glossary fits source {source!r}, target {target!r}; name one of: {listed}."
        )


class InvalidGlossary(
    ServiceError, code="invalid_glossary", status=422, title="The terms of the glossary cannot be used"
):
    """The terms of a glossary cannot be stored, or not be used for a request; the message says why."""


class GlossaryStoreFull(ServiceError, code="glossary_store_full", status=409, title="No more glossaries can be stored"):
    """No more glossaries, or no more terms, can be stored; ``bound`` says how many."""

    def __init__(self, bound: str) -> None:
        super().__init__(f"The glossary cannot be stored: {bound}; delete some.")


class InvalidParameter(
    ServiceError, code="invalid_parameter", status=400, title="A parameter has a value that is not supported"
):
    """A compatible protocol refuses the value of a parameter; the message is in the words of that protocol."""


class KeyMissing(ServiceError, code="key_missing", status=403, title="A key is missing"):
    """A request of a compatible protocol has no key.

    Args:
        any_key: Whether any key is accepted.
    """

    def __init__(self, any_key: bool = True) -> None:
        hint = ", with any key" if any_key else ""
        super().__init__(f"Authorization failed: send the header 'Authorization: DeepL-Auth-Key KEY'{hint}.")


class DocumentTooLarge(ServiceError, code="document_too_large", status=413, title="The document is too large"):
    """A document has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The document is larger than {limit} bytes; send it in parts.")


class UnsupportedDocument(
    ServiceError, code="unsupported_document", status=415, title="Documents of this kind are not supported"
):
    """There is no format for a file whose name ends in ``suffix``; there are those in ``supported``."""

    def __init__(self, suffix: str, supported: Sequence[str]) -> None:
        given = f"ends in {suffix[:20]!r}" if suffix else "has no ending"
        super().__init__(f"The name of the file {given}; supported are: {', '.join(supported)}.")


class DocumentRefused(ServiceError, code="document_refused", status=422, title="The document cannot be translated"):
    """A document is broken, dangerous, or of another kind than its name says; the message says which."""


class DocumentTooComplex(ServiceError, code="document_too_complex", status=422, title="The document is too complex"):
    """Reading or writing a document takes more memory or time than is allowed for its size.

    Args:
        reason: What is too much, or what happened; None if the process of the file ended without an answer.
    """

    def __init__(self, reason: str | None = None) -> None:
        what = reason or "Reading or writing the document takes more memory or time than is allowed for its size"
        super().__init__(f"{what}; divide it, or save it in a simpler form.")
        self.reason = reason


class DocumentsFull(
    ServiceError, code="documents_full", status=429, title="Too many documents are kept", retry_after=True
):
    """As many documents are kept as may be.

    Args:
        bound: How many those are.
        retry_after_s: Seconds until the first of them is deleted.
        is_of_key: Whether the bound is that of one key.
    """

    def __init__(self, bound: int, retry_after_s: float, is_of_key: bool = False) -> None:
        advice = f"delete one that is no longer needed, or try again in {retry_after_s:.0f} s"
        if not bound:
            advice = "the operator has switched documents off"
        whose = " of this key" if is_of_key else ""
        super().__init__(
            f"The limit of {bound} stored {'document' if bound == 1 else 'documents'}{whose} is reached; {advice}."
        )
        self.retry_after_s = retry_after_s


class StorageFull(ServiceError, code="storage_full", status=507, title="There is no room left on the disk"):
    """The disk cannot hold any more documents or glossaries."""

    def __init__(self) -> None:
        super().__init__("There is no room left on the disk; delete what is no longer needed, or try again later.")


class StorageUnavailable(
    ServiceError, code="storage_unavailable", status=503, title="The disk cannot be used", retry_after=True
):
    """Documents or glossaries cannot be read or written; the log has the reason."""

    retry_after_s = 30.0

    def __init__(self) -> None:
        super().__init__("Documents and glossaries cannot be read or written now; try again in 30 s.")


class DocumentNotFound(ServiceError, code="document_not_found", status=404, title="There is no such document"):
    """There is no document with the id ``given``."""

    def __init__(self, given: str) -> None:
        super().__init__(f"There is no document {given[:64]!r}; documents are deleted after a day.")


class DocumentNotDone(ServiceError, code="document_not_done", status=409, title="The document is not translated yet"):
    """The result of a document is asked for, which has the status ``status``."""

    def __init__(self, status: str) -> None:
        super().__init__(f"The document's status is {status!r}; with partial=true you get what is translated so far.")


STARTUP_ONLY: frozenset[type[Exception]] = frozenset(
    {
        model_errors.ConfigError,
        model_errors.DataError,
        model_errors.ArtifactError,
        model_errors.DeviceError,
        model_errors.WorkersFailed,
    }
)
"""Errors that end the start, or of training and bulk translation; when a request loads a
bundle, they become a BundleRefused."""

_UNEXPECTED = ProblemRow("internal_error", 500, "Something went wrong", show_detail=False)


@dataclass(frozen=True)
class Problem:
    """An RFC 9457 problem.

    Args:
        status: HTTP status.
        code: Stable name for programs.
        title: Short summary for people.
        detail: What happened this time; None if the client must not see it.
        retry_after_s: Seconds after which a retry may succeed.
        challenge: The ``WWW-Authenticate`` header.
        errors: The fields that are wrong.
    """

    status: int
    code: str
    title: str
    detail: str | None = None
    retry_after_s: float | None = None
    challenge: str | None = None
    errors: tuple[FieldProblem, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """The JSON body."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail or "The operator finds the reason in the log, under the request id.",
        }
        left = MAX_ERROR_BYTES - _num_bytes(body)
        for problem in self.errors:
            entry = problem.to_dict()
            left -= _num_bytes(entry) + 2
            if left < 100:  # the name of the list
                break
            body.setdefault("errors", []).append(entry)
        return body


def _num_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _cut(message: str) -> str:
    return message if len(message) <= MAX_DETAIL_CHARACTERS else f"{message[: MAX_DETAIL_CHARACTERS - 4]} ..."


def problem_for(error: BaseException) -> Problem:
    """The problem that answers an error; an error that is not in the table is a 500 without detail."""
    row = next((PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS), _UNEXPECTED)
    return Problem(
        status=row.status,
        code=row.code,
        title=row.title,
        detail=_cut(str(error)) if row.show_detail else None,
        retry_after_s=getattr(error, "retry_after_s", None) if row.retry_after else None,
        challenge=row.challenge,
        errors=tuple(getattr(error, "problems", ())),
    )
