"""The terms of a stored glossary, for a request that names the glossary by its id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import Request

from app.errors import InvalidGlossary
from app.glossaries.terms import terms_in
from app.http.schemas.documents import DocumentRequest
from app.http.schemas.requests import AttentionRequest, TranslateRequest
from app.http.state import glossaries_of
from app.serving.model_choice import DETECT
from model.text.glossary import Glossary


async def stored_terms(
    request: Request, asked: TranslateRequest | AttentionRequest | DocumentRequest, texts: Callable[[], Sequence[str]]
) -> Glossary:
    """The terms that the texts hold; none if the request names no stored glossary.

    Args:
        request: The request.
        asked: Its body.
        texts: Gives its texts, on a thread.

    Raises:
        GlossaryNotFound: No glossary has the id.
        GlossaryPairMissing: It has no terms for the languages, or those of several pairs.
        InvalidGlossary: The language is to be detected, or the texts hold too many terms.
    """
    glossary_id, source, target = asked.glossary, asked.source, asked.target
    if not isinstance(glossary_id, str):
        return ()
    if source is not None and source.lower() == DETECT:
        raise InvalidGlossary("The terms of a stored glossary belong to a language: name the source, instead of auto.")
    store = glossaries_of(request)

    def find() -> Glossary:
        found = store.dictionary(glossary_id, source, target)
        # One term that no text holds: the answer then says that none was used.
        return terms_in(found.terms, texts(), found.source) or found.terms[:1]

    return await asyncio.to_thread(find)
