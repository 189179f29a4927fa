"""Errors of disks, as a client is answered with them."""

from __future__ import annotations

import contextlib
import errno
import logging
from collections.abc import Iterator

from app.errors import ServiceError, StorageFull, StorageUnavailable, problem_for

logger = logging.getLogger("app.storage")

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
