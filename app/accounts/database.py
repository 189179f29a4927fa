"""The SQLite file of keys and usage, which several processes may use at the same time."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

from app.errors import SettingsError
from app.storage import make_private, make_private_folder, require_writable

VERSION = 1
"""Version of the tables. A file of a higher version comes from a later release and is refused."""

BUSY_S = 5.0
"""Seconds to wait for another process that writes."""

READ_BUSY_S = 0.05
"""Seconds for which the event loop waits to read: only while another process opens, repairs or closes the file."""

APPLICATION = 0x56657273
"""SQLite's ``application_id`` of a file of keys: "Vers" in ASCII."""

_PAUSE_S = 0.05

_RESERVATIONS = "charges_reserved"
"""An index that files of earlier releases lack."""

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS keys (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, name TEXT NOT NULL, scopes TEXT NOT NULL, created_at REAL NOT NULL,
    expires_at REAL, revoked_at REAL, characters_per_month INTEGER, requests_per_minute INTEGER,
    concurrent_sentences INTEGER, priority INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS usage (
    key TEXT NOT NULL, month TEXT NOT NULL, characters INTEGER NOT NULL, requests INTEGER NOT NULL,
    PRIMARY KEY (key, month)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    key TEXT NOT NULL, id TEXT NOT NULL, fingerprint BLOB NOT NULL, month TEXT NOT NULL, characters INTEGER NOT NULL,
    settled INTEGER NOT NULL, expires_at REAL NOT NULL, PRIMARY KEY (key, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS charges_by_expiry ON charges (expires_at);
CREATE INDEX IF NOT EXISTS {_RESERVATIONS} ON charges (key, month, expires_at) WHERE NOT settled;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {VERSION};
COMMIT;
"""


def connect(path: Path, busy_s: float = BUSY_S, *, make: bool = True) -> sqlite3.Connection:
    """Open the file with access for this user only.

    The connection is in autocommit mode: transactions begin with ``BEGIN``. One thread at a time may use it.

    Args:
        path: The file.
        busy_s: Seconds to wait for other processes once it is open.
        make: Whether to create a missing file.

    Raises:
        SettingsError: It cannot be used.
    """
    try:
        if make:
            make_private_folder(path.parent)
        make_private(path, make=make)
        connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path, busy_s)
        except BaseException:
            connection.close()
            raise
    except FileNotFoundError as error:
        raise SettingsError(
            f"VERSO_KEYS_DB: there is no file {path}. Correct the path, or create the file and a first key with "
            f"VERSO_KEYS_DB={path} verso keys create NAME."
        ) from error
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(f"VERSO_KEYS_DB: {path} cannot be used as a database of keys: {error}.") from error
    return connection


def _prepare(connection: sqlite3.Connection, path: Path, busy_s: float) -> None:
    """Create missing tables and set the connection up.

    Raises:
        SettingsError: The file belongs to another program or a later release.
    """
    if _is_foreign(connection):
        raise SettingsError(f"VERSO_KEYS_DB: {path} is a database of another program; name another file.")
    _write_ahead(connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise SettingsError(f"VERSO_KEYS_DB: {path} has version {version} of a later release; the limit is {VERSION}.")
    has_index = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (_RESERVATIONS,)).fetchone()
    if version < VERSION or has_index is None:
        connection.executescript(_SCHEMA)
    require_writable(connection)
    connection.execute(f"PRAGMA busy_timeout = {round(busy_s * 1000)}")
    connection.execute("PRAGMA synchronous = FULL")  # a change survives a power failure; some builds of SQLite differ


def _is_foreign(connection: sqlite3.Connection) -> bool:
    """Whether the file has tables of another program."""
    connection.execute("BEGIN")  # another process may be creating the tables
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (num_tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    connection.execute("COMMIT")
    return bool(num_tables and application != APPLICATION)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead mode, for which SQLite does not wait if another process does the same."""
    give_up_at = time.monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
        time.sleep(_PAUSE_S)
