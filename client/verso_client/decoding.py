"""Converts JSON values to dataclasses by the types of their fields."""

from __future__ import annotations

import dataclasses
import types
import typing
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


class Unexpected(Exception):
    """A JSON value does not match its dataclass; the message has its path."""


def decode(kind: type[T], value: object) -> T:
    """Convert a JSON object to a dataclass.

    Keys without a field are ignored, so that answers of later versions of the service can be read.

    Args:
        kind: A dataclass. Its fields are of simple types, dataclasses, tuples, dicts, ``Any`` or unions of these. Of
            several dataclasses in a union, the first one whose required fields are all present is used.
        value: The parsed JSON.

    Raises:
        Unexpected: A field is missing or of another type.
    """
    return typing.cast(T, _decode(kind, value, ""))


def _decode(kind: Any, value: object, path: str) -> Any:
    if kind is Any:
        return value
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _decode(_member(arguments, value), value, path)
    if origin is tuple:
        return _tuple(arguments, value, path)
    if origin is dict:
        return {key: _decode(arguments[1], item, f"{path}.{key}") for key, item in _dict(value, path).items()}
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, _dict(value, path), path)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise Unexpected(f"{path or 'the answer'} is {_shown(value)} and should be {kind.__name__}")
    return value


def _member(members: tuple[Any, ...], value: object) -> Any:
    """The member of a union to which a value is converted."""
    if value is None and types.NoneType in members:
        return types.NoneType
    others = [member for member in members if member is not types.NoneType]
    matches = (member for member in others if isinstance(value, dict) and _required(member) <= value.keys())
    return next(matches, others[0])


@cache
def _required(kind: Any) -> frozenset[str]:
    """Names of the fields of a dataclass that have no default; none for other types."""
    if not dataclasses.is_dataclass(kind):
        return frozenset()
    return frozenset(
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )


_types_of_fields = cache(typing.get_type_hints)


def _dataclass(kind: Any, value: dict[str, Any], path: str) -> Any:
    missing = _required(kind) - value.keys()
    if missing:
        raise Unexpected(f"{path or 'the answer'} lacks {', '.join(sorted(missing))}")
    field_types = _types_of_fields(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.name in value]
    return kind(**{name: _decode(field_types[name], value[name], f"{path}.{name}" if path else name) for name in names})


def _tuple(arguments: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise Unexpected(f"{path or 'the answer'} is {_shown(value)} and should be a list")
    first = arguments[0]
    if arguments[1:] == (...,) and all(type(item) is first for item in value):
        return tuple(value)  # fast, because an attention matrix has many numbers
    kinds = [first] * len(value) if arguments[1:] == (...,) else list(arguments)
    if len(kinds) != len(value):
        raise Unexpected(f"{path or 'the answer'} has {len(value)} elements and should have {len(kinds)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(_decode(kind, item, f"{path}[{index}]") for index, (kind, item) in pairs)


def _dict(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unexpected(f"{path or 'the answer'} is {_shown(value)} and should be an object")
    return value


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 50 else f"{text[:50]}..."
