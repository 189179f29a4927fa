"""Errors as LibreTranslate writes them."""

from __future__ import annotations

import math

from starlette.responses import JSONResponse, Response

from app.errors import Problem
from app.http.compat.libretranslate.paths import CORS_HEADERS

_STATUSES = {406: 400, 415: 400, 422: 400, 429: 504, 503: 504}
"""LibreTranslate has one status for bad requests. After 429 or 503 Weblate does not come back for half an hour."""


def error_shape(problem: Problem) -> Response:
    """The response to a request that failed.

    Args:
        problem: Why.
    """
    message = problem.to_dict()["detail"]
    if problem.status == 500:
        message = f"Cannot translate text: {message}"
    headers = dict(CORS_HEADERS)
    if problem.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, math.ceil(problem.retry_after_s)))
    return error_response(_STATUSES.get(problem.status, problem.status), message, headers)


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error with a status of its own.

    Args:
        status: The HTTP status.
        message: What the client is told.
        headers: Further headers.
    """
    return JSONResponse({"error": message}, status_code=status, headers=headers)
