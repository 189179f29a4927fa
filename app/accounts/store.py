"""The store of keys."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from app.accounts.database import BUSY_S, connect
from app.accounts.keys import Key, Scope, Token, is_token_of, new_token
from app.engine.caller import Priority

_COLUMNS = tuple(field.name for field in fields(Key))


class KeyStore:
    """Keys in a file. Each method is one transaction; reading takes microseconds, writing milliseconds.

    Args:
        path: The file.
        busy_s: Seconds to wait for other processes.
        make: Whether to create a missing file.

    Raises:
        SettingsError: It cannot be used.
    """

    def __init__(self, path: Path, busy_s: float = BUSY_S, *, make: bool = True) -> None:
        self._connection = connect(path, busy_s, make=make)
        self._connection.row_factory = sqlite3.Row

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def create(
        self,
        name: str,
        scopes: Sequence[Scope],
        now: float,
        *,
        expires_at: float | None = None,
        characters_per_month: int | None = None,
        requests_per_minute: int | None = None,
        concurrent_sentences: int | None = None,
        priority: Priority = Priority.INTERACTIVE,
    ) -> tuple[Key, Token]:
        """Create a key.

        Args:
            name: Its name for the operator.
            scopes: The scopes of its holder.
            now: Seconds since 1970.
            expires_at: When it expires, or None for never.
            characters_per_month: Most characters in a calendar month, or None.
            requests_per_minute: Most requests in a minute, or None.
            concurrent_sentences: Most sentences in translation at a time, or None.
            priority: The priority of its sentences.

        Returns:
            The key, and the token, which cannot be computed from the stored data.
        """
        token = new_token()
        key = Key(
            token.id,
            name,
            tuple(scopes),
            now,
            expires_at,
            None,
            characters_per_month,
            requests_per_minute,
            concurrent_sentences,
            priority,
        )
        row = {**asdict(key), "scopes": " ".join(key.scopes), "digest": token.digest}
        self._connection.execute(
            f"INSERT INTO keys ({', '.join(row)}) VALUES ({', '.join(':' + name for name in row)})", row
        )
        return key, token

    def find(self, token: Token) -> Key | None:
        """The key of a token, or None if the token is wrong.

        Args:
            token: The token of a request.
        """
        row = self._connection.execute("SELECT * FROM keys WHERE id = ?", (token.id,)).fetchone()
        if not is_token_of(token, None if row is None else row["digest"]):
            return None
        return _key(row)

    def all(self) -> list[Key]:
        """All keys, the oldest first."""
        return [_key(row) for row in self._connection.execute("SELECT * FROM keys ORDER BY created_at, id")]

    def revoke(self, id: str, now: float) -> Key | None:
        """Revoke a key for all processes at once; it stays in the list.

        Args:
            id: Its id.
            now: Seconds since 1970.

        Returns:
            The key, or None if there is none with this id.
        """
        self._connection.execute("UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?", (now, id))
        row = self._connection.execute("SELECT * FROM keys WHERE id = ?", (id,)).fetchone()
        return None if row is None else _key(row)


def _key(row: sqlite3.Row) -> Key:
    values = {name: row[name] for name in _COLUMNS}
    return Key(**{**values, "scopes": tuple(values["scopes"].split()), "priority": Priority(values["priority"])})
