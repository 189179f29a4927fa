"""XML of documents, parsed without entities, and the text in it as inline content."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lxml import etree

from app.documents.formats.document_file import DocumentFile
from app.documents.formats.inline import Fragment, Group, Node, Point, paired, shown_text
from app.errors import DocumentRefused, DocumentTooComplex
from app.serving.detection import has_letters

_DECLARATION = re.compile(rb"(?:\xef\xbb\xbf)?(?:<\?xml[^>]*\?>\s*)?")
# What XML 1.0 cannot hold.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


MAX_ELEMENTS = 1_000_000
"""Elements and attributes of a document."""

MAX_NESTING = 50
"""Links and other inline elements in one another that are looked into; what is nested deeper stays as it is."""

_NO_MEMORY = 2  # libxml2's XML_ERR_NO_MEMORY


COPIES_READ = 4
"""How many times the characters of a document its runs may take for their formatting, each part of a run counted."""

COPIES_WRITTEN = 20
"""The same with the formatting that is written: that may be more, as the order of words is another."""

_FREE_COPIES = 100_000
"""Characters of formatting that any document may take."""


class ElementBudget:
    """The elements and attributes that a document may still have, counted before they are parsed."""

    def __init__(self) -> None:
        """All of them."""
        self._left = MAX_ELEMENTS
        self._num_bytes = 0
        self._num_copied = 0

    def take(self, data: bytes) -> None:
        """Count those of an XML document by the signs that each of them needs.

        Args:
            data: The document.

        Raises:
            DocumentTooComplex: There are too many.
        """
        self._num_bytes += len(data)
        self._left -= data.count(b"<") - data.count(b"</") + data.count(b"=")
        if self._left < 0:
            raise DocumentTooComplex(f"It has more than {MAX_ELEMENTS} XML elements and attributes")

    def take_formatting(self, num_characters: int, most_copies: int) -> None:
        """Count the formatting of a part of a run, when it is read and when it is written.

        Args:
            num_characters: Its size in the file.
            most_copies: How many times the document all of it may be.

        Raises:
            DocumentTooComplex: There is too much.
        """
        self._num_copied += num_characters
        if self._num_copied > most_copies * self._num_bytes + _FREE_COPIES:
            raise DocumentTooComplex(f"The formatting of its runs would be more than {most_copies} times the document")


def parsed(data: bytes, budget: ElementBudget, name: str = "The file") -> etree._ElementTree:
    """An XML document.

    Args:
        data: Its bytes.
        budget: What the file may still have of elements.
        name: What error messages call it.

    Raises:
        DocumentRefused: It is not well-formed, or has a document type, which could declare entities.
        DocumentTooComplex: It has too many elements.
        MemoryError: There is no memory for it.
    """
    budget.take(data)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        tree = etree.fromstring(data, parser).getroottree()
    except (etree.XMLSyntaxError, ValueError) as error:
        if getattr(error, "code", None) == _NO_MEMORY:
            raise MemoryError from None
        raise DocumentRefused(f"{name} is no well-formed XML: {str(error)[:200]}.") from None
    if tree.docinfo.internalDTD is not None:
        raise DocumentRefused(f"{name} has a document type declaration; entities are not read.")
    return tree


def serialised(tree: etree._ElementTree, original: bytes) -> bytes:
    """The bytes of an XML document.

    Args:
        tree: The document.
        original: What it was read from; its declaration is kept.
    """
    encoding = tree.docinfo.encoding or "UTF-8"
    is_utf_8 = encoding.upper() == "UTF-8"
    written: Any = etree.tostring(tree, encoding=encoding, xml_declaration=not is_utf_8)
    declaration = _DECLARATION.match(original)
    content: bytes = declaration[0] + written if is_utf_8 and declaration else written
    return content


def local_name(element: etree._Element) -> str:
    """The name of an element without its namespace; comments and instructions have none."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def clean(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return _FORBIDDEN.sub("", text)


class MixedContent:
    """Text with elements in it, as in ODF and XLIFF.

    Args:
        groups: Names of the elements whose text belongs to the text around them.
        shown: The text that stands for another element, if it is a word of the sentence; empty if it is none.
        breaks: Names of line breaks.
        formatting: Names of those groups that only change how their text looks.
        ends: What identifies the ranges that begin and end at an element, each empty if there is none.
    """

    def __init__(
        self,
        groups: frozenset[str],
        shown: Callable[[etree._Element], str],
        breaks: frozenset[str] = frozenset(),
        formatting: frozenset[str] = frozenset(),
        ends: Callable[[etree._Element], tuple[str, str]] = lambda element: ("", ""),
    ) -> None:
        self._groups = groups
        self._shown = shown
        self._breaks = breaks
        self._formatting = formatting
        self._ends = ends

    def add(
        self, file: DocumentFile, source: etree._Element, put: Callable[[Sequence[Node]], None] | None = None
    ) -> None:
        """Add the content of an element as a unit.

        Args:
            file: The file that gets the unit.
            source: The element.
            put: Takes the translated content; by default it replaces the content of ``source``.
        """
        nodes = list(self.nodes(source))
        if has_letters(shown_text(nodes)):
            fragment = Fragment(nodes)
            fill_source = put or (lambda content: fill(source, content))
            file.add(fragment.unit, lambda translation: fill_source(fragment.read(translation)))

    def nodes(self, element: etree._Element, depth: int = 0) -> Iterator[Node]:
        """The content of an element that is nested to a depth."""
        yield element.text or ""
        for child in element:
            name = local_name(child)
            if name in self._groups and depth < MAX_NESTING:
                children = tuple(paired(self.nodes(child, depth + 1)))
                yield Group(child, children, name in self._formatting)
            else:
                yield Point(child, self._shown(child), name in self._breaks, *self._ends(child))
            yield child.tail or ""


def fill(element: etree._Element, nodes: Sequence[Node]) -> None:
    """Replace the content of an element.

    Args:
        element: The element; its attributes stay.
        nodes: The content; the sources of groups and points are elements, which are moved here.
    """
    before = list(element)
    moved: set[etree._Element] = set()
    element.text = None
    last: etree._Element | None = None
    for node in nodes:
        if not isinstance(node, str):
            last = node.source
            moved.add(last)
            element.append(last)  # behind those that were there: in its document it keeps its namespaces
            last.tail = None
            if isinstance(node, Group):
                fill(last, node.children)
        elif last is None:
            element.text = (element.text or "") + clean(node)
        else:
            last.tail = (last.tail or "") + clean(node)
    for child in before:
        if child not in moved and child.getparent() is element:
            element.remove(child)
