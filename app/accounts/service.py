"""Decides who may send a request, and counts what it uses."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from app.accounts.addresses import subscriber_of
from app.accounts.database import READ_BUSY_S
from app.accounts.keys import Key, parse_token
from app.accounts.rates import Rate, RequestRates, RunningSentences
from app.accounts.store import KeyStore
from app.accounts.usage import Charge, Usage, UsageStore, month_of
from app.errors import AccountsUnavailable, InvalidIdempotencyKey, InvalidKey, KeyRequired
from app.storage import storage_errors
from app.threads import SYSTEM, Threads

LEASE_MARGIN_S = 60.0
"""Seconds after the longest request at which the reservation of a dead process lapses."""

_IDEMPOTENCY_KEY = re.compile(r"[!-~]{1,255}")

_database_errors = partial(storage_errors, AccountsUnavailable, AccountsUnavailable)
"""Converts every error of the database to ``AccountsUnavailable``."""

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")


class Accounts:
    """Keys, limits and usage of one process. Its methods belong to the event loop.

    Args:
        keys_db: The file of the keys, which must exist; None if callers need no key.
        allows_anonymous: Whether callers without a key are served if there are keys.
        address_requests_per_minute: Most requests a minute from one address without a key, or None.
        longest_request_s: Seconds that a request may take.
        clock: Seconds since 1970, for expiry and months.
        steady_clock: A monotonic clock, in seconds, for requests a minute.
        threads: Where the thread that writes comes from.

    Raises:
        SettingsError: The file cannot be used.
    """

    def __init__(
        self,
        keys_db: Path | None,
        *,
        allows_anonymous: bool = False,
        address_requests_per_minute: int | None = None,
        longest_request_s: float = 30.0,
        clock: Callable[[], float] = time.time,
        steady_clock: Callable[[], float] = time.monotonic,
        threads: Threads = SYSTEM,
    ) -> None:
        self.running = RunningSentences()
        self._keys = None if keys_db is None else KeyStore(keys_db, READ_BUSY_S, make=False)
        self._usage = None if keys_db is None else UsageStore(keys_db)
        self._allows_anonymous = allows_anonymous or keys_db is None
        self._address_limit = address_requests_per_minute
        self._lease_s = longest_request_s + LEASE_MARGIN_S
        self._clock = clock
        self._rates = RequestRates(steady_clock)
        # One thread: a release never overtakes the reservation that it undoes.
        self._writer = threads.pool(1, "accounts")
        self._committing = asyncio.Lock()
        self._answered: list[tuple[Charge, int]] = []
        self._next_commit: asyncio.Task[None] | None = None

    @property
    def has_keys(self) -> bool:
        """Whether there are keys, so that documents and glossaries have owners."""
        return self._keys is not None

    @property
    def needs_key(self) -> bool:
        """Whether every caller needs a key."""
        return not self._allows_anonymous

    def close(self) -> None:
        """Finish writing, and close the file."""
        self._writer.shutdown()
        for store in (self._keys, self._usage):
            if store is not None:
                store.close()

    def identify(self, token: str | None, *, needs_key: bool = False) -> Key | None:
        """The key of a caller; None for a caller without a key, if these are allowed.

        Args:
            token: The key in the request, or None.
            needs_key: Whether this route needs a key in any case.

        Raises:
            KeyRequired: The request has no key.
            InvalidKey: The key is unknown, expired or revoked.
            AccountsUnavailable: The file cannot be read.
        """
        if self._keys is None:
            return None
        if token is None:
            if needs_key or not self._allows_anonymous:
                raise KeyRequired
            return None
        parsed = parse_token(token)
        with _database_errors():
            # Read each time, in microseconds, so that a revocation applies at once in every process.
            key = None if parsed is None else self._keys.find(parsed)
        if key is None:
            raise InvalidKey("unknown")
        if (reason := key.why_unusable(self._clock())) is not None:
            raise InvalidKey(reason)
        return key

    def take(self, key: Key | None, address: str) -> Rate | None:
        """Count a request; None if its caller's requests are not limited.

        Args:
            key: The caller's key, or None.
            address: The caller's address, which identifies a caller without a key.
        """
        limit = self._address_limit if key is None else key.requests_per_minute
        if limit is None:
            return None
        return self._rates.take(f"address {subscriber_of(address)}" if key is None else key.id, limit)

    async def usage_of(self, key: Key) -> Usage:
        """The usage of a key in this month.

        Raises:
            AccountsUnavailable: The file cannot be read.
        """
        assert self._usage is not None, "there is a key"
        return await self.write(self._usage.of, key.id, month_of(self._clock()))

    def charge(self, key: Key, idempotency_key: str | None, fingerprint: bytes) -> RequestCharge:
        """A context that counts a request with a key.

        Args:
            key: The key.
            idempotency_key: The request's ``Idempotency-Key``, or None.
            fingerprint: A digest of the request; not used without ``idempotency_key``.

        Raises:
            InvalidIdempotencyKey: It is malformed.
        """
        assert self._usage is not None, "there is a key"
        if idempotency_key is not None and _IDEMPOTENCY_KEY.fullmatch(idempotency_key) is None:
            raise InvalidIdempotencyKey("The Idempotency-Key must be 1 to 255 visible ASCII characters.")
        repeatable = idempotency_key is not None
        charge = Charge(
            key.id,
            f"client {idempotency_key}" if repeatable else f"process {uuid.uuid4().hex}",
            fingerprint if repeatable else b"",
            month_of(self._clock()),
            repeatable,
        )
        return RequestCharge(self, self._usage, charge, key.characters_per_month, self._clock, self._lease_s)

    async def write(
        self, function: Callable[_Parameters, _Result], *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> _Result:
        """Call a function of the usage store on its thread; it completes even if the caller is cancelled.

        Raises:
            AccountsUnavailable: The file cannot be used.
        """
        with _database_errors():
            return await asyncio.get_running_loop().run_in_executor(self._writer, partial(function, *args, **kwargs))

    async def settle(self, charge: Charge, characters: int) -> None:
        """Count a request; the count is on the disk when this returns.

        Requests that are answered during a commit are counted together by the next one, so that a slow disk delays
        answers but does not limit their number.

        Args:
            charge: The request.
            characters: The characters that were answered.

        Raises:
            AccountsUnavailable: The file cannot be written.
        """
        self._answered.append((charge, characters))
        if self._next_commit is None:
            self._next_commit = asyncio.create_task(self._commit())
            self._next_commit.add_done_callback(_retrieve)
        await asyncio.shield(self._next_commit)

    async def _commit(self) -> None:
        assert self._usage is not None, "there are keys"
        async with self._committing:
            answered, self._answered, self._next_commit = self._answered, [], None
            await self.write(self._usage.settle_all, answered, self._clock())

    def write_soon(self, function: Callable[[], None]) -> None:
        """Call a function of the usage store on its thread without waiting; a failure is logged.

        Args:
            function: The function.
        """

        def call() -> None:
            with contextlib.suppress(AccountsUnavailable), _database_errors():
                function()

        self._writer.submit(call)


def _retrieve(commit: asyncio.Task[None]) -> None:
    """Take note of a failure: asyncio would report it if all who waited for the commit have left."""
    if not commit.cancelled():
        commit.exception()


class RequestCharge:
    """An asynchronous context that counts a request when it ends without an error.

    It ends before the answer is sent, so exactly the answered requests are counted.

    Args:
        accounts: Calls the store.
        usage: The store.
        charge: The request.
        quota: Most characters in a month, or None.
        clock: Seconds since 1970.
        lease_s: Seconds after which the reservation of a dead process lapses.
    """

    def __init__(
        self,
        accounts: Accounts,
        usage: UsageStore,
        charge: Charge,
        quota: int | None,
        clock: Callable[[], float],
        lease_s: float,
    ) -> None:
        self.characters = 0
        """Characters to count: those reserved, unless fewer were answered."""
        self._accounts = accounts
        self._usage = usage
        self._charge = charge
        self._quota = quota
        self._clock = clock
        self._lease_s = lease_s
        self._may_have_reserved = False
        self._has_settled = False
        self._has_reserved = False  # used only on the writer's thread, as the request may end before it reserves

    @property
    def request(self) -> str:
        """Identifies the request and its repetitions; empty without an ``Idempotency-Key``."""
        if not self._charge.is_repeatable:
            return ""
        identity = (self._charge.key, self._charge.id, self._charge.fingerprint)
        return hashlib.sha256(repr(identity).encode()).hexdigest()

    async def reserve(self, characters: int) -> None:
        """Reserve characters before the work begins; an existing reservation stays.

        Args:
            characters: Their number.

        Raises:
            QuotaExceeded: They exceed the quota of this month.
            InvalidIdempotencyKey: The ``Idempotency-Key`` was used for another request.
            AccountsUnavailable: The file cannot be written.
        """
        self.characters = characters
        if self._quota is None and not self._charge.is_repeatable:
            return  # nothing depends on a reservation
        self._may_have_reserved = True
        await self._accounts.write(self._reserve, characters, self._clock())

    async def settle(self) -> None:
        """Count the request now instead of at its end.

        Raises:
            AccountsUnavailable: It cannot be counted, so it must not be answered.
        """
        self._has_settled = True
        await self._accounts.settle(self._charge, self.characters)

    def _reserve(self, characters: int, now: float) -> None:
        if not self._has_reserved:
            self._has_reserved = self._usage.reserve(self._charge, characters, self._quota, now, self._lease_s)

    def _release(self) -> None:
        if self._has_reserved:  # this request, and not another one with the same id
            self._usage.release(self._charge)

    async def __aenter__(self) -> Self:
        """Begin; nothing is reserved yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Count the request, or release its reservation after an error or if the client has left.

        Raises:
            AccountsUnavailable: It cannot be counted, so it must not be answered.
        """
        if self._has_settled:
            return
        if kind is None:
            await self.settle()
        elif self._may_have_reserved:
            self._accounts.write_soon(self._release)
