"""The root of the service's errors, and the HTTP problem that answers an error."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from model import errors as model_errors

MAX_PROBLEMS = 20
"""Maximum number of fields that an answer reports; validation stops there."""

MAX_DETAIL_CHARACTERS = 2_000
"""Maximum number of characters of a message to a client; longer ones are cut."""

MAX_ERROR_BYTES = 16_000
"""Maximum size of the JSON body of an error, in bytes."""


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
    """The base class of the errors with which ``app`` refuses a request. They can be pickled.

    A class without a code is answered like its base class.
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
        return model_errors.restore_error, (type(self), self.args, self.__dict__)


class SettingsError(Exception):
    """A setting is unknown or out of bounds; the process does not start."""


@dataclass(frozen=True)
class FieldProblem:
    """The error of one field.

    Args:
        field: Its path, such as ``text[2]``.
        message: The error, and what is accepted.
        value: The value in the request, if it is short.
        bound: The bound that it exceeds, if any.
    """

    field: str
    message: str
    value: Any = None
    bound: Any = None

    def to_dict(self) -> dict[str, Any]:
        """The entry in the problem's list ``errors``, without fields that are None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


STARTUP_ONLY: frozenset[type[Exception]] = frozenset(
    {
        model_errors.ConfigError,
        model_errors.DataError,
        model_errors.ArtifactError,
        model_errors.DeviceError,
        model_errors.WorkersFailed,
    }
)
"""Errors that end a start, a training or a bulk translation. If a request loads a bundle, they become a
``BundleRefused``."""

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
        errors: The invalid fields.
    """

    status: int
    code: str
    title: str
    detail: str | None = None
    retry_after_s: float | None = None
    challenge: str | None = None
    errors: tuple[FieldProblem, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The JSON body."""
        body: dict[str, Any] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail or "The service's log has the reason, under the request id.",
        }
        room = MAX_ERROR_BYTES - _num_bytes(body)
        for problem in self.errors:
            entry = problem.to_dict()
            room -= _num_bytes(entry) + 2
            if room < 100:  # for the name of the list
                break
            body.setdefault("errors", []).append(entry)
        return body


def _num_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def _cut(message: str) -> str:
    return message if len(message) <= MAX_DETAIL_CHARACTERS else f"{message[: MAX_DETAIL_CHARACTERS - 4]} ..."


def problem_for(error: BaseException) -> Problem:
    """The problem that answers an error; an error without a row is a 500 without detail."""
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
