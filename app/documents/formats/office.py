"""What office documents share: an archive some of whose XML parts have paragraphs, metadata or names of languages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

from lxml import etree

from app.documents.formats.archives import Archive
from app.documents.formats.codes import is_code
from app.documents.formats.document_file import DocumentFile, Unit
from app.documents.formats.languages import renamed
from app.documents.formats.xml_parts import ElementBudget, clean, local_name, parsed, serialised
from app.errors import DocumentRefused, DocumentTooComplex

_DECLARATIONS = re.compile(rb"<!DOCTYPE|<!ENTITY")
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")

_WORD = re.compile(r"[^\W\d_]{2}")
"""What the text around a number has if it is more than a bracket or the letter of a list."""
_MAX_NUMBERING_PARTS = 21


_METADATA = frozenset({"coreProperties", "document-meta"})
"""Roots of the parts with metadata in the terms of Dublin Core."""

_READ_METADATA = ("{*}title", "{*}subject", "{*}description", "{*}keywords", "{*}keyword")


class OfficeFile(DocumentFile):
    """An office document. A part in which nothing is translated, and no language named, stays byte for byte.

    Args:
        data: The file.

    Raises:
        DocumentRefused: See :class:`app.documents.formats.archives.Archive`; or a part is broken or declares entities.
    """

    labels: Mapping[str, frozenset[str]]
    """Names of attributes that readers see, such as descriptions of pictures, by the names of their elements."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.archive = Archive(data)
        self.budget = ElementBudget()
        self._data = data
        self._asides: dict[etree._Element, etree._Element] = {}
        self._changes: dict[etree._Element, Callable[[], None]] = {}
        for name in self.archive.names:
            if name.endswith((".xml", ".rels")) and _declares(self.archive[name]):
                raise DocumentRefused(f"The part {name[:100]} has a document type declaration; entities are not read.")
        self.check()
        self._trees = {
            name: parsed(self.archive[name], self.budget, f"The part {name[:100]}") for name in self.part_names()
        }
        self._part = ""  # the one whose units are being added
        self._changed: set[str] = set()

    def check(self) -> None:
        """Refuse an archive that is another kind of document."""
        raise NotImplementedError

    def part_names(self) -> list[str]:
        """The names of the parts that hold paragraphs or metadata, in the order of the archive."""
        raise NotImplementedError

    def style_names(self) -> list[str]:
        """The names of parts without text that name its language. They are read when the document is written."""
        return []

    def roots(self) -> Iterator[etree._Element]:
        """The root of each of these parts."""
        for name, tree in self._trees.items():
            self._part = name
            yield tree.getroot()

    def add(self, unit: Unit, put: Callable[[str], None]) -> None:
        """Add a unit of the part whose root was given last."""
        note = self.note_change()

        def put_and_note(translation: str) -> None:
            note()
            put(translation)

        super().add(unit, put_and_note)

    def note_change(self) -> Callable[[], None]:
        """What notes that the part whose root was given last has changed."""
        return partial(self._changed.add, self._part)

    def add_labels(self) -> None:
        """Add the labels, and the metadata that readers see; names of people, dates and identifiers stay."""
        for root in self.roots():
            for element in root.iter(*(f"{{*}}{name}" for name in self.labels)):
                names = self.labels[local_name(element)]
                for name in [str(name) for name in element.attrib if str(name).rpartition("}")[2] in names]:
                    self._add_label(element.get(name, ""), partial(set_attribute, element, name))
            if local_name(root) in _METADATA:
                for element in root.iter(*_READ_METADATA):
                    self._add_label(element.text or "", partial(_set_text, element))

    def _add_label(self, text: str, put: Callable[[str], None]) -> None:
        if not is_code(text):
            self.add(Unit(text), put)

    def name_language(self, root: etree._Element, target: str) -> bool:
        """Name the target language where a part names that of its text.

        Args:
            root: The root of the part.
            target: The target language.

        Returns:
            Whether the part has changed.
        """
        is_changed = False
        for element in root.iter("{*}language") if local_name(root) in _METADATA else ():
            name = (element.text or "").strip()
            if (new := renamed(name, target)) != name:
                element.text = new
                is_changed = True
        return is_changed

    def add_numbering(self, parts: Sequence[str], put: Callable[[str], None]) -> None:
        """Add the words around the numbers of headings or of a list. The model reads them with a number.

        Args:
            parts: Text and codes of numbers (``%1``) in turn.
            put: Takes the translation with the same codes.
        """
        if not any(map(_WORD.search, parts[::2])) or len(parts) > _MAX_NUMBERING_PARTS:
            return
        codes = {code.replace("%", ""): code for code in parts[1::2]}

        def put_codes(translation: str) -> None:
            texts = re.split(f"({'|'.join(map(re.escape, sorted(codes, reverse=True)))})", translation)
            if sorted(texts[1::2]) == sorted(code.replace("%", "") for code in parts[1::2]):
                put("".join(codes[text] if index % 2 else text for index, text in enumerate(texts)))

        text = "".join(part.replace("%", "") if index % 2 else part for index, part in enumerate(parts))
        self.add(Unit(text), put_codes if codes else put)

    def change_later(self, element: etree._Element, change: Callable[[], None]) -> None:
        """Change an element once all translations are known, however many of them it has."""
        self._changes[element] = change

    def aside(self, element: etree._Element) -> etree._Element:
        """An element for what is taken out of the tree of another one, or is not in it yet.

        Libxml2 looks for the namespace of each element again when a tree is taken out of its document, in quadratic
        time. What is moved in its document, or freed with it, keeps its namespaces.
        """
        root = element.getroottree().getroot()
        if root not in self._asides:
            self._asides[root] = etree.SubElement(root, "aside")
        return self._asides[root]

    def to_bytes(self, target: str) -> bytes:
        """The archive with its translated parts."""
        for element in list(self._changes):
            self._changes.pop(element)()
        # Now nothing refers to the elements that were put aside, and they are freed.
        for root, aside in self._asides.items():
            del aside[:]
            root.remove(aside)
        for name in [*self._trees, *self.style_names()] if target and self._changed else ():
            with suppress(DocumentRefused, DocumentTooComplex):  # styles that cannot be read stay as they are
                tree = self._trees[name] if name in self._trees else parsed(self.archive[name], ElementBudget())
                if self.name_language(tree.getroot(), target):
                    self._trees[name] = tree
                    self._changed.add(name)
        changed = {
            name: serialised(tree, self.archive[name]) for name, tree in self._trees.items() if name in self._changed
        }
        return self.archive.with_parts(changed) if changed else self._data


def set_attribute(element: etree._Element, name: str, text: str) -> None:
    """Set an attribute of an element, without the characters that XML cannot hold."""
    element.set(name, clean(text))


def _set_text(element: etree._Element, text: str) -> None:
    element.text = clean(text)


def _declares(part: bytes) -> bool:
    """Whether a part may declare entities. UTF-16, in which that could be hidden, is not used by office programs."""
    return bool(_DECLARATIONS.search(part)) or part.startswith(_UTF_16_MARKS)
