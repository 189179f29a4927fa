"""The OpenAPI document: what routes declare about their answers, and what FastAPI cannot generate.

FastAPI generates the document from the routes: bodies from their signatures, answers from their return types, errors
and examples from :func:`answers`. The bodies of errors are made as for requests, so the document shows what is sent.
:func:`describe_on_request` completes the document; each function says why it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts
from pydantic import BaseModel

from app.errors import (
    BodiesTooLarge,
    BodyTooLarge,
    CrossSiteRefused,
    DeadlineExceeded,
    DeadlineUnreachable,
    DetectedPairNotServed,
    GlossaryNotFound,
    GlossaryPairMissing,
    HostRefused,
    InferenceFailed,
    InvalidGlossary,
    InvalidRequest,
    LanguageNotDetected,
    MalformedBody,
    NotReady,
    QueueFull,
    RequestTooSlow,
    UnsupportedMediaType,
    problem_for,
)
from app.http.error_examples import ERRORS
from app.http.key_openapi import COMPATIBLE, add_errors, describe_address_limit, describe_keys
from app.http.problems import PROBLEM_MEDIA_TYPE
from app.http.schemas.problems import InvalidRequestBody, ProblemBody
from app.settings import Settings
from model.errors import DecodingError, InvalidOptions, InvalidPattern, UnsupportedFormality, UnsupportedPair

Responses = dict[int | str, dict[str, Any]]
"""The ``responses`` of a route, by status."""

BODY_ERRORS: tuple[type[Exception], ...] = (MalformedBody, BodyTooLarge, UnsupportedMediaType, InvalidRequest)
"""Errors of every route with a JSON body."""

TRANSLATION_ERRORS: tuple[type[Exception], ...] = (
    GlossaryNotFound,
    GlossaryPairMissing,
    InvalidGlossary,
    UnsupportedPair,
    UnsupportedFormality,
    InvalidPattern,
    LanguageNotDetected,
    DetectedPairNotServed,
    InvalidOptions,
    QueueFull,
    DeadlineUnreachable,
    InferenceFailed,
    DecodingError,
    NotReady,
    DeadlineExceeded,
)
"""Errors of every route that uses the translator."""

_BINARY = {"schema": {"type": "string", "format": "binary"}}

_RETRY_AFTER = {"Retry-After": {"description": "Seconds until a retry may succeed.", "schema": {"type": "integer"}}}

_CHALLENGE = {"WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}}}


def answers(
    example: BaseModel | str,
    *errors: type[Exception],
    media_type: str = "application/json",
    also: Mapping[str, str] | None = None,
    streams: Mapping[str, str] | None = None,
    status: int = 200,
) -> Responses:
    """The ``responses`` of a route: its answer with an example, and its errors.

    Args:
        example: An answer.
        errors: Errors of the route; each needs an example in :data:`app.http.error_examples.ERRORS`.
        media_type: Media type of the answer.
        also: Descriptions of other, binary forms of the answer, by media type.
        streams: Examples of streamed forms of the answer, by media type.
        status: Status of the answer.
    """
    value = example.model_dump(mode="json", exclude_unset=True) if isinstance(example, BaseModel) else example
    content: dict[str, Any] = {media_type: {"example": value}}
    description = "The answer."
    for other, meaning in (also or {}).items():
        content[other] = _BINARY
        description += f" As `{other}`: {meaning}"
    for other, pieces in (streams or {}).items():
        content[other] = {"schema": {"type": "string"}, "example": pieces}
        description += f" As `{other}`: events, one by one."
    responses: Responses = {status: {"description": description, "content": content}}
    for error in ERRORS:
        if isinstance(error, errors):
            _add_error(responses, error)
    return responses


def _add_error(responses: Responses, error: Exception) -> None:
    """Document an error under its status, beside other errors of that status."""
    problem = problem_for(error)
    response = responses.setdefault(
        problem.status, {"model": ProblemBody, "description": "", "content": {PROBLEM_MEDIA_TYPE: {"examples": {}}}}
    )
    if isinstance(error, InvalidRequest):
        response["model"] = InvalidRequestBody
    response["content"][PROBLEM_MEDIA_TYPE]["examples"][problem.code] = {
        "summary": problem.title,
        "value": problem.to_dict(),
    }
    response["description"] += f"{', ' if response['description'] else ''}`{problem.code}`: {problem.title}"
    if problem.retry_after_s is not None:
        response["headers"] = _RETRY_AFTER
    if problem.challenge is not None:
        response["headers"] = _CHALLENGE


def describe_on_request(
    app: FastAPI, settings: Settings, also: Sequence[Callable[[dict[str, Any]], None]] = ()
) -> None:
    """Make an application generate its document on the first request for it, on any thread; this takes 0.1 s.

    Args:
        app: The application with all its routes.
        settings: The bounds of this process.
        also: Further functions that complete the document.
    """
    generate, lock = app.openapi, threading.Lock()
    document: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        with lock:
            if not document:
                document.update(_completed(generate(), app, settings))
                for complete in also:
                    complete(document)
            return document

    app.openapi = openapi  # type: ignore[method-assign]  # as FastAPI advises


def _completed(document: dict[str, Any], app: FastAPI, settings: Settings) -> dict[str, Any]:
    """The document with the parts that FastAPI cannot generate."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _correct_errors(operation["responses"])
            if "requestBody" in operation:  # raised by the connection, on all routes
                add_errors(operation["responses"], (RequestTooSlow,))
            if method != "get" and not path.startswith(COMPATIBLE):
                add_errors(operation["responses"], (CrossSiteRefused, HostRefused, BodiesTooLarge))
    for name in ("HTTPValidationError", "ValidationError"):
        document["components"]["schemas"].pop(name, None)
    _restore_nulls(app, document["paths"])
    _show_bounds(document["components"]["schemas"], settings)
    if settings.keys_db is not None:
        describe_keys(document, settings.anonymous == "on")
    elif settings.address_requests_per_minute is not None:
        describe_address_limit(document)
    return document


