"""``/v2/document``: documents, translated in the background."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from app.documents.document import Document, Sender, Status
from app.documents.formats.table import format_of
from app.errors import DocumentNotFound, InvalidParameter, UnsupportedDocument
from app.http.access import metered_document, owner_of
from app.http.attachment import attachment
from app.http.compat.deepl.answers import DOCUMENT, DOCUMENT_STATUS, DeepLDocument, DeepLDocumentStatus
from app.http.compat.deepl.dependency import AdmittedRoute, reads
from app.http.compat.deepl.documentation import errors, files, success
from app.http.compat.deepl.parameters import DocumentKey, DocumentParameters
from app.http.compat.deepl.protocol import answer, not_supported, state_of, supported
from app.http.compat.deepl.translate import FORMALITY, formality_refused, memory_choice, stored_terms
from app.http.form_body import UploadedFile
from app.http.state import documents_of, service_of
from app.serving.model_choice import DETECT
from app.telemetry.logs import log_fields
from model.errors import UnsupportedFormality, UnsupportedPair
from model.languages import plain_code
from model.text.glossary import Glossary
from model.translation.options import TranslationOptions

_KEY_EXAMPLES = {"the key of the upload": {"document_key": DOCUMENT.document_key}}

router = APIRouter(route_class=AdmittedRoute)

_STATUS: dict[Status, str] = {
    "queued": "queued",
    "running": "translating",
    "done": "done",
    "failed": "error",
    "cancelled": "error",
}

_FIRST_LOOK_S = 4.0
"""Seconds for which the status of a new document is held back until it is done: the SDKs look again after 5 seconds."""

_SAME_LANGUAGE = "Source and target language are the same."


# DeepL's SDK for Java ends the path in a slash.
@router.post("/v2/document/", name="deepl_add_document_with_slash", include_in_schema=False)
@router.post(
    "/v2/document",
    name="deepl_add_document",
    summary="Translate a document",
    responses={**success(DOCUMENT), **errors(400, 403, 404, 413, 456, 504)},
)
async def add(
    request: Request, body: Annotated[DocumentParameters, reads(DocumentParameters, scope="documents", has_file=True)]
) -> Response:
    """Accept a file and translate it in the background, as `POST /documents` does."""
    parameters = request.state.parameters
    file = parameters.files.get("file")
    if file is None:
        raise InvalidParameter("Value for 'file' not supported: it must be a file in a multipart form.")
    file = replace(file, name=body.filename or file.name)
    _check_format(file, body)
    ending = file.name.rpartition(".")[2][:20]
    log_fields(request.scope).update(bytes=len(file.content), ending=ending)
    pairs = await service_of(request).language_pairs()
    target = supported("target_lang", body.target_lang, pairs.targets)
    if body.source_lang is not None:
        supported("source_lang", body.source_lang, pairs.languages)
        if plain_code(body.source_lang) == plain_code(target):
            raise InvalidParameter(_SAME_LANGUAGE)
    async with metered_document(request, (parameters, body), file.content) as sender:
        document = await _add(request, file, body, sender)
    state_of(request).num_characters += document.num_characters
    return answer(DeepLDocument(document_id=document.id.upper(), document_key=_key_of(document.id)))


@router.post(
    "/v2/document/{document_id}",
    name="deepl_document",
    summary="The status of a document",
    responses={**success(DOCUMENT_STATUS), **errors(400, 403, 404)},
)
async def status(
    request: Request,
    document_id: str,
    body: Annotated[DocumentKey, reads(DocumentKey, _KEY_EXAMPLES, scope="documents")],
) -> Response:
    """The status of a document. That of a new one is answered when it is done, after 4 seconds at most."""
    document = await _document_of(request, document_id, body)
    document = await documents_of(request).settled(document, _FIRST_LOOK_S)
    message = None if document.problem is None else str(document.problem["detail"])
    shown = _STATUS[document.status]
    if document.source == document.target and document.num_characters:
        shown, message = "error", _SAME_LANGUAGE
    elif document.status == "cancelled":
        message = "The document was cancelled."
    left_s = document.seconds_left
    return answer(
        DeepLDocumentStatus.model_validate(
            {
                "document_id": document.id.upper(),
                "status": shown,
                "seconds_remaining": None if left_s is None or not document.is_active else math.ceil(left_s),
                "billed_characters": document.num_characters if shown == "done" else None,
                "error_message": message,
            }
        )
    )


@router.post(
    "/v2/document/{document_id}/result",
    name="deepl_document_result",
    response_class=Response,
    summary="The translated file",
    responses={**files("Guten Morgen."), **errors(400, 403, 404, 503)},
)
async def result(
    request: Request,
    document_id: str,
    body: Annotated[DocumentKey, reads(DocumentKey, _KEY_EXAMPLES, scope="documents")],
) -> Response:
    """The translated file. It can be downloaded once and is then deleted; 503 before it is done."""
    document = await _document_of(request, document_id, body)
    translated = await documents_of(request).result(document.id, owner=owner_of(request))
    await documents_of(request).cancel(document.id, owner_of(request))
    log_fields(request.scope)["bytes"] = len(translated.content)
    return answer(translated.content, media_type=translated.media_type, headers=attachment(translated.filename))


async def _document_of(request: Request, document_id: str, body: DocumentKey) -> Document:
    """The document that a request names by id and key.

    Raises:
        DocumentNotFound: No document has this id, or its key is another one.
    """
    own_id = document_id.lower()
    if not hmac.compare_digest(body.document_key.upper().encode(), _key_of(own_id).encode()):
        raise DocumentNotFound(document_id)
    return await documents_of(request).get(own_id, owner_of(request))


def _key_of(document_id: str) -> str:
    """The key of a document, derived from its id, which is secret already."""
    return hashlib.sha256(f"document {document_id}".encode()).hexdigest().upper()


def _check_format(file: UploadedFile, body: DocumentParameters) -> None:
    """Refuse a file of an unknown format, and a conversion.

    Raises:
        InvalidParameter: The format is unknown, or not the output format.
    """
    try:
        format_of(file.name, file.content)
    except UnsupportedDocument as error:
        raise InvalidParameter(f"Invalid file extension. {error}") from None
    output_format = body.output_format
    if output_format is not None and output_format.lower().lstrip(".") != file.name.rpartition(".")[2].lower():
        raise InvalidParameter("Value for 'output_format' not supported: documents keep their format.")


async def _add(request: Request, file: UploadedFile, body: DocumentParameters, sender: Sender) -> Document:
    """Add the document; a form of address that is only preferred is dropped if the model does not support it."""

    async def terms(texts: Sequence[str]) -> Glossary:
        return (await stored_terms(request, body, texts)).terms

    options = TranslationOptions(formality=FORMALITY[body.formality])
    source, target = body.source_lang or DETECT, body.target_lang
    add_document = partial(
        documents_of(request).add,
        file.content,
        file.name,
        source,
        target,
        terms=terms if body.all_glossary_ids else None,
        memory=await memory_choice(request, body),
    )
    try:
        return await add_document(options, sender)
    except UnsupportedFormality:
        if not body.formality.startswith("prefer_"):
            raise formality_refused(target) from None
        return await add_document(replace(options, formality=None), sender)
    except UnsupportedPair:
        raise not_supported("target_lang") from None
