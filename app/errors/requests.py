"""Errors of a request: its body, fields, path and origin."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.problems import MAX_PROBLEMS, FieldProblem, ServiceError


class BodyTooLarge(ServiceError, code="body_too_large", status=413, title="The body is too large"):
    """The request body has more than ``limit`` bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"The body is larger than {limit} bytes; send fewer or shorter texts in one request.")


class BodiesTooLarge(
    ServiceError, code="bodies_too_large", status=503, title="Too much is being received", retry_after=True
):
    """The bodies of all requests in work would have more than ``limit`` bytes."""

    retry_after_s = 2.0

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The bodies of all requests in work would have more than {limit} bytes together; try again in "
            f"{self.retry_after_s:.0f} s, or send less at once."
        )


class RequestTooSlow(ServiceError, code="request_too_slow", status=408, title="The request came too slowly"):
    """A request sent nothing for ``limit_s`` seconds, or fewer than ``bytes_per_s`` bytes a second."""

    def __init__(self, limit_s: float, bytes_per_s: int) -> None:
        super().__init__(
            f"The request sent nothing for {limit_s:g} s, or less than {bytes_per_s} bytes per second; send it faster, "
            "or in parts."
        )


class UnsupportedMediaType(
    ServiceError, code="unsupported_media_type", status=415, title="The body is of the wrong type"
):
    """The Content-Type of a request is not among those ``accepted``; a ``hint`` may say where it is."""

    def __init__(self, content_type: str, accepted: Sequence[str], hint: str = "") -> None:
        also = f" ({hint})" if hint else ""
        super().__init__(f"Content-Type is {content_type!r}; send {' or '.join(accepted)}{also}.")


class NotAcceptable(ServiceError, code="not_acceptable", status=406, title="No acceptable form of the answer"):
    """The header Accept allows none of the media types ``available`` for the answer."""

    def __init__(self, accept: str, available: Sequence[str]) -> None:
        super().__init__(f"Accept is {accept!r}; this route answers with {', '.join(available)}.")


class MalformedBody(ServiceError, code="malformed_body", status=400, title="The body is not valid JSON"):
    """The body cannot be parsed as JSON; the message says where."""


class MalformedForm(ServiceError, code="malformed_form", status=400, title="The body is not a valid form"):
    """The body cannot be parsed as a multipart form; the message says why."""


class NotFound(ServiceError, code="not_found", status=404, title="There is no such path"):
    """There is no path ``path``; those in ``similar`` resemble it."""

    def __init__(self, path: str, similar: Sequence[str]) -> None:
        hint = f"did you mean {similar[0]}?" if similar else "see /docs."
        super().__init__(f"There is no path {path[:200]!r}; {hint}")


class MethodNotAllowed(
    ServiceError, code="method_not_allowed", status=405, title="The path does not accept this method"
):
    """The path exists, but not with this method."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{path} does not accept {method}; the header Allow lists the accepted methods.")


class InvalidRequest(ServiceError, code="invalid_request", status=422, title="Invalid fields"):
    """Fields are missing, unknown or invalid; ``problems`` are theirs, at most ``MAX_PROBLEMS``."""

    def __init__(self, problems: Sequence[FieldProblem]) -> None:
        super().__init__("; ".join(f"{problem.field}: {problem.message}" for problem in problems[:MAX_PROBLEMS]))
        self.problems = tuple(problems[:MAX_PROBLEMS])


class LimitExceeded(ServiceError, code="limit_exceeded", status=422, title="The request asks for too much"):
    """A request exceeds a limit of the operator.

    Args:
        field: The field that exceeds it.
        value: The value or the size of the field.
        bound: The limit.
        what: What is counted, as a plural.
    """

    def __init__(self, field: str, value: int, bound: int, what: str) -> None:
        super().__init__(f"{field}: {value} exceeds the limit of {bound} {what}.")
        self.problems = (FieldProblem(field, f"{value} exceeds the limit of {bound} {what}", value, bound),)


class InvalidParameter(
    ServiceError, code="invalid_parameter", status=400, title="A parameter has a value that is not supported"
):
    """A compatible protocol does not accept the value of a parameter; the message is in the terms of that protocol."""


class HostRefused(ServiceError, code="host_refused", status=403, title="The host is not allowed"):
    """The operator has not allowed the ``host`` in the header ``Host``, or the request has several such headers."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"This service does not answer for the host {host[:100]!r}; the operator can allow it with "
            "VERSO_ALLOWED_HOSTS."
        )


class CrossSiteRefused(
    ServiceError, code="cross_site_refused", status=403, title="Pages of other sites are not allowed"
):
    """A page of another site sent the request; ``origin`` is that site, or None if the browser does not name it."""

    def __init__(self, origin: str | None) -> None:
        site = "another site" if origin is None else repr(origin[:100])
        super().__init__(
            f"The request was sent by a page of {site}. Pages of other sites may use this service only if the operator "
            "allows them with VERSO_CORS_ORIGINS."
        )
