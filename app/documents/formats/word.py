"""Word documents (.docx): paragraphs of the text, of tables, text boxes, headers, footers and notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lxml import etree

from app.documents.formats.archives import MACROS_REFUSED
from app.documents.formats.inline import Group, Node, Point
from app.documents.formats.office import OfficeFile
from app.documents.formats.runs import TAB, Holder, Paragraphs, Shell
from app.documents.formats.xml_parts import MAX_NESTING, local_name, parsed
from app.errors import DocumentRefused

_HOLDERS = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo"})
_INVISIBLE = frozenset({"proofErr", "lastRenderedPageBreak"})
_FIELDS_WITH_TEXT = ("HYPERLINK", "TOC")
_LONGEST_NAME = max(map(len, _FIELDS_WITH_TEXT))
_CONTENT_TYPES = "[Content_Types].xml"
_MACRO_TYPE = re.compile(r"macroEnabled|vbaProject|vbaData", re.IGNORECASE)
"""What the types of parts and of their relations hold in documents with macros, whatever the parts are called."""

_MAX_SHOWN = 50
_MAX_FIELD = 200
_PRESERVE = "{http://www.w3.org/XML/1998/namespace}space"


class WordDocument(OfficeFile):
    """A Word document.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no Word document, or has macros.
    """

    parts = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        paragraphs = WordParagraphs(self)
        for root in self.roots():
            for paragraph in list(root.iter("{*}p")):
                if "wordprocessingml" in str(paragraph.tag):
                    paragraphs.add(paragraph)

    def check(self) -> None:
        """Refuse an archive that is no Word document, or one with macros."""
        check_content_types(self, "word/document.xml")


def check_content_types(file: OfficeFile, main_part: str) -> None:
    """Refuse a file of Office without its main part, or of a kind that has macros.

    Args:
        file: The file.
        main_part: The part.

    Raises:
        DocumentRefused: It is another kind of file.
    """
    file.archive.require(_CONTENT_TYPES)
    file.archive.require(main_part)
    for name in file.archive.names:
        if name == _CONTENT_TYPES or name.endswith(".rels"):
            for element in parsed(file.archive[name], file.budget, f"The part {name[:100]}").iter():
                if any(_MACRO_TYPE.search(str(value)) for value in element.attrib.values()):
                    raise DocumentRefused(MACROS_REFUSED)


class WordParagraphs(Paragraphs):
    """Paragraphs of WordprocessingML."""

    properties = "rPr"
    ignored = frozenset({"lang", "noProof", "rsidR", "rsidRPr"})
    not_content = frozenset({"pPr"})

    def nodes(self, holder: etree._Element, depth: int = 0) -> Iterator[Node]:
        """The content of a paragraph, or of an element in one that is nested to a depth."""
        children = [child for child in holder if local_name(child) not in self.not_content | _INVISIBLE]
        ends = _ends_of_fields(children)
        index = 0
        while index < len(children):
            end = ends.get(index, index)
            if end > index:
                shown = "".join(_result(children[index:end]))
                yield Point(children[index:end], shown if len(shown) <= _MAX_SHOWN else "")
                index = end
                continue
            yield from self._node(children[index], depth)
            index += 1

    def _node(self, child: etree._Element, depth: int) -> Iterator[Node]:
        name = local_name(child)
        if name == "r":
            yield from self._run_nodes(child)
        elif depth == MAX_NESTING:
            yield Point([child])
        elif name in _HOLDERS:
            yield Group(Holder(child, child), tuple(self.nodes(child, depth + 1)))
        elif name == "sdt" and (inner := next(child.iterchildren("{*}sdtContent"), None)) is not None:
            yield Group(Holder(child, inner), tuple(self.nodes(inner, depth + 1)))
        else:
            yield Point([child])

    def _run_nodes(self, run: etree._Element) -> Iterator[Node]:
        shell = self.shell_of(run)
        for child in run:
            name = local_name(child)
            if name == "t":
                yield self.text_of(shell, child.text or "")
            elif name == "noBreakHyphen":
                yield self.text_of(shell, "\u2011")
            elif name == "tab":
                yield Point(self.piece_of(shell, child), TAB)
            elif name not in _INVISIBLE and name not in ("rPr", "softHyphen"):
                is_break = name == "cr" or (name == "br" and _attribute(child, "type") in ("", "textWrapping"))
                yield Point(self.piece_of(shell, child), is_break=is_break)

    def run(self, aside: etree._Element, shell: Shell, content: str | etree._Element) -> etree._Element:
        """A run with a formatting, and a text or something else in it."""
        space = shell.tag.removesuffix("r")
        run = etree.SubElement(aside, shell.tag)
        run.extend(self.copied_properties(shell))
        if isinstance(content, str):
            text = etree.SubElement(run, f"{space}t")
            text.text = content
            text.set(_PRESERVE, "preserve")
        else:
            run.append(content)
        return run


def _attribute(element: etree._Element, name: str) -> str:
    """The value of an attribute in the namespace of its element."""
    return element.get(str(element.tag).partition("}")[0] + "}" + name, "")


def _field_signs(child: etree._Element) -> list[str]:
    """What a run says about fields: begin, separate, end."""
    return [_attribute(sign, "fldCharType") for sign in child.iterchildren("{*}fldChar")]


def _ends_of_fields(children: Sequence[etree._Element]) -> dict[int, int]:
    """Where fields begin whose result is not translated, such as a page number, and the indices after them.

    The text of links and tables of contents is translated.
    """
    signs = [_field_signs(child) for child in children]
    if not any("begin" in one for one in signs):
        return {}
    names = ["".join((one.text or "").strip() for one in child.iterchildren("{*}instrText")) for child in children]
    ends: dict[int, int] = {}
    starts: list[int] = []  # of the fields that are open
    for index, signs_of_child in enumerate(signs):
        for sign in signs_of_child:
            if sign == "begin":
                starts.append(index)
            elif sign == "end" and starts:
                start = starts.pop()
                if index - start < _MAX_FIELD and not _has_text(names[start : index + 1]):
                    ends[start] = index + 1
    return ends


def _has_text(names: Sequence[str]) -> bool:
    """Whether a field shows text, by the parts of its name."""
    name = ""
    for part in names:
        name += part[:_LONGEST_NAME].upper()
        if len(name) >= _LONGEST_NAME:
            break
    return name.startswith(_FIELDS_WITH_TEXT)


def _result(field: Sequence[etree._Element]) -> Iterator[str]:
    """The texts that a reader sees of a field."""
    is_result = False
    for child in field:
        signs = _field_signs(child)
        is_result = ("separate" in signs or is_result) and "end" not in signs
        if is_result:
            yield from (text.text or "" for text in child.iter("{*}t"))
