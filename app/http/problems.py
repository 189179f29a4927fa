"""Answers errors with an RFC 9457 problem, or in the form of the path's protocol (:mod:`app.http.compat`)."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches

from fastapi.routing import APIRoute, iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Scope

from app.errors import MethodNotAllowed, NotFound, Problem, problem_for
from app.telemetry.logs import log_fields

PROBLEM_MEDIA_TYPE = "application/problem+json"


ErrorShape = Callable[[Problem], Response]
"""The form of errors of a protocol."""


def error_response(scope: Scope, error: BaseException) -> Response:
    """The response to a failed request, in the form of the protocol of its path.

    Args:
        scope: The request's ASGI scope.
        error: The error; an unexpected one becomes a 500 without detail.
    """
    problem = problem_for(error)
    log_fields(scope)["code"] = problem.code
    shapes: Mapping[str, ErrorShape] = scope["app"].state.error_shapes
    path = scope["path"].removeprefix(scope.get("root_path", ""))
    shape = next((shape for prefix, shape in shapes.items() if f"{path}/".startswith(f"{prefix}/")), response_to)
    return shape(problem)


def response_to(problem: Problem) -> Response:
    """A problem as an HTTP response, with the headers for a retry or for authentication.

    Args:
        problem: The problem.
    """
    headers = retry_header(problem)
    if problem.challenge is not None:
        headers["WWW-Authenticate"] = problem.challenge
    return Response(
        json.dumps(problem.to_dict(), ensure_ascii=False),
        status_code=problem.status,
        media_type=PROBLEM_MEDIA_TYPE,
        headers=headers,
    )


def retry_header(problem: Problem) -> dict[str, str]:
    """The header that says when a request may be repeated, if a retry may succeed.

    Args:
        problem: Why the request failed.
    """
    return {} if problem.retry_after_s is None else {"Retry-After": str(max(1, math.ceil(problem.retry_after_s)))}


async def answer_known_error(request: Request, error: Exception) -> Response:
    """Exception handler for the errors of ``model`` and ``app``.

    Args:
        request: The request that failed.
        error: A ModelError or ServiceError.
    """
    return error_response(request.scope, error)


async def answer_routing_error(request: Request, error: Exception) -> Response:
    """Exception handler for errors of the router: an unknown path, or an unsupported method.

    Args:
        request: The request that failed.
        error: An HTTPException.

    Raises:
        HTTPException: ``error`` itself, if it is another one.
    """
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code == 404:
        paths = _documented_paths(request)
        # A client of another protocol that has the wrong address; else perhaps a slip.
        close = [known for known in paths if known.endswith(path)] or get_close_matches(path, paths, n=1)
        return await answer_known_error(request, NotFound(path, close))
    if error.status_code == 405:
        response = await answer_known_error(request, MethodNotAllowed(request.method[:20], path[:200]))
        response.headers["Allow"] = ", ".join(_methods_of(request))
        return response
    raise error


def _documented_paths(request: Request) -> list[str]:
    """The paths of the OpenAPI document, without the document, which takes a tenth of a second to generate."""
    return list(
        dict.fromkeys(
            route.path_format or ""
            for route in iter_route_contexts(request.app.routes)
            if isinstance(route.original_route, APIRoute) and route.include_in_schema
        )
    )


def _methods_of(request: Request) -> list[str]:
    """The methods of all routes with the path of a request; the router's own header has those of the first route."""
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    return sorted(
        {
            method
            for route in iter_route_contexts(request.app.routes)
            if route.methods and compile_path(route.path or "")[0].match(path)
            for method in route.methods
        }
    )
