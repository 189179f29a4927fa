"""``GET /``: the web page, whose files are in ``app/http/page/``; nothing is loaded from another host."""

from __future__ import annotations

import os
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Scope

PAGE = Path(__file__).resolve().parent.parent / "page"
"""The folder of the page's files, served under ``/page``."""

# The browser enforces that nothing is loaded from another host, that the page has no inline script and that no
# text is parsed as HTML. The page makes pictures of attention itself (blob, data).
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
)

router = APIRouter(include_in_schema=False)


@router.head("/")
@router.get("/")
async def page() -> Response:
    """The page; it loads its files and calls the routes relative to its own address."""
    return FileResponse(
        PAGE / "index.html",
        media_type="text/html; charset=utf-8",
        headers={
            "Content-Security-Policy": CONTENT_SECURITY_POLICY,
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-cache",
        },
    )


class _PageFiles(StaticFiles):
    """The files of the page. Browsers check for newer versions: files of two versions must not be mixed."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


def page_files() -> ASGIApp:
    """Serves the files of the page, compressed."""
    return GZipMiddleware(_PageFiles(directory=PAGE))
