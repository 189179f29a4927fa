"""XML as items, from the parser expat of the standard library: strict, and without entities that a document declares.

XML has no inline elements by name. An element is inline if there is text beside it, or if it is the only element in
an inline element; it then belongs to the text around it, unless it holds a clause: it begins after the end of one, and
ends with a sign. All others separate texts. An empty inline element is a word of its sentence, because translation
tools send such placeholders: ``<x id="1"/> was deleted``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from xml.parsers import expat

from model.errors import InvalidMarkup
from model.text.markup.html_names import is_not_translated, is_other_language
from model.text.markup.items import MAX_SHOWN, NO_RULES, OBJECT, ElementRules, Item, Role
from model.text.pieces import SURROGATE

_PROLOG = re.compile(r"<\?xml\s|(?>\s|<!--.*?-->|<\?.*?\?>)*+<!DOCTYPE", re.DOTALL)
_WRAPPER = "verso-fragment"
_BYTE_ORDER_MARK = "\ufeff"
_CLAUSE_ENDS = frozenset(".;:!?…。；：！？")


@dataclass(slots=True)
class _Element:
    """An element of the document.

    Args:
        name: Its name.
        parent: Index of the element around it, or -1.
        is_kept: Whether it, or one around it, is not translated.
        has_text: Whether it has text directly in it.
        num_children: Elements directly in it.
        begins_clause: Whether it begins the element around it, or follows the sign at the end of a clause.
        is_clause: Whether it begins a clause, has several words, and ends with such a sign.
    """

    name: str
    parent: int
    is_kept: bool
    has_text: bool = False
    num_children: int = 0
    begins_clause: bool = False
    is_clause: bool = False


@dataclass(slots=True)
class _Event:
    """An event of the parser.

    Args:
        kind: The kind of event.
        start: Index of its first byte.
        element: Index of the element that it starts, ends or is in; -1 outside of the root.
        text: Decoded text.
    """

    kind: Literal["start", "end", "text", "start_cdata", "end_cdata", "other"]
    start: int
    element: int
    text: str = ""


def xml_items(document: str, rules: ElementRules = NO_RULES) -> list[Item]:
    """The items of an XML document, or of a part of one: text with elements.

    Args:
        document: The document. The encoding in its declaration is ignored.
        rules: Which elements are translated and which separate texts; names are with or without their prefix.

    Raises:
        InvalidMarkup: It is not well-formed, or it declares entities.
    """
    if document.startswith(_BYTE_ORDER_MARK):
        rest = xml_items(document.removeprefix(_BYTE_ORDER_MARK), rules)
        return [Item(Role.BOUNDARY, _BYTE_ORDER_MARK), *rest]
    surrogate = SURROGATE.search(document)
    if surrogate:
        line_start = document.rfind("\n", 0, surrogate.start()) + 1
        line = document.count("\n", 0, line_start) + 1
        raise InvalidMarkup("an unpaired surrogate is not a character", line, surrogate.start() - line_start + 1)
    reader = _Reader(document, rules)
    return _items(reader.source, reader.elements, reader.events, _inline(reader.elements, rules))


class _Reader:
    """Reads the elements and events of a document.

    Args:
        document: The document, without byte order mark.
        rules: Which elements are translated.

    Raises:
        InvalidMarkup: As in :func:`xml_items`.
    """

    def __init__(self, document: str, rules: ElementRules) -> None:
        self.source = document.encode()
        self.elements: list[_Element] = []
        self.events: list[_Event] = []
        self._ignored = frozenset(rules.ignored)
        self._language = rules.language
        self._last_visible = ""  # the last character of the text so far
        self._num_spaces = 0  # between words, so far
        self._spaces_before: list[int] = []  # by open element
        self._open: list[int] = []
        # Without a declaration the document may be a fragment, so it is read as the content of an element.
        self._wrapper = b"" if _PROLOG.match(document) else f"<{_WRAPPER}>".encode()
        self._expat = expat.ParserCreate("utf-8")
        self._expat.StartElementHandler = self._start
        self._expat.EndElementHandler = self._end
        self._expat.CharacterDataHandler = self._text
        self._expat.StartCdataSectionHandler = lambda: self._event("start_cdata")
        self._expat.EndCdataSectionHandler = lambda: self._event("end_cdata")
        self._expat.EntityDeclHandler = self._entity
        # References to entities of an external subset, which is not read; comments, instructions, the doctype.
        self._expat.SkippedEntityHandler = lambda *_: self._event("other")
        self._expat.DefaultHandler = lambda _: self._event("other")
        try:
            self._expat.Parse(self._wrapper + self.source + self._wrapper.replace(b"<", b"</"), True)
        except expat.ExpatError as error:
            raise self._error(expat.ErrorString(error.code) or str(error), error.lineno, error.offset) from None

    def _error(self, reason: str, line: int, column: int) -> InvalidMarkup:
        inside = self.elements[self._open[-1]].name if self._open else _WRAPPER
        where = "" if inside == _WRAPPER else f" in the element {inside[:50]!r}"
        return InvalidMarkup(reason + where, line, column + 1 - (len(self._wrapper) if line == 1 else 0))

    def _event(
        self, kind: Literal["start", "end", "text", "start_cdata", "end_cdata", "other"], text: str = ""
    ) -> None:
        start = max(0, self._expat.CurrentByteIndex - len(self._wrapper))
        self.events.append(_Event(kind, start, self._open[-1] if self._open else -1, text))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        parent = self._open[-1] if self._open else -1
        around = self.elements[parent] if self._open else _Element("", -1, is_kept=False)
        around.num_children += 1
        is_root = not self.elements or (self.elements[0].name == _WRAPPER and len(self.elements) == 1)
        is_kept = around.is_kept or bool(self._ignored & {name, name.rpartition(":")[2]})
        is_kept = is_kept or is_not_translated(attributes)
        is_kept = is_kept or (not is_root and is_other_language(attributes.get("xml:lang", ""), self._language))
        self._open.append(len(self.elements))
        is_first = not around.has_text and around.num_children == 1
        self.elements.append(
            _Element(name, parent, is_kept, begins_clause=is_first or self._last_visible in _CLAUSE_ENDS)
        )
        self._spaces_before.append(self._num_spaces)
        self._event("start")

    def _end(self, _: str) -> None:
        self._event("end")
        element = self.elements[self._open.pop()]
        has_words = self._num_spaces > self._spaces_before.pop()
        element.is_clause = element.begins_clause and has_words and self._last_visible in _CLAUSE_ENDS

    def _text(self, data: str) -> None:
        if data.strip():
            self.elements[self._open[-1]].has_text = True
            self._last_visible = data.rstrip()[-1]
            self._num_spaces += len(data.split()) - 1
        else:
            self._num_spaces += 1
        self._event("text", data)

    def _entity(self, name: str, *_: Any) -> None:
        reason = f"the document declares the entity {name[:50]!r}, and declared entities are refused"
        raise self._error(reason, self._expat.CurrentLineNumber, self._expat.CurrentColumnNumber)


def _items(
    source: bytes, elements: Sequence[_Element], events: Sequence[_Event], is_inline: Sequence[bool]
) -> list[Item]:
    items: list[Item] = []
    index = 0
    while index < len(events):
        event = events[index]
        end = index + 1
        kept = event.kind == "start" and elements[event.element].is_kept
        if kept:
            end = _after(events, index, "end")
        elif event.kind == "start_cdata":
            end = _after(events, index, "end_cdata")
        elif event.kind == "text":
            end = _after_text(source, events, index)
        stop = events[end].start if end < len(events) else len(source)
        verbatim = source[event.start : stop].decode()
        inline = event.element >= 0 and is_inline[event.element]
        if not verbatim:
            pass  # the end of <a/>, or the element around a fragment
        elif kept or event.kind == "start_cdata":
            shown = " ".join("".join(part.text for part in events[index:end]).split())
            items.append(_kept(verbatim, shown, inline or not kept))
        elif event.kind == "text":
            text = "".join(part.text for part in events[index:end])
            items.append(Item(Role.TEXT, verbatim, text, is_reference=verbatim.startswith("&")))
        elif event.kind == "other":
            items.append(Item(Role.POINT if event.element >= 0 else Role.BOUNDARY, verbatim))
        elif not inline:
            items.append(Item(Role.BOUNDARY, verbatim, name=elements[event.element].name))
        elif verbatim.endswith("/>"):
            items.append(Item(Role.CONTENT, verbatim, OBJECT))
        else:
            role = Role.OPENING if event.kind == "start" else Role.CLOSING
            items.append(Item(role, verbatim, name=elements[event.element].name))
        index = end
    return items


def _inline(elements: Sequence[_Element], rules: ElementRules) -> list[bool]:
    """For each element, whether it belongs to the text around it."""
    splitting, never = frozenset(rules.splitting), frozenset(rules.inline)
    inline: list[bool] = []
    for element in elements:
        names = {element.name, element.name.rpartition(":")[2]}
        around = elements[element.parent] if element.parent >= 0 else None
        if names & splitting or around is None:
            inline.append(False)
        elif names & never or not rules.outline:
            inline.append(True)
        else:
            is_alone = around.num_children == 1 and inline[element.parent]
            inline.append((around.has_text and not element.is_clause) or is_alone)
    return inline


def _after(events: Sequence[_Event], start: int, kind: str) -> int:
    """The index after the next event of a kind in the same element."""
    element = events[start].element
    return next(
        index + 1
        for index in range(start, len(events))
        if events[index].kind == kind and events[index].element == element
    )


def _after_text(source: bytes, events: Sequence[_Event], start: int) -> int:
    """The index after the text that begins at ``start``; each character reference is a separate text."""
    end = start + 1
    if not source.startswith(b"&", events[start].start):
        while end < len(events) and events[end].kind == "text" and not source.startswith(b"&", events[end].start):
            end += 1
    return end


def _kept(source: str, shown: str, inline: bool) -> Item:
    if not inline:
        return Item(Role.BOUNDARY, source)
    return Item(Role.CONTENT, source, shown if 0 < len(shown) <= MAX_SHOWN else OBJECT)
