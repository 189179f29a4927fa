"""Who may use a route, how much of it, and whom the request is counted for.

A service without keys and without limits has no accounts: each function here is then one test of an attribute.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

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
"""The header with a client's id of a request, which its repetitions share."""

NOBODY = ""
"""The owner of what belongs to no key."""

_KEY = "verso.key"
_RATE = "verso.rate"
_HELD = "verso.held"

_Result = TypeVar("_Result")


def accounts_of(request: Request) -> Accounts | None:
    """The accounts; None if neither keys nor limits by address are on."""
    accounts: Accounts | None = request.app.state.accounts
    return accounts


def needs(scope: KeyScope | None) -> Callable[[Request], None]:
    """A guard of native routes that refuses callers who may not use them.

    Args:
        scope: What a key must have, or None if any key will do.
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
    given, _, token = header.strip().partition(" ")
    return token.strip() or None if given.lower() == scheme else None


def admit(request: Request, token: str | None, scope: KeyScope | None) -> None:
    """Refuse a caller who may not use a route, or sends too many requests; else note its key (:func:`key_of`).

    Args:
        request: The request.
        token: What it has as a key, or None.
        scope: What a key must have, or None if any key will do.

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
    """Whose turn in the queue a request takes: that of its key, or without one of the client's address."""
    key = key_of(request)
    if key is not None:
        return Caller(key.id, key.priority)
    address = _address(request)
    return Caller(subscriber_of(address) if ":" in address else address)  # IPv4 addresses are left as they are


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def key_of(request: Request) -> Key | None:
    """The key of a request, or None."""
    key: Key | None = request.scope.get(_KEY)
    return key


def owner_of(request: Request) -> str | None:
    """Whose documents and glossaries a request may see: those of its key, or everybody's (None) without keys."""
    accounts = accounts_of(request)
    if accounts is None or not accounts.has_keys:
        return None
    key = key_of(request)
    return NOBODY if key is None else key.id


async def metered(
    request: Request,
    texts: Sequence[str],
    body: object,
    run: Callable[[], Awaitable[_Result]],
    answered: Callable[[_Result], int] | None = None,
) -> _Result:
    """Do the work of a request, and count it for its key once the answer is there.

    Args:
        request: The request.
        texts: Its texts.
        body: All that it asks for; its ``repr`` tells it from another request with the same ``Idempotency-Key``.
        run: Does the work.
        answered: The number of characters that were answered; of all texts unless given.

    Raises:
        ServiceError: The key may not use that much, or the request cannot be counted.
    """
    key = None if accounts_of(request) is None else key_of(request)
    if key is None:
        return await run()
    await _hold_sentences(request, key, texts)
    async with await charge_of(request, body) as charge:
        await charge.reserve(sum(map(len, texts)))
        result = await run()
        if answered is not None:
            charge.characters = answered(result)
    return result


async def metered_document(
    request: Request, body: object, content: bytes, add: Callable[[Sender], Awaitable[_Result]]
) -> _Result:
    """Take in a document, and count its characters for the request's key before its translation begins.

    Args:
        request: The request.
        body: All that it asks for but the file's bytes, as for :func:`metered`.
        content: The file.
        add: Takes the document in.

    Raises:
        ServiceError: The key may not use that much, or the request cannot be counted.
    """
    owner, key = owner_of(request), key_of(request)
    if key is None:
        return await add(Sender(owner))
    async with await charge_of(request, body, content) as charge:
        return await add(Sender(owner, key.priority, charge.request, charge.reserve, charge.settle))


async def charge_of(request: Request, body: object, content: bytes = b"") -> RequestCharge:
    """What counts a request that has a key.

    Args:
        request: The request.
        body: All that it asks for but the bytes of a file.
        content: The file.

    Raises:
        InvalidIdempotencyKey: Its ``Idempotency-Key`` is malformed.
    """
    accounts, key = accounts_of(request), key_of(request)
    assert accounts is not None and key is not None, "the request has a key"

    def fingerprint() -> bytes:
        digest = hashlib.sha256(repr((request.url.path, body)).encode("utf-8", "surrogatepass"))
        digest.update(content)
        return digest.digest()

    repeatable = request.headers.get(IDEMPOTENCY_KEY)
    # Megabytes take tens of milliseconds.
    return accounts.charge(key, repeatable, b"" if repeatable is None else await asyncio.to_thread(fingerprint))


async def _hold_sentences(request: Request, key: Key, texts: Sequence[str]) -> None:
    """Count the sentences of a request as being translated until it has ended."""
    accounts = accounts_of(request)
    if accounts is None or key.concurrent_sentences is None:
        return
    num_sentences = await asyncio.to_thread(_count_sentences, texts)
    held: contextlib.ExitStack = request.scope[_HELD]
    held.enter_context(accounts.running.hold(key.id, num_sentences, key.concurrent_sentences))


def _count_sentences(texts: Sequence[str]) -> int:
    """The number of sentences, one at least for each text, by rules that most languages share."""
    # Imported here: only keys with this limit need it.
    from model.text.segmentation import split_text

    return sum(max(1, len(split_text(text, "en", lambda start, end: True))) for text in texts)


class AccountHeaders:
    """Adds the headers of limits to answers, and ends what a request holds. It is there only if there are accounts.

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

        with contextlib.ExitStack() as held:
            scope[_HELD] = held
            await self.app(scope, receive, send_with_rate)
