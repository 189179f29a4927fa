"""The items of a document with markup: text, tags and everything else, each with its role in a translation."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from typing import Literal, NamedTuple

MarkupFormat = Literal["html", "xml"]

MAX_SHOWN = 100
"""The most characters of untranslated content that the model reads."""

OBJECT = "\ufffc"
"""The character that replaces content without text, or with text that is too long for the model."""


class Role(Enum):
    """The role of an item for the text around it."""

    TEXT = auto()
    """Text to translate."""
    OPENING = auto()
    """The opening tag of an inline element."""
    CLOSING = auto()
    """The closing tag of an inline element."""
    POINT = auto()
    """Inline source without text that the model reads: an image, a comment."""
    BREAK = auto()
    """Inline source that separates words, such as a line break."""
    CONTENT = auto()
    """An inline element that belongs to the sentence and is not translated: code, or a placeholder."""
    BOUNDARY = auto()
    """A separator of texts: a tag of a block element, or a block that is not translated."""


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
        role: Its role for the text around it.
        source: Its source, verbatim.
        text: For TEXT the decoded text, for CONTENT the text that the model reads or OBJECT, for BREAK the whitespace
            that replaces it.
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


def items_of(document: str, format: MarkupFormat, ignore_tags: Iterable[str]) -> list[Item]:
    """The items of a document.

    Args:
        document: The document.
        format: Its format.
        ignore_tags: Names of elements that are not translated.

    Raises:
        InvalidMarkup: XML that is not well-formed or declares entities.
    """
    # Imported here: the HTML parser takes 40 ms and 4 MB, which plain text does not need.
    if format == "html":
        from model.text.markup.html_items import html_items

        return html_items(document, ignore_tags)
    from model.text.markup.xml_items import xml_items

    return xml_items(document, ignore_tags)
