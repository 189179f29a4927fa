"""What the OpenAPI document says beyond the schemas: an example for each route, and each error with its body.

The bodies of the errors are not written down here: each is made by the same table that answers requests, so
that the document shows what is really sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.errors import (
    BodyTooLarge,
    BundleNotFound,
    BundleOutside,
    BundleRefused,
    DeadlineExceeded,
    DetectedPairNotServed,
    FieldProblem,
    InferenceFailed,
    InvalidRequest,
    LanguageNotDetected,
    LimitExceeded,
    MalformedBody,
    ModelAlreadyLoaded,
    NotAcceptable,
    NotReady,
    QueueFull,
    Unauthorized,
    UnknownModel,
    UnsupportedMediaType,
    problem_for,
)
from app.http.problems import PROBLEM_MEDIA_TYPE
from app.http.schemas import AttentionRequest, InvalidRequestBody, LoadRequest, ProblemBody, TranslateRequest
from app.settings import Settings
from model.errors import (
    DecodingError,
    EmptySource,
    InvalidOptions,
    SeveralSentences,
    SourceTooLong,
    TargetTooLong,
    UnsupportedPair,
)
from model.languages import LanguagePairs

_EXAMPLE_PAIRS = LanguagePairs((("en", "de"), ("de", "en")))

_EXAMPLE_ERRORS: Sequence[Exception] = (
    MalformedBody("The body is not valid JSON: expected value at line 1 column 10."),
    NotAcceptable("text/html", ["application/json"]),
    BodyTooLarge(2_000_000),
    UnsupportedMediaType("text/plain", ["application/json"]),
    InvalidRequest([FieldProblem("beam_sise", "unknown field; did you mean 'beam_size'?", 4, None)]),
    LimitExceeded("text", 300, 128, "texts in one request"),
    UnsupportedPair("en", "fr", _EXAMPLE_PAIRS),
    LanguageNotDetected(_EXAMPLE_PAIRS),
    DetectedPairNotServed("de", 0.97, "de-AT", _EXAMPLE_PAIRS),
    Unauthorized(),
    BundleNotFound("fr-en.pt", ["de-en.pt", "en-de.pt"]),
    BundleOutside("/etc/passwd"),
    BundleRefused("fr-en.pt is damaged: the checksum of a part is wrong; restore it from a copy."),
    ModelAlreadyLoaded("opus-fr-en"),
    UnknownModel("opus-fr-en", ["verso-en-de"]),
    InvalidOptions("num_hypotheses is 8; it must be 1 to the beam size, which is 4."),
    EmptySource(),
    SourceTooLong(300, 256),
    TargetTooLong(300, 256),
    SeveralSentences(2),
    QueueFull(1.0, 300, 4_000, 4_096),
    InferenceFailed(),
    DecodingError(),
    NotReady(5.0, "loading"),
    DeadlineExceeded(30.0),
)
"""One error of each kind a route may answer with."""

_BODY_ERRORS = (MalformedBody, NotAcceptable, BodyTooLarge, UnsupportedMediaType, InvalidRequest, LimitExceeded)
_SERVICE_ERRORS = (
    UnsupportedPair,
    LanguageNotDetected,
    DetectedPairNotServed,
    InvalidOptions,
    QueueFull,
    InferenceFailed,
    DecodingError,
    NotReady,
    DeadlineExceeded,
)

TRANSLATE_ERRORS: tuple[type[Exception], ...] = (*_BODY_ERRORS, *_SERVICE_ERRORS)
"""What ``POST /translate`` may fail with."""

ATTENTION_ERRORS: tuple[type[Exception], ...] = (
    *_BODY_ERRORS,
    EmptySource,
    SourceTooLong,
    TargetTooLong,
    SeveralSentences,
    *_SERVICE_ERRORS,
)
"""What ``POST /attention`` may fail with."""

LOAD_ERRORS: tuple[type[Exception], ...] = (
    Unauthorized,
    MalformedBody,
    BodyTooLarge,
    UnsupportedMediaType,
    InvalidRequest,
    BundleNotFound,
    BundleOutside,
    BundleRefused,
    ModelAlreadyLoaded,
    NotReady,
)
"""What ``POST /admin/models`` may fail with."""

TRANSLATE_REQUESTS: Mapping[str, Any] = {
    "one text": {"text": "Good morning.", "source": "en", "target": "de"},
    "a list, fast": {
        "text": ["The cat sleeps.", "It is raining."],
        "source": "en",
        "target": "de",
        "decoding": "greedy",
    },
    "three hypotheses with scores": {
        "text": "Das Haus ist alt.",
        "source": "de",
        "target": "en",
        "beam_size": 4,
        "num_hypotheses": 3,
        "return_scores": True,
    },
    "alignment": {"text": "The house is old.", "source": "en", "target": "de", "return_alignment": True},
    "texts of any language": {
        "text": ["The house is old.", "Das Haus ist alt."],
        "source": "auto",
        "target": "de",
    },
}
"""Bodies to try ``POST /translate`` with."""

TRANSLATE_EXAMPLE: Mapping[str, Any] = {
    "translations": [
        {
            "text": "Guten Morgen.",
            "source": "en",
            "target": "de",
            "finish_reason": "stop",
            "score": None,
            "alternatives": [],
            "alignment": None,
            "model": "verso-en-de",
            "detected": None,
        }
    ],
    "model": "verso-en-de",
    "usage": {"source_tokens": 5, "target_tokens": 4},
    "timings_ms": {"queue": 0.2, "decode": 9.8, "total": 11.1},
}
"""An answer of ``POST /translate``."""

ATTENTION_REQUESTS: Mapping[str, Any] = {
    "cross-attention, heads averaged": {
        "text": "Good morning.",
        "source": "en",
        "target": "de",
        "average_heads": True,
    },
    "a given translation": {
        "text": "Good morning.",
        "target_text": "Guten Tag.",
        "source": "en",
        "target": "de",
        "kinds": ["encoder", "cross"],
        "layers": [0],
        "heads": [0, 1],
    },
}
"""Bodies to try ``POST /attention`` with."""

ATTENTION_EXAMPLE: Mapping[str, Any] = {
    "source_tokens": ["<2de>", "▁Good", "▁morning", "</s>"],
    "target_tokens": ["▁Guten", "▁Morgen", "</s>"],
    "decoder_input_tokens": ["<s>", "▁Guten", "▁Morgen"],
    "translation": "Guten Morgen",
    "model": "verso-en-de",
    "detected": None,
    "cross": {
        "layers": [0],
        "heads": [0, 1, 2, 3],
        "averaged": True,
        "weights": [[[[0.1, 0.7, 0.1, 0.1], [0.1, 0.1, 0.7, 0.1], [0.1, 0.1, 0.1, 0.7]]]],
    },
}
"""An answer of ``POST /attention``."""

LOADED_EXAMPLE: Mapping[str, Any] = {
    "name": "verso-en-de",
    "pairs": [["en", "de"], ["de", "en"]],
    "languages": [],
    "precision": "int8",
    "device": "cpu",
    "format_version": 2,
    "architecture": {"d_model": 512, "num_encoder_layers": 6, "num_decoder_layers": 2},
    "limits": {
        "max_texts": 128,
        "max_text_characters": 50_000,
        "max_body_bytes": 2_000_000,
        "max_beam_size": 16,
        "max_hypotheses": 16,
        "deadline_s": 30.0,
        "max_source_tokens": 256,
        "max_target_tokens": 256,
    },
    "decoding": {
        "scoring": "hf",
        "length_penalty": 1.0,
        "early_stopping": False,
        "beam_size": 4,
        "forbidden": None,
        "renormalise": False,
        "force_end": False,
    },
    "licence": "Apache-2.0",
    "attribution": ["Tatoeba (CC BY 2.0 FR)"],
    "card": {"scores": [{"test_set": "tatoeba-test-v2020-07-28", "pair": "de-en", "bleu": 40.0}]},
}
"""An answer of ``POST /admin/models``."""

MODELS_EXAMPLE: Mapping[str, Any] = {"models": [LOADED_EXAMPLE]}
"""An answer of ``GET /models``."""

LOAD_REQUESTS: Mapping[str, Any] = {
    "a bundle": {"file": "fr-en.pt"},
    "a bundle that must be exactly this one": {"file": "fr-en.pt", "sha256": "0" * 64},
}
"""Bodies of ``POST /admin/models``."""

UNLOADED_EXAMPLE: Mapping[str, Any] = {"name": "opus-fr-en", "duration_ms": 412.5}
"""An answer of ``DELETE /admin/models/{name}``."""

ALIVE_EXAMPLE: Mapping[str, Any] = {"status": "alive"}
"""The answer of ``GET /livez``."""

READY_EXAMPLE: Mapping[str, Any] = {"status": "ready"}
"""The answer of ``GET /readyz`` when requests are taken."""

METRICS_EXAMPLE = '# TYPE verso_requests_total counter\nverso_requests_total{route="/translate",status="200"} 12.0\n'
"""A part of the answer of ``GET /metrics``."""

_BEARER = "operator"

ADMIN_SECURITY: dict[str, Any] = {"security": [{_BEARER: []}]}
"""The ``openapi_extra`` of a route that needs the operator's token."""

