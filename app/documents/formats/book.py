"""Electronic books (.epub): the pages, which go through the text pipeline as HTML, titles, and tables of contents."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import unquote

from lxml import etree

from app.documents.formats.archives import Archive
from app.documents.formats.codes import is_code
from app.documents.formats.document_file import DocumentFile, TextFile, Unit, unescaped
from app.documents.formats.encodings import XML
from app.documents.formats.languages import LanguageMark, is_right_to_left, language_mark, names_same_language
from app.documents.formats.web_page import WebPage
from app.documents.formats.xml_parts import ElementBudget, clean, parsed
from app.errors import DocumentRefused
from model.text.markup.html_names import is_other_language

_CONTAINER = "META-INF/container.xml"
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_CONTENTS_TYPE = "application/x-dtbncx+xml"
_PACKAGE_TYPE = "application/oebps-package+xml"
_TYPES_BY_SUFFIX = {
    **dict.fromkeys((".xhtml", ".html", ".htm"), "text/html"),
    ".ncx": _CONTENTS_TYPE,
    ".opf": _PACKAGE_TYPE,
}
_ELEMENT = re.compile(
    r"<(?P<name>(?:[\w.-]+:)?(?P<kind>text|title|description|subject))(?P<attributes>\s[^<>]*)?>"
    r"(?P<content>[^<]+)</(?P=name)\s*>",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(
    r"\sxml:lang\s*=\s*[\"'](?P<attribute>[\w-]+)|<(?:[\w.-]+:)?language(?:\s[^<>]*)?>\s*(?P<element>[\w-]+)",
    re.IGNORECASE,
)
_AUTHOR = re.compile(r"<(?:[\w.-]+:)?docAuthor(?:\s[^<>]*)?>\s*\Z")
_SPINE = re.compile(r"<(?:[\w.-]+:)?spine\b(?:[^<>]*?\spage-progression-direction\s*=\s*[\"'](?P<direction>\w+))?")
_TAG = re.compile(r"</?[a-z][^<>]*>", re.IGNORECASE)
_LONGEST_TAG = 200
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


class BookData(TextFile):
    """What is known of a book: its package document, or the table of contents of an older one (.ncx).

    Titles, descriptions and subjects are translated. Names, dates, identifiers and the codes of subjects stay.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    declaration = XML

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._language = _main_language(self.text)
        for element in _ELEMENT.finditer(self.text):
            attributes, text = element["attributes"] or "", unescaped(element["content"])
            own_language = _LANGUAGE.search(attributes)
            is_kept = (
                "authority" in attributes
                or (own_language and is_other_language(own_language["attribute"], self._language))
                or _AUTHOR.search(self.text, max(0, element.start() - _LONGEST_TAG), element.start())
            )
            if not is_kept and not is_code(text):
                # Descriptions are often pages, whose tags are written as references.
                unit = Unit(text, "html" if _TAG.search(text) else "text")
                self.add(unit, partial(self._put, *element.span("content")))

    def _put(self, start: int, end: int, translation: str) -> None:
        self.replace(start, end, html.escape(clean(translation), quote=False))

    def language_marks(self) -> Iterator[LanguageMark]:
        """The names of the language of the book, and the direction of its pages."""
        text, main = self.text, self._language
        for match in _LANGUAGE.finditer(text):
            mark = language_mark(text, *match.span(match.lastgroup or 0))
            if mark and names_same_language(mark.language, main):
                yield mark
        spine = _SPINE.search(text)
        if spine and main:
            direction = spine["direction"]
            span = spine.span("direction") if direction else (spine.end(), spine.end())
            yield LanguageMark(*span, partial(_direction_like, direction, is_right_to_left(main)))


def _main_language(text: str) -> str:
    """The language that a package document or a table of contents names; empty if none."""
    names = list(_LANGUAGE.finditer(text))
    return next((name["element"] for name in names if name["element"]), names[0]["attribute"] if names else "")


def _direction_like(direction: str | None, was_right_to_left: bool, target: str) -> str:
    """The direction in which the pages of a book follow one another.

    Args:
        direction: The one that it has, if it says so.
        was_right_to_left: Whether its language is written from the right to the left.
        target: The target language.
    """
    is_changed = is_right_to_left(target) != was_right_to_left
    new = ("rtl" if is_right_to_left(target) else "ltr") if is_changed else direction
    return (new or "") if direction or not new else f' page-progression-direction="{new}"'


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
        for name in sorted(self.archive.names, key=lambda name: media_types.get(name) == _PACKAGE_TYPE):  # at last
            if media_types.get(name) in _PAGE_TYPES:
                page: TextFile = XhtmlPage(self.archive[name])
            elif media_types.get(name) == _CONTENTS_TYPE:
                page = BookData(self.archive[name])
            elif media_types.get(name) == _PACKAGE_TYPE:
                try:
                    page = BookData(self.archive[name])
                except DocumentRefused:  # without its data, the pages are a book, too
                    continue
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
                yield package, _PACKAGE_TYPE

    def _elements(self, name: str, element: str, budget: ElementBudget) -> Iterator[etree._Element]:
        """The elements of a name in a part of the archive, if that is XML."""
        if name in self.archive:
            try:
                root = parsed(self.archive[name], budget).getroot()
            except DocumentRefused:
                return
            yield from root.iter(f"{{*}}{element}")

    @property
    def named_language(self) -> str:
        """The language that the data of the book names; empty if none."""
        names = (page.named_language for page in self.pages.values() if isinstance(page, BookData))
        return next(filter(None, names), "")

    def to_bytes(self, target: str) -> bytes:
        """The book with its translated pages, and the target language in its data."""
        if not any(page.is_changed for page in self.pages.values()):
            return self._data
        return self.archive.with_parts(
            {
                name: page.written(target)
                for name, page in self.pages.items()
                if page.is_changed or isinstance(page, BookData)
            }
        )
