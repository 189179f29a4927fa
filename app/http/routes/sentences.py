"""``/documents/{id}/sentences``: the sentences of a translated document, to edit their translations."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from app.documents.editing import SentencePage
from app.documents.stored_sentence import StoredSentence
from app.errors import (
    DocumentNotDone,
    DocumentNotEditable,
    DocumentNotFound,
    DocumentTooComplex,
    InvalidRequest,
    MemoryStoreFull,
    StorageFull,
    StorageUnavailable,
)
from app.http.access import needs, owner_of
from app.http.chosen_memories import keeps_corrections
from app.http.json_route import json_route
from app.http.openapi import BODY_ERRORS, answers
from app.http.schemas.answers import shown_time
from app.http.schemas.sentences import (
    CHANGED_SENTENCES,
    SENTENCE_CHANGES,
    SENTENCES_PAGE,
    ChangedSentencesBody,
    SentenceBody,
    SentenceChangesBody,
    SentencesPageBody,
)
from app.http.state import documents_of, memories_of
from app.memories.unit import Unit
from app.telemetry.logs import log_fields
from model.languages import plain_code

router = APIRouter(tags=["documents"], route_class=json_route(needs("documents")))

_ERRORS = (
    DocumentNotFound,
    DocumentNotDone,
    DocumentNotEditable,
    DocumentTooComplex,
    InvalidRequest,
    StorageFull,
    StorageUnavailable,
)
_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "title": "Id"}}
"""The parameter in the OpenAPI document: FastAPI describes only those that it reads itself."""


@router.get(
    "/documents/{id}/sentences",
    summary="The sentences of a translated document",
    responses=answers(SENTENCES_PAGE, *_ERRORS),
)
async def sentences(
    request: Request,
    id: str,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: Annotated[int, Query(ge=-1, le=10**12)] = -1,
    unconfirmed: bool = False,
) -> SentencesPageBody:
    """The sentences of a document that is done, beside their translations, in order.

    A page has at most `limit` sentences, those after the number `after`. If there may be more, `next` is the `after` of
    the next page. With `unconfirmed`, confirmed sentences are left out.
    """
    page = await documents_of(request).sentences(
        id, owner_of(request), after=after, limit=limit, only_unconfirmed=unconfirmed
    )
    last = page.sentences[-1].number if len(page.sentences) == limit else None
    return SentencesPageBody(
        **_counts(page),
        filename=page.document.filename,
        source=page.document.source,
        target=page.document.target,
        sentences=list(map(_body, page.sentences)),
        next=last,
    )


@router.patch(
    "/documents/{id}/sentences",
    summary="Edit the translation of a document",
    responses=answers(CHANGED_SENTENCES, *_ERRORS, *BODY_ERRORS),
    openapi_extra={"parameters": [_ID]},
)
async def change_sentences(
    request: Request, body: Annotated[SentenceChangesBody, Body(openapi_examples=SENTENCE_CHANGES)]
) -> ChangedSentencesBody:
    """Change translations of sentences, or confirm them; `GET /documents/{id}/result` then has the changes.

    All changes are made, or none. A translation has each marker of the sentence once, and its placeholders. The
    document is kept for another day.

    With `VERSO_SUGGESTIONS=on`, confirmed sentences are stored in the caller's memory of corrections. If it is full,
    the document still has the changes, and `remembered` is 0.
    """
    changes = [change.change() for change in body.sentences]
    log_fields(request.scope)["sentences"] = len(changes)
    page = await documents_of(request).change_sentences(request.path_params["id"], changes, owner_of(request))
    sentences = list(map(_body, page.sentences))
    return ChangedSentencesBody(**_counts(page), sentences=sentences, remembered=await _remember(request, page))


async def _remember(request: Request, page: SentencePage) -> int | None:
    """Store the confirmed sentences as corrections; returns their number, or None if corrections are not stored."""
    source, target = page.document.source, page.document.target
    if not keeps_corrections(request) or plain_code(source) == plain_code(target):
        return None
    pairs = [sentence.plain for sentence in page.sentences if sentence.is_confirmed]
    units = [Unit(*pair, target) for pair in pairs if pair is not None]
    units = [unit for unit in units if unit.flaw is None]
    if not units:
        return 0
    try:
        await memories_of(request).add_corrections(owner_of(request), source, units)
    except (MemoryStoreFull, StorageFull, StorageUnavailable) as error:
        log_fields(request.scope)["not_remembered"] = str(error)
        return 0
    return len(units)


def _counts(page: SentencePage) -> dict[str, Any]:
    return {
        "total": page.total,
        "edited": page.num_edited,
        "confirmed": page.num_confirmed,
        "expires_at": shown_time(page.document.expires_at),
    }


def _body(sentence: StoredSentence) -> SentenceBody:
    is_edited = sentence.edit is not None
    return SentenceBody(
        number=sentence.number,
        text=sentence.unit,
        source=sentence.source,
        translation=sentence.translation,
        edited=is_edited,
        confirmed=sentence.is_confirmed,
        machine_translation=sentence.machine_translation if is_edited else None,
        markers=dict(sentence.markers) or None,
    )