_BINARY = {"schema": {"type": "string", "format": "binary"}}


def answers(
    example: Any,
    *errors: type[Exception],
    media_type: str = "application/json",
    also: Mapping[str, str] | None = None,
    status: int = 200,
) -> dict[int | str, dict[str, Any]]:
    """The ``responses`` of a route: its answer with an example, and each error it may end in.

    Args:
        example: A body of the answer.
        errors: What the route may fail with; an unexpected failure (500) is added to routes that can fail at all.
        media_type: Form of the answer.
        also: Other forms of the answer, media type to description; they are binary.
        status: Of the answer.
    """
    content: dict[str, Any] = {media_type: {"example": example}}
    description = "The answer."
    for other, said in (also or {}).items():
        content[other] = _BINARY
        description += f" As `{other}`: {said}"
    responses: dict[int | str, dict[str, Any]] = {status: {"description": description, "content": content}}
    for error in _EXAMPLE_ERRORS:
        if not isinstance(error, errors):
            continue
        problem = problem_for(error)
        schema = InvalidRequestBody if isinstance(error, InvalidRequest) else ProblemBody
        response = responses.setdefault(
            problem.status, {"description": "", "content": {PROBLEM_MEDIA_TYPE: {"examples": {}}}}
        )
        body = response["content"][PROBLEM_MEDIA_TYPE]
        if body.get("schema") != _reference(InvalidRequestBody):
            body["schema"] = _reference(schema)
        body["examples"][problem.code] = {"summary": problem.title, "value": problem.to_dict()}
        response["description"] += f"{', ' if response['description'] else ''}`{problem.code}`: {problem.title}"
        if problem.retry_after_s is not None:
            response["headers"] = {
                "Retry-After": {"description": "Seconds until it is worth trying again.", "schema": {"type": "integer"}}
            }
        if problem.challenge is not None:
            response["headers"] = {
                "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}}
            }
    return responses


