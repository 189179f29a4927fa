"""Logging: one JSON object per line on stderr. Translated texts are never logged.

Every line contains ``time`` (UTC), ``level``, ``logger`` and ``message``. Lines logged during a request also contain
its ``request_id``. Further fields of an event are passed in ``fields``::

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
"""The id of the current request, or None outside a request."""

_as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode

INNERMOST_FRAMES = 12
"""Number of stack frames logged for an exception; frames further out belong to the server and the framework."""


def log_fields(scope: Scope) -> dict[str, Any]:
    """The additional fields of a request's log line, besides route, status and duration; routes add to them.

    Args:
        scope: The request's ASGI scope.
    """
    fields: dict[str, Any] = scope.setdefault("verso.log_fields", {})
    return fields


class JsonFormatter(logging.Formatter):
    """Formats a log record as a line of JSON."""

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
        return _as_json(line)


def describe(error: BaseException, with_message: bool) -> dict[str, Any]:
    """Describe an exception for the log: its type, stack frames and cause.

    Args:
        error: The exception.
        with_message: Whether to include its message. False during a request, because the message of a library's
            exception may quote the text of the request.
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
    """Write all log records and Python warnings of this process as JSON to a stream.

    Args:
        level: The minimum level: debug, info, warning or error.
        stream: The stream; stderr by default.
    """
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # No line has them, and looking them up takes a third of the time of a line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    logging._srcfile = None  # nor the file and line that logged it; so the documentation of logging says
    logging.captureWarnings(True)
    # uvicorn's messages about starting and stopping duplicate those of app.commands.serve. Its access log duplicates
    # the service's, without request ids.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    logging.getLogger("uvicorn.access").disabled = True
