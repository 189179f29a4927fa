"""The usage of keys: characters and requests by calendar month, each request counted once.

A request is *reserved* before its work, *settled* when its answer is ready and before it is sent, or *released* if it
is not answered. Only settling counts, in the transaction that removes the reservation: a process that is killed leaves
a reservation that counts nothing and lapses. A request with an ``Idempotency-Key`` is remembered for a day after it is
settled; if it is repeated, it is answered again and not counted again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from app.accounts.database import connect
from app.errors import InvalidIdempotencyKey, QuotaExceeded

REMEMBERED_S = 86_400.0
"""Seconds for which a request with an ``Idempotency-Key`` is remembered after it was counted."""


MAX_REMOVED = 100
"""Most lapsed rows that a request removes: after a quiet day a million may have lapsed, and callers wait for it."""


@dataclass(frozen=True)
class Charge:
    """A request to count.

    Args:
        key: The id of the key.
        id: The id of the request among those of the key.
        fingerprint: A digest of the request.
        month: The month that it counts for.
        is_repeatable: Whether the id is an ``Idempotency-Key``, with which the client may repeat the request.
    """

    key: str
    id: str
    fingerprint: bytes
    month: str
    is_repeatable: bool


@dataclass(frozen=True)
class Usage:
    """The usage of a key in a month.

    Args:
        key: The id of the key.
        month: The month, as in ``2026-01``.
        characters: Characters of the texts that were answered.
        requests: Requests that were answered.
    """

    key: str
    month: str
    characters: int = 0
    requests: int = 0


class UsageStore:
    """Usage in a file, shared by processes. One thread at a time may use it; methods that write take milliseconds.

    Args:
        path: The file.

    Raises:
        SettingsError: It cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def reserve(self, charge: Charge, characters: int, quota: int | None, now: float, lease_s: float) -> bool:
        """Reserve characters for a request that begins.

        Args:
            charge: The request.
            characters: Its characters.
            quota: Most characters in a month, or None.
            now: Seconds since 1970.
            lease_s: Seconds after which the reservation lapses, if it is not settled.

        Returns:
            Whether this request has a reservation now; False if an attempt with the same id is running or was counted.

        Raises:
            QuotaExceeded: It exceeds the quota, together with what is counted and reserved.
            InvalidIdempotencyKey: Its id was used for a different request.
        """
        with self._transaction(durable=False) as connection:
            connection.execute(
                "DELETE FROM charges WHERE (key, id) IN "
                "(SELECT key, id FROM charges WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
                (now, MAX_REMOVED),
            )
            row = self._row(charge, now)
            if row is not None:
                fingerprint, is_settled, month = row
                if fingerprint != charge.fingerprint:
                    raise InvalidIdempotencyKey("The Idempotency-Key was sent with another request; send a new one.")
                if is_settled or month == charge.month:
                    return False  # else an attempt of the last month has the quota of that month
            if quota is not None:
                used = self.of(charge.key, charge.month).characters
                (reserved,) = connection.execute(
                    "SELECT coalesce(sum(characters), 0) FROM charges "
                    "WHERE key = ? AND month = ? AND NOT settled AND expires_at > ?",
                    (charge.key, charge.month, now),
                ).fetchone()
                if used + reserved + characters > quota:
                    raise QuotaExceeded(characters, used + reserved, quota, seconds_to_next_month(now))
            connection.execute(
                "INSERT OR REPLACE INTO charges VALUES (?, ?, ?, ?, ?, 0, ?)",
                (charge.key, charge.id, charge.fingerprint, charge.month, characters, now + lease_s),
            )
        return True

    def settle(self, charge: Charge, characters: int, now: float) -> None:
        """Count a request, as :meth:`settle_all` does."""
        self.settle_all([(charge, characters)], now)

    def settle_all(self, answered: Sequence[tuple[Charge, int]], now: float) -> None:
        """Count requests that are not counted yet; the counts survive a power failure when this returns.

        Args:
            answered: Each request with the number of its characters that were answered.
            now: Seconds since 1970.
        """
        with self._transaction(durable=True):
            for charge, characters in answered:
                self._count(charge, characters, now)

    def release(self, charge: Charge) -> None:
        """Remove the reservation of a request that is not answered.

        Args:
            charge: The request.
        """
        with self._transaction(durable=False):
            self._delete(charge)

    def of(self, key: str, month: str) -> Usage:
        """The usage of a key in a month.

        Args:
            key: Its id.
            month: The month.
        """
        row = self._connection.execute(
            "SELECT characters, requests FROM usage WHERE key = ? AND month = ?", (key, month)
        ).fetchone()
        return Usage(key, month, *(row or ()))

    def all(self, month: str | None = None) -> list[Usage]:
        """The usage of all keys.

        Args:
            month: Only this month, or None for every month.
        """
        rows = self._connection.execute(
            "SELECT key, month, characters, requests FROM usage WHERE month = coalesce(?, month) ORDER BY month, key",
            (month,),
        )
        return [Usage(*row) for row in rows]

    def _count(self, charge: Charge, characters: int, now: float) -> None:
        row = self._row(charge, now)
        if row is not None and row[1]:
            return
        self._connection.execute(
            "INSERT INTO usage VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET "
            "characters = characters + excluded.characters, requests = requests + 1",
            (charge.key, charge.month, characters),
        )
        if charge.is_repeatable:
            self._connection.execute(
                "INSERT OR REPLACE INTO charges VALUES (?, ?, ?, ?, ?, 1, ?)",
                (charge.key, charge.id, charge.fingerprint, charge.month, characters, now + REMEMBERED_S),
            )
        else:
            self._delete(charge)

    def _row(self, charge: Charge, now: float) -> tuple[bytes, int, str] | None:
        row: tuple[bytes, int, str] | None = self._connection.execute(
            "SELECT fingerprint, settled, month FROM charges WHERE key = ? AND id = ? AND expires_at > ?",
            (charge.key, charge.id, now),
        ).fetchone()
        return row

    def _delete(self, charge: Charge) -> None:
        """Remove a reservation; a request that was counted stays."""
        self._connection.execute(
            "DELETE FROM charges WHERE key = ? AND id = ? AND NOT settled", (charge.key, charge.id)
        )

    @contextlib.contextmanager
    def _transaction(self, durable: bool) -> Iterator[sqlite3.Connection]:
        """A transaction during which no other process writes.

        Args:
            durable: Whether it must survive a power failure. A reservation need not, so it does not wait for the disk.
        """
        self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise


def month_of(now: float) -> str:
    """The calendar month in UTC, as in ``2026-01``.

    Args:
        now: Seconds since 1970.
    """
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m")


def seconds_to_next_month(now: float) -> float:
    """Seconds until the next calendar month begins in UTC.

    Args:
        now: Seconds since 1970.
    """
    moment = datetime.fromtimestamp(now, UTC)
    begin = datetime(moment.year + moment.month // 12, moment.month % 12 + 1, 1, tzinfo=UTC)
    return begin.timestamp() - now
