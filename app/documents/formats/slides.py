"""PowerPoint presentations (.pptx): paragraphs of the slides, of their tables and diagrams, and of the notes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lxml import etree

from app.documents.formats.inline import Node, Point
from app.documents.formats.office import OfficeFile
from app.documents.formats.runs import TAB, Paragraphs, Shell
from app.documents.formats.word import check_content_types
from app.documents.formats.xml_parts import local_name


class Presentation(OfficeFile):
    """A PowerPoint presentation.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no presentation, or has macros.
    """

    parts = re.compile(r"ppt/(?:slides/slide|notesSlides/notesSlide|diagrams/(?:data|drawing))\d+\.xml")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        paragraphs = SlideParagraphs(self)
        for root in self.roots():
            for paragraph in list(root.iter("{*}p")):
                if "drawingml" in str(paragraph.tag):
                    paragraphs.add(paragraph)

    def check(self) -> None:
        """Refuse an archive that is no presentation, or one with macros."""
        check_content_types(self, "ppt/presentation.xml")


class SlideParagraphs(Paragraphs):
    """Paragraphs of DrawingML."""

    properties = "rPr"
    ignored = frozenset({"lang", "altLang", "dirty", "err", "smtClean", "noProof", "bmk"})
    not_content = frozenset({"pPr", "endParaRPr"})
    last = "endParaRPr"

    def nodes(self, holder: etree._Element) -> Iterator[Node]:
        """The content of a paragraph."""
        for child in holder:
            name = local_name(child)
            if name == "r":
                yield from self._run_nodes(child)
            elif name == "br":
                yield Point([child], is_break=True)
            elif name == "fld":
                yield Point([child], "".join(text.text or "" for text in child.iter("{*}t")))
            elif name not in self.not_content:
                yield Point([child])

    def _run_nodes(self, run: etree._Element) -> Iterator[Node]:
        shell = self.shell_of(run)
        text = "".join(child.text or "" for child in run.iterchildren("{*}t"))
        for index, part in enumerate(text.split("\t")):
            if index:
                yield Point(self.piece_of(shell, "\t"), TAB)
            if part:
                yield self.text_of(shell, part)

    def run(self, aside: etree._Element, shell: Shell, content: str | etree._Element) -> etree._Element:
        """A run with a formatting and a text."""
        space = shell.tag.removesuffix("r")
        run = etree.SubElement(aside, shell.tag)
        run.extend(self.copied_properties(shell))
        etree.SubElement(run, f"{space}t").text = str(content)
        return run
