"""Hooks that schemathesis loads: they send keys, ask for what exists, look for inner errors, and count."""

from __future__ import annotations

import atexit
import json
import os
import random
import re
from collections import Counter, deque
from pathlib import Path
from typing import Any

import schemathesis

ADMIN_TOKEN = "token-of-the-fuzzed-service"

SERVED = "toy"
"""The model that is served."""

_KEYS: list[str] = json.loads(os.environ.get("FUZZ_KEYS", '["anything"]'))
"""Keys that are sent, one of them for each request."""

_FOUND = {
    # A parameter of paths, by a part of it: what answers say of it.
    "/documents/{id}": re.compile(r'"id": ?"([0-9a-f]{32})"'),
    "/v2/document/{document_id}": re.compile(r'"document_id": ?"([^"]+)"'),
    "glossaries/{glossary_id}": re.compile(r'"glossary_id": ?"([^"]+)"'),
    "/download_file/{filename}": re.compile(r'download_file/([^"]+)"'),
}
_seen: dict[str, deque[str]] = {part: deque(maxlen=20) for part in _FOUND}
_document_keys: dict[str, str] = {}

_rng = random.Random(0)
_statuses: Counter[str] = Counter()
_slowest: dict[str, float] = {}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    """Send a key in the way of the route's protocol, and mostly the id of something that exists."""
    path = case.operation.path
    key = _rng.choice(_KEYS)
    headers = case.headers
    if path.startswith("/admin"):
        headers["Authorization"] = f"Bearer {ADMIN_TOKEN}"
    elif path.startswith(("/v2", "/v3")):
        headers["Authorization"] = f"DeepL-Auth-Key {key}"
    elif key:
        headers["Authorization"] = f"Bearer {key}"
    if path == "/admin/models/{name}" and case.path_parameters["name"] == SERVED:
        case.path_parameters["name"] = "another"  # nothing else could be translated any more
    kwargs["auth"] = _with_filename
    for part, ids in _seen.items():
        if part in path and ids and _rng.random() < 0.7:
            name = part.rpartition("{")[2].rstrip("}")
            case.path_parameters[name] = _rng.choice(ids)
            if name == "document_id" and isinstance(case.body, dict):
                case.body["document_key"] = _document_keys.get(case.path_parameters[name], "")


def _with_filename(request: Any) -> Any:
    """Name an uploaded file as one of the formats: schemathesis calls all of them "file"."""
    if isinstance(request.body, bytes) and b'filename="file' in request.body:
        name = f'filename="file.{_rng.choice(("txt", "md", "html", "json", "csv", "docx", "exe"))}"'
        request.body = re.sub(rb'filename="file[^"]*"', name.encode(), request.body)
        request.headers["Content-Length"] = str(len(request.body))
    return request


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Count, and note ids."""
    route = f"{case.method} {case.operation.path}"
    _statuses[f"{route} {response.status_code}"] += 1
    _slowest[route] = max(_slowest.get(route, 0.0), response.elapsed)
    if response.content and response.status_code in (200, 201, 202) and len(response.content) < 100_000:
        text = response.content.decode(errors="replace")
        for part, pattern in _FOUND.items():
            if part.split("/")[-2] in case.operation.path or "file" in case.operation.path:
                _seen[part].extend(pattern.findall(text))
        for id, key in re.findall(r'"document_id": ?"([^"]+)", ?"document_key": ?"([^"]+)"', text):
            _document_keys[id] = key


@schemathesis.check
def no_inner_error(ctx: Any, response: Any, case: Any) -> None:
    """No 5xx but those of a service that is busy."""
    assert response.status_code < 500 or response.status_code in (503, 504), response.status_code


@atexit.register
def _write_counts() -> None:
    if "FUZZ_COUNTS" in os.environ:
        Path(os.environ["FUZZ_COUNTS"]).write_text(json.dumps({"statuses": _statuses, "slowest": _slowest}))
