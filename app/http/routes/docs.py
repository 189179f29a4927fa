"""``GET /docs`` and ``/openapi.json``; nothing is loaded from another host."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, JSONResponse, Response

STATIC = Path(__file__).resolve().parent.parent / "static"
"""The folder of the assets, served under ``/static``."""

# The browser enforces that nothing is loaded from another host; Swagger UI needs inline styles and data images.
CONTENT_SECURITY_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)

router = APIRouter(include_in_schema=False)


@router.head("/docs")
@router.get("/docs")
async def docs() -> Response:
    """The page; it loads ``openapi.json`` and ``static/`` relative to its own address."""
    return FileResponse(
        STATIC / "docs.html",
        media_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY, "Cache-Control": "no-cache"},
    )


@router.head("/openapi.json")
@router.get("/openapi.json")
async def openapi(request: Request) -> Response:
    """The description of all routes, with the bounds of this process."""
    return JSONResponse(request.app.openapi())
