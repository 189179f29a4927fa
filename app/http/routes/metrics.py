"""``GET /metrics``: the metrics of the process, for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.http.openapi import answers
from app.http.state import metrics_of

_EXAMPLE = '# TYPE verso_requests_total counter\nverso_requests_total{route="/translate",status="200"} 12.0\n'

router = APIRouter(tags=["operation"])


@router.head("/metrics", include_in_schema=False)
@router.get(
    "/metrics",
    summary="Metrics for Prometheus",
    response_class=Response,
    responses=answers(_EXAMPLE, media_type="text/plain"),
)
async def metrics(request: Request) -> Response:
    """Requests, refusals by reason, queue, batches, steps and tokens, in Prometheus' text format."""
    process_metrics = metrics_of(request)
    return Response(await process_metrics.render_all(), media_type=process_metrics.content_type)
