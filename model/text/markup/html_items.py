"""HTML as items. Tokens, their sources and positions come from turbohtml, which follows the HTML standard."""

from __future__ import annotations

import html
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from turbohtml import Token, TokenType, tokenize

from model.text.markup.html_names import (
    BLOCKS,
    CODE,
    FALLBACKS,
    HIDDEN,
    IMPLIED_ENDS,
    KEPT,
    VOID,
    is_not_translated,
    is_other_language,
    translated_names,
)
from model.text.markup.items import MAX_SHOWN, NO_RULES, OBJECT, Attribute, ElementRules, Item, Role
from model.text.markup.template_code import has_code, masked, role_of, template_code
from model.text.symbols import Span

_TEXTS = (TokenType.TEXT, TokenType.CHARACTER_REFERENCE)
_CONTROL = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f]")
_SPACE = "\t\n\f\r "
_DROPPED = "</>"
_TAG_NAME = re.compile(rf"</?[^{_SPACE}/>]*")
_ATTRIBUTE = re.compile(
    rf"[{_SPACE}/]*(?P<name>=?[^{_SPACE}/>=]*)"
    rf"(?:[{_SPACE}]*=[{_SPACE}]*(?P<value>\"[^\"]*\"|'[^']*'|[^{_SPACE}>\"'][^{_SPACE}>]*))?"
)


class _Piece(NamedTuple):
    """A token with its source, or source without a token: template code, or what the tokenizer drops."""

    source: str
    token: Token | None = None
    is_code: bool = False


def html_items(document: str, rules: ElementRules = NO_RULES, *, is_xml: bool = False) -> list[Item]:
    """The items of an HTML page or fragment.

    Args:
        document: Any text: every text is valid HTML.
        rules: Which elements are translated, and which separate texts.
        is_xml: Whether it is XML that is not well-formed: ``<x/>`` is an empty element, and code is translated.
    """
    return _Reader(document, rules, is_xml).items()


_WITH_TEXTS = frozenset({"svg"}) | FALLBACKS - {"noscript"}
"""Kept elements in which readers see texts: those of a drawing, and the names of the subtitles of a video."""


