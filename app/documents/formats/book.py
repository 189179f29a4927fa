"""Electronic books (.epub): the pages go through the text pipeline as HTML, and the old table of contents is filled."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from lxml import etree

from app.documents.formats.archives import Archive
from app.documents.formats.document_file import DocumentFile, TextFile, Unit, unescaped
from app.documents.formats.encodings import XML
from app.documents.formats.web_page import WebPage
from app.documents.formats.xml_parts import ElementBudget, parsed
from app.errors import DocumentRefused

_CONTAINER = "META-INF/container.xml"
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_CONTENTS_TYPE = "application/x-dtbncx+xml"
_TYPES_BY_SUFFIX = {".xhtml": "text/html", ".html": "text/html", ".htm": "text/html", ".ncx": _CONTENTS_TYPE}
_ENTRY = re.compile(r"<((?:[\w.-]+:)?text)(?:\s[^<>]*)?>([^<]+)</\1\s*>")
_VOID = "area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr"
_EMPTY_ELEMENT = re.compile(
    rf"<(?!(?:{_VOID})\b)(?P<name>[A-Za-z][\w:.-]*)(?P<attributes>(?:\s+[\w:.-]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/>"
)


class XhtmlPage(WebPage):
    """A page of a book. In HTML ``<a id="x"/>`` has no end, so such elements get an end tag.

    Args:
        data: The page.

    Raises:
        DocumentRefused: It is no text.
    """

    def prepared(self, text: str) -> str:
        """The page with end tags."""
        return _EMPTY_ELEMENT.sub(r"<\g<name>\g<attributes>></\g<name>>", text)


class ContentsPage(TextFile):
    """The table of contents of an older book (.ncx).

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    declaration = XML

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for entry in _ENTRY.finditer(self.text):
            self.add(Unit(unescaped(entry[2])), partial(self._put, *entry.span(2)))

    def _put(self, start: int, end: int, translation: str) -> None:
        self.replace(start, end, html.escape(translation, quote=False))


class Book(DocumentFile):
    """An electronic book.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no book.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data
        self.archive = Archive(data)
        self.archive.require("mimetype", b"application/epub+zip")
        self.archive.require(_CONTAINER)
        self.pages: dict[str, TextFile] = {}
        media_types = dict(self._manifest()) or {
            name: _TYPES_BY_SUFFIX.get(posixpath.splitext(name.lower())[1], "") for name in self.archive.names
        }
        for name in self.archive.names:
            if media_types.get(name) in _PAGE_TYPES:
                page: TextFile = XhtmlPage(self.archive[name])
            elif media_types.get(name) == _CONTENTS_TYPE:
                page = ContentsPage(self.archive[name])
            else:
                continue
            self.pages[name] = page
            self.include(page)  # before the next one is read: there may be too many paragraphs already

    def _manifest(self) -> Iterator[tuple[str, str]]:
        """The parts of the book and their media types, by its package documents; none if these cannot be read."""
        budget = ElementBudget()
        for root_file in self._elements(_CONTAINER, "rootfile", budget):
            package = root_file.get("full-path", "")
            for item in self._elements(package, "item", budget):
                path = posixpath.join("/", posixpath.dirname(package), unquote(item.get("href", "")))
                yield posixpath.normpath(path).lstrip("/"), item.get("media-type", "").lower().strip()

    def _elements(self, name: str, element: str, budget: ElementBudget) -> Iterator[etree._Element]:
        """The elements of a name in a part of the archive, if that is XML."""
        if name in self.archive:
            try:
                root = parsed(self.archive[name], budget).getroot()
            except DocumentRefused:
                return
            yield from root.iter(f"{{*}}{element}")

    def to_bytes(self, target: str) -> bytes:
        """The book with its translated pages."""
        changed = {name: page.to_bytes(target) for name, page in self.pages.items() if page.is_changed}
        return self.archive.with_parts(changed) if changed else self._data
