"""Types of the fields of requests, and their validators."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError, PydanticKnownError

from app.errors import MAX_PROBLEMS, LimitExceeded
from model.process.files import is_digest
from model.text.protection import MAX_PATTERN_CHARACTERS
from model.translation.options import MAX_TERM_CHARACTERS

MAX_TEXTS = "max_texts"
"""Key in the context of a validation: the maximum number of texts in one request."""


def measured(max_length: int) -> BeforeValidator:
    """A validator that checks the length of a list before its elements: an error for each takes time and memory.

    Args:
        max_length: Maximum number of elements.
    """

    def measure(values: Any) -> Any:
        if isinstance(values, list | tuple) and len(values) > max_length:
            raise PydanticKnownError(
                "too_long", {"field_type": "List", "max_length": max_length, "actual_length": len(values)}
            )
        return values

    return BeforeValidator(measure)


def measured_texts(texts: Any, info: ValidationInfo) -> Any:
    """Check the length of a list of texts, and cut it after the last invalid text that an answer would report.

    Args:
        texts: The list; any other value is returned unchanged.
        info: Its context has the maximum length under :data:`MAX_TEXTS`.

    Raises:
        LimitExceeded: The list is too long.
    """
    if not isinstance(texts, list):
        return texts
    bound = (info.context or {}).get(MAX_TEXTS)
    if bound is not None and len(texts) > bound:
        raise LimitExceeded("text", len(texts), bound, "texts in one request")
    invalid = (number for number, text in enumerate(texts) if not isinstance(text, str) or "\0" in text)
    last = next(islice(invalid, MAX_PROBLEMS - 1, None), None)
    return texts if last is None else texts[: last + 1]


def without_most_unknown(values: Mapping[str, Any], schema: type[BaseModel]) -> dict[str, Any]:
    """Drop all but the first unknown fields, because an error for each takes time and memory.

    Args:
        values: The fields of a request.
        schema: The model that declares the valid names.
    """
    declared = schema.model_fields
    if len(values) <= len(declared) + MAX_PROBLEMS:
        return dict(values)
    unknown = islice((name for name in values if name not in declared), MAX_PROBLEMS)
    return {name: values[name] for name in (*declared, *unknown) if name in values}


def without_nul(text: str) -> str:
    """Refuse a text with the NUL character."""
    position = text.find("\0")
    if position >= 0:
        raise PydanticCustomError("nul_character", "contains the NUL character at {position}", {"position": position})
    return text


def without_outer_space(text: str) -> str:
    """Refuse a text with leading or trailing whitespace."""
    if text != text.strip():
        raise PydanticCustomError("outer_space", "has leading or trailing whitespace; remove it")
    return without_nul(text)


def checked_digest(value: str) -> str:
    """Refuse a value that is not a SHA-256 digest."""
    if not is_digest(value):
        raise PydanticCustomError("digest", "must be 64 hexadecimal digits")
    return value


def _trimmed(text: str) -> str:
    if text != text.strip() or len(text.splitlines()) > 1:
        raise PydanticCustomError("whitespace", "must have no leading or trailing whitespace and no line break")
    return without_nul(text)


Text = Annotated[str, AfterValidator(without_nul)]
"""A text to translate: any Unicode except the NUL character."""

MAX_LANGUAGE_CHARACTERS = 35

LANGUAGE_PATTERN = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$"

Language = Annotated[str, Field(min_length=2, max_length=MAX_LANGUAGE_CHARACTERS, pattern=LANGUAGE_PATTERN)]
"""A language code such as ``en``, ``EN`` or ``en-US``; the loaded models decide which codes are served."""

Source = Annotated[
    str, Field(min_length=2, max_length=35, pattern=r"^([Aa][Uu][Tt][Oo]|[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*)$")
]
"""A language code, or ``auto``."""

Term = Annotated[str, Field(min_length=1, max_length=MAX_TERM_CHARACTERS), AfterValidator(_trimmed)]
"""The source or the target of a glossary term."""

TagName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s<>/\"'=]+$")]
"""The name of an element."""

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS), AfterValidator(without_nul)]
"""A regular expression."""


class RequestBody(BaseModel):
    """The base of request bodies: an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class PartOfBody(RequestBody):
    """The base of objects inside a request body."""

    @model_validator(mode="before")
    @classmethod
    def _without_most_unknown(cls, values: Any) -> Any:
        return without_most_unknown(values, cls) if isinstance(values, dict) else values
