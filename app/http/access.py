"""Access to routes: keys, scopes, rate limits, and the key that a request is counted for.

A service without keys and limits has no accounts; each function here then only tests an attribute.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import AsyncIterator, Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.accounts.addresses import subscriber_of
from app.accounts.keys import Key
from app.accounts.keys import Scope as KeyScope
from app.documents.document import Sender
from app.engine.caller import Caller
from app.errors import InvalidKey, KeyRequired, RateLimited
from app.telemetry.logs import log_fields

if TYPE_CHECKING:
    from app.accounts.rates import Rate
    from app.accounts.service import Accounts, RequestCharge

IDEMPOTENCY_KEY = "Idempotency-Key"
"""The header with a client's id of a request, which retries repeat."""

_caller = lru_cache(maxsize=1_024)(Caller)
"""Equal callers are mostly one object: comparing others takes most of the time in which the engine counts its rows."""

NOBODY = ""
"""The owner of documents and glossaries that belong to no key."""

_KEY = "verso.key"
_RATE = "verso.rate"
_RUNNING = "verso.running"


def accounts_of(request: Request) -> Accounts | None:
    """The accounts; None if neither keys nor limits by address are on."""
    accounts: Accounts | None = request.app.state.accounts
    return accounts


def needs(scope: KeyScope | None) -> Callable[[Request], None]:
    """A guard of native routes that refuses callers without access.

    Args:
        scope: The scope that a key must have; None accepts any key.
    """

    def check(request: Request) -> None:
        if request.app.state.accounts is not None:
            admit(request, bearer_token(request), scope)

    return check


def bearer_token(request: Request) -> str | None:
    """The key in the header ``Authorization: Bearer KEY``, or None if there is none."""
    return token_in(request.headers.get("authorization", ""), "bearer")


def token_in(header: str, scheme: str) -> str | None:
    """The token of a header ``Authorization``, or None if it is empty or of another scheme.

    Args:
        header: The header.
        scheme: The scheme in lower case.
    """
    header_scheme, _, token = header.strip().partition(" ")
    return token.strip() or None if header_scheme.lower() == scheme else None


def admit(request: Request, token: str | None, scope: KeyScope | None) -> None:
    """Refuse a caller without access to a route or over its rate limit; else store its key for :func:`key_of`.

    Args:
        request: The request.
        token: The key that it sent, or None.
        scope: The scope that the key must have; None accepts any key.

    Raises:
        ServiceError: The caller is refused.
    """
    accounts = accounts_of(request)
    if accounts is None:
        return
    address = _address(request)
    try:
        key = accounts.identify(token, needs_key=scope == "admin")
    except (KeyRequired, InvalidKey):
        _check_rate(request, accounts.take(None, address))
        raise
    if key is not None:
        log_fields(request.scope)["key"] = key.id
    _check_rate(request, accounts.take(key, address))
    if key is not None and scope is not None:
        key.require(scope)
    request.scope[_KEY] = key


def _check_rate(request: Request, rate: Rate | None) -> None:
    if rate is not None:
        request.scope[_RATE] = rate
        if rate.retry_after_s is not None:
            raise RateLimited(rate.limit, rate.retry_after_s)


def caller_of(request: Request) -> Caller:
    """The caller for the queue: the request's key, or the client's address if it has none."""
    key = key_of(request)
    if key is not None:
        return _caller(key.id, key.priority)
    address = _address(request)
    return _caller(subscriber_of(address) if ":" in address else address)  # IPv4 addresses are left as they are


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def key_of(request: Request) -> Key | None:
    """The key of a request, or None."""
    key: Key | None = request.scope.get(_KEY)
    return key


def owner_of(request: Request) -> str | None:
    """The owner of the documents and glossaries that a request can access: its key; without keys None, for all."""
    accounts = accounts_of(request)
    if accounts is None or not accounts.has_keys:
        return None
    key = key_of(request)
    return NOBODY if key is None else key.id


