"""``GET /livez`` and ``GET /readyz``: whether the process lives, and whether it takes requests."""

from __future__ import annotations

from fastapi import APIRouter, Request

from app.errors import NotReady
from app.http.examples import ALIVE, READY
from app.http.json_route import json_route
from app.http.openapi import answers
from app.http.schemas.answers import HealthResponse
from app.http.state import service_of

router = APIRouter(tags=["operation"], route_class=json_route())


@router.head("/livez", include_in_schema=False)
@router.get("/livez", summary="Whether the process lives", responses=answers(ALIVE, NotReady))
async def livez(request: Request) -> HealthResponse:
    """Answers while the event loop runs; 503 if the model cannot be run any more. Restart a process without a 200."""
    service = service_of(request)
    if service.state == "failed":
        raise service.not_ready()
    return HealthResponse(status="alive")


@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Whether requests are taken", responses=answers(READY, NotReady))
async def readyz(request: Request) -> HealthResponse:
    """200 once the model is loaded and warmed up, until the process is told to end; else send requests elsewhere."""
    service = service_of(request)
    if service.state != "ready":
        raise service.not_ready()
    return HealthResponse(status="ready")
