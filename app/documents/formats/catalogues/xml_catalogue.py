"""XML of catalogues, read with the positions of its elements, so that all other characters stay as they are."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from xml.parsers import expat

from app.documents.formats.catalogues.catalogue import CatalogueFile, Message
from app.documents.formats.document_file import Unit, unescaped
from app.documents.formats.encodings import XML
from app.documents.formats.inline import Fragment, Group, Node, Point, written
from app.documents.formats.languages import names_same_language
from app.documents.formats.xml_parts import MAX_NESTING, ElementBudget, clean
from app.errors import DocumentRefused
from app.serving.detection import has_letters

_TAG = r"</?[^<>\"'\s/!?]++(?:[^<>\"']++|\"[^\"]*+\"|'[^']*+')*+>"
_TOKEN = re.compile(rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<!DOCTYPE[^>]*+>|(?P<tag>{_TAG})", re.DOTALL)
_NAME = re.compile(r"</?([^\s/>]++)")
_ATTRIBUTE = re.compile(r"(?P<space>\s++)(?P<name>[^\s=]++)\s*+=\s*+(?:\"(?P<double>[^\"]*+)\"|'(?P<single>[^']*+)')")
_SPACE = " \t\r\n"
_MAX_DEPTH = 255
_EMPTY_SUBSET = re.compile(r"<!DOCTYPE\s[^<>\[\]\"']*+\[\s*+\]\s*+>")
_CDATA = re.compile(r"<!\[CDATA\[(?:(?!\]\]>).)*+\]\]>", re.DOTALL)
_HTML = re.compile(r"</[a-zA-Z]|<br\b", re.IGNORECASE)
_NO_TEXT = re.compile(rf"<!--.*?-->|<\?.*?\?>|{_TAG}", re.DOTALL)


@dataclass(eq=False, slots=True)
class Element:
    """An element by its positions in the file.

    Args:
        name: Its name without a prefix.
        parent: The element that it is in.
        start: The first character of its start tag.
        content: The first character of its content.
        content_end: The character after its content.
        end: The character after its end tag.
        children: The elements in it.
    """

    name: str
    parent: Element | None
    start: int
    content: int
    content_end: int = 0
    end: int = 0
    children: list[Element] = field(default_factory=list)

    def all(self, *names: str) -> Iterator[Element]:
        """The elements in it that have one of some names, at any depth, in the order of the file."""
        pending = [self]
        while pending:
            element = pending.pop()
            if element is not self and element.name in names:
                yield element
            pending += reversed(element.children)

    def first(self, name: str) -> Element | None:
        """The first child with a name."""
        return next((child for child in self.children if child.name == name), None)

    def lineage(self) -> Iterator[Element]:
        """The element, its parent, and so on."""
        element: Element | None = self
        while element is not None:
            yield element
            element = element.parent


class XmlCatalogue(CatalogueFile):
    """A catalogue in XML.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is not well-formed, declares entities, or has another root.
        DocumentTooComplex: It has too many elements.
    """

    declaration = XML
    root_name = ""
    """The name of the root, if it has to be checked."""

    not_read = ""
    """What a file with another root is."""

    groups: frozenset[str] = frozenset()
    """Names of the elements whose text belongs to the text around them."""

    def __init__(self, data: bytes) -> None:
        ElementBudget().take(data)
        super().__init__(data)
        _check(self.text)
        self.root = _tree(self.text)
        if self.root.name != (self.root_name or self.root.name):
            raise DocumentRefused(f"The file is {self.not_read}: its root is not <{self.root_name}>.")
        self._inherited: dict[tuple[Element, str], str] = {}

    def attributes(self, element: Element) -> dict[str, str]:
        """The attributes of an element, by their names with prefixes."""
        tag = self.text[element.start : element.content]
        return {match["name"]: unescaped(_value(match)) for match in _ATTRIBUTE.finditer(tag)}

    def inherited(self, element: Element, name: str) -> str:
        """The value of an attribute of an element or of the nearest element around it that has one."""
        value = ""
        passed = []
        for around in element.lineage():
            value = self._inherited.get((around, name)) or self.attributes(around).get(name, "")
            passed.append((around, name))
            if value or (around, name) in self._inherited:
                break
        self._inherited |= dict.fromkeys(passed, value)
        return value

    def set_attribute(self, element: Element, name: str, value: str | None) -> None:
        """Set an attribute of an element, or remove it if the value is None."""
        tag = self.text[element.start : element.content]
        match = next((match for match in _ATTRIBUTE.finditer(tag) if match["name"] == name), None)
        if match is not None:
            group = "double" if match["double"] is not None else "single"
            start, end = match.span() if value is None else match.span(group)
            self.replace_value(element.start + start, element.start + end, value or "")
        elif value is not None:
            position = element.start + len(tag.rstrip("/>").rstrip())
            self.replace(position, position, f' {name}="{value}"')

    def name_language(self, element: Element, attribute: str, target: str) -> None:
        """Name a language in an attribute, unless it names the same language, in any region."""
        if not names_same_language(self.attributes(element).get(attribute, ""), target):
            self.set_attribute(element, attribute, target)

    def set_content(self, element: Element, content: str) -> None:
        """Replace the content of an element by characters of XML."""
        if element.content_end < element.end:
            self.replace(element.content, element.content_end, content)
        else:  # <a/>
            tag = self.text[element.start : element.end]
            name = _NAME.match(tag)
            start = element.start + len(tag[:-2].rstrip())
            self.replace(start, element.end, f">{content}</{name[1] if name else ''}>")

    def write_state(self, element: Element, **attributes: str | None) -> None:
        """Set attributes of an element as :meth:`set_attribute` does."""
        for name, value in attributes.items():
            self.set_attribute(element, name.replace("_", "-"), value)

    def raw(self, element: Element) -> str:
        """The content of an element as the file has it."""
        return self.text[element.content : element.content_end]

    def has_text(self, element: Element | None) -> bool:
        """Whether an element has more in it than tags, comments and whitespace."""
        return element is not None and bool(_NO_TEXT.sub("", self.raw(element)).strip())

    def shown(self, element: Element) -> str | None:
        """What stands for an inline element as a word of its sentence; empty if it is none, None for a group."""
        return None if element.name in self.groups else ""

    def is_break(self, element: Element) -> bool:
        """Whether an inline element is a line break."""
        return False

    def nodes(self, element: Element, depth: int = 0) -> Iterator[Node]:
        """The content of an element that is nested to a depth. The sources of nodes are characters of the file."""
        position = element.content
        for child in element.children:
            yield from _texts(self.text[position : child.start])
            shown = self.shown(child) if depth < MAX_NESTING else ""
            if shown is None and child.content_end < child.end:
                tags = (self.text[child.start : child.content], self.text[child.content_end : child.end])
                yield Group(tags, tuple(self.nodes(child, depth + 1)))
            else:
                yield Point(self.text[child.start : child.end], shown or "", self.is_break(child))
            position = child.end
        yield from _texts(self.text[position : element.content_end])

    def read_text(self, text: str, original: str, is_preserved: bool) -> str:
        """The characters that a text of the format stands for.

        Args:
            text: A text between two elements.
            original: The content in which it is.
            is_preserved: Whether its whitespace is to be kept (``xml:space``).
        """
        return text

    def write_text(self, text: str, original: str) -> str:
        """A text as the format has it, before it is written as XML in the place of ``original``."""
        return text

    def unit_of(self, element: Element) -> tuple[Unit, Callable[[str], str]]:
        """The content of an element as a unit, and what makes content of its translation.

        Whitespace at the ends of the content is kept.
        """
        raw = self.raw(element)
        original = raw.strip(_SPACE)
        start = len(raw) - len(raw.lstrip(_SPACE))
        before, after = raw[:start], raw[start + len(original) :]
        nodes = list(self.nodes(element))
        num_before, num_after = (len(_with_line_feeds(space)) for space in (before, after))
        for index, end in ((0, slice(num_before, None)), (-1, slice(-num_after or None))):
            text = nodes[index]
            nodes[index] = text[end] if isinstance(text, str) else text
        is_preserved = self.inherited(element, "xml:space") == "preserve"
        nodes = _mapped(nodes, lambda text: self.read_text(text, original, is_preserved))
        if _CDATA.fullmatch(original) and _HTML.search(original):
            text = "".join(map(str, nodes))
            return Unit(text, "html"), lambda translation: before + self._xml([translation], original) + after
        if not all(isinstance(node, str) for node in nodes):
            nodes = _with_breaks(nodes, self._written("\n", original))
        fragment = Fragment(nodes)
        return fragment.unit, lambda translation: before + self._xml(fragment.read(translation), original) + after

    def add_element(self, key: str, element: Element) -> None:
        """Add the content of an element as a message that its translation replaces."""
        unit, read = self.unit_of(element)
        if has_letters(unit.words):
            self.add_message(Message(key, [unit], lambda texts: self.set_content(element, read(texts[0]))))

    def _xml(self, nodes: Sequence[Node], original: str) -> str:
        """The characters of some content in the place of an original; in that of a CDATA section they are one, too."""
        if _CDATA.fullmatch(original) and all(isinstance(node, str) for node in nodes):
            text = self._written("".join(map(str, nodes)), original).replace("]]>", "]]]]><![CDATA[>")
            return f"<![CDATA[{text}]]>"
        return written(nodes, lambda text: self._escaped(text, original))

    def _escaped(self, text: str, original: str) -> str:
        text = text.replace("&", "&amp;").replace("<", "&lt;").replace("\r", "&#13;")
        text = text.replace(">", "&gt;") if _escapes_greater(original) else text.replace("]]>", "]]&gt;")
        return self._written(text, original)

    def _written(self, text: str, original: str) -> str:
        """A text as the format has it, with the line ends of the file."""
        return clean(self.write_text(text, original)).replace("\n", self.line_end)


def _with_line_feeds(raw: str) -> str:
    """Characters of XML with the line ends that a reader of XML sees."""
    return raw.replace("\r\n", "\n")


@lru_cache(maxsize=1)  # for all nodes of an element
def _escapes_greater(original: str) -> bool:
    return "&gt;" in original


def _with_breaks(nodes: Iterable[Node], line_end: str) -> list[Node]:
    """Content with line breaks as nodes: in markup they would be spaces."""
    changed: list[Node] = []
    for node in nodes:
        if isinstance(node, Group):
            changed.append(Group(node.source, tuple(_with_breaks(node.children, line_end))))
        elif isinstance(node, str) and "\n" in node:
            first, *others = node.split("\n")
            changed += [first, *(part for line in others for part in (Point(line_end, is_break=True), line))]
        else:
            changed.append(node)
    return changed


def _mapped(nodes: Iterable[Node], change: Callable[[str], str]) -> list[Node]:
    """Content with its texts changed."""
    return [
        change(node)
        if isinstance(node, str)
        else Group(node.source, tuple(_mapped(node.children, change)))
        if isinstance(node, Group)
        else node
        for node in nodes
    ]


def _texts(raw: str) -> Iterator[Node]:
    """The texts, sections and comments between two elements."""
    raw = _with_line_feeds(raw)
    position = 0
    if "<" in raw:
        for token in _TOKEN.finditer(raw):
            yield unescaped(raw[position : token.start()])
            yield token[0][9:-3] if token[0].startswith("<![") else Point(token[0])
            position = token.end()
    yield unescaped(raw[position:])


def _value(match: re.Match[str]) -> str:
    return match["double"] if match["double"] is not None else match["single"]


def _check(text: str) -> None:
    """Refuse XML that is not well-formed or declares entities.

    Raises:
        DocumentRefused: It is.
    """

    def refuse_entities(name: str, system: str | None, public: str | None, has_internal_subset: int) -> None:
        if has_internal_subset and not _EMPTY_SUBSET.search(text):
            raise DocumentRefused("The file has a document type declaration with entities, which are not read.")

    parser = expat.ParserCreate("utf-8")
    parser.StartDoctypeDeclHandler = refuse_entities
    try:
        parser.Parse(text.encode(), True)
    except (expat.ExpatError, UnicodeEncodeError) as error:
        raise DocumentRefused(f"The file is no well-formed XML: {error}.") from None


def _tree(text: str) -> Element:
    """The root of a document that is well-formed."""
    root = open_element = Element("", None, 0, 0, len(text), len(text))
    depth = 0
    for token in _TOKEN.finditer(text):
        tag = token["tag"]
        if tag is None:
            continue
        if tag[1] == "/":
            open_element.content_end, open_element.end = token.span()
            open_element = open_element.parent or root
            depth -= 1
            continue
        name = tag[1:-1].split(maxsplit=1)[0].rstrip("/").rpartition(":")[2]
        element = Element(name, open_element, token.start(), token.end(), token.end(), token.end())
        open_element.children.append(element)
        if not tag.endswith("/>"):
            open_element = element
            depth += 1
        if depth > _MAX_DEPTH:
            raise DocumentRefused(f"The file has more than {_MAX_DEPTH} elements in one another.")
    return root.children[0]
