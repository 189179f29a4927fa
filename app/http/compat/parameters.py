"""The parameters of a request in any form that clients of other services send: JSON, forms, files, query strings."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from starlette.requests import Request

from app.errors import MalformedBody, MalformedForm, UnsupportedMediaType
from app.http.form_body import parse_form
from app.http.request_body import LONGEST_VALUE_REPEATED, checked, parse_json, read_body

_MAX_FIELDS = 1_000

_Schema = TypeVar("_Schema", bound=BaseModel)


@dataclass(frozen=True)
class UploadedFile:
    """A file that was sent in a form.

    Args:
        name: Its name as the client wrote it; never a path to be used.
        content: Its bytes.
    """

    name: str
    content: bytes


@dataclass(frozen=True)
class Parameters:
    """What a request asks for.

    Args:
        values: The fields. A field that a form or a query repeats is a list of strings, one that occurs once a string;
            those of JSON are as they were sent.
        files: Uploaded files by field.
        is_json: Whether they were sent as JSON.
    """

    values: Mapping[str, Any]
    files: Mapping[str, UploadedFile] = field(default_factory=dict)
    is_json: bool = False

    def as_model(self, schema: type[_Schema]) -> _Schema:
        """The fields checked against a model.

        Raises:
            InvalidRequest: Fields are missing or wrong.
        """
        return checked(schema, self.values, list(schema.model_fields))


async def read_parameters(request: Request, max_body_bytes: int) -> Parameters:
    """Read the parameters of a request of any method; those of the body replace those of the query.

    Args:
        request: The request; its body has not been read yet.
        max_body_bytes: The largest body accepted.

    Raises:
        BodyTooLarge: The body has more bytes than accepted.
        MalformedBody: It cannot be parsed.
        UnsupportedMediaType: It is neither JSON nor a form.
    """
    query = _from_pairs(_pairs(request.url.query.encode()))
    body = await read_body(request, max_body_bytes)
    if not body:
        return Parameters(query)
    declared = request.headers.get("content-type", "")
    match declared.partition(";")[0].strip().lower():
        case "application/json":
            content = parse_json(body)
            if not isinstance(content, dict):
                raise MalformedBody("The body must be a JSON object with fields.")
            return Parameters({**query, **content}, is_json=True)
        case "application/x-www-form-urlencoded":
            return Parameters({**query, **_from_pairs(_pairs(body))})
        case "multipart/form-data":
            pairs, files = await _parts(request, body)
            return Parameters({**query, **_from_pairs(pairs)}, files)
    accepted = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
    raise UnsupportedMediaType(declared[:LONGEST_VALUE_REPEATED], accepted)


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise MalformedBody("The form is not percent-encoded UTF-8.") from None
    except ValueError:
        raise MalformedBody(f"The form has more than {_MAX_FIELDS} fields.") from None


async def _parts(request: Request, body: bytes) -> tuple[list[tuple[str, str]], dict[str, UploadedFile]]:
    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await parse_form(request, stream(), _MAX_FIELDS, len(body))
    except MalformedForm as error:
        raise MalformedBody(str(error)) from None
    fields: list[tuple[str, str]] = []
    files: dict[str, UploadedFile] = {}
    try:
        for name, value in form.multi_items():
            if isinstance(value, str):
                # Starlette reads as Latin-1 what is no UTF-8.
                if value.encode() not in body:
                    raise MalformedBody(f"The field {name[:LONGEST_VALUE_REPEATED]!r} of the form is not UTF-8.")
                fields.append((name, value))
            else:
                files[name] = UploadedFile(value.filename or "", await value.read())
    finally:
        await form.close()
    return fields, files


def _from_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found
