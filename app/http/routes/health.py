"""``GET /livez`` and ``GET /readyz``: whether the process lives, and whether it takes requests."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.errors import NotReady
from app.http.openapi import ALIVE_EXAMPLE, READY_EXAMPLE, answers
from app.http.schemas import HealthResponse
from app.serving.service import TranslationService

router = APIRouter(tags=["operation"])


@router.head("/livez", include_in_schema=False)
@router.get(
    "/livez",
    summary="Whether the process lives",
    response_model=HealthResponse,
    responses=answers(ALIVE_EXAMPLE),
)
async def livez() -> Response:
    """Answers as long as the event loop turns, whatever the model does; a process that does not is to be restarted."""
    return JSONResponse({"status": "alive"})


@router.head("/readyz", include_in_schema=False)
@router.get(
    "/readyz",
    summary="Whether requests are taken",
    response_model=HealthResponse,
    responses=answers(READY_EXAMPLE, NotReady),
)
async def readyz(request: Request) -> Response:
    """Yes once the model is loaded and warmed up, until the process is told to end; else send requests elsewhere."""
    service: TranslationService = request.app.state.service
    if service.state != "ready":
        raise service.not_ready()
    return JSONResponse({"status": "ready"})
