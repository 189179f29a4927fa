"""Private files and folders, and the errors that clients get when a disk fails."""

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

if TYPE_CHECKING:
    import sqlite3

logger = logging.getLogger("app.storage")

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it, for the process's user only; one that is there stays as it is.

    Args:
        folder: The folder.

    Raises:
        OSError: It cannot be made.
    """
    for parent in (*reversed(folder.parents), folder):
        parent.mkdir(mode=0o700, exist_ok=True)


def make_private(file: Path, *, make: bool = True) -> None:
    """Make a file for the process's user only, or take it from others: SQLite's own files then get the same mode.

    Args:
        file: The file.
        make: Whether the file is made if there is none.

    Raises:
        FileNotFoundError: There is none, and none is to be made.
        OSError: It cannot be made or written.
    """
    os.close(os.open(file, os.O_RDWR | (os.O_CREAT if make else 0), 0o600))
    if file.stat().st_mode & 0o007:  # of an earlier release; a file that is shared with a group stays so
        with contextlib.suppress(PermissionError):
            file.chmod(0o600)


def open_database(
    file: Path | None,
    schema: str,
    pragmas: Sequence[str] = (),
    added_columns: Mapping[str, Mapping[str, str]] | None = None,
    timeout_s: float = 5.0,
) -> sqlite3.Connection:
    """Open an SQLite database with its tables, for the process's user only. One thread at a time may use it.

    Args:
        file: The file, in a folder that is made if needed; None for a database in memory.
        schema: Makes the tables that do not exist.
        pragmas: Set before the tables are made.
        added_columns: By table, the columns that a file of an earlier release may lack, with their declarations.
        timeout_s: Seconds for which a statement waits for other processes.

    Raises:
        OSError: The folder or the file cannot be made.
        sqlite3.Error: The database cannot be read or written, or another process has locked it.
    """
    # Imported here: a service that stores nothing works without SQLite.
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
    except BaseException:
        connection.close()
        raise
    return connection


def check_data_folder(folder: Path, *, make: bool) -> None:
    """Whether the folder of ``VERSO_DATA_DIR`` can be used. A full disk is no error: translation needs no disk.

    Args:
        folder: The folder.
        make: Whether to make the folder if it is not there; else the folder that it would be made in is checked.

    Raises:
        SettingsError: The folder cannot be made or written.
    """
    try:
        if make:
            make_private_folder(folder)
        with tempfile.TemporaryFile(dir=next(existing for existing in (folder, *folder.parents) if existing.exists())):
            pass
    except OSError as error:
        if error.errno not in _FULL:
            raise SettingsError(
                f"VERSO_DATA_DIR: nothing can be kept in {folder} ({error.strerror}); name a folder that this user may "
                "write, or unset it."
            ) from error


@contextlib.contextmanager
def storage_errors(
    full: type[ServiceError] = StorageFull, unavailable: type[ServiceError] = StorageUnavailable
) -> Iterator[None]:
    """Turn errors of the file system and of SQLite into those that a client is answered with; log the reason.

    A file that is not there is no fault of the disk. SQLite's messages have no value of a row.

    Args:
        full: Raised if there is no room left on the disk.
        unavailable: Raised if it cannot be read or written.

    Raises:
        ServiceError: One of them.
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
