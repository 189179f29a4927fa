"""XLIFF 1.2 and 2.0: the targets of units are filled."""

from __future__ import annotations

import copy
from collections.abc import Sequence

from lxml import etree

from app.documents.formats.document_file import DocumentFile
from app.documents.formats.inline import Node
from app.documents.formats.xml_parts import MixedContent, fill, local_name, parsed, serialised
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
        self._tree = parsed(data)
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
            if segment is not None and local_name(segment) == name and _is_wanted(segment):
                self._add_segment(content, source, segment)

    def _add_segment(self, content: MixedContent, source: etree._Element, segment: etree._Element) -> None:
        # The elements of the translation are copies: the source keeps its own.
        original = copy.deepcopy(source)

        def put(nodes: Sequence[Node]) -> None:
            self._is_changed = True
            target = next(segment.iterchildren("{*}target"), None)
            if target is None:
                target = etree.Element(str(source.tag).removesuffix("source") + "target")
                target.tail = source.tail
                source.addnext(target)
            for name in ("state", "state-qualifier"):
                target.attrib.pop(name, "")
            fill(target, nodes)
            if self._is_first:
                target.set("state", "translated")
            else:
                segment.set("state", "translated")

        content.add(self, original, put)

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


def _is_wanted(segment: etree._Element) -> bool:
    """Whether a unit is to be translated and has no translation."""
    around: etree._Element | None = segment
    while around is not None:
        if around.get("translate") == "no":
            return False
        around = None if around.get("translate") == "yes" else around.getparent()
    target = next(segment.iterchildren("{*}target"), None)
    if target is None or not any(str(text).strip() for text in target.itertext()):
        return True
    return (target.get("state") or segment.get("state")) in _TO_TRANSLATE
