"""Documents as items, by format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from model.text.markup.items import Item

MarkupFormat = Literal["html", "xml"]


def items_of(document: str, format: MarkupFormat, ignore_tags: Iterable[str]) -> list[Item]:
    """The items of a document.

    Args:
        document: The document.
        format: What it is written in.
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
