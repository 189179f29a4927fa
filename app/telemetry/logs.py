"""What the process says while it runs: one JSON object per line on stderr, and never a text that was translated.

Every line holds ``time`` (UTC), ``level``, ``logger`` and ``message``; lines written while a request is answered
also hold its ``request_id``. What belongs to one event only travels in ``fields``::

    logger.info("request", extra={"fields": {"route": "/translate", "status": 200}})
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from starlette.types import Scope

request_id_var: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The id of the request that is being answered, or None outside of one."""

INNERMOST_FRAMES = 12
"""Places kept of where an exception was raised; those further out are the server's and the framework's."""


def log_fields(scope: Scope) -> dict[str, Any]:
    """What the log line of a request will hold besides route, status and duration; routes add to it.

    Args:
        scope: The request's ASGI scope.
    """
    fields: dict[str, Any] = scope.setdefault("verso.log_fields", {})
    return fields


class JsonFormatter(logging.Formatter):
    """One log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON, without line breaks.

        Args:
            record: The record; its ``fields`` attribute, a mapping, is merged into the object.
        """
        moment = datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        request_id = request_id_var.get()
        if request_id is not None:
            line["request_id"] = request_id
        fields = getattr(record, "fields", None)
        if isinstance(fields, Mapping):
            line.update(fields)
        if record.exc_info is not None and record.exc_info[1] is not None:
            line["error"] = describe(record.exc_info[1], with_message=request_id is None)
        return json.dumps(line, ensure_ascii=False, default=str)


def describe(error: BaseException, with_message: bool) -> dict[str, Any]:
    """An exception for the log: its type, where it was raised, and what caused it.

    Args:
        error: The exception.
        with_message: Whether its message is given too. Within a request it is not, because the message of a
            foreign exception may quote the text that was sent.
    """
    frames = traceback.extract_tb(error.__traceback__)[-INNERMOST_FRAMES:]
    described: dict[str, Any] = {
        "type": type(error).__qualname__,
        "frames": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    if with_message:
        described["message"] = str(error)
    if error.__cause__ is not None:
        described["cause"] = describe(error.__cause__, with_message)
    return described


def configure_logging(level: str, stream: TextIO | None = None) -> None:
    """Send all logging and all Python warnings of this process, as JSON, to one stream.

    Args:
        level: The least severe level that is written: debug, info, warning or error.
        stream: Where to; stderr unless given.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)
    # uvicorn's messages about starting and stopping repeat those of app.commands.serve, and its access log would repeat
    # ours without the request id.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True
