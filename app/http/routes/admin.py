"""``/admin/models``: load and unload bundles while the service runs, for whoever has the operator's token.

There only where ``VERSO_ADMIN_TOKEN`` is set: a bundle is a program.
"""

from __future__ import annotations

import hmac

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.errors import NotReady, Unauthorized, UnknownModel
from app.http.openapi import (
    ADMIN_SECURITY,
    LOAD_ERRORS,
    LOAD_REQUESTS,
    LOADED_EXAMPLE,
    UNLOADED_EXAMPLE,
    answers,
    request_body,
)
from app.http.request_body import read_request
from app.http.routes.models import model_body
from app.http.schemas import LoadRequest, ModelBody, UnloadResponse
from app.serving.service import TranslationService
from app.settings import Settings
from app.telemetry.logs import log_fields

router = APIRouter(tags=["administration"])


@router.post(
    "/admin/models",
    status_code=201,
    summary="Load a bundle",
    response_model=ModelBody,
    responses=answers(LOADED_EXAMPLE, *LOAD_ERRORS, status=201),
    openapi_extra={**request_body(LoadRequest, LOAD_REQUESTS), **ADMIN_SECURITY},
)
async def load_model(request: Request) -> Response:
    """Load one bundle more, from the folders of those configured, and serve it once it is warm.

    Translations go on meanwhile. A bundle that cannot be served changes nothing. A pair that a model loaded before
    translates too stays with that model.
    """
    settings: Settings = request.app.state.settings
    service: TranslationService = request.app.state.service
    require_token(request, settings)
    asked = await read_request(request, LoadRequest, settings.max_body_bytes)
    log_fields(request.scope)["file"] = asked.file
    model = await service.load_model(asked.file, asked.sha256)
    log_fields(request.scope)["model"] = model.name
    return Response(model_body(model, settings).model_dump_json(), status_code=201, media_type="application/json")


@router.delete(
    "/admin/models/{name:path}",
    summary="Unload a model",
    response_model=UnloadResponse,
    responses=answers(UNLOADED_EXAMPLE, Unauthorized, UnknownModel, NotReady),
    openapi_extra=ADMIN_SECURITY,
)
async def unload_model(request: Request, name: str) -> Response:
    """Let a model go: its pairs are gone at once, requests that use it finish first, then its memory is released.

    Requests that take longer than the time to drain are refused with 503. Without any model left, the service is
    not ready.
    """
    service: TranslationService = request.app.state.service
    require_token(request, request.app.state.settings)
    log_fields(request.scope)["model"] = name[:200]
    duration_s = await service.unload_model(name)
    answer = UnloadResponse(name=name, duration_ms=round(duration_s * 1000, 3))
    return Response(answer.model_dump_json(), media_type="application/json")


def require_token(request: Request, settings: Settings) -> None:
    """Refuse whoever does not show the operator's token.

    Args:
        request: Its ``Authorization`` header is looked at, and nothing else of it.
        settings: Hold the token.

    Raises:
        Unauthorized: It is missing or wrong.
    """
    assert settings.admin_token is not None, "without a token there are no such routes"
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    expected = settings.admin_token.get_secret_value().encode()
    # Compared in a time that says nothing about how much of it is right.
    if not hmac.compare_digest(given.strip().encode(), expected) or scheme.lower() != "bearer":
        raise Unauthorized
