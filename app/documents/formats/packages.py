"""Files of Office Open XML: packages whose parts are connected by relationships, whatever their names are."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from lxml import etree

from app.documents.formats.archives import MACROS_REFUSED
from app.documents.formats.languages import is_east_asian, is_right_to_left, renamed
from app.documents.formats.office import OfficeFile
from app.documents.formats.xml_parts import parsed
from app.errors import DocumentRefused

_CONTENT_TYPES = "[Content_Types].xml"
_MACRO_TYPE = re.compile(r"macroEnabled|vbaProject|vbaData", re.IGNORECASE)
"""What the types of parts and of their relationships hold in documents with macros, whatever the parts are called."""

_METADATA = frozenset({"core-properties"})
_WITH_LANGUAGE = ("{*}lang", "{*}rPr", "{*}endParaRPr", "{*}defRPr")
"""Elements that name the language of runs: the first one in Word, the others in drawings and on slides."""


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

    labels: Mapping[str, frozenset[str]] = {
        **dict.fromkeys(("docPr", "cNvPr"), frozenset({"descr", "title"})),
        "shape": frozenset({"alt", "title"}),
        **dict.fromkeys(("hyperlink", "hlinkClick", "hlinkHover"), frozenset({"tooltip"})),
        **dict.fromkeys(("tblCaption", "tblDescription"), frozenset({"val"})),
    }

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
        """The names of the main part, of those with text that relationships lead to from there, and of the metadata."""
        reached = dict.fromkeys([self._main])
        queue = [self._main]
        for part in queue:
            for name in self._related_parts(part, self.relationships):
                if name not in reached:
                    reached[name] = None
                    queue.append(name)
        reached.update(dict.fromkeys(self._related_parts("", _METADATA)))
        return [name for name in self.archive.names if name in reached]

    def name_language(self, root: etree._Element, target: str) -> bool:
        """Name the target language in metadata, and as that of runs, for spelling checkers."""
        is_changed = super().name_language(root, target)
        script = "bidi" if is_right_to_left(target) else "eastAsia" if is_east_asian(target) else "val"
        for element in root.iter(*_WITH_LANGUAGE):
            is_word = str(element.tag).endswith("}lang")
            attribute = str(element.tag).removesuffix("lang") + script if is_word else "lang"
            name = element.get(attribute, "")
            if (new := renamed(name, target)) != name:
                element.set(attribute, new)
                is_changed = True
        return is_changed

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
