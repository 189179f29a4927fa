"""Errors as LibreTranslate writes them."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from app.errors import Problem
from app.http.compat.libretranslate.paths import CORS_HEADERS
from app.http.compat.statuses import STATUSES
from app.http.problems import retry_header


def error_shape(problem: Problem) -> Response:
    """The response to a request that failed.

    Args:
        problem: Why.
    """
    message = problem.to_dict()["detail"]
    if problem.status == 500:
        message = f"Cannot translate text: {message}"
    headers = {**CORS_HEADERS, **retry_header(problem)}
    return error_response(STATUSES.get(problem.status, problem.status), message, headers)


def error_response(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    """An error with a status of its own.

    Args:
        status: The HTTP status.
        message: What is wrong, for the client.
        headers: Further headers.
    """
    return JSONResponse({"error": message}, status_code=status, headers=headers)
