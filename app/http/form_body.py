"""Reads a multipart form with a file, bounded while it is read and strict about its fields."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic_core import from_json
from starlette.datastructures import FormData, Headers
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from app.errors import DocumentTooLarge, FieldProblem, InvalidRequest, MalformedForm, UnsupportedMediaType
from app.http.request_body import LONGEST_VALUE_REPEATED, checked

MEDIA_TYPE = "multipart/form-data"

FORM_BYTES = 200_000
"""Maximum bytes of a form besides its file."""

_MAX_FIELDS = 50
_TAIL_BYTES = 16
_PIECE_BYTES = 65_536

_RAW = "latin-1"  # decodes any bytes

_Schema = TypeVar("_Schema", bound=BaseModel)


@dataclass(frozen=True)
class UploadedFile:
    """A file that was sent in a form.

    Args:
        name: Its name from the client; never use it as a path.
        content: Its bytes.
    """

    name: str
    content: bytes = field(repr=False)


@dataclass(frozen=True)
class MultipartForm:
    """A form.

    Args:
        fields: Its fields in order.
        files: Uploaded files by field.
    """

    fields: list[tuple[str, str]]
    files: dict[str, UploadedFile]


@dataclass(frozen=True)
class FileForm:
    """A form with a file.

    Args:
        filename: What the client calls the file.
        content: The file.
        fields: The other fields, as they were sent.
    """

    filename: str
    content: bytes = field(repr=False)
    fields: list[tuple[str, str]]


async def read_file_form(request: Request, max_bytes: int) -> FileForm:
    """Read a form whose field ``file`` is a file.

    Args:
        request: The request; its body has not been read yet.
        max_bytes: The largest file accepted.

    Raises:
        UnsupportedMediaType: The body is not a multipart form.
        DocumentTooLarge: The file has more bytes than accepted; no more are kept in memory.
        MalformedForm: It cannot be parsed.
        InvalidRequest: The form has no file in the field ``file``.
    """
    declared = request.headers.get("content-type", "")
    if declared.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise UnsupportedMediaType(declared[:LONGEST_VALUE_REPEATED], [MEDIA_TYPE])
    if request.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise UnsupportedMediaType(
            f"content-encoding {request.headers['content-encoding'][:LONGEST_VALUE_REPEATED]}", [MEDIA_TYPE]
        )
    form = await read_form(request, _bounded(request, max_bytes), _MAX_FIELDS, FORM_BYTES)
    if "file" not in form.files:
        is_text = any(name == "file" for name, _ in form.fields)
        raise InvalidRequest([FieldProblem("file", "must be a file" if is_text else "is required")])
    file = form.files["file"]
    if len(file.content) > max_bytes:
        raise DocumentTooLarge(max_bytes)
    return FileForm(file.name, file.content, form.fields)


async def read_form(
    request: Request, body: AsyncIterable[bytes], max_fields: int, max_field_bytes: int, *, is_whole: bool = True
) -> MultipartForm:
    """Parse a multipart form with at most one file, in linear time and in pieces, so that other requests can run.

    Args:
        request: The request, for the boundary.
        body: Its body.
        max_fields: Maximum number of fields besides the file.
        max_field_bytes: Maximum size of a field.
        is_whole: Whether the body is complete; otherwise only complete fields are returned.

    Raises:
        MalformedForm: It cannot be parsed, or a field is not UTF-8.
    """
    form = await _parse(request, body, max_fields, max_field_bytes, is_whole=is_whole)
    fields: list[tuple[str, str]] = []
    files: dict[str, UploadedFile] = {}
    try:
        for raw_name, value in form.multi_items():
            name = _decoded(raw_name)
            if isinstance(value, str):
                try:
                    fields.append((name, value.encode(_RAW).decode()))
                except UnicodeDecodeError:
                    shown = name[:LONGEST_VALUE_REPEATED]
                    raise MalformedForm(f"The field {shown!r} of the form is not UTF-8.") from None
            elif is_whole:
                files[name] = UploadedFile(_decoded(value.filename or ""), await value.read())
    finally:
        await form.close()
    return MultipartForm(fields, files)


def _decoded(raw: str) -> str:
    """A name as text: UTF-8, or Latin-1 if it is not."""
    try:
        return raw.encode(_RAW).decode()
    except UnicodeDecodeError:
        return raw


async def _parse(
    request: Request, body: AsyncIterable[bytes], max_fields: int, max_field_bytes: int, *, is_whole: bool
) -> FormData:
    """A form whose texts have a character for each byte; the caller closes it."""
    tail = bytearray()  # the last bytes of the body

    async def noted() -> AsyncGenerator[bytes, None]:
        async for chunk in body:
            tail.extend(chunk[-_TAIL_BYTES:])
            del tail[:-_TAIL_BYTES]
            for at in range(0, len(chunk), _PIECE_BYTES):
                yield chunk[at : at + _PIECE_BYTES]
                await asyncio.sleep(0)  # the parser is written in Python: 10 MB may take it seconds

    reason = ""
    # Starlette silently decodes invalid bytes as Latin-1. Here all bytes are decoded so, and later checked as UTF-8.
    media_type = request.headers.get("content-type", "").replace("charset", "ignored")
    headers = Headers({"content-type": f"{media_type}; charset={_RAW}"})
    parser = MultiPartParser(headers, noted(), max_files=1, max_fields=max_fields, max_part_size=max_field_bytes)
    # In memory, where bodies are counted; the folder for temporary files may be full.
    parser.spool_max_size = sys.maxsize
    form: FormData | None = None
    try:
        form = await parser.parse()
        if is_whole and not tail.rstrip().endswith(b"--"):
            reason = "its closing boundary is missing"  # Starlette reads a form that was cut without its last parts
    except MultiPartException as error:
        reason = error.message
    except (UnicodeDecodeError, LookupError, ValueError) as error:
        reason = type(error).__name__
    finally:
        if form is None or reason or not is_whole:
            for file in parser._files_to_close_on_error:  # the file of an incomplete part belongs to no form
                file.close()
    if form is None or reason:
        raise MalformedForm(f"The body is not a valid form: {reason}")
    return form


async def _bounded(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    """The bytes of a body.

    Args:
        request: The request.
        max_bytes: The largest file accepted.

    Raises:
        DocumentTooLarge: The body is too large.
    """
    bound = max_bytes + FORM_BYTES
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > bound:
        raise DocumentTooLarge(max_bytes)
    num_bytes = 0
    async for chunk in request.stream():
        num_bytes += len(chunk)
        if num_bytes > bound:
            raise DocumentTooLarge(max_bytes)
        yield chunk


def form_fields(fields: list[tuple[str, str]], schema: type[_Schema], texts: frozenset[str]) -> _Schema:
    """The fields of a form as a model. Numbers, booleans and lists are written as in JSON; empty fields are ignored.

    Args:
        fields: The fields.
        schema: The model.
        texts: Names of the fields with text.

    Raises:
        InvalidRequest: Fields are unknown, wrong, or sent twice.
    """
    values: dict[str, Any] = {}
    for name, value in fields:
        if name in values:
            raise InvalidRequest([FieldProblem(name[:LONGEST_VALUE_REPEATED], "must not be sent twice")])
        if value:
            values[name] = value if name in texts else _parsed(value)
    return checked(schema, values, ["file", *schema.model_fields])


def _parsed(value: str) -> Any:
    """A value written as JSON, or the text itself if it is not valid JSON."""
    try:
        return from_json(value, allow_inf_nan=False)
    except ValueError:
        return value
