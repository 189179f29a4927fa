"""``/translate_file`` and ``/download_file``: documents, for clients that wait for the result."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from urllib.parse import quote

from fastapi import Request, Response

from app.documents.document import Document
from app.documents.formats.table import FORMATS
from app.errors import InvalidParameter, Problem, UnsupportedDocument
from app.http.access import metered_document
from app.http.attachment import attachment
from app.http.chosen_memories import corrections_of
from app.http.compat.libretranslate.errors import error_response, error_shape
from app.http.compat.libretranslate.parameters import missing, read_string
from app.http.compat.parameters import Parameters
from app.http.form_body import UploadedFile
from app.http.middleware import release_body
from app.http.state import documents_of
from app.settings import Settings
from app.telemetry.logs import log_fields
from model.translation.options import TranslationOptions

FILES_DISABLED = "Files translation are disabled on this server."
"""LibreTranslate's words."""


@dataclass(frozen=True)
class FileRequest:
    """The parameters of ``/translate_file``.

    Args:
        file: The document.
        source: The source as sent.
        target: The target as sent.
    """

    file: UploadedFile
    source: str
    target: str


def supported_files(settings: Settings) -> list[str]:
    """Endings of the files that are translated; none if documents are disabled."""
    return sorted(FORMATS) if settings.max_documents else []


def read_translate_file(parameters: Parameters) -> FileRequest:
    """The parameters of ``/translate_file``.

    Args:
        parameters: The fields sent.

    Raises:
        InvalidParameter: A field is missing or wrong.
    """
    file = parameters.files.get("file")
    if file is None:
        raise InvalidParameter(missing("file"))
    body = FileRequest(file, read_string(parameters, "source"), read_string(parameters, "target"))
    if not file.name:
        raise InvalidParameter("Invalid request: empty file")
    return body


async def translate_document(request: Request, file: UploadedFile, source: str, target: str) -> Document:
    """Translate a document and wait until it is done; it is cancelled if the client disconnects.

    Args:
        request: The request.
        file: The document.
        source: Its language, or ``auto``.
        target: The target language.

    Raises:
        InvalidParameter: The format of the file is not supported.
        ServiceError: It cannot be translated.
    """
    documents = documents_of(request)
    log_fields(request.scope).update(bytes=len(file.content), ending=file.name.rpartition(".")[2][:20])
    try:
        async with metered_document(request, (file, source, target), file.content) as sender:
            # A retry gets a document of its own, because this one is cancelled when its client disconnects.
            own = replace(sender, request="")
            memory = corrections_of(request)
            options = TranslationOptions()
            document = await documents.add(file.content, file.name, source, target, options, own, memory=memory)
    except UnsupportedDocument:
        raise InvalidParameter("Invalid request: file format not supported") from None
    release_body(request.scope)
    try:
        return await documents.settled(document)
    except asyncio.CancelledError:
        await documents.cancel(document.id)
        raise


def refused(document: Document) -> Response:
    """The error of a document that could not be translated."""
    problem = document.problem
    if problem is None:
        return error_response(400, "The document was cancelled.")
    return error_shape(Problem(problem["status"], problem["code"], problem["title"], problem["detail"]))


def address_of(request: Request, document: Document) -> str:
    """The URL of a translated document; for a day, anyone who knows it can download the document."""
    name = quote(f"{document.id}.{document.filename}", safe="")
    return str(request.url_for("libretranslate_download_file", filename=name))


async def download(request: Request, filename: str) -> Response:
    """A translated document, as a file to save.

    Args:
        request: The request.
        filename: The last part of its URL.

    Raises:
        DocumentNotFound: No document has the id; it may have been deleted.
        DocumentNotDone: It is still being translated.
    """
    id, _, name = filename.partition(".")
    result = await documents_of(request).result(id)
    return Response(result.content, media_type=result.media_type, headers=attachment(name))
