"""What Word, PowerPoint and OpenDocument files share: an archive some of whose XML parts hold paragraphs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from lxml import etree

from app.documents.formats.archives import Archive
from app.documents.formats.document_file import DocumentFile
from app.documents.formats.xml_parts import parsed, serialised
from app.errors import DocumentRefused

_DECLARATIONS = re.compile(rb"<!DOCTYPE|<!ENTITY")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class OfficeFile(DocumentFile):
    """An office document. A part in which nothing is translated stays byte for byte.

    Args:
        data: The file.

    Raises:
        DocumentRefused: See :class:`app.documents.formats.archives.Archive`; or a part is broken or declares entities.
    """

    parts: re.Pattern[str]
    """The names of the parts that hold paragraphs."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.archive = Archive(data)
        self._data = data
        self._changes: dict[etree._Element, Callable[[], None]] = {}
        self.check()
        for name in self.archive.names:
            if name.endswith((".xml", ".rels")) and _declares(self.archive[name]):
                raise DocumentRefused(f"The part {name[:100]} has a document type declaration; entities are not read.")
        self._trees = {
            name: parsed(self.archive[name], f"The part {name[:100]}")
            for name in self.archive.names
            if self.parts.fullmatch(name)
        }
        self._before = {name: etree.tostring(tree) for name, tree in self._trees.items()}

    def check(self) -> None:
        """Refuse an archive that is another kind of document."""
        raise NotImplementedError

    def roots(self) -> Iterator[etree._Element]:
        """The root of each part that holds paragraphs."""
        for tree in self._trees.values():
            yield tree.getroot()

    def change_later(self, element: etree._Element, change: Callable[[], None]) -> None:
        """Change an element once all translations are known, however many of them it has."""
        self._changes[element] = change

    def to_bytes(self, target: str) -> bytes:
        """The archive with its translated parts."""
        for change in self._changes.values():
            change()
        changed = {
            name: serialised(tree, self.archive[name])
            for name, tree in self._trees.items()
            if etree.tostring(tree) != self._before[name]
        }
        return self.archive.with_parts(changed) if changed else self._data


def _declares(part: bytes) -> bool:
    """Whether a part may declare entities. UTF-16, in which that could be hidden, is not used by office programs."""
    return bool(_DECLARATIONS.search(part)) or part.startswith(_UTF_16_MARKS)