class _Reader:
    """Reads the items of a page; the arguments are those of :func:`html_items`."""

    def __init__(self, document: str, rules: ElementRules, is_xml: bool) -> None:
        self._pieces = list(_pieces(document))
        self._is_xml = is_xml
        self._ignored = frozenset(name.lower() for name in rules.ignored)
        self._blocks = (BLOCKS - {name.lower() for name in rules.inline}) | {name.lower() for name in rules.splitting}
        self._rules = rules
        self._language = rules.language
        visible = [index for index, piece in enumerate(self._pieces) if _is_text(piece) and piece.source.strip()]
        self._first_visible, self._last_visible = (visible[0], visible[-1]) if visible else (0, 0)
        self._fallback_end = 0  # of the outermost element that separates texts because of the words in it

    def items(self) -> list[Item]:
        """The items."""
        items: list[Item] = []
        index = 0
        is_in_field = False  # in a text field, whose line breaks users see
        while index < len(self._pieces):
            piece = self._pieces[index]
            name = _start_tag(piece)
            if name == "html" and not self._language:
                self._language = _attributes(piece).get("lang", "")
            if name and self._is_kept(index):
                end = _end_of_element(self._pieces, index)
                items.append(self._kept(name, self._pieces[index:end]))
                index = end
            elif name in FALLBACKS and not self._is_xml and (name == "noscript" or not self._has_words(index)):
                end = _end_of_element(self._pieces, index)
                inside = self._pieces[index:end]
                items += self._noscript(inside) if name == "noscript" else [self._kept(name, inside)]
                index = end
            else:
                if piece.token is not None and piece.token.type not in _TEXTS:
                    is_in_field = name == "textarea"
                read = self._items_of(piece)
                items += (item._replace(keeps_space=True) for item in read) if is_in_field else read
                index += 1
        return items

    def _is_kept(self, index: int) -> bool:
        piece = self._pieces[index]
        attributes, name = _attributes(piece), _start_tag(piece)
        is_code = name in CODE and attributes.get("translate", "").lower() == "yes"
        kept = {"script", "style"} if self._is_xml else KEPT
        if is_not_translated(attributes) or name in self._ignored or (name in kept and not is_code):
            return True
        marked = attributes.get("lang") or attributes.get("xml:lang") or ""
        if name in ("html", "body") or not is_other_language(marked, self._language):
            return False
        # The text of an element around all of the document is in the language that the caller gives.
        if index < self._first_visible and _end_of_element(self._pieces, index) > self._last_visible:
            self._language = marked
            return False
        return True

    def _has_words(self, index: int) -> bool:
        """Whether an element has words in it, or labels; elements in it need not be searched again."""
        if index < self._fallback_end:
            return True
        end = _end_of_element(self._pieces, index)
        texts = (
            piece
            for before, piece in zip(self._pieces[index:end], self._pieces[index + 1 : end], strict=False)
            if _start_tag(before) not in ("script", "style")
        )
        labels = (
            attribute
            for piece in self._pieces[index:end]
            if piece.token is not None and _start_tag(piece)
            for attribute in _translated_attributes(piece.source, piece.token)
        )
        if any(_is_text(piece) and any(map(str.isalpha, piece.source)) for piece in texts) or any(labels):
            self._fallback_end = end
            return True
        return False

    def _noscript(self, pieces: Sequence[_Piece]) -> Iterator[Item]:
        """The items of an element whose content the tokenizer reads as one text."""
        last = pieces[-1].token
        is_closed = last is not None and last.type is TokenType.END_TAG
        inside = "".join(piece.source for piece in (pieces[1:-1] if is_closed else pieces[1:]))
        items = _Reader(inside, self._rules, self._is_xml).items()
        if any(item.role is Role.TEXT and any(map(str.isalpha, item.text)) for item in items):
            yield Item(Role.BOUNDARY, pieces[0].source, name="noscript")
            yield from items
            if is_closed:
                yield Item(Role.BOUNDARY, pieces[-1].source, name="noscript")
        else:
            yield self._kept("noscript", pieces)

    def _kept(self, name: str, pieces: Sequence[_Piece]) -> Item:
        source = "".join(piece.source for piece in pieces)
        last = pieces[-1].token
        is_closed = name in VOID or (last is not None and last.type is TokenType.END_TAG and last.tag == name)
        attributes = tuple(_texts_inside(pieces)) if name in _WITH_TEXTS and not self._is_xml else ()
        if name in self._blocks or not is_closed:  # source after an element that is not closed would be in it
            return Item(Role.BOUNDARY, source, attributes=attributes)
        if name in HIDDEN:
            return Item(Role.POINT, source, attributes=attributes)
        shown = " ".join("".join(map(_shown, pieces)).split())
        if not shown or len(shown) > MAX_SHOWN or _CONTROL.search(shown):
            return Item(Role.CONTENT, source, OBJECT) if self._is_xml else Item(Role.POINT, source)
        return Item(Role.CONTENT, source, text=shown)

    def _items_of(self, piece: _Piece) -> Iterator[Item]:
        token = piece.token
        if piece.is_code:
            yield _code(piece.source)
        elif token is None:
            yield Item(Role.POINT, piece.source)
        elif token.type is TokenType.TEXT:
            position = 0
            for control in _CONTROL.finditer(piece.source):
                if control.start() > position:
                    text = piece.source[position : control.start()]
                    yield Item(Role.TEXT, text, text=text)
                yield Item(Role.POINT, control[0])
                position = control.end()
            if position < len(piece.source):
                yield Item(Role.TEXT, piece.source[position:], text=piece.source[position:])
        elif token.type is TokenType.CHARACTER_REFERENCE:
            text = token.data or ""
            role = Role.POINT if _CONTROL.search(text) or not text else Role.TEXT
            yield Item(role, piece.source, text=text if role is Role.TEXT else "", is_reference=True)
        elif token.type in (TokenType.START_TAG, TokenType.END_TAG):
            yield self._tag_item(piece.source, token)
        elif token.type is TokenType.DOCTYPE:
            yield Item(Role.BOUNDARY, piece.source)
        else:
            yield Item(Role.POINT, piece.source)

    def _tag_item(self, source: str, token: Token) -> Item:
        name = token.tag or ""
        if name == "br":  # </br> is a line break as well
            return Item(Role.BREAK, source, text=" ")
        is_start = token.type is TokenType.START_TAG
        attributes = tuple(_translated_attributes(source, token)) if is_start and not self._is_xml else ()
        if name in self._blocks or (name in FALLBACKS and not self._is_xml):
            return Item(Role.BOUNDARY, source, name=name, attributes=attributes)
        if self._is_xml and token.self_closing:
            return Item(Role.CONTENT, source, OBJECT)
        if name in VOID:
            return Item(Role.POINT, source, attributes=attributes)
        return Item(Role.OPENING if is_start else Role.CLOSING, source, name=name, attributes=attributes)


