"""``GET /metrics``: the counters of the process, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.examples import METRICS
from app.http.openapi import answers
from app.http.state import metrics_of

router = APIRouter(tags=["operation"])


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    summary="Counters for Prometheus",
    response_class=Response,
    responses=answers(METRICS, media_type="text/plain"),
)
async def metrics(request: Request) -> Response:
    """Requests, refusals by reason, queue, batches, steps and tokens, in the text format of Prometheus."""
    measured = metrics_of(request)
    return Response(await measured.render_all(), media_type=measured.content_type)
