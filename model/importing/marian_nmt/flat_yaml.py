"""Marian's YAML files: one mapping from names to values or lists of values, all read as text.

Read as events of the parser and not as objects: nothing is constructed, no reference is followed, and the depth of a
file does not matter. Words such as ``no`` and ``1e5`` are pieces of vocabularies and stay text.
"""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from yaml import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, SequenceStartEvent

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
"""The parser in C, where PyYAML was built with it."""

_MAX_DEPTH = 8

Value = str | list[str]


def read_flat_yaml(text: str | bytes) -> Iterator[tuple[str, Value]]:
    """The entries of a file in order. Nested mappings and lists of lists are left out.

    Args:
        text: The file.

    Raises:
        ValueError: It is not YAML, has a reference, or is not one mapping.
    """
    try:
        # The first events begin the stream and the document.
        events = (event for event in yaml.parse(text, Loader=_LOADER) if not isinstance(event, _OUTSIDE))
        if not isinstance(next(events, None), MappingStartEvent):
            raise ValueError("it is not a mapping")
        yield from _entries(events)
        if next(events, None) is not None:
            raise ValueError("it has more than one document")
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(" ".join(str(error).split())[:200]) from error


_OUTSIDE = (yaml.StreamStartEvent, yaml.StreamEndEvent, yaml.DocumentStartEvent, yaml.DocumentEndEvent)


def _entries(events: Iterator[yaml.Event]) -> Iterator[tuple[str, Value]]:
    for key in events:
        if isinstance(key, MappingEndEvent):
            return
        if not isinstance(key, ScalarEvent):
            raise ValueError("a key is not text")
        value = next(events)
        if isinstance(value, ScalarEvent):
            yield key.value, value.value
        elif isinstance(value, SequenceStartEvent):
            items = _list(events)
            if items is not None:
                yield key.value, items
        elif isinstance(value, MappingStartEvent):
            _skip(events)
        else:
            raise ValueError(f"{key.value[:60]!r} is a reference")


def _list(events: Iterator[yaml.Event]) -> list[str] | None:
    """The texts of a list whose start was read; None if it has anything but texts."""
    items: list[str] = []
    for event in events:
        if isinstance(event, SequenceEndEvent):
            return items
        if not isinstance(event, ScalarEvent):
            _skip(events, 1 if isinstance(event, AliasEvent) else 2)
            return None
        items.append(event.value)
    raise ValueError("it ends in a list")


def _skip(events: Iterator[yaml.Event], depth: int = 1) -> None:
    """Skip to the end of nested values.

    Args:
        events: The events after their starts.
        depth: Number of values that began.

    Raises:
        ValueError: They are nested more than :data:`_MAX_DEPTH` deep; the parser takes quadratic time for these.
    """
    for event in events:
        if isinstance(event, MappingStartEvent | SequenceStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise ValueError(f"its values are nested more than {_MAX_DEPTH} deep")
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            depth -= 1
            if depth == 0:
                return
