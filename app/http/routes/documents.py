"""``/documents``: documents that are translated in the background."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from app.documents.document import Document
from app.documents.formats.table import MEDIA_TYPES
from app.errors import (
    DocumentNotDone,
    DocumentNotFound,
    DocumentRefused,
    DocumentsFull,
    DocumentsNotListed,
    DocumentTooComplex,
    DocumentTooLarge,
    FieldProblem,
    InvalidRequest,
    LimitExceeded,
    MalformedForm,
    MemoryNotFound,
    StorageFull,
    StorageUnavailable,
    UnsupportedDocument,
    UnsupportedMediaType,
)
from app.http.access import metered_document, needs, owner_of
from app.http.attachment import attachment
from app.http.chosen_memories import memory_choice
from app.http.form_body import MEDIA_TYPE, form_fields, read_file_form
from app.http.json_route import json_route
from app.http.limits import check_beam
from app.http.openapi import TRANSLATION_ERRORS, answers
from app.http.request_body import read_body
from app.http.schemas.answers import shown_time
from app.http.schemas.documents import (
    DOCUMENT_ADDED,
    DOCUMENT_DONE,
    DOCUMENT_REQUESTS,
    DOCUMENTS_LISTED,
    DocumentBody,
    DocumentRequest,
    DocumentsBody,
    ListedDocumentBody,
    MemoryCountsBody,
    SentencesBody,
)
from app.http.schemas.problems import ProblemBody
from app.http.state import documents_of, settings_of
from app.http.stored_terms import stored_terms
from app.telemetry.logs import log_fields
from model.text.glossary import Glossary
from model.translation.options import STEERING_OPTIONS

router = APIRouter(tags=["documents"], route_class=json_route(needs("documents")))

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9 ._()-]")
_TEXT_FIELDS = frozenset({"source", "target", "decoding", "scoring", "formality"})


def _form() -> dict[str, Any]:
    """The form in the OpenAPI document: FastAPI describes only forms that it reads itself."""
    schema = DocumentRequest.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    file = {"type": "string", "format": "binary", "description": "The file; the ending of its name decides its format."}
    schema["properties"] = {"file": file, **schema["properties"]}
    schema["required"] = ["file"]
    return {"required": True, "content": {MEDIA_TYPE: {"schema": schema, "examples": DOCUMENT_REQUESTS}}}


@router.post(
    "/documents",
    status_code=202,
    summary="Translate a document",
    responses=answers(
        DOCUMENT_ADDED,
        MalformedForm,
        DocumentTooLarge,
        UnsupportedMediaType,
        UnsupportedDocument,
        DocumentRefused,
        DocumentTooComplex,
        InvalidRequest,
        LimitExceeded,
        DocumentsFull,
        StorageFull,
        StorageUnavailable,
        MemoryNotFound,
        *TRANSLATION_ERRORS,
        status=202,
    ),
    openapi_extra={"requestBody": _form()},
)
async def add_document(request: Request) -> DocumentBody:
    """Accept a document and translate it in the background, one document at a time.

    The file is `.txt`, `.md`, `.html`, `.srt`, `.vtt`, `.csv`, `.docx`, `.odt`, `.pptx`, `.xlsx`, `.epub`, or a
    catalogue of a program such as `.po`, `.xliff`, `.json`, `.yaml`, `.properties`, `.strings`, `.xcstrings`, `.ts` or
    Android's `.xml`. Only its text is translated: formatting, code, links, times and names of keys stay. Other requests
    have priority over documents. Numbers and lists in fields of the form are written as in JSON. With `source: auto`
    the language is detected once, from the beginning of the document.
    """
    settings = settings_of(request)
    form = await read_file_form(request, settings.max_document_bytes)
    _refuse_steering(form.fields)
    body = form_fields(form.fields, DocumentRequest, _TEXT_FIELDS)
    check_beam(body.beam_size, settings)
    ending = form.filename.rpartition(".")[2][:20]
    log_fields(request.scope).update(bytes=len(form.content), ending=ending, decoding=body.decoding)

    async def terms(texts: Sequence[str]) -> Glossary:
        return (await stored_terms(request, body, texts)).terms

    options = body.options()
    memory = await memory_choice(request, body)
    async with metered_document(request, (form, body), form.content) as sender:
        document = await documents_of(request).add(
            form.content,
            form.filename,
            body.source,
            body.target,
            options,
            sender,
            terms=terms if isinstance(body.glossary, str) else None,
            memory=memory,
        )
    return document_body(document)


def _refuse_steering(fields: Sequence[tuple[str, str]]) -> None:
    """Refuse the fields of ``/translate`` that need a single sentence.

    Raises:
        InvalidRequest: The form has one of them.
    """
    reason = "needs one text of a single sentence; send it to /translate"
    problems = [FieldProblem(name, reason) for name, value in fields if name in STEERING_OPTIONS and value]
    if problems:
        raise InvalidRequest(problems)


@router.get(
    "/documents",
    summary="A list of documents",
    responses=answers(DOCUMENTS_LISTED, DocumentNotFound, DocumentsNotListed, InvalidRequest, StorageUnavailable),
)
async def list_documents(
    request: Request, limit: Annotated[int, Query(ge=1, le=100)] = 50, after: str | None = None
) -> DocumentsBody:
    """The documents of the caller's key, the newest first. Without keys they are not listed, as an id is a secret.

    A page has at most `limit` documents. If there may be more, `next` is the `after` of the next page.
    """
    owner = owner_of(request)
    if owner is None:
        raise DocumentsNotListed
    documents = await documents_of(request).newest(owner, limit, after)
    listed = [
        ListedDocumentBody(
            id=document.id,
            status=document.status,
            filename=document.filename,
            created_at=shown_time(document.created_at),
            expires_at=shown_time(document.expires_at),
        )
        for document in documents
    ]
    return DocumentsBody(documents=listed, next=listed[-1].id if len(listed) == limit else None)


@router.get(
    "/documents/{id}",
    summary="The status of a document",
    responses=answers(DOCUMENT_DONE, DocumentNotFound, StorageUnavailable),
)
async def document(request: Request, id: str) -> DocumentBody:
    """The status of a document. Its sentences are counted when its translation begins."""
    return document_body(await documents_of(request).get(id, owner_of(request)))


@router.get(
    "/documents/{id}/result",
    summary="The translated file",
    response_class=Response,
    responses=answers(
        "Guten Morgen.\n",
        DocumentNotFound,
        DocumentNotDone,
        DocumentTooComplex,
        InvalidRequest,
        StorageUnavailable,
        media_type="text/plain",
        also=dict.fromkeys(MEDIA_TYPES[1:], "a file of this format."),
    ),
)
async def document_result(request: Request, id: str, partial: bool = False) -> Response:
    """The translated file, in the format of the source, with the changes of its translation.

    With `partial`, also of a document that is not done, has failed or was cancelled: the rest is as in the source.
    """
    if partial:
        await read_body(request, settings_of(request).max_body_bytes)  # from now on, a disconnect is noticed
    result = await documents_of(request).result(id, partial, owner_of(request))
    log_fields(request.scope)["bytes"] = len(result.content)
    plain = _NOT_PLAIN.sub("_", result.filename)  # for clients without support for filename*
    return Response(result.content, media_type=result.media_type, headers=attachment(result.filename, plain))


@router.delete(
    "/documents/{id}",
    summary="Cancel or delete a document",
    responses=answers(DOCUMENT_DONE, DocumentNotFound, StorageFull, StorageUnavailable),
)
async def delete_document(request: Request, id: str) -> DocumentBody:
    """Cancel a document that is waiting or being translated.

    The translated part can still be downloaded with `partial`. A document that is done, has failed or is cancelled is
    deleted; the answer is its last status.
    """
    return document_body(await documents_of(request).cancel(id, owner_of(request)))


def document_body(document: Document) -> DocumentBody:
    """The description of a document for clients.

    Args:
        document: The document.
    """
    seconds_left, counts = document.seconds_left, document.memory_counts
    return DocumentBody(
        id=document.id,
        status=document.status,
        filename=document.filename,
        sentences=SentencesBody(done=document.num_done, total=document.num_sentences),
        seconds_left=None if seconds_left is None else round(seconds_left, 1),
        expires_at=shown_time(document.expires_at),
        untranslated=document.num_left,
        memory=None if counts is None else MemoryCountsBody.model_validate(counts),
        already_in=document.target if document.was_in_target else None,
        problem=None if document.problem is None else ProblemBody.model_validate(document.problem),
    )
