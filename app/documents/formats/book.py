"""Electronic books (.epub): the pages go through the text pipeline as HTML, and the old table of contents is filled."""

from __future__ import annotations

import html
import re
from functools import partial

from app.documents.formats.archives import Archive
from app.documents.formats.document_file import DocumentFile, TextFile, Unit, unescaped
from app.documents.formats.web_page import WebPage

_PAGE = re.compile(r".*\.(?:xhtml|html|htm)", re.IGNORECASE)
_ENTRY = re.compile(r"(?<=<text>)[^<]+(?=</text>)")
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

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for entry in _ENTRY.finditer(self.text):
            self.add(Unit(unescaped(entry[0])), partial(self._put, *entry.span()))

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
        self._archive = Archive(data)
        self._archive.require("mimetype", b"application/epub+zip")
        self._archive.require("META-INF/container.xml")
        self._pages: dict[str, TextFile] = {}
        for name in self._archive.names:
            if _PAGE.fullmatch(name):
                page: TextFile = XhtmlPage(self._archive[name])
            elif name.lower().endswith(".ncx"):
                page = ContentsPage(self._archive[name])
            else:
                continue
            self._pages[name] = page
            self.include(page)  # before the next one is read: there may be too many paragraphs already

    def to_bytes(self, target: str) -> bytes:
        """The book with its translated pages."""
        changed = {name: page.to_bytes(target) for name, page in self._pages.items() if page.is_changed}
        return self._archive.with_parts(changed) if changed else self._data
