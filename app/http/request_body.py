"""Reads the JSON body of a request, and describes errors of the body and its fields."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request

from app.errors import (
    MAX_PROBLEMS,
    BodyTooLarge,
    FieldProblem,
    InvalidRequest,
    MalformedBody,
    UnsupportedMediaType,
)
from app.http.schemas.fields import MAX_TEXTS, without_most_unknown

_Schema = TypeVar("_Schema", bound=BaseModel)

LONGEST_VALUE_REPEATED = 100
"""Maximum characters of a refused value that an answer repeats; longer values, such as texts, are omitted."""

_UNIONS = frozenset({"text", "protect", "glossary"})
"""Fields of several types; the path of their errors includes the type."""

_LIBRETRANSLATE = "clients of LibreTranslate use the address /libretranslate, or the setting VERSO_COMPAT"
"""A hint for requests in that protocol."""

_FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

_LANGUAGE_FIELDS = frozenset({"source", "target"})


async def read_json(request: Request, max_body_bytes: int) -> dict[str, Any]:
    """Read and parse the body of a request.

    Args:
        request: The request; its body has not been read yet.
        max_body_bytes: The largest body accepted.

    Returns:
        The JSON object.

    Raises:
        UnsupportedMediaType: It is not declared as JSON.
        BodyTooLarge: It has more bytes than accepted; no more than that many are kept in memory.
        MalformedBody: It is not JSON, or not a JSON object.
    """
    _require_json(request)
    content = parse_json(await read_body(request, max_body_bytes))
    if not isinstance(content, dict):
        raise MalformedBody(f"The body must be a JSON object with fields; it is {_json_type(content)}.")
    return content


def _require_json(request: Request) -> None:
    headers = request.headers
    _check_declared(headers.get("content-type", ""), headers.get("content-encoding", ""))


@lru_cache(maxsize=64)  # clients send the same few headers again and again
def _check_declared(declared: str, encoding: str) -> None:
    media_type, _, parameters = declared.partition(";")
    charset = parameters.lower().replace(" ", "").replace('"', "").partition("charset=")[2]
    if media_type.strip().lower() != "application/json" or charset not in ("", "utf-8", "utf8", "us-ascii"):
        hint = _LIBRETRANSLATE if media_type.strip().lower() in _FORMS else ""
        raise UnsupportedMediaType(declared[:LONGEST_VALUE_REPEATED], ["application/json"], hint)
    encoding = encoding.strip().lower()
    if encoding not in ("", "identity"):
        raise UnsupportedMediaType(f"content-encoding {encoding[:LONGEST_VALUE_REPEATED]}", ["application/json"])


async def read_body(request: Request, max_body_bytes: int) -> bytes:
    """Read the body of a request.

    Args:
        request: The request; its body has not been read yet.
        max_body_bytes: The largest body accepted.

    Raises:
        BodyTooLarge: It has more bytes than accepted; no more than that many are kept in memory.
    """
    return await BodyReader(request, max_body_bytes).read()


class BodyReader:
    """Reads the body of a request, optionally its beginning first.

    Args:
        request: The request; its body has not been read yet.
        max_body_bytes: The largest body accepted.

    Raises:
        BodyTooLarge: Its declared length is larger.
    """

    def __init__(self, request: Request, max_body_bytes: int) -> None:
        # The server has checked that the header is a number; a wrong or absent one is caught by counting the bytes.
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > max_body_bytes:
            raise BodyTooLarge(max_body_bytes)
        self.is_complete = False
        """Whether all of it has been read, and it has no more bytes than were enough."""
        self._bound = max_body_bytes
        # Starlette's stream() takes several times as long for a body that comes in one piece.
        self._receive = request.receive
        self._has_ended = False
        self._body = bytearray()

    async def read(self, enough_bytes: int = sys.maxsize) -> bytes:
        """All that has been read.

        Args:
            enough_bytes: Reading stops when the body has more.

        Raises:
            BodyTooLarge: It has more bytes than accepted; no more than that many are kept in memory.
            ClientDisconnect: The client disconnected before the end.
        """
        while not self._has_ended and len(self._body) <= enough_bytes:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk = message.get("body", b"")
            if len(self._body) + len(chunk) > self._bound:
                raise BodyTooLarge(self._bound)
            self._body += chunk
            self._has_ended = not message.get("more_body", False)
        self.is_complete = self._has_ended and len(self._body) <= enough_bytes
        return bytes(self._body)


def parse_json(body: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no NaN or Infinity, no lone surrogates, bounded depth and numbers.

    Args:
        body: The bytes.

    Returns:
        The value.

    Raises:
        MalformedBody: The bytes are not valid JSON; the message has the position.
    """
    if not body:
        raise MalformedBody("The body is empty; send a JSON object.")
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        reason = str(error)
    if "hex escape" in reason or "surrogate" in reason:
        reason += "; write a character beyond U+FFFF as a complete surrogate pair, or as itself"
    raise MalformedBody(f"The body is not valid JSON: {reason}.")


