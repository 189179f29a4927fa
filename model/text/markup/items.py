"""The items of a document with markup: text, tags and everything else, each with its role in a translation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal, NamedTuple

MarkupFormat = Literal["html", "xml"]

Syntax = Literal["html", "xml", "loose"]
"""How a document is read: ``loose`` is XML that is not well-formed, read by HTML's rules."""

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


@dataclass(frozen=True)
class ElementRules:
    """Which elements are translated, and which separate texts, in addition to the rules of the format.

    Args:
        ignored: Names of elements that are not translated.
        splitting: Names of elements that separate texts.
        inline: Names of elements that never do.
        outline: Whether elements of XML separate texts by their position, or only those of ``splitting``.
        language: The language of the document; text that is marked as another language is not translated.
        is_lenient: Whether XML that is not well-formed is read by HTML's rules.
    """

    ignored: tuple[str, ...] = ()
    splitting: tuple[str, ...] = ()
    inline: tuple[str, ...] = ()
    outline: bool = True
    language: str = ""
    is_lenient: bool = False


NO_RULES = ElementRules()


class Attribute(NamedTuple):
    """A value of an attribute that is translated, or a text that is not part of the sentence around its item.

    Args:
        start: Index of the value in its item's source, quotation marks included.
        end: Index after it.
        text: The value, decoded.
        is_text: Whether it is a text, without quotation marks.
    """

    start: int
    end: int
    text: str
    is_text: bool = False


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
        keeps_space: Whether the line breaks of a TEXT of HTML are part of it, as in a text field.
    """

    role: Role
    source: str
    text: str = ""
    name: str = ""
    attributes: tuple[Attribute, ...] = ()
    is_reference: bool = False
    keeps_space: bool = False


def items_of(document: str, syntax: Syntax, rules: ElementRules = NO_RULES) -> list[Item]:
    """The items of a document.

    Args:
        document: The document.
        syntax: How it is read.
        rules: Which elements are translated.

    Raises:
        InvalidMarkup: XML that is not well-formed or declares entities.
    """
    # Imported here: the HTML parser takes 40 ms and 4 MB, which plain text does not need.
    if syntax != "xml":
        from model.text.markup.html_items import html_items

        return html_items(document, rules, is_xml=syntax == "loose")
    from model.text.markup.xml_items import xml_items

    return xml_items(document, rules)