def _pieces(document: str) -> Iterator[_Piece]:
    """The tokens with their sources, and the source that the tokenizer drops: unfinished tags and ``</>``."""
    # The tokenizer counts \r\n as one character. It treats a space like \r; the sources are slices of the document.
    codes = list(template_code(document))
    lines = masked(document, codes).replace("\r", " ")
    line_starts = [0, *(match.end() for match in re.finditer("\n", lines))]
    tokens = list(tokenize(lines, resolve_references=False, capture_source=True))
    starts = [line_starts[token.line - 1] + token.col for token in tokens]
    starts.append(len(document))
    yield from _without_token(document, 0, starts[0])
    for token, start, following in zip(tokens, starts, starts[1:], strict=False):
        if token.type is not TokenType.TEXT:
            end = start + len(token.source or "")
            yield _Piece(document[start:end], token)
        else:
            end = start
            for size, is_text in _parts_of_text(lines[start:following], token.data or ""):
                yield from _with_codes(document, end, end + size, token if is_text else None, codes)
                end += size
        yield from _without_token(document, end, following)


def _with_codes(document: str, start: int, end: int, token: Token | None, codes: Sequence[Span]) -> Iterator[_Piece]:
    """A text in pieces: template code, and what is between."""
    for first, last in codes[bisect_left(codes, (start, 0)) : bisect_left(codes, (end, 0))]:
        if start < first:
            yield _Piece(document[start:first], token)
        yield _Piece(document[first:last], is_code=True)
        start = last
    if start < end:
        yield _Piece(document[start:end], token)


def _without_token(document: str, start: int, end: int) -> Iterator[_Piece]:
    """Source without a token."""
    while document.startswith(_DROPPED, start):
        yield _Piece(_DROPPED)
        start += len(_DROPPED)
    if start < end:
        yield _Piece(document[start:end])


def _parts_of_text(source: str, data: str) -> Iterator[tuple[int, bool]]:
    """The parts of a text token's source: their sizes, and whether they are text or a dropped ``</>``."""
    if source == data or _DROPPED not in source:
        yield len(data), True
        return
    remaining = len(data)
    for number, part in enumerate(source.split(_DROPPED)):
        if number:
            yield len(_DROPPED), False
        if part and remaining:
            yield min(len(part), remaining), True
            remaining -= min(len(part), remaining)
        if not remaining:
            return


def _start_tag(piece: _Piece) -> str:
    """The name of the element that a piece opens, or an empty string."""
    token = piece.token
    return token.tag or "" if token is not None and token.type is TokenType.START_TAG else ""


def _attributes(piece: _Piece) -> dict[str, str]:
    assert piece.token is not None
    return _values(piece.token)


def _values(token: Token) -> dict[str, str]:
    """The values of a tag's attributes; the first of equal names counts."""
    return {name: value or "" for name, value in reversed(token.attrs or ())}