def checked(
    schema: type[_Schema], values: Mapping[str, Any], field_names: Sequence[str], max_texts: int | None = None
) -> _Schema:
    """The fields of a request, validated against a model.

    Args:
        schema: The model.
        values: The fields.
        field_names: Names that are suggested for a misspelt one.
        max_texts: Most texts in one request; None if the model has no field for texts.

    Raises:
        InvalidRequest: Fields are missing, unknown or invalid.
        LimitExceeded: There are more texts.
    """
    try:
        return schema.model_validate(without_most_unknown(values, schema), context={MAX_TEXTS: max_texts})
    except ValidationError as error:
        errors = [{**each, "loc": ("body", *each["loc"])} for each in error.errors(include_url=False)[:MAX_PROBLEMS]]
    # Raised outside the except block: the cause would quote what was sent.
    raise InvalidRequest(field_problems(errors, field_names))


def field_problems(errors: Sequence[Mapping[str, Any]], field_names: Sequence[str]) -> list[FieldProblem]:
    """The problems of fields, at most one per field.

    Args:
        errors: The validation errors of pydantic; ``loc`` begins with where the fields were sent, such as ``body``.
        field_names: Names that are suggested for a misspelt one.
    """
    problems: dict[str, FieldProblem] = {}
    suggests = True  # looking for a close name takes longer than everything else here
    for error in errors[:MAX_PROBLEMS]:
        path = _path_of(error["loc"])
        message, bound = _describe(error, path, field_names if suggests else ())
        suggests = suggests and error["type"] != "extra_forbidden"
        path = path[:LONGEST_VALUE_REPEATED]
        problems.setdefault(path, FieldProblem(path, message, _repeatable(error), bound))
    return list(problems.values())


def _path_of(loc: Sequence[int | str]) -> str:
    """The field as a client would write it: list indices in brackets, without the branch of a union.

    The first part of ``loc`` is where the field was sent, such as ``body``.
    """
    has_branch = loc[1] in _UNIONS and len(loc) > 2 and isinstance(loc[2], str)
    inner = loc[3:] if has_branch else loc[2:]
    return str(loc[1]) + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in inner)


def _describe(error: Mapping[str, Any], path: str, field_names: Sequence[str]) -> tuple[str, Any]:
    """The problem of a field, and the bound that it exceeds or None. Without names none is suggested."""
    context = error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            if not field_names:
                return "unknown field", None
            if path == "q":
                return f"unknown field; {_LIBRETRANSLATE}", None
            close = get_close_matches(path, field_names, n=1) if len(path) <= LONGEST_VALUE_REPEATED else []
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(field_names)}"
            return f"unknown field; {hint}", None
        case "missing":
            return "is required", None
        case "greater_than_equal":
            return f"must be at least {context['ge']}", context["ge"]
        case "less_than_equal":
            return f"must be at most {context['le']}", context["le"]
        case "literal_error":
            return f"must be {context['expected']}", context["expected"]
        case "too_short":
            return f"must have at least {context['min_length']} values", context["min_length"]
        case "too_long":
            return f"must have at most {context['max_length']} values", context["max_length"]
        case "string_pattern_mismatch" | "string_too_short" | "string_too_long" if path in _LANGUAGE_FIELDS:
            also_auto = ", or auto" if path == "source" else ""
            return f"must be a language code such as en, de or en-US{also_auto}", None
        case "string_too_short":
            return f"must be {context['min_length']} or more characters long", context["min_length"]
        case "string_too_long":
            return f"must be at most {context['max_length']} characters long", context["max_length"]
        case "string_type":
            return "must be a string", None
        case "list_type":
            return "must be a list", None
        case "int_type" | "int_parsing_size":
            return "must be a whole number", None
        case "float_type":
            return "must be a number", None
        case "bool_type":
            return "must be true or false", None
        case _:
            return error["msg"], None


def _repeatable(error: Mapping[str, Any]) -> Any:
    """The refused value, if it is a short scalar."""
    value = error["input"]
    if error["type"] in ("missing", "nul_character"):
        return None
    if isinstance(value, str):
        return value if len(value) <= LONGEST_VALUE_REPEATED else None
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 10**15 else None
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    return None


def _json_type(value: Any) -> str:
    """The type of a JSON value, in words."""
    if value is None:
        return "null"
    names = {bool: "a boolean", str: "a string", list: "a list", int: "a number", float: "a number"}
    return names[type(value)]