def _correct_errors(responses: dict[str, Any]) -> None:
    """Set the media type of problems, and remove the error that is never sent.

    FastAPI declares each model under the media type of the route's answer, and adds its own 422 to every route with a
    parameter. Errors of compatible protocols are JSON and remain unchanged.
    """
    for status, response in list(responses.items()):
        if int(status) < 400:
            continue
        content = response["content"]
        if PROBLEM_MEDIA_TYPE in content:
            content[PROBLEM_MEDIA_TYPE]["schema"] = content.pop("application/json")["schema"]
        elif content["application/json"]["schema"].get("$ref", "").endswith("/HTTPValidationError"):
            del responses[status]


def _restore_nulls(app: FastAPI, paths: dict[str, Any]) -> None:
    """Set the examples of answers again: FastAPI removes their null fields, which answers contain."""
    for route in iter_route_contexts(app.routes):
        if not isinstance(route.original_route, APIRoute):
            continue
        operations = paths.get(route.path_format or "", {})
        for method in route.methods or ():
            documented = operations.get(method.lower(), {"responses": {}})["responses"]
            for status, response in route.responses.items():
                for media_type, content in response.get("content", {}).items():
                    documented[str(status)]["content"][media_type].update(content)


def _show_bounds(schemas: dict[str, Any], settings: Settings) -> None:
    """Set the bounds of this process: the models are declared before the settings are read."""
    for name in ("TranslateRequest", "AttentionRequest"):
        schemas[name]["properties"]["beam_size"]["maximum"] = settings.max_beam_size
    translate = schemas["TranslateRequest"]["properties"]
    translate["num_hypotheses"]["maximum"] = settings.max_hypotheses
    one_text, texts = translate["text"]["oneOf"]
    one_text["maxLength"] = texts["items"]["maxLength"] = settings.max_text_characters
    texts["maxItems"] = settings.max_texts
