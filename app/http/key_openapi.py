"""What the OpenAPI document says about keys and limits, where there are any."""

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
from app.http import examples
from app.http.access import IDEMPOTENCY_KEY
from app.http.problems import PROBLEM_MEDIA_TYPE

OPEN_PATHS = frozenset(
    {
        *("/livez", "/readyz", "/metrics"),
        *(f"/libretranslate/{name}" for name in ("languages", "frontend/settings", "health", "spec", "suggest")),
        "/libretranslate/download_file/{filename}",
    }
)
"""Documented routes that need no key, and whose requests are not limited."""

COMPATIBLE = ("/libretranslate", "/v2", "/v3")
"""Beginnings of the paths of compatible protocols."""

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
"""Statuses of the same errors in the compatible protocols, by the beginning of their paths."""

_HEADER = {
    "name": IDEMPOTENCY_KEY,
    "in": "header",
    "required": False,
    "description": "The same for a request and its repetitions, which then count once and add one document; for a day.",
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
            refusals = next(found for start, found in _REFUSED_BY_PROTOCOL.items() if path.startswith(start))
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
    """Add the refusal of a caller without a key, where there are no keys, to a document.

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
    """Add statuses of a compatible protocol, with the body that its other errors have."""
    error = next(response for status, response in responses.items() if int(status) >= 400)
    content = {name: {"schema": form["schema"]} for name, form in error["content"].items()}
    for status, description in refusals.items():
        responses.setdefault(str(status), {**error, "description": description, "content": content})


def add_errors(responses: dict[str, Any], kinds: tuple[type[Exception], ...]) -> None:
    """Add problems to the responses of an operation.

    Args:
        responses: They are changed.
        kinds: The errors.
    """
    for error in examples.ERRORS:
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
