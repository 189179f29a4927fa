"""Private files and folders, and the errors for clients when a disk fails."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.errors import ServiceError, SettingsError, StorageFull, StorageUnavailable, problem_for
from model.process.files import make_folder

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("app.storage")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_private_folder(folder: Path) -> None:
    """Create a folder and its parents with access for this user only; existing folders stay as they are.

    Args:
        folder: The folder.

    Raises:
        OSError: It cannot be created.
    """
    make_folder(folder, mode=0o700)


def make_private(file: Path, *, make: bool = True) -> None:
    """Restrict a file to this user, creating it if needed: SQLite's journals then have the same mode.

    Args:
        file: The file.
        make: Whether to create a missing file.

    Raises:
        FileNotFoundError: It is missing and not created.
        OSError: It cannot be created or written.
    """
    os.close(os.open(file, os.O_RDWR | (os.O_CREAT if make else 0), 0o600))
    if file.stat().st_mode & 0o007:  # of an earlier release; access of a group is kept
        with contextlib.suppress(PermissionError):
            file.chmod(0o600)


def open_database(
    file: Path | None,
    schema: str,
    pragmas: Sequence[str] = (),
    added_columns: Mapping[str, Mapping[str, str]] | None = None,
    timeout_s: float = 5.0,
) -> sqlite3.Connection:
    """Open an SQLite database with its tables, for this user only. One thread at a time may use it.

    Args:
        file: The file, in a folder that is created if needed; None for a database in memory.
        schema: Creates missing tables.
        pragmas: Set before the tables are created.
        added_columns: By table, the columns that a file of an earlier release may lack, with their declarations.
        timeout_s: Seconds for which a statement waits for other processes.

    Raises:
        OSError: The folder or the file cannot be created.
        sqlite3.Error: The database cannot be read or written, or another process has locked it.
    """
    # Imported here: a service that stores nothing does not need SQLite.
    import sqlite3

    if file is not None:
        make_private_folder(file.parent)
        make_private(file)
    connection = sqlite3.connect(":memory:" if file is None else file, timeout=timeout_s, check_same_thread=False)
    try:
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        connection.executescript(schema)
        for table, declarations in (added_columns or {}).items():
            columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for name in declarations.keys() - columns:
                connection.execute(f"ALTER TABLE {table} ADD COLUMN {name} {declarations[name]}")
        require_writable(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def owned_by(owner: str | None) -> tuple[str, tuple[str, ...]]:
    """The condition of SQL on the rows of an owner, with its values; an index on the column ``owner`` is used.

    Args:
        owner: The owner, or None for the rows of all.
    """
    return ("TRUE", ()) if owner is None else ("owner = ?", (owner,))


def require_writable(connection: sqlite3.Connection) -> None:
    """Check that a database with tables can be changed; nothing is written.

    If SQLite cannot open a file for writing, because of an error that may be over soon, it opens it for reading. The
    connection would then refuse all changes for as long as it lasts.

    Args:
        connection: The connection.

    Raises:
        sqlite3.OperationalError: It cannot be changed.
    """
    (table,) = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT 1").fetchone()
    with connection:
        connection.execute(f"DELETE FROM {table} WHERE 0")


def check_data_folder(folder: Path, *, make: bool) -> None:
    """Check that the folder of ``VERSO_DATA_DIR`` can be written. A full disk is no error: translation needs no disk.

    Args:
        folder: The folder.
        make: Whether to create a missing folder; otherwise its closest existing parent is checked.

    Raises:
        SettingsError: The folder cannot be created or written.
    """
    try:
        if make:
            make_private_folder(folder)
        with tempfile.TemporaryFile(dir=next(existing for existing in (folder, *folder.parents) if existing.exists())):
            pass
    except OSError as error:
        if error.errno not in _FULL:
            raise SettingsError(
                f"VERSO_DATA_DIR: {folder} cannot be written ({error.strerror}); name a folder that this user may "
                "write, or unset it."
            ) from error


@contextlib.contextmanager
def storage_errors(
    full: type[ServiceError] = StorageFull, unavailable: type[ServiceError] = StorageUnavailable
) -> Iterator[None]:
    """Convert errors of the file system and of SQLite to errors for clients; log the reason.

    A missing file is no fault of the disk. SQLite's messages contain no values of rows.

    Args:
        full: Raised if the disk is full.
        unavailable: Raised if the disk cannot be read or written.

    Raises:
        ServiceError: One of these.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        import sqlite3

        if isinstance(error, OSError):
            reason, is_full = errno.errorcode.get(error.errno or 0, "OSError"), error.errno in _FULL
        elif isinstance(error, sqlite3.OperationalError) or type(error) is sqlite3.DatabaseError:
            reason = getattr(error, "sqlite_errorname", type(error).__name__)
            is_full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
        else:
            raise
        answer = (full if is_full else unavailable)()
        fields = {"code": problem_for(answer).code, "reason": reason, "detail": str(error)}
        logger.error("the disk failed", extra={"fields": fields})
        raise answer from error
