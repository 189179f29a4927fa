"""DeepL's protocol, version 2, and glossaries and memories of version 3: what its SDKs, Weblate and others send."""

from __future__ import annotations

from fastapi import APIRouter, Security
from fastapi.security import APIKeyHeader

from app.http.compat.deepl import documents, glossaries, languages, memories, multilingual, translate
from app.http.compat.deepl.protocol import DeepLState, error_answer

__all__ = ["PREFIXES", "DeepLState", "error_answer", "router"]

PREFIXES = ("/v2", "/v3")
"""Prefixes of the paths whose errors have DeepL's form."""

router = APIRouter(
    tags=["DeepL"],
    # Only documents the key, which :mod:`app.http.compat.deepl.protocol` reads.
    dependencies=[
        Security(
            APIKeyHeader(
                name="Authorization",
                scheme_name="deepl",
                description="`DeepL-Auth-Key KEY`, with any key.",
                auto_error=False,
            )
        )
    ],
)
for module in (translate, languages, glossaries, multilingual, memories, documents):
    router.include_router(module.router)
router.include_router(memories.files_router)
