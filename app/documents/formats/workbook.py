"""Excel workbooks (.xlsx): texts of cells, notes, drawings and charts. Formulas, numbers, dates and codes stay.

Cells with equal texts share one, which is translated once. Names of sheets stay, as formulas refer to them. The cells
that name the columns of a table are translated together with the table, unless formulas or pivot tables refer to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial

from lxml import etree

from app.documents.formats.csv_cells import is_kept
from app.documents.formats.document_file import Unit
from app.documents.formats.inline import Node, Point
from app.documents.formats.packages import PackageFile
from app.documents.formats.runs import Paragraphs, Shell
from app.documents.formats.slides import SlideParagraphs
from app.documents.formats.xml_parts import clean, local_name
from app.serving.detection import has_letters

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_RETURN = re.compile("_x000[dD]_(?=\n)")
_FORMULAS = ("{*}f", "{*}calculatedColumnFormula", "{*}totalsRowFormula", "{*}definedName")
_COLUMN = re.compile(r"\[[^\[\]\d]")
"""What a formula has in it that refers to a column of a table."""


class Workbook(PackageFile):
    """An Excel workbook.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no workbook, or has macros.
    """

    main_part = "xl/workbook.xml"
    relationships = frozenset({"worksheet", "sharedStrings", "comments", "drawing", "chart", "table"})

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._columns: dict[str, list[_Column]] = {}
        self._has_computed_texts = False
        is_referred_to = any("pivotCache" in name for name in self.archive.names)
        for root in self.roots():
            if local_name(root) == "table":
                names = {str(column.get("name", "")) for column in root.iter("{*}tableColumn")}
                for column in root.iter("{*}tableColumn"):
                    self._columns.setdefault(column.get("name", ""), []).append(
                        _Column(self.note_change(), column, names)
                    )
            formulas = root.iter(*_FORMULAS)
            is_referred_to = is_referred_to or any(_COLUMN.search(formula.text or "") for formula in formulas)
            self._has_computed_texts |= any(
                cell.get("t") == "str" and cell.find("{*}f") is not None for cell in root.iter("{*}c")
            )
        self._kept = frozenset(self._columns if is_referred_to else ())
        rich, slides = CellParagraphs(self), SlideParagraphs(self)
        for root in self.roots():
            kind = local_name(root)
            if kind in ("sst", "worksheet", "comments"):
                for text in root.iter("{*}text" if kind == "comments" else "{*}si", "{*}is"):
                    self._add_text(text, rich)
            elif kind != "table":
                for paragraph in list(root.iter("{*}p")):
                    if "drawingml" in str(paragraph.tag):
                        slides.add(paragraph)
        self.add_labels()

    def _add_text(self, text: etree._Element, rich: CellParagraphs) -> None:
        runs = list(text.iterchildren("{*}r"))
        plain = next(text.iterchildren("{*}t"), None)
        if runs or plain is None:
            if not is_kept("".join(part.text or "" for run in runs for part in run.iterchildren("{*}t"))):
                rich.add(text)
            return
        content = _RETURN.sub("", plain.text or "")
        if content not in self._kept and has_letters(content) and not is_kept(content):
            self.add(Unit(content), partial(self._put, plain, content))

    def to_bytes(self, target: str) -> bytes:
        """The archive with its translated parts; programs compute the formulas again if their results are texts."""
        if self._has_computed_texts:
            for root in self.roots():
                if local_name(root) == "workbook":
                    for properties in root.iter("{*}calcPr"):
                        properties.set("fullCalcOnLoad", "1")
                        self.note_change()()
        return super().to_bytes(target)

    def _put(self, element: etree._Element, content: str, translation: str) -> None:
        columns = self._columns.get(content, ())
        while any(translation in column.names for column in columns):
            translation += " 2"
        for column in columns:
            column.rename(translation)
        element.text = clean(translation)
        element.set(_SPACE, "preserve")


class _Column:
    """The column of a table.

    Args:
        note: Notes that the part of the table changes.
        element: The column.
        names: The names of all columns of the table.
    """

    def __init__(self, note: Callable[[], None], element: etree._Element, names: set[str]) -> None:
        self.names = names
        self._note = note
        self._element = element

    def rename(self, name: str) -> None:
        """Give the column a name that no other one has."""
        self.names.discard(self._element.get("name", ""))
        self.names.add(name)
        self._element.set("name", clean(name))
        self._note()


class CellParagraphs(Paragraphs):
    """Texts of cells and notes with formatting in them. Phonetic spellings of what is translated go."""

    properties = "rPr"
    ignored = frozenset({"charset", "family"})
    not_content = frozenset[str]()

    def nodes(self, holder: etree._Element) -> Iterator[Node]:
        """The content of a text."""
        for run in holder.iterchildren("{*}r"):
            shell = self.shell_of(run)
            text = _RETURN.sub("", "".join(child.text or "" for child in run.iterchildren("{*}t")))
            for number, line in enumerate(text.split("\n")):
                if number:
                    yield Point(self.piece_of(shell, "\n"), is_break=True)
                yield from self.text_of(shell, line)

    def run(self, aside: etree._Element, shell: Shell, content: str | etree._Element) -> etree._Element:
        """A run with a formatting and a text."""
        space = shell.tag.removesuffix("r")
        run = etree.SubElement(aside, shell.tag)
        run.extend(self.copied_properties(shell))
        text = etree.SubElement(run, f"{space}t")
        text.text = str(content)
        text.set(_SPACE, "preserve")
        return run
