"""The parameters of a request in any form that clients of other services send: JSON, forms, files, query strings."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from pydantic import BaseModel
from pydantic_core import from_json
from starlette.requests import Request

from app.accounts.keys import Scope
from app.errors import (
    KeyBehindBody,
    KeyRequired,
    MalformedBody,
    MalformedForm,
    ServiceError,
    UnsupportedMediaType,
)
from app.http.access import accounts_of, admit
from app.http.form_body import UploadedFile, read_form
from app.http.request_body import LONGEST_VALUE_REPEATED, BodyReader, checked, parse_json

KEYLESS_BYTES = 65_536
"""Maximum bytes of a body that are read before the caller's key is checked, if callers need one."""

_MAX_FIELDS = 1_000

_Schema = TypeVar("_Schema", bound=BaseModel)


@dataclass(frozen=True)
class Parameters:
    """The parameters of a request.

    Args:
        values: The fields. Of a form or a query, a field that occurs once is a string, and one that is repeated a list
            of strings. Those of JSON are unchanged.
        files: Uploaded files by field.
        is_json: Whether they were sent as JSON.
    """

    values: Mapping[str, Any]
    files: Mapping[str, UploadedFile] = field(default_factory=dict)
    is_json: bool = False

    def as_model(self, schema: type[_Schema], max_texts: int | None = None) -> _Schema:
        """The fields checked against a model.

        Args:
            schema: The model.
            max_texts: Maximum number of texts in one request; None if the model has no field for texts.

        Raises:
            InvalidRequest: Fields are missing or wrong.
            LimitExceeded: The request has more texts.
        """
        return checked(schema, self.values, list(schema.model_fields), max_texts)


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
    return await _parsed(request, await BodyReader(request, max_body_bytes).read())


async def read_admitted_parameters(
    request: Request, max_body_bytes: int, scope: Scope, header_key: str | None, key_field: str
) -> tuple[str | None, Parameters]:
    """Admit the caller and read the parameters of its request.

    The key is in the header or a parameter. If callers need a key, at most :data:`KEYLESS_BYTES` of a body are read
    before it is checked.

    Args:
        request: The request; its body has not been read yet.
        max_body_bytes: The largest body accepted.
        scope: The scope that a key must have, if the service has keys.
        header_key: The key in the header, or None.
        key_field: The parameter with the key.

    Raises:
        ServiceError: The caller is refused (:func:`app.http.access.admit`), or the parameters cannot be read
            (:func:`read_parameters`).
    """
    if header_key is not None:
        admit(request, header_key, scope)
        return header_key, await read_parameters(request, max_body_bytes)
    accounts = accounts_of(request)
    needs_key = accounts is not None and accounts.needs_key
    body = BodyReader(request, max_body_bytes)
    beginning = await body.read(KEYLESS_BYTES if needs_key else sys.maxsize)
    if not body.is_complete:
        key = _key_in(await _fields_in(request, beginning), key_field)
        try:
            admit(request, key, scope)
        except KeyRequired:
            raise KeyBehindBody(KEYLESS_BYTES) from None
        return key, await _parsed(request, await body.read())
    try:
        parameters = await _parsed(request, beginning)
    except ServiceError:
        # A caller without a key does not learn what is wrong with the body.
        admit(request, _key_in(await _fields_in(request, beginning), key_field), scope)
        raise
    key = _key_in(parameters.values, key_field)
    admit(request, key, scope)
    return key, parameters


def _key_in(values: Mapping[str, Any], field: str) -> str | None:
    key = values.get(field)
    return key.strip() or None if isinstance(key, str) else None


async def _fields_in(request: Request, beginning: bytes) -> Mapping[str, Any]:
    """The parameters in the query and in the beginning of a body; a part that cannot be parsed has none."""
    query: Mapping[str, Any] = {}
    try:
        query = _from_pairs(_pairs(request.url.query.encode()))
        match _media_type(request):
            case "application/json":
                content = from_json(beginning, allow_partial=True)
                return {**query, **content} if isinstance(content, dict) else query
            case "application/x-www-form-urlencoded":
                return {**query, **_from_pairs(_pairs(beginning.rpartition(b"&")[0]))}
            case "multipart/form-data":
                form = await read_form(request, _once(beginning), _MAX_FIELDS, len(beginning), is_whole=False)
                return {**query, **_from_pairs(form.fields)}
    except (ValueError, MalformedBody, MalformedForm):
        return query
    return query


async def _parsed(request: Request, body: bytes) -> Parameters:
    query = _from_pairs(_pairs(request.url.query.encode()))
    if not body:
        return Parameters(query)
    match _media_type(request):
        case "application/json":
            content = parse_json(body)
            if not isinstance(content, dict):
                raise MalformedBody("The body must be a JSON object with fields.")
            return Parameters({**query, **content}, is_json=True)
        case "application/x-www-form-urlencoded":
            return Parameters({**query, **_from_pairs(_pairs(body))})
        case "multipart/form-data":
            try:
                form = await read_form(request, _once(body), _MAX_FIELDS, len(body))
            except MalformedForm as error:
                raise MalformedBody(str(error)) from None
            return Parameters({**query, **_from_pairs(form.fields)}, form.files)
    accepted = ["application/json", "application/x-www-form-urlencoded", "multipart/form-data"]
    raise UnsupportedMediaType(request.headers.get("content-type", "")[:LONGEST_VALUE_REPEATED], accepted)


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _pairs(encoded: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS)
    except UnicodeDecodeError:
        raise MalformedBody("The form is not valid percent-encoded UTF-8.") from None
    except ValueError:
        raise MalformedBody(f"The form has more than {_MAX_FIELDS} fields.") from None


def _from_pairs(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name, value in pairs:
        if name not in fields:
            fields[name] = value
        elif isinstance(fields[name], list):
            fields[name].append(value)
        else:
            fields[name] = [fields[name], value]
    return fields
