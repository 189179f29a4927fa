"""XLIFF 1.2 and 2.0: the targets of units are filled."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lxml import etree

from app.documents.formats.document_file import DocumentFile
from app.documents.formats.inline import Group, Node, Point
from app.documents.formats.xml_parts import ElementBudget, MixedContent, fill, local_name, parsed, serialised
from app.errors import DocumentRefused

_GROUPS = frozenset({"g", "mrk", "sub", "pc"})
_PLACEHOLDERS = frozenset({"x", "ph", "bx", "ex"})
_TO_TRANSLATE = frozenset({"new", "needs-translation", "initial"})


class Xliff(DocumentFile):
    """An XLIFF file. Targets that hold a translation are kept, unless their state says that one is needed.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no XLIFF of version 1 or 2.
    """

    keeps_source = True

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._tree = parsed(data, ElementBudget())
        self._data = data
        self._is_changed = False
        root = self._tree.getroot()
        version = root.get("version", "")
        if local_name(root) != "xliff" or version[:2] not in ("1.", "2."):
            raise DocumentRefused("The file is no XLIFF of version 1.2 or 2.0.")
        self._is_first = version.startswith("1.")
        content = MixedContent(_GROUPS, _shown)
        for source in root.iter("{*}source"):
            segment = source.getparent()
            name = "trans-unit" if self._is_first else "segment"
            if segment is None or local_name(segment) != name or next(segment.iterchildren("{*}source")) is not source:
                continue  # the source of something else, or a second one
            if _is_wanted(segment):
                self._add_segment(content, source, segment)

    def _add_segment(self, content: MixedContent, source: etree._Element, segment: etree._Element) -> None:
        def put(nodes: Sequence[Node]) -> None:
            self._is_changed = True
            target = next(segment.iterchildren("{*}target"), None)
            if target is None:
                target = etree.Element(str(source.tag).removesuffix("source") + "target")
                target.tail = source.tail
                source.addnext(target)
            for name in ("state", "state-qualifier"):
                target.attrib.pop(name, "")
            fill(target, [_copied(node) for node in nodes])
            if self._is_first:
                target.set("state", "translated")
            else:
                segment.set("state", "translated")

        content.add(self, source, put)

    def to_bytes(self, target: str) -> bytes:
        """The file; it names the target language, unless nothing was translated."""
        if not self._is_changed:
            return self._data
        root = self._tree.getroot()
        if self._is_first:
            for file in root.iter("{*}file"):
                file.set("target-language", target)
        else:
            root.set("trgLang", target)
        return serialised(self._tree, self._data)


def _shown(element: etree._Element) -> str:
    """A placeholder is a word of its sentence; the codes of formatting (``bpt``, ``ept``, ...) are none."""
    name = local_name(element)
    if name not in _PLACEHOLDERS:
        return ""
    return (element.get("equiv-text") or element.get("equiv") or f"{name}{element.get('id', '')}")[:50]


def _copied(node: Node) -> Node:
    """Content with elements of its own: those of the source stay where they are."""
    if isinstance(node, Group):
        return Group(etree.Element(node.source.tag, node.source.attrib), tuple(map(_copied, node.children)))
    return replace(node, source=copy.deepcopy(node.source)) if isinstance(node, Point) else node


def _with_parents(element: etree._Element) -> Iterator[etree._Element]:
    yield element
    yield from element.iterancestors()


def _is_wanted(segment: etree._Element) -> bool:
    """Whether a unit is to be translated and has no translation."""
    translates = next((around.get("translate") for around in _with_parents(segment) if around.get("translate")), "yes")
    if translates == "no" or any(local_name(around) in ("source", "target") for around in _with_parents(segment)):
        return False
    target = next(segment.iterchildren("{*}target"), None)
    if target is None or not any(str(text).strip() for text in target.itertext()):
        return True
    return (target.get("state") or segment.get("state")) in _TO_TRANSLATE
