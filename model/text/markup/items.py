"""The items of a document with markup: what its text, its tags and everything else are to a translation."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

MAX_SHOWN = 100
"""Characters of the longest content that is shown to the model without being translated."""

OBJECT = "\ufffc"
"""The character that stands for content without a text, or with one that is too long to be shown."""


class Role(Enum):
    """What an item is to the text around it."""

    TEXT = auto()
    """Text to translate."""
    OPENING = auto()
    """The opening tag of an inline element."""
    CLOSING = auto()
    """The closing tag of an inline element."""
    POINT = auto()
    """Something inline without text that is translated or shown: an image, a comment."""
    BREAK = auto()
    """Something inline that separates words, such as a line break."""
    CONTENT = auto()
    """An inline element that belongs to the sentence and is not translated: code, or a placeholder."""
    BOUNDARY = auto()
    """What separates two texts: a tag of a block element, or a block that is not translated."""


class Attribute(NamedTuple):
    """A value of an attribute that is translated.

    Args:
        start: Index of the value in its item's source, quotation marks included.
        end: Index after it.
        text: The value, decoded.
    """

    start: int
    end: int
    text: str


class Item(NamedTuple):
    """A piece of a document. The sources of all items in order are the document.

    Args:
        role: What it is to the text around it.
        source: Its source, verbatim.
        text: For TEXT the decoded text, for CONTENT the text shown or OBJECT, for BREAK the whitespace it stands for.
        name: The name of the element, if it is a tag.
        attributes: Values of attributes that are translated.
        is_reference: Whether a TEXT is a character reference such as ``&nbsp;``.
        keeps_space: Whether the line breaks of a TEXT are part of it.
    """

    role: Role
    source: str
    text: str = ""
    name: str = ""
    attributes: tuple[Attribute, ...] = ()
    is_reference: bool = False
    keeps_space: bool = False
