"""Word documents (.docx): paragraphs of the text, of tables, text boxes, diagrams, headers, footers and notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

from app.documents.formats.inline import TAB, Group, Node, Point, paired
from app.documents.formats.packages import PackageFile
from app.documents.formats.runs import Holder, Paragraphs, Shell
from app.documents.formats.slides import SlideParagraphs
from app.documents.formats.xml_parts import MAX_NESTING, clean, local_name

_HOLDERS = frozenset({"hyperlink", "ins", "moveTo", "smartTag", "customXml", "dir", "bdo"})
_INVISIBLE = frozenset({"proofErr", "lastRenderedPageBreak"})
_FIELDS_WITH_TEXT = ("HYPERLINK", "TOC")
_LONGEST_NAME = max(map(len, _FIELDS_WITH_TEXT))
_NUMBER = re.compile(r"(%\d(?:[.:/-]?%\d)*+)")

_MAX_SHOWN = 50
_MAX_FIELD = 200
_PRESERVE = "{http://www.w3.org/XML/1998/namespace}space"


class WordDocument(PackageFile):
    """A Word document.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, encrypted or no Word document, or has macros.
    """

    main_part = "word/document.xml"
    relationships = frozenset(
        {"header", "footer", "footnotes", "endnotes", "numbering", "diagramData", "diagramDrawing"}
    )

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        paragraphs, drawn_paragraphs = WordParagraphs(self), SlideParagraphs(self)
        for root in self.roots():
            initial = None
            for paragraph in list(root.iter("{*}p")):
                if "drawingml" in str(paragraph.tag):
                    drawn_paragraphs.add(paragraph)
                elif "wordprocessingml" in str(paragraph.tag):
                    following_initial = _initial(paragraph)
                    if following_initial is None:
                        paragraphs.add(paragraph, initial)
                    initial = following_initial
            for text in root.iter("{*}lvlText"):
                self._add_numbering(text)
        self.add_labels()

    def style_names(self) -> list[str]:
        """The styles, which name the language of most text."""
        return list(self._related_parts(self._main, frozenset({"styles"})))

    def _add_numbering(self, element: etree._Element) -> None:
        """Add the words around the numbers of a list or of headings."""
        parts = _NUMBER.split(_attribute(element, "val"))
        is_bullet = any(
            _attribute(format, "val") == "bullet" for format in element.itersiblings("{*}numFmt", preceding=True)
        )
        if not is_bullet:
            name = str(element.tag).partition("}")[0] + "}val"
            self.add_numbering(parts, lambda translation: element.set(name, clean(translation)))


def _initial(paragraph: etree._Element) -> etree._Element | None:
    """The text of a paragraph that is the beginning of the next one in a frame, as a drop cap is."""
    frame = next(paragraph.iterchildren("{*}pPr"), paragraph).find("{*}framePr")
    following = paragraph.getnext()
    if frame is None or _attribute(frame, "dropCap") not in ("drop", "margin") or following is None:
        return None
    texts = [text for text in paragraph.iter("{*}t") if text.text]
    is_alone = len(texts) == 1 and local_name(following) == "p" and _initial(following) is None
    return texts[0] if is_alone else None


class WordParagraphs(Paragraphs):
    """Paragraphs of WordprocessingML."""

    properties = "rPr"
    ignored = frozenset({"lang", "noProof", "rsidR", "rsidRPr"})
    not_content = frozenset({"pPr"})

    def nodes(self, holder: etree._Element, depth: int = 0) -> Iterator[Node]:
        """The content of a paragraph, or of an element in one that is nested to a depth."""
        yield from paired(self._points_and_runs(holder, depth))

    def _points_and_runs(self, holder: etree._Element, depth: int) -> Iterator[Node]:
        children = [child for child in holder if local_name(child) not in self.not_content | _INVISIBLE]
        fields = _fields(children)
        index = 0
        while index < len(children):
            if index in fields:
                yield fields[index].point(children[index : fields[index].end])
                index = fields[index].end
            else:
                yield from self._node(children[index], depth)
                index += 1

    def _node(self, child: etree._Element, depth: int) -> Iterator[Node]:
        name = local_name(child)
        if name == "r":
            yield from self._run_nodes(child)
        elif depth == MAX_NESTING:
            yield Point([child])
        elif name in _HOLDERS or (name == "fldSimple" and _has_text([_attribute(child, "instr").strip()])):
            yield Group(Holder(child, child), tuple(self.nodes(child, depth + 1)), is_formatting=False)
        elif name == "sdt" and (inner := next(child.iterchildren("{*}sdtContent"), None)) is not None:
            yield Group(Holder(child, inner), tuple(self.nodes(inner, depth + 1)), is_formatting=False)
        elif name == "fldSimple":
            yield Point([child], _shown(text.text or "" for text in child.iter("{*}t")))
        else:
            key = f"{name.removesuffix('Start').removesuffix('End')} {_attribute(child, 'id')}"
            is_start, is_end = name.endswith("Start"), name.endswith("End")
            yield Point([child], starts=key if is_start else "", ends=key if is_end else "")

    def _run_nodes(self, run: etree._Element) -> Iterator[Node]:
        shell = self.shell_of(run)
        for child in run:
            name = local_name(child)
            if name == "t":
                yield from self.text_of(shell, child.text or "")
            elif name == "noBreakHyphen":
                yield from self.text_of(shell, "\u2011")
            elif name in ("tab", "ptab"):
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


@dataclass(frozen=True)
class _Field:
    """Runs of a field that are one point.

    Args:
        end: Index after the last of them.
        is_whole: Whether they are the field, with its result. Otherwise the result is translated.
        starts: The field, if the runs begin one that ends beside them.
        ends: The field that the runs end.
    """

    end: int
    is_whole: bool = False
    starts: str = ""
    ends: str = ""

    def point(self, runs: list[etree._Element]) -> Point:
        """The point for its runs."""
        return Point(runs, _shown(_result(runs)) if self.is_whole else "", starts=self.starts, ends=self.ends)


def _fields(children: Sequence[etree._Element]) -> dict[int, _Field]:
    """The fields in some content, by the index of their first run.

    The text of links and tables of contents is translated: these have a point at each end. A field that ends in another
    paragraph has one at its beginning.
    """
    signs = [_field_signs(child) for child in children]
    if not any(signs):
        return {}
    names = ["".join((text.text or "").strip() for text in child.iterchildren("{*}instrText")) for child in children]
    fields: dict[int, _Field] = {}
    open_fields: list[list[int]] = []  # of each the index of its begin, and that of its separator
    for index, sign in ((index, sign) for index, signs_of_child in enumerate(signs) for sign in signs_of_child):
        if sign == "begin":
            open_fields.append([index])
        elif sign == "separate" and open_fields:
            open_fields[-1].append(index)
        elif sign == "end" and open_fields:
            start, separator = [*open_fields.pop(), index][:2]
            if index - start >= _MAX_FIELD:
                continue
            if not _has_text(names[start : index + 1]):
                fields[start] = _Field(index + 1, is_whole=True)
            elif start < separator < index and not any(map(_holds_text, (children[separator], children[index]))):
                fields[start] = _Field(separator + 1, starts=f"field {start}")
                fields[index] = _Field(index + 1, ends=f"field {start}")
    for start, separator in (field[:2] for field in open_fields if len(field) > 1):
        if start < separator < start + _MAX_FIELD and not _holds_text(children[separator]):
            fields[start] = _Field(separator + 1)
    return fields


def _holds_text(run: etree._Element) -> bool:
    return next(run.iterchildren("{*}t"), None) is not None


def _has_text(names: Sequence[str]) -> bool:
    """Whether a field shows text, by the parts of its name."""
    name = ""
    for part in names:
        name += part[:_LONGEST_NAME].upper()
        if len(name) >= _LONGEST_NAME:
            break
    return name.startswith(_FIELDS_WITH_TEXT)


def _shown(texts: Iterable[str]) -> str:
    """The text of a field as a word of its sentence; empty if it is long."""
    shown = "".join(texts)
    return shown if len(shown) <= _MAX_SHOWN else ""


def _result(field: Sequence[etree._Element]) -> Iterator[str]:
    """The texts that a reader sees of a field."""
    is_result = False
    for child in field:
        signs = _field_signs(child)
        is_result = ("separate" in signs or is_result) and "end" not in signs
        if is_result:
            yield from (text.text or "" for text in child.iter("{*}t"))
