"""Private files and folders, and the errors that clients get when a disk fails."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from app.errors import ServiceError, SettingsError, StorageFull, StorageUnavailable, problem_for

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
        with tempfile.TemporaryFile(dir=next(one for one in (folder, *folder.parents) if one.exists())):
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
        # Imported here: a service that stores nothing works without SQLite.
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
