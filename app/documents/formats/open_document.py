"""OpenDocument texts, presentations and sheets: paragraphs, also of tables, frames, notes, headers and footers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from lxml import etree

from app.documents.formats.archives import MACROS_REFUSED
from app.documents.formats.csv_cells import is_kept
from app.documents.formats.document_file import Unit
from app.documents.formats.inline import (
    TAB,
    Cell,
    Fragment,
    Group,
    Node,
    Point,
    cells_of,
    content_of,
    divided,
    paired,
    shown_text,
)
from app.documents.formats.languages import is_east_asian, is_right_to_left, renamed
from app.documents.formats.office import OfficeFile, set_attribute
from app.documents.formats.xml_parts import MixedContent, clean, fill, local_name
from app.errors import DocumentRefused
from app.serving.detection import has_letters

_GROUPS = frozenset({"span", "a", "meta", "ruby", "ruby-base"})
_BREAKS = frozenset({"line-break"})
_KEPT = frozenset({"tracked-changes", "annotation"})
_HOLDING_PARAGRAPHS = frozenset({"note", "annotation", "frame", "custom-shape", "ruby-text"})
_SPACE = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_TEXT, _STYLE, _FORM = _SPACE % "text", _SPACE % "style", _SPACE % "form"
_TEXT_ELEMENTS = (
    "{*}p",
    "{*}h",
    f"{_TEXT}index-title-template",
    *(f"{_SPACE % 'svg-compatible'}{name}" for name in ("title", "desc")),
)
_NUMBERED = ("{*}outline-level-style", "{*}list-level-style-number")
_NUMBER_FORMAT = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}num-list-format"
_NUMBER = re.compile(r"(%\d+%(?:[.:/-]?%\d+%)*+)")
_ANY_NUMBER = "%1%"
_CONTENT_OF_CELL = f"{_SPACE % 'office'}string-value"
_RAW_SPACE = re.compile(r"[ \t\r\n]+")
_SPACES = re.compile("( {2,})")


class OpenDocumentText(OfficeFile):
    """An OpenDocument text.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or another kind of document, or has macros.
    """

    media_type = b"application/vnd.oasis.opendocument.text"
    """How its member ``mimetype`` begins."""

    labels: Mapping[str, frozenset[str]] = dict.fromkeys(("a", "help-message", "error-message"), frozenset({"title"}))

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        for root in self.roots():
            if next(root.iter(f"{_SPACE % 'office'}script"), None) is not None:
                raise DocumentRefused(MACROS_REFUSED)
            for element in list(root.iter(*_TEXT_ELEMENTS)):
                if not any(local_name(around) in _KEPT or _is_computed(around) for around in element.iterancestors()):
                    self._add_paragraph(element)
            for element in root.iter(f"{_FORM}*"):
                for name in (f"{_FORM}label", f"{_FORM}title"):
                    self.add(Unit(element.get(name, "")), partial(set_attribute, element, name))
            for element in root.iter(*_NUMBERED):
                self._add_numbering(element)
        self.add_labels()

    def check(self) -> None:
        """Refuse an archive that is another kind of document."""
        self.archive.require("mimetype", self.media_type)
        self.archive.require("content.xml")

    def part_names(self) -> list[str]:
        """The text, its styles, which have headers and footers, and its metadata; their names are fixed."""
        return [name for name in self.archive.names if name in ("content.xml", "styles.xml", "meta.xml")]

    def name_language(self, root: etree._Element, target: str) -> bool:
        """Name the target language in metadata, and as that of text, for spelling checkers."""
        is_changed = super().name_language(root, target)
        kind = "-complex" if is_right_to_left(target) else "-asian" if is_east_asian(target) else ""
        space = _STYLE if kind else _SPACE % "xsl-fo-compatible"
        language, country = f"{space}language{kind}", f"{space}country{kind}"
        for properties in root.iter(f"{_STYLE}text-properties"):
            region = properties.get(country, "none")
            name = properties.get(language, "") + ("" if region == "none" else f"-{region}")
            if (new := renamed(name, target)) != name:
                is_changed = True
                properties.set(language, new.partition("-")[0])
                properties.set(country, new.rpartition("-")[2] if "-" in new else "none")
                for other in (f"{_STYLE}rfc-language-tag{kind}", f"{space}script{kind}"):
                    properties.attrib.pop(other, "")
        return is_changed

    def _add_paragraph(self, paragraph: etree._Element) -> None:
        parts = divided(paired(_CONTENT.nodes(paragraph)))

        def refill() -> None:
            fill(paragraph, list(_with_spaces(self.aside(paragraph), content_of(parts), is_first=True)))

        def put(cell: Cell, fragment: Fragment, translation: str) -> None:
            cell.nodes = fragment.read(translation)
            self.change_later(paragraph, refill)

        for cell in cells_of(parts):
            if has_letters(shown_text(cell.nodes)):
                fragment = Fragment(cell.nodes)
                self.add(fragment.unit, partial(put, cell, fragment))

    def _add_numbering(self, style: etree._Element) -> None:
        """Add the words before and after the numbers of headings or of a list, as one text with the number."""
        names = f"{_STYLE}num-prefix", f"{_STYLE}num-suffix"

        def put_around(translation: str) -> None:
            for name, part in zip(names, translation.partition(_ANY_NUMBER)[::2], strict=True):
                style.set(name, clean(part))

        self.add_numbering([style.get(names[0], ""), _ANY_NUMBER, style.get(names[1], "")], put_around)
        format_parts = _NUMBER.split(style.get(_NUMBER_FORMAT, ""))
        self.add_numbering(format_parts, lambda translation: style.set(_NUMBER_FORMAT, clean(translation)))


class OpenDocumentPresentation(OpenDocumentText):
    """An OpenDocument presentation, with the notes of its slides."""

    media_type = b"application/vnd.oasis.opendocument.presentation"


class OpenDocumentSheet(OpenDocumentText):
    """An OpenDocument spreadsheet. Formulas, numbers, dates and names of sheets stay."""

    media_type = b"application/vnd.oasis.opendocument.spreadsheet"

    def _add_paragraph(self, paragraph: etree._Element) -> None:
        if not is_kept("".join(map(str, paragraph.itertext()))):
            super()._add_paragraph(paragraph)

    def change_later(self, element: etree._Element, change: Callable[[], None]) -> None:
        """As for all documents; a cell whose text changes has no other record of it."""
        cell = element.getparent()
        if cell is not None and _CONTENT_OF_CELL in cell.attrib:
            del cell.attrib[_CONTENT_OF_CELL]
        super().change_later(element, change)


def _is_computed(element: etree._Element) -> bool:
    """Whether an element is a cell whose text a program makes: of a formula, a number or a date."""
    if local_name(element) not in ("table-cell", "covered-table-cell"):
        return False
    kind = element.get(f"{_SPACE % 'office'}value-type", "string")
    return f"{_SPACE % 'table'}formula" in element.attrib or kind != "string"


class _TextContent(MixedContent):
    """Content of paragraphs, in which elements that stand for spaces are spaces or divide it."""

    def nodes(self, element: etree._Element, depth: int = 0) -> Iterator[Node]:
        """The content of an element that is nested to a depth; whitespace at the beginning of a paragraph is none."""
        is_first = depth == 0
        for node in super().nodes(element, depth):
            if isinstance(node, str):
                text = _RAW_SPACE.sub(" ", node)
                yield text.lstrip() if is_first else text
                is_first = is_first and not text.strip()
                continue
            is_first = False
            name = local_name(node.source) if isinstance(node, Point) else ""
            is_space = name == "s" and node.source.get(f"{_TEXT}c", "1") == "1"
            yield " " if is_space else Point(node.source, TAB) if name in ("s", "tab") else node


def _shown(element: etree._Element) -> str:
    """The text of a field, such as a date or a page number, is a word of its sentence."""
    if local_name(element) in _HOLDING_PARAGRAPHS or len(element):
        return ""
    return (element.text or "")[:50] if isinstance(element.tag, str) else ""


def _ends(element: etree._Element) -> tuple[str, str]:
    """The bookmarks or other ranges that begin and end at an element."""
    kind, _, end = local_name(element).rpartition("-")
    key = " ".join([kind, *(element.get(f"{_TEXT}{name}", "") for name in ("name", "id", "change-id"))])
    return (key if end == "start" else ""), (key if end == "end" else "")


def _with_spaces(aside: etree._Element, nodes: Iterable[Node], *, is_first: bool = False) -> Iterator[Node]:
    """Content with elements for the spaces that readers of a file would drop: at the beginning, and behind another."""
    for node in nodes:
        if isinstance(node, Group):
            yield replace(node, children=tuple(_with_spaces(aside, node.children)))
        elif isinstance(node, str):
            text = node.lstrip(" ") if is_first else node
            yield from (_space(aside) for _ in range(len(node) - len(text)))
            for index, part in enumerate(_SPACES.split(text)):
                yield " " if index % 2 else part
                yield from (_space(aside) for _ in part[1:] if index % 2)
        else:
            yield node
        is_first = is_first and node == ""


def _space(aside: etree._Element) -> Point:
    return Point(etree.SubElement(aside, f"{_TEXT}s"))


_CONTENT = _TextContent(_GROUPS, _shown, _BREAKS, formatting=frozenset({"span"}), ends=_ends)
