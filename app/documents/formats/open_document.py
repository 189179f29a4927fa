"""OpenDocument text (.odt): paragraphs and headings of the text, of tables, frames, notes, headers and footers."""

from __future__ import annotations

import re

from lxml import etree

from app.documents.formats.archives import MACROS_REFUSED
from app.documents.formats.office import OfficeFile
from app.documents.formats.xml_parts import MixedContent, local_name
from app.errors import DocumentRefused

_GROUPS = frozenset({"span", "a", "meta", "ruby", "ruby-base"})
_BREAKS = frozenset({"line-break", "tab"})
_KEPT = frozenset({"tracked-changes", "annotation"})
_HOLDING_PARAGRAPHS = frozenset({"note", "annotation", "frame", "custom-shape", "ruby-text"})


class OpenDocumentText(OfficeFile):
    """An OpenDocument text.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no OpenDocument text, or has macros.
    """

    parts = re.compile(r"content\.xml|styles\.xml")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        content = MixedContent(_GROUPS, _shown, _BREAKS)
        for root in self.roots():
            if next(root.iter("{urn:oasis:names:tc:opendocument:xmlns:office:1.0}script"), None) is not None:
                raise DocumentRefused(MACROS_REFUSED)
            for element in list(root.iter("{*}p", "{*}h")):
                if not any(local_name(around) in _KEPT for around in element.iterancestors()):
                    content.add(self, element)

    def check(self) -> None:
        """Refuse an archive that is no OpenDocument text."""
        self.archive.require("mimetype", b"application/vnd.oasis.opendocument.text")
        self.archive.require("content.xml")


def _shown(element: etree._Element) -> str:
    """The text of a field, such as a date or a page number, is a word of its sentence."""
    if local_name(element) in _HOLDING_PARAGRAPHS or len(element):
        return ""
    return (element.text or "")[:50] if isinstance(element.tag, str) else ""
