"""Errors as LibreTranslate writes them."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from app.errors import Problem
from app.http.compat.libretranslate.charset import JSON_UTF8
from app.http.compat.statuses import STATUSES
from app.http.problems import retry_header

_BY_CODE = {
    "key_required": (400, "Please contact the server operator to get an API key"),
    "key_behind_body": (400, "{}"),
    "invalid_key": (403, "Invalid API key"),
    "rate_limited": (429, "Slowdown: {}"),
    "concurrency_exceeded": (429, "Slowdown: {}"),
    "quota_exceeded": (403, "{}"),
}
"""Statuses and messages about keys and limits, in LibreTranslate's words; Mastodon reads 403 as an exhausted quota."""


def error_shape(problem: Problem) -> Response:
    """The response to a request that failed.

    Args:
        problem: The reason.
    """
    message = problem.to_dict()["detail"]
    headers = retry_header(problem)
    if problem.code in _BY_CODE:
        status, words = _BY_CODE[problem.code]
        return error_response(status, words.format(message), headers)
    if problem.status == 500:
        message = f"Cannot translate text: {message}"
    return error_response(STATUSES.get(problem.status, problem.status), message, headers)


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error with a given status.

    Args:
        status: The HTTP status.
        message: What is wrong, for the client.
        headers: Further headers.
    """
    return JSONResponse({"error": message}, status, headers, JSON_UTF8)
