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
from app.http.json_route import json_route
from app.http.openapi import BODY_ERRORS, answers
from app.http.routes.models import model_body
from app.http.schemas.models import (
    LOAD_REQUESTS,
    LOADED_MODEL,
    UNLOAD_ANSWER,
    LoadRequest,
    ModelBody,
    UnloadResponse,
)
from app.http.state import local_service_of, settings_of
from app.telemetry.logs import log_fields

GUESSES_PER_MINUTE = 10
"""Maximum wrong tokens a minute from one address; beyond it even the right token is refused."""


def require_token(request: Request) -> None:
    """Refuse a request with neither the operator's token nor a key that has the scope ``admin``.

    Args:
        request: The request; its ``Authorization`` header is read.

    Raises:
        Unauthorized: The token is missing or wrong, and the service has no keys.
        RateLimited: Its address has sent too many wrong ones.
        ServiceError: The key is refused.
    """
    settings = settings_of(request)
    token = bearer_token(request) or ""
    guesses: RequestRates = request.app.state.admin_guesses
    guesser = subscriber_of("" if request.client is None else request.client.host)
    rate = guesses.take(guesser, GUESSES_PER_MINUTE, counts=False)
    if rate.retry_after_s is not None:
        raise RateLimited(rate.limit, rate.retry_after_s)
    # In constant time: the duration does not reveal how much of the token is right.
    if settings.admin_token is not None and hmac.compare_digest(
        token.encode(), settings.admin_token.get_secret_value().encode()
    ):
        return
    try:
        if settings.keys_db is None:
            raise Unauthorized
        admit(request, token or None, "admin")
    except (Unauthorized, InvalidKey):
        if token:
            guesses.take(guesser, GUESSES_PER_MINUTE)
        raise


router = APIRouter(
    tags=["administration"],
    route_class=json_route(require_token),
    # Only documents the token: require_token checks it before the body is read.
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
    """Load another bundle from the folders of the configured ones, and serve it once it is warmed up.

    Translations continue meanwhile. A bundle that cannot be served changes nothing. A pair that another model already
    translates stays with that model.
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
    """Unload a model: new requests cannot use it, running ones finish, then its memory is released.

    Requests that take longer than the drain timeout are refused with 503. If no model is left, the service is not
    ready.
    """
    log_fields(request.scope)["model"] = name[:200]
    duration_s = await local_service_of(request).unload_model(name)
    return UnloadResponse(name=name, duration_ms=round(duration_s * 1000, 3))
