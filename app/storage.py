"""Errors of disks, as a client is answered with them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from app.errors import ServiceError, StorageFull, StorageUnavailable, problem_for

logger = logging.getLogger("app.storage")


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it, for the process's user only; one that is there stays as it is.

    Args:
        folder: The folder.

    Raises:
        OSError: It cannot be made.
    """
    for parent in (*reversed(folder.parents), folder):
        parent.mkdir(mode=0o700, exist_ok=True)


def make_private(file: Path) -> None:
    """Make a file for the process's user only, or take it from others: SQLite's own files then get the same mode.

    Args:
        file: The file.

    Raises:
        OSError: It cannot be made.
    """
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    if file.stat().st_mode & 0o007:  # of an earlier release; a file that is shared with a group stays so
        with contextlib.suppress(PermissionError):
            file.chmod(0o600)


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


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