def request_body(schema: type[BaseModel], examples: Mapping[str, Any]) -> dict[str, Any]:
    """The ``openapi_extra`` of a route that reads its body itself.

    Args:
        schema: What the body must hold.
        examples: Bodies to try, by what they show.
    """
    content = {
        "schema": _reference(schema),
        "examples": {name: {"summary": name, "value": value} for name, value in examples.items()},
    }
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def _reference(schema: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{schema.__name__}"}


def install_openapi(app: FastAPI, settings: Settings) -> None:
    """Make ``app.openapi()`` give the whole document, with the bounds this process was started with.

    Args:
        app: The application with all its routes; its document is made here and now, not while requests wait.
        settings: The bounds.
    """
    document = _document(app, settings)
    app.openapi = lambda: document  # type: ignore[method-assign]


def _document(app: FastAPI, settings: Settings) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=app.description,
        tags=app.openapi_tags,
        routes=app.routes,
        servers=[{"url": "."}],  # relative to this document, and so right behind any proxy
    )
    _put_back_nulls(document["paths"])
    used: list[type[BaseModel]] = [TranslateRequest, AttentionRequest, ProblemBody, InvalidRequestBody]
    if settings.admin_token is not None:
        used.append(LoadRequest)
        document.setdefault("components", {})["securitySchemes"] = {
            _BEARER: {"type": "http", "scheme": "bearer", "description": "The operator's token, VERSO_ADMIN_TOKEN."}
        }
    _, definitions = models_json_schema(
        [(schema, "validation") for schema in used], ref_template="#/components/schemas/{model}"
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(definitions["$defs"])
    _show_bounds(schemas, settings)
    return document


def _put_back_nulls(paths: dict[str, Any]) -> None:
    """Set the examples again, from which FastAPI leaves out fields that are null; the answers do have them."""
    problems = {(problem := problem_for(error)).code: problem.to_dict() for error in _EXAMPLE_ERRORS}
    for item in paths.values():
        for operation in item.values():
            for response in operation["responses"].values():
                for code, example in response["content"].get(PROBLEM_MEDIA_TYPE, {}).get("examples", {}).items():
                    example["value"] = problems[code]
    for path, example in (("/translate", TRANSLATE_EXAMPLE), ("/attention", ATTENTION_EXAMPLE)):
        paths[path]["post"]["responses"]["200"]["content"]["application/json"]["example"] = example


def _show_bounds(schemas: dict[str, Any], settings: Settings) -> None:
    """Put the bounds an operator has set where the document shows bounds."""
    for name in ("TranslateRequest", "AttentionRequest"):
        schemas[name]["properties"]["beam_size"]["maximum"] = settings.max_beam_size
    translate = schemas["TranslateRequest"]["properties"]
    translate["num_hypotheses"]["maximum"] = settings.max_hypotheses
    one_text, texts = translate["text"]["oneOf"]
    one_text["maxLength"] = texts["items"]["maxLength"] = settings.max_text_characters
    texts["maxItems"] = settings.max_texts
