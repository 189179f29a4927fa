"""Errors of keys, and of the limits of their holders."""

from __future__ import annotations

from collections.abc import Sequence

from app.errors.problems import ServiceError


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
            f"The first {limit} bytes of the body have no key, and without a key no more are read: send it in the "
            "header 'Authorization', in the query, or as the first field of the body."
        )


class KeyMissing(ServiceError, code="key_missing", status=403, title="A key is missing"):
    """A request of a compatible protocol has no key.

    Args:
        any_key: Whether any key is accepted.
    """

    def __init__(self, any_key: bool = True) -> None:
        hint = ", with any key" if any_key else ""
        super().__init__(f"Authorization failed: send the header 'Authorization: DeepL-Auth-Key KEY'{hint}.")


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
        super().__init__(
            f"The key has the scopes {', '.join(given) or '(none)'}; this route needs the scope {needed!r}."
        )


class RateLimited(ServiceError, code="rate_limited", status=429, title="Too many requests a minute", retry_after=True):
    """A caller sends more requests a minute than allowed.

    Args:
        limit: The number allowed.
        retry_after_s: Seconds until the next request is allowed.
    """

    def __init__(self, limit: int, retry_after_s: float) -> None:
        super().__init__(f"The limit is {limit} requests a minute; try again in {retry_after_s:.1f} s.")
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
        bound: The number allowed at once.
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
        num_used: Characters used in this month, including those of running requests.
        bound: Characters allowed a month.
        retry_after_s: Seconds until the next month (UTC).
    """

    def __init__(self, num_characters: int, num_used: int, bound: int, retry_after_s: float) -> None:
        super().__init__(
            f"The request has {num_characters} characters, and {num_used} of this month's {bound} are used; the next "
            "month begins on its first day at midnight UTC."
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
        super().__init__(
            "The database of keys and usage cannot be read or written, so the request was refused; try again in 5 s."
        )
