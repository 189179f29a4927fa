"""Keys, parameters, and the form of answers and errors, which all routes of the protocol share."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fastapi import Request
from pydantic import BaseModel
from starlette.responses import Response

from app.accounts.keys import Scope
from app.errors import InvalidParameter, KeyMissing, KeyRequired, Problem
from app.http.access import token_in
from app.http.compat.deepl.answers import DeepLError
from app.http.compat.deepl.memory_jobs import MemoryJobs
from app.http.compat.parameters import Parameters, read_admitted_parameters
from app.http.compat.statuses import STATUSES
from app.http.state import settings_of
from app.telemetry.logs import request_id_var
from model.languages import closest, plain_code

_SCHEME = "deepl-auth-key"

_STATUS_BY_CODE = {
    "glossary_store_full": 456,
    "memory_store_full": 456,
    "import_running": 429,
    "documents_full": 456,
    "storage_full": 456,
    "quota_exceeded": 456,
    "rate_limited": 429,
    "concurrency_exceeded": 429,
    "document_not_done": 503,
}
"""456 is DeepL's status for an exceeded quota. 429 is for limits of one caller; a full queue is 504 (``STATUSES``)."""

_MESSAGE_BY_CODE = {"document_not_done": "Document translation is not done"}

_STATUS = {**STATUSES, 401: 403, 409: 400}

_FIELD_OF_OBJECT = re.compile(r"([a-z_]{1,40})\[([0-9]{1,6})\]\.([a-z_]{1,40})")


@dataclass(eq=False)
class DeepLState:
    """State of an application for these routes, as ``app.state.deepl``.

    Args:
        num_characters: Characters of the texts translated so far.
        memory_jobs: Imports and exports of translation memories.
    """

    num_characters: int = 0
    memory_jobs: MemoryJobs = field(default_factory=lambda: MemoryJobs(time.time))


def state_of(request: Request) -> DeepLState:
    """The state of the application."""
    state: DeepLState = request.app.state.deepl
    return state


async def read_parameters(request: Request, max_bytes: int, scope: Scope) -> Parameters:
    """Admit the caller and read the parameters of a request; those that are null count as absent.

    Args:
        request: The request; its body has not been read yet.
        max_bytes: The largest body accepted.
        scope: The scope that a key must have, if the service has keys.

    Raises:
        KeyMissing: There is no key, in the header or as a parameter.
        ServiceError: The key or the parameters are refused
            (:func:`app.http.compat.parameters.read_admitted_parameters`).
    """
    header_key = token_in(request.headers.get("authorization", ""), _SCHEME)
    try:
        key, parameters = await read_admitted_parameters(request, max_bytes, scope, header_key, "auth_key")
    except KeyRequired:
        key = None
    if key is None:  # the protocol needs a key even if the service serves callers without one
        raise KeyMissing(any_key=settings_of(request).keys_db is None)
    return replace(parameters, values=_with_objects(parameters.values))


def _with_objects(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that are not null, with the lists of objects that forms of DeepL's SDKs write field by field.

    ``dictionaries[0].source_lang`` is a field of the first object of the list ``dictionaries``.
    """
    single: dict[str, Any] = {}
    lists: dict[str, dict[int, dict[str, Any]]] = {}
    for name, value in values.items():
        if match := _FIELD_OF_OBJECT.fullmatch(name):
            lists.setdefault(match[1], {}).setdefault(int(match[2]), {})[match[3]] = value
        elif value is not None:
            single[name] = value
    return single | {name: [objects[index] for index in sorted(objects)] for name, objects in lists.items()}


def supported(parameter: str, code: str, languages: tuple[str, ...]) -> str:
    """The served language of a code; a region that the models do not have is ignored.

    Args:
        parameter: The parameter with the code, for the message.
        code: The code, such as ``EN-GB`` or ``zh-hans``.
        languages: The languages served.

    Raises:
        InvalidParameter: The language is not served.
    """
    language = closest(code, languages)
    if language is None:
        raise not_supported(parameter)
    return language


def not_supported(parameter: str) -> InvalidParameter:
    """The error for a refused value, in DeepL's words.

    Args:
        parameter: The name of the parameter.
    """
    return InvalidParameter(f"Value for '{parameter}' not supported.")


def shown_code(code: str) -> str:
    """The code of a language in answers: upper case, without a region.

    Args:
        code: The language in any spelling.
    """
    return plain_code(code).upper()


_NO_CONTENT = 204


def answer(
    content: BaseModel | str | bytes,
    status: int = 200,
    media_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An answer; fields that are None are left out.

    Args:
        content: A model, or the body itself.
        status: The status.
        media_type: The media type.
        headers: Further headers.
    """
    body = content.model_dump_json(exclude_none=True) if isinstance(content, BaseModel) else content
    return _traced(Response(body or None, status, headers, None if status == _NO_CONTENT else media_type))


def error_answer(problem: Problem) -> Response:
    """An error as DeepL writes it.

    Args:
        problem: The error.
    """
    status = _STATUS_BY_CODE.get(problem.code) or _STATUS.get(problem.status, problem.status)
    message = _MESSAGE_BY_CODE.get(problem.code) or problem.detail or f"{problem.title}."
    return answer(DeepLError(message=message), status)


def _traced(response: Response) -> Response:
    request_id = request_id_var.get()
    if request_id is not None:
        response.headers["X-Trace-ID"] = request_id
    return response
