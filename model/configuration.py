"""Configuration classes: frozen dataclasses that pydantic validates, whose errors name key, value, bound and remedy.

The type of a field has its bounds, as the types below. Relations between fields are validators of the class, which
raise :class:`ValueError` with a whole sentence.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, Union, dataclass_transform, get_args, get_origin

import pydantic.dataclasses
from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from model.errors import ConfigError

Flag = Annotated[bool, Field(strict=True)]
"""True or false; not 1 or "yes"."""

Count = Annotated[int, Field(strict=True, ge=1)]
"""A whole number of at least 1; not 2.0, "2" or True."""

NonNegative = Annotated[int, Field(strict=True, ge=0)]
"""A whole number of at least 0."""

Share = Annotated[float, Field(strict=True, ge=0, le=1)]
"""A number from 0 to 1."""

Text = Annotated[str, Field(strict=True, min_length=1)]
"""A text that is not empty."""

_UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden", "invalid_key")
"""Types of pydantic's errors about a key that is not a field."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class Requirement:
    """Metadata of a field: what its value must be, if its type does not say.

    Args:
        text: The end of the sentence "it must be ...".
    """

    text: str


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def configuration(label: str) -> Callable[[type[_T]], type[_T]]:
    """Make a class a frozen dataclass that refuses unknown keys and values out of bounds.

    Its constructor, :func:`dataclasses.replace` and :func:`from_mapping` raise
    :class:`model.errors.ConfigError`; a message lists every fault.

    Args:
        label: The subject of sentences about its keys: ``The configuration``.
    """

    def decorate(kind: type[_T]) -> type[_T]:
        validated: Any = pydantic.dataclasses.dataclass(frozen=True, config=ConfigDict(extra="forbid"))(kind)
        validate = validated.__init__

        @functools.wraps(validate)
        def init(self: Any, *arguments: Any, **values: Any) -> None:
            try:
                validate(self, *arguments, **values)
            except ValidationError as error:
                raise ConfigError(_explain(validated, error)) from error

        validated.__init__ = init
        validated.__configuration_label__ = label
        return validated

    return decorate


def from_mapping(kind: type[_T], values: Mapping[Any, Any]) -> _T:
    """Build a configuration from keys and values of YAML or JSON, whose keys may be other than text.

    Raises:
        ConfigError: A key is unknown or missing, or a value is out of bounds.
    """
    unknown = [key for key in values if not isinstance(key, str)]
    if unknown:
        raise ConfigError(_unknown_key(kind.__configuration_label__, unknown[0], kind))  # type: ignore[attr-defined]
    return kind(**values)


def _explain(kind: type[Any], error: ValidationError) -> str:
    return " ".join(_sentence(kind, detail) for detail in error.errors(include_url=False))


def _sentence(kind: type[Any], detail: ErrorDetails) -> str:
    """One fault as a sentence."""
    location = detail["loc"]
    if detail["type"] == "missing" and isinstance(location[-1], int):  # the list is too short
        location = location[:-1]
        detail = {**detail, "type": "too_short"}
    if detail["type"] in (*_UNKNOWN_KEY, "missing"):
        path, owner = _resolve(kind, location[:-1])
        subject = path or kind.__configuration_label__
        if detail["type"] == "missing":
            return f"{subject} has no {location[-1]!r}, which it needs."
        return _unknown_key(subject, location[-1], owner)
    path, annotation = _resolve(kind, location)
    if detail["type"] == "value_error":  # from a validator of the class, a whole sentence
        text = str(detail["ctx"]["error"])
        return f"{path}: {text}" if path else text
    value = detail["input"]
    return f"{path} is {value!r}; it must be {requirement(annotation)}{_hint(annotation, value)}."


def _unknown_key(subject: str, key: Any, owner: Any) -> str:
    return f"{subject} has the unknown key {key!r}; it can have {', '.join(_fields(owner))}."


def _resolve(kind: Any, location: Sequence[int | str]) -> tuple[str, Any]:
    """The name of a value, such as ``train[0].path``, and its type.

    Args:
        kind: The configuration.
        location: The value's location, as pydantic gives it.
    """
    path, annotation = "", kind
    for step in location:
        base, _ = _unwrap(annotation)
        if isinstance(step, int):
            path += f"[{step}]"
            items = [item for item in get_args(base) if item is not ...]
            annotation = items[min(step, len(items) - 1)] if items else Any
        elif step in _fields(base):
            path += f".{step}" if path else step
            info = _fields(base)[step]
            annotation = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    return path, annotation


def _fields(annotation: Any) -> dict[str, FieldInfo]:
    base, _ = _unwrap(annotation)
    fields: dict[str, FieldInfo] = getattr(base, "__pydantic_fields__", {})
    return fields


def _unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """A type without ``Annotated`` and ``None``, and its metadata, including that of nested field descriptions."""
    metadata: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *items = get_args(annotation)
            for item in items:
                metadata += item.metadata if isinstance(item, FieldInfo) else [item]
        elif get_origin(annotation) in (Union, types.UnionType):  # of a type and None
            annotation = next(member for member in get_args(annotation) if member is not type(None))
        else:
            return annotation, metadata


def requirement(annotation: Any) -> str:
    """What a value of a type must be: ``a whole number of at least 1``.

    Args:
        annotation: The type, with its bounds as metadata.
    """
    base, metadata = _unwrap(annotation)
    for item in metadata:
        if isinstance(item, Requirement):
            return item.text
    if get_origin(base) is Literal:
        *first, last = map(repr, get_args(base))
        return f"{', '.join(first)} or {last}" if first else last
    if base is str:
        return "text that is not empty" if any(isinstance(item, MinLen) for item in metadata) else "text"
    names = {bool: "true or false", int: "a whole number", float: "a number", tuple: "a list"}
    return names.get(get_origin(base) or base, "a mapping of keys to values") + _bounds(metadata)


def _bounds(metadata: Sequence[Any]) -> str:
    low = next((item for item in metadata if isinstance(item, (Ge, Gt))), None)
    high = next((item for item in metadata if isinstance(item, (Le, Lt))), None)
    if isinstance(low, Ge) and isinstance(high, Le):
        return f" from {low.ge} to {high.le}"
    text = ""
    if low is not None:
        text += f" of at least {low.ge}" if isinstance(low, Ge) else f" above {low.gt}"
    if high is not None:
        text += " and" if low is not None else " of" if isinstance(high, Le) else ""
        text += f" at most {high.le}" if isinstance(high, Le) else f" below {high.lt}"
    return text


def _hint(annotation: Any, value: Any) -> str:
    if isinstance(value, str) and _unwrap(annotation)[0] in (int, float):
        return " (not text; YAML takes 1e-3 for text, so write 1.0e-3)"
    return ""
