"""Reads and validates the parameters of requests, with LibreTranslate's messages."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, unquote_plus

from app.errors import InvalidParameter
from app.http.compat.parameters import Parameters
from app.http.request_body import LONGEST_VALUE_REPEATED
from app.settings import Settings

Form = Literal["text", "list", "encoded list"]
"""How the texts were sent; an ``encoded list`` is percent-encoded JSON."""


@dataclass(frozen=True)
class TextsRequest:
    """The parameters of ``/translate``.

    Args:
        texts: The texts.
        form: How they were sent; their translations are answered in the same form.
        source: The source as sent.
        target: The target as sent.
        format: The format of the texts.
        num_alternatives: Maximum number of alternatives for each text.
    """

    texts: list[str]
    form: Form
    source: str
    target: str
    format: Literal["text", "html"]
    num_alternatives: int

    @property
    def num_characters(self) -> int:
        """Characters of all texts."""
        return sum(map(len, self.texts))

    def in_form(self, translations: list[str]) -> str | list[str]:
        """The translations in the form of the texts."""
        match self.form:
            case "text":
                return translations[0]
            case "list":
                return translations
            case "encoded list":
                return quote(json.dumps(translations, ensure_ascii=False))


def read_translate(parameters: Parameters, settings: Settings) -> TextsRequest:
    """The parameters of ``/translate``.

    Args:
        parameters: The fields sent.
        settings: The bounds of a request.

    Raises:
        InvalidParameter: A field is missing, wrong or out of bounds.
    """
    texts, form = read_texts(parameters, settings)
    source, target = read_string(parameters, "source"), read_string(parameters, "target")
    num_alternatives = _num_alternatives(parameters.values.get("alternatives"), settings.max_hypotheses - 1)
    check_lengths(texts, settings)
    text_format = _format(parameters.values.get("format"))
    return TextsRequest(texts, form, source, target, text_format, num_alternatives)


def read_texts(parameters: Parameters, settings: Settings) -> tuple[list[str], Form]:
    """The texts in ``q``, and how they were sent.

    Args:
        parameters: The fields sent.
        settings: The bounds of a request.

    Raises:
        InvalidParameter: There are none or too many, or they are not texts.
    """
    q = parameters.values.get("q")
    if not q:
        raise InvalidParameter(missing("q"))
    texts = q if isinstance(q, list) else [q]
    _check_size(len(texts), settings.max_texts)
    if not all(isinstance(text, str) for text in texts):
        raise InvalidParameter("Invalid request: q parameter is not a string or a list of strings")
    form: Form = "list" if isinstance(q, list) else "text"
    if not parameters.is_json:
        decoded = _decoded_list(q) if isinstance(q, str) else None
        if decoded is not None:
            texts, form = decoded, "encoded list"
        # Forms write line breaks as CR LF.
        texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    if any("\0" in text for text in texts):
        raise InvalidParameter("Invalid request: q parameter contains the NUL character")
    return texts, form


def read_string(parameters: Parameters, name: str) -> str:
    """A field that is required.

    Raises:
        InvalidParameter: It is missing or not a string.
    """
    value = parameters.values.get(name)
    if not value:
        raise InvalidParameter(missing(name))
    if not isinstance(value, str):
        raise InvalidParameter(f"Invalid request: {name} parameter is not a string")
    return value


def check_lengths(texts: list[str], settings: Settings) -> None:
    """Refuse too many texts, or one that is too long.

    Raises:
        InvalidParameter: A bound is exceeded; the message has the number and the bound.
    """
    _check_size(len(texts), settings.max_texts)
    for text in texts:
        _check_size(len(text), settings.max_text_characters)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise InvalidParameter(f"Invalid request: request ({size}) exceeds text limit ({limit})")


def not_supported(code: str) -> InvalidParameter:
    """The error for a language that is not loaded.

    Args:
        code: The language as sent.
    """
    return InvalidParameter(f"{_repeated(code)} is not supported")


def _decoded_list(q: str) -> list[str] | None:
    """The texts of a list that a client of Nextcloud encodes as JSON and percent-encodes; None for any other text."""
    if q[:3].upper() != "%5B" or q[-3:].upper() != "%5D":
        return None
    try:
        texts = json.loads(unquote_plus(q, errors="strict"))
        texts = [text.encode().decode() for text in texts]  # refuses lone surrogates
    except (ValueError, AttributeError, RecursionError):
        return None
    return texts or None


def _format(value: Any) -> Literal["text", "html"]:
    match value or "text":
        case "text":
            return "text"
        case "html":
            return "html"
    raise InvalidParameter(f"{_repeated(value)} format is not supported")


def _num_alternatives(value: Any, limit: int) -> int:
    if value is None or value == "":
        return 0
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,9}", value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidParameter("Invalid request: alternatives parameter is not a number")
    if value > limit:
        raise InvalidParameter(f"Invalid request: alternatives parameter must be <= {limit}")
    return max(0, value)


def missing(name: str) -> str:
    """The message for a required field that is missing.

    Args:
        name: The field.
    """
    return f"Invalid request: missing {name} parameter"


def _repeated(value: object) -> str:
    """A refused value, shortened for a message."""
    return str(value)[:LONGEST_VALUE_REPEATED]