@contextlib.asynccontextmanager
async def metered(request: Request, texts: Sequence[str], body: object) -> AsyncIterator[RequestCharge | None]:
    """Count the work of a request for its key: it is done inside this context, and counted when the context ends.

    Set ``characters`` of the charge if only a part of the texts is answered. Without a key the charge is None.

    Args:
        request: The request.
        texts: Its texts.
        body: Its parameters; their ``repr`` tells it from another request with the same ``Idempotency-Key``.

    Raises:
        ServiceError: The key's quota does not suffice, or the request cannot be counted.
    """
    key = None if accounts_of(request) is None else key_of(request)
    if key is None:
        yield None
        return
    await _count_running(request, key, texts)
    async with await _charge_of(request, key, body) as charge:
        await charge.reserve(sum(map(len, texts)))
        yield charge


@contextlib.asynccontextmanager
async def metered_document(request: Request, body: object, content: bytes) -> AsyncIterator[Sender]:
    """Count the characters of a document for the request's key: it is added inside this context, for its sender.

    Args:
        request: The request.
        body: Its parameters except the bytes of the file, as for :func:`metered`.
        content: The file.

    Raises:
        ServiceError: The key's quota does not suffice, or the request cannot be counted.
    """
    owner, key = owner_of(request), key_of(request)
    if key is None:
        yield Sender(owner)
        return
    async with await _charge_of(request, key, body, content) as charge:
        yield Sender(owner, key.priority, charge.request, charge.reserve, charge.settle)


async def _charge_of(request: Request, key: Key, body: object, content: bytes = b"") -> RequestCharge:
    """The charge of a request.

    Args:
        request: The request.
        key: Its key.
        body: Its parameters except the bytes of a file.
        content: The file.

    Raises:
        InvalidIdempotencyKey: Its ``Idempotency-Key`` is malformed.
    """
    accounts = accounts_of(request)
    assert accounts is not None, "the request has a key"

    def fingerprint() -> bytes:
        digest = hashlib.sha256(repr((request.url.path, body)).encode("utf-8", "surrogatepass"))
        digest.update(content)
        return digest.digest()

    idempotency_key = request.headers.get(IDEMPOTENCY_KEY)
    # Megabytes take tens of milliseconds.
    digest = b"" if idempotency_key is None else await asyncio.to_thread(fingerprint)
    return accounts.charge(key, idempotency_key, digest)


async def _count_running(request: Request, key: Key, texts: Sequence[str]) -> None:
    """Count the sentences of a request as running until the request ends."""
    accounts = accounts_of(request)
    if accounts is None or key.concurrent_sentences is None:
        return
    num_sentences = await asyncio.to_thread(_count_sentences, texts)
    running: contextlib.ExitStack = request.scope[_RUNNING]
    running.enter_context(accounts.running.hold(key.id, num_sentences, key.concurrent_sentences))


def _count_sentences(texts: Sequence[str]) -> int:
    """The number of sentences, at least one for each text, by rules common to most languages."""
    # Imported here: only keys with this limit need it.
    from model.text.segmentation import split_text

    return sum(max(1, len(split_text(text, "en", lambda start, end: True))) for text in texts)


class AccountHeaders:
    """Adds the headers of rate limits to answers, and ends the count of running sentences. Only used with accounts.

    The headers are those of the IETF's draft "RateLimit header fields for HTTP", version 10.

    Args:
        app: The application inside.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_rate(message: Message) -> None:
            rate: Rate | None = scope.get(_RATE)
            if rate is not None and message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["RateLimit-Policy"] = f'"requests";q={rate.limit};w=60'
                headers["RateLimit"] = f'"requests";r={rate.remaining};t={math.ceil(rate.reset_s)}'
            await send(message)

        with contextlib.ExitStack() as running:
            scope[_RUNNING] = running
            await self.app(scope, receive, send_with_rate)
