"""Files of Office Open XML: packages whose parts are connected by relationships, whatever their names are."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from urllib.parse import unquote

from lxml import etree

from app.documents.formats.archives import MACROS_REFUSED
from app.documents.formats.office import OfficeFile
from app.documents.formats.xml_parts import parsed
from app.errors import DocumentRefused

_CONTENT_TYPES = "[Content_Types].xml"
_MACRO_TYPE = re.compile(r"macroEnabled|vbaProject|vbaData", re.IGNORECASE)
"""What the types of parts and of their relationships hold in documents with macros, whatever the parts are called."""


class PackageFile(OfficeFile):
    """A file of Word or PowerPoint.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or of another kind, or has macros.
    """

    main_part: str
    """The usual name of the main part, for a file that does not say where it is."""

    relationships: frozenset[str]
    """Last words of the types of those relationships that lead to parts with text."""

    def check(self) -> None:
        """Refuse a package of another kind, or one with macros."""
        self.archive.require(_CONTENT_TYPES)
        self._names = {name.lower(): name for name in self.archive.names}
        self._related: dict[str, etree._Element] = {}
        for name in self.archive.names:
            if name == _CONTENT_TYPES or name.endswith(".rels"):
                root = parsed(self.archive[name], self.budget, f"The part {name[:100]}").getroot()
                if any(_MACRO_TYPE.search(str(value)) for element in root.iter() for value in element.attrib.values()):
                    raise DocumentRefused(MACROS_REFUSED)
                self._related[name.lower()] = root
        self._main = next(self._related_parts("", frozenset({"officeDocument"})), self.main_part)
        self.archive.require(self._main)

    def part_names(self) -> list[str]:
        """The names of the main part and of those with text that relationships lead to from there."""
        reached = dict.fromkeys([self._main])
        queue = [self._main]
        for part in queue:
            for name in self._related_parts(part, self.relationships):
                if name not in reached:
                    reached[name] = None
                    queue.append(name)
        return [name for name in self.archive.names if name in reached]

    def _related_parts(self, part: str, kinds: frozenset[str]) -> Iterator[str]:
        """The parts that a part, or the package, has relationships of some kinds to."""
        folder, name = posixpath.split(part)
        relationships = self._related.get(posixpath.join(folder, "_rels", f"{name}.rels").lower())
        for relationship in () if relationships is None else relationships.iterchildren("{*}Relationship"):
            kind = relationship.get("Type", "").rpartition("/")[2]
            if kind in kinds and relationship.get("TargetMode") != "External":
                path = posixpath.join("/", folder, unquote(relationship.get("Target", "")).replace("\\", "/"))
                target = self._names.get(posixpath.normpath(path).lstrip("/").lower())
                if target is not None:
                    yield target
