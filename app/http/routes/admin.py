"""``/admin/models``: load and unload bundles while the service runs, with the operator's token.

The routes exist only if ``VERSO_ADMIN_TOKEN`` is set or there are keys, because a bundle is a program.
"""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import APIRouter, Body, Request, Security
from fastapi.security import HTTPBearer

from app.accounts.addresses import subscriber_of
from app.accounts.rates import RequestRates
from app.errors import (
    BundleNotFound,
    BundleOutside,
    BundleRefused,
    InvalidKey,
    ModelAlreadyLoaded,
    NotReady,
    RateLimited,
    Unauthorized,
    UnknownModel,
)
from app.http.access import admit, bearer_token
from app.http.examples import LOAD_REQUESTS, LOADED_MODEL, UNLOAD_ANSWER
from app.http.json_route import json_route
from app.http.openapi import BODY_ERRORS, answers
from app.http.routes.models import model_body
from app.http.schemas.answers import ModelBody, UnloadResponse
from app.http.schemas.requests import LoadRequest
from app.http.state import local_service_of, settings_of
from app.telemetry.logs import log_fields

GUESSES_PER_MINUTE = 10
"""Wrong tokens a minute from one address; after them even the right one is refused."""


def require_token(request: Request) -> None:
    """Refuse a request with neither the operator's token nor a key that has the scope ``admin``.

    Args:
        request: Only its ``Authorization`` header is read.

    Raises:
        Unauthorized: The token is missing or wrong, and there are no keys.
        RateLimited: Its address has sent too many wrong ones.
        ServiceError: The key is refused.
    """
    settings = settings_of(request)
    given = bearer_token(request) or ""
    guesses: RequestRates = request.app.state.admin_guesses
    guesser = subscriber_of("" if request.client is None else request.client.host)
    rate = guesses.take(guesser, GUESSES_PER_MINUTE, counts=False)
    if rate.retry_after_s is not None:
        raise RateLimited(rate.limit, rate.retry_after_s)
    # The time of the comparison says nothing about how much of the token is right.
    if settings.admin_token is not None and hmac.compare_digest(
        given.encode(), settings.admin_token.get_secret_value().encode()
    ):
        return
    try:
        if settings.keys_db is None:
            raise Unauthorized
        admit(request, given or None, "admin")
    except (Unauthorized, InvalidKey):
        if given:
            guesses.take(guesser, GUESSES_PER_MINUTE)
        raise


router = APIRouter(
    tags=["administration"],
    route_class=json_route(require_token),
    # It only documents the token: require_token has checked it before the body was read.
    dependencies=[
        Security(
            HTTPBearer(scheme_name="operator", description="The operator's token, VERSO_ADMIN_TOKEN.", auto_error=False)
        )
    ],
)


@router.post(
    "/admin/models",
    status_code=201,
    summary="Load a bundle",
    responses=answers(
        LOADED_MODEL,
        Unauthorized,
        *BODY_ERRORS,
        BundleNotFound,
        BundleOutside,
        BundleRefused,
        ModelAlreadyLoaded,
        NotReady,
        status=201,
    ),
)
async def load_model(request: Request, body: Annotated[LoadRequest, Body(openapi_examples=LOAD_REQUESTS)]) -> ModelBody:
    """Load one more bundle, from the folders of those configured, and serve it once it is warm.

    Translations continue meanwhile. A bundle that cannot be served changes nothing. If a model loaded before
    translates a pair too, that model keeps it.
    """
    log_fields(request.scope)["file"] = body.file
    model = await local_service_of(request).load_model(body.file, body.sha256)
    log_fields(request.scope)["model"] = model.name
    return model_body(model, settings_of(request))


@router.delete(
    "/admin/models/{name:path}",
    summary="Unload a model",
    responses=answers(UNLOAD_ANSWER, Unauthorized, UnknownModel, NotReady),
)
async def unload_model(request: Request, name: str) -> UnloadResponse:
    """Unload a model: its pairs are gone at once, requests that use it finish first, then its memory is released.

    Requests that take longer than the time to drain are refused with 503. Without any model left, the service is
    not ready.
    """
    log_fields(request.scope)["model"] = name[:200]
    duration_s = await local_service_of(request).unload_model(name)
    return UnloadResponse(name=name, duration_ms=round(duration_s * 1000, 3))