def _is_text(piece: _Piece) -> bool:
    return piece.token is not None and piece.token.type in _TEXTS


def _shown(piece: _Piece) -> str:
    """The characters that a piece adds to a text."""
    if piece.is_code:
        return piece.source
    if piece.token is None or piece.token.type not in _TEXTS:
        return ""
    return piece.source if piece.token.type is TokenType.TEXT else piece.token.data or ""


def _code(source: str) -> Item:
    """The item of template code."""
    role = role_of(source)
    shown = " ".join(source.split())
    return Item(role, source, (shown if len(shown) <= MAX_SHOWN else OBJECT) if role is Role.CONTENT else "")


def _texts_inside(pieces: Sequence[_Piece]) -> Iterator[Attribute]:
    """The texts in a drawing, and the translated attributes of its elements or those of a video."""
    position, before = 0, ""
    for is_text, group in groupby(pieces, _is_text):
        run = list(group)
        source, text = "".join(piece.source for piece in run), "".join(map(_shown, run))
        if is_text and before not in ("script", "style") and any(map(str.isalpha, text)) and not _CONTROL.search(text):
            start, end = len(source) - len(source.lstrip()), len(source.rstrip())
            yield Attribute(position + start, position + end, text.strip(), is_text=True)
        elif not is_text:
            start = position
            for piece in run:
                if piece.token is not None and _start_tag(piece):
                    for value in _translated_attributes(piece.source, piece.token):
                        yield value._replace(start=start + value.start, end=start + value.end)
                start += len(piece.source)
            before = _start_tag(run[-1])
        position += len(source)


def _end_of_element(pieces: Sequence[_Piece], start: int) -> int:
    """The index after the last piece of an element, whose end tag may be missing."""
    root = _start_tag(pieces[start])
    if root in VOID:
        return start + 1
    open_elements = [root]
    counts = Counter(open_elements)
    for index in range(start + 1, len(pieces)):
        token = pieces[index].token
        if token is None or token.tag is None or token.tag in VOID:
            continue
        if token.type is TokenType.START_TAG:
            while open_elements and token.tag in IMPLIED_ENDS.get(open_elements[-1], ()):
                counts[open_elements.pop()] -= 1
            if not open_elements:
                return index
            open_elements.append(token.tag)
            counts[token.tag] += 1
        elif counts[token.tag]:
            while (closed := open_elements.pop()) != token.tag:
                counts[closed] -= 1
            counts[closed] -= 1
            if not open_elements:
                return index + 1
        elif root in IMPLIED_ENDS and len(open_elements) == 1:
            return index  # the end of an element around this one
    return len(pieces)


def _with_code(source: str, text: str) -> str:
    """The value of an attribute with its template code; empty if this cannot be written in another value."""
    value = html.unescape(source[1:-1] if source[:1] in ("'", '"') else source)
    return value if len(value) == len(text) and "<" not in value else ""


def tag_attributes(tag: str) -> Iterator[tuple[str, int, int]]:
    """The attributes of a tag: their names in lower case, and where their values begin and end, with quotation marks.

    Args:
        tag: The source of the tag, or of an element that begins with it.
    """
    name_end = _TAG_NAME.match(tag)
    position = name_end.end() if name_end else len(tag)
    while position < len(tag):
        match = _ATTRIBUTE.match(tag, position)
        if match is None or match.end() == position:
            return
        position = match.end()
        yield match["name"].lower(), *match.span("value")


def _translated_attributes(source: str, token: Token) -> Iterator[Attribute]:
    attributes = _values(token)
    names = translated_names(token.tag or "", attributes)
    values = {name: attributes[name] for name in names}
    if not any(character.isalpha() for value in values.values() for character in value):
        return
    for name, start, end in tag_attributes(source):
        text = values.pop(name, "")  # the first of equal names counts
        if has_code(text):
            text = _with_code(source[start:end], text)
        if start < end and not _CONTROL.search(text) and any(character.isalpha() for character in text):
            yield Attribute(start, end, text)
