"""Keys and limits in the OpenAPI document, if the service has any."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import (
    AccountsUnavailable,
    ConcurrencyExceeded,
    InvalidIdempotencyKey,
    InvalidKey,
    KeyRequired,
    QuotaExceeded,
    RateLimited,
    ScopeMissing,
    problem_for,
)
from app.http.access import IDEMPOTENCY_KEY
from app.http.error_examples import ERRORS
from app.http.problems import PROBLEM_MEDIA_TYPE

OPEN_PATHS = frozenset(
    {
        *("/livez", "/readyz", "/metrics"),
        *(f"/libretranslate/{name}" for name in ("languages", "frontend/settings", "health", "spec", "suggest")),
        "/libretranslate/download_file/{filename}",
    }
)
"""Documented routes without keys and limits."""

COMPATIBLE = ("/libretranslate", "/v2", "/v3")
"""Prefixes of the paths of compatible protocols."""

_REFUSALS = (KeyRequired, InvalidKey, ScopeMissing, RateLimited, AccountsUnavailable)
_OF_WORK = (QuotaExceeded, ConcurrencyExceeded, InvalidIdempotencyKey)

_REFUSED_BY_PROTOCOL = {
    "/libretranslate": {
        403: "The key is refused, or its quota is used up.",
        429: "Too many requests.",
        504: "Try again.",
    },
    "/v": {403: "The key is refused.", 429: "Too many requests.", 456: "The quota is used up.", 504: "Try again."},
}
"""Statuses of these errors in the compatible protocols, by prefix."""

_HEADER = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "required": False,
    "description": "The same for a request and its retries; for a day they count once and add one document.",
    "schema": {"type": "string", "maxLength": 255},
}


def describe_keys(document: dict[str, Any], allows_anonymous: bool) -> None:
    """Add the security schemes, the errors and the header to a document.

    Args:
        document: The document of the application.
        allows_anonymous: Whether a key is optional.
    """
    schemes = document["components"]["securitySchemes"]
    schemes["key"] = {"type": "http", "scheme": "bearer", "description": "A key of this service."}
    schemes["deepl"]["description"] = "`DeepL-Auth-Key KEY`, with a key of this service."
    for path, item in document["paths"].items():
        if path in OPEN_PATHS:
            continue
        if path.startswith(COMPATIBLE):
            refusals = next(statuses for prefix, statuses in _REFUSED_BY_PROTOCOL.items() if path.startswith(prefix))
            for operation in item.values():
                _add_refusals(operation["responses"], refusals)
            continue
        for method, operation in item.items():
            operation.setdefault("security", []).append({"key": []})
            if allows_anonymous and not path.startswith("/admin"):
                operation["security"].append({})
            add_errors(operation["responses"], _REFUSALS)
            if method == "post" and not path.startswith("/admin"):
                operation.setdefault("parameters", []).append(_HEADER)
                add_errors(operation["responses"], _OF_WORK)


def describe_address_limit(document: dict[str, Any]) -> None:
    """Add the rate limit by address, of a service without keys, to a document.

    Args:
        document: The document of the application.
    """
    for path, item in document["paths"].items():
        if path in OPEN_PATHS or path.startswith("/admin"):
            continue
        for operation in item.values():
            if path.startswith(COMPATIBLE):
                _add_refusals(operation["responses"], {429: "Too many requests."})
            else:
                add_errors(operation["responses"], (RateLimited,))


def _add_refusals(responses: dict[str, Any], refusals: Mapping[int, str]) -> None:
    """Add statuses of a compatible protocol, with the body of its other errors."""
    error = next(response for status, response in responses.items() if int(status) >= 400)
    content = {name: {"schema": form["schema"]} for name, form in error["content"].items()}
    for status, description in refusals.items():
        responses.setdefault(str(status), {**error, "description": description, "content": content})


def add_errors(responses: dict[str, Any], kinds: tuple[type[Exception], ...]) -> None:
    """Add problems to the responses of an operation.

    Args:
        responses: The responses, which are changed.
        kinds: The errors.
    """
    for error in ERRORS:
        if not isinstance(error, kinds):
            continue
        problem = problem_for(error)
        response = responses.setdefault(
            str(problem.status),
            {
                "description": "",
                "content": {PROBLEM_MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemBody"}}},
            },
        )
        named = response["content"][PROBLEM_MEDIA_TYPE].setdefault("examples", {})
        named[problem.code] = {"summary": problem.title, "value": problem.to_dict()}
        response["description"] += f"{', ' if response['description'] else ''}`{problem.code}`: {problem.title}"
