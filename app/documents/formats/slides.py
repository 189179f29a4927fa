"""PowerPoint presentations (.pptx): paragraphs of the slides, of their tables and diagrams, and of the notes."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from app.documents.formats.inline import Node, Point
from app.documents.formats.packages import PackageFile
from app.documents.formats.runs import Paragraphs, Shell
from app.documents.formats.xml_parts import local_name


class Presentation(PackageFile):
    """A PowerPoint presentation.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no presentation, or has macros.
    """

    main_part = "ppt/presentation.xml"
    relationships = frozenset({"slide", "notesSlide", "diagramData", "diagramDrawing"})

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        paragraphs = SlideParagraphs(self)
        for root in self.roots():
            for paragraph in list(root.iter("{*}p")):
                if "drawingml" in str(paragraph.tag):
                    paragraphs.add(paragraph)
        self.add_labels()


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
        yield from self.text_of(shell, "".join(child.text or "" for child in run.iterchildren("{*}t")))

    def run(self, aside: etree._Element, shell: Shell, content: str | etree._Element) -> etree._Element:
        """A run with a formatting and a text."""
        space = shell.tag.removesuffix("r")
        run = etree.SubElement(aside, shell.tag)
        run.extend(self.copied_properties(shell))
        etree.SubElement(run, f"{space}t").text = str(content)
        return run
