"""``GET /metrics``: what the process counts, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.openapi import METRICS_EXAMPLE, answers
from app.telemetry.metrics import Metrics

router = APIRouter(tags=["operation"])


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses=answers(METRICS_EXAMPLE, media_type="text/plain"),
)
async def metrics(request: Request) -> Response:
    """Requests, refusals by reason, queue, batches, steps and tokens, in Prometheus' text format."""
    measured: Metrics = request.app.state.metrics
    return Response(measured.render(), media_type=measured.content_type)
