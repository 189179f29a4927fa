"""``GET /livez``, ``/readyz`` and ``/health``: whether the process works, and whether it accepts requests."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict

from app.errors import NotReady
from app.http.json_route import json_route
from app.http.openapi import answers
from app.http.state import service_of

router = APIRouter(tags=["operation"], route_class=json_route())


class HealthResponse(BaseModel):
    """The state of the process or of the service."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    status: Literal["alive", "ready"]
    """`alive` for the process, `ready` for the model."""


ALIVE = HealthResponse(status="alive")

READY = HealthResponse(status="ready")


@router.head("/livez", include_in_schema=False)
@router.get("/livez", summary="Whether the process works", responses=answers(ALIVE, NotReady))
async def livez(request: Request) -> HealthResponse:
    """200 while the event loop and the engine run; 503 if the engine has failed. Restart the process without a 200."""
    service = service_of(request)
    if service.state == "failed":
        raise service.not_ready()
    return ALIVE


@router.head("/health", include_in_schema=False)
@router.get(
    "/health", name="health", summary="Whether requests are accepted, as `/readyz`", responses=answers(READY, NotReady)
)
@router.head("/readyz", include_in_schema=False)
@router.get("/readyz", summary="Whether requests are accepted", responses=answers(READY, NotReady))
async def readyz(request: Request) -> HealthResponse:
    """200 once the models are loaded and warmed up, until shutdown begins; otherwise send requests elsewhere."""
    service = service_of(request)
    if service.state != "ready":
        raise service.not_ready()
    return READY
