"""``/v2/document``: not available yet; the routes refuse in the form that clients expect."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.errors import InvalidParameter
from app.http.compat.deepl.protocol import read_asked

router = APIRouter()


@router.post("/v2/document", include_in_schema=False)
@router.post("/v2/document/{document_id}", include_in_schema=False)
@router.post("/v2/document/{document_id}/result", include_in_schema=False)
async def refuse(request: Request) -> Response:
    """Refuse documents: not with a 5xx, which clients would repeat."""
    await read_asked(request)
    raise InvalidParameter("This server does not translate documents; send their texts to /v2/translate.")
