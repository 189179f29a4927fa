"""HTML as items. Tokens, their sources and positions come from turbohtml, which follows the HTML standard."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from turbohtml import Token, TokenType, tokenize

from model.text.markup.items import MAX_SHOWN, Attribute, Item, Role


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TRANSLATED_ATTRIBUTES = _names("alt title placeholder aria-label")

_BLOCKS = _names(
    "address article aside blockquote body button caption center col colgroup dd details dialog dir div dl dt fieldset "
    "figcaption figure footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main "
    "menu nav noframes ol optgroup option p plaintext pre search section select summary table tbody td template tfoot "
    "th thead title tr ul xmp"
)
"""Elements that separate texts. All others, unknown ones included, are inline, as in a browser."""

_VOID = _names("area base br col embed hr img input link meta param source track wbr")
_KEPT = _names(
    "script style code pre textarea svg math noscript iframe noembed noframes xmp plaintext audio video canvas object"
)
"""Elements whose content is not translated, except ``code`` with translate="yes"."""

_HIDDEN = _names("script style textarea svg noscript iframe noembed audio video canvas object")
"""Those of them whose content is not part of the sentence around them."""

_CLOSES_P = _names(
    "address article aside blockquote center details dialog dir div dl fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hgroup hr li listing main menu nav ol p plaintext pre search section summary table ul xmp dd dt"
)
_IMPLIED_ENDS = {
    "p": _CLOSES_P,
    "li": _names("li"),
    "dt": _names("dt dd"),
    "dd": _names("dt dd"),
    "option": _names("option optgroup"),
    "optgroup": _names("optgroup"),
    "td": _names("td th tr tbody tfoot thead"),
    "th": _names("td th tr tbody tfoot thead"),
    "tr": _names("tr tbody tfoot thead"),
    "thead": _names("tbody tfoot"),
    "tbody": _names("tbody tfoot"),
}
"""Elements whose end tag is optional, and the start tags that end them."""

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
    """A token with its source, or source without a token."""

    source: str
    token: Token | None = None


def html_items(document: str, ignore_tags: Iterable[str] = ()) -> list[Item]:
    """The items of an HTML page or fragment.

    Args:
        document: Any text: every text is valid HTML.
        ignore_tags: Names of elements that are not translated.
    """
    ignored = frozenset(name.lower() for name in ignore_tags)
    pieces = list(_pieces(document))
    items: list[Item] = []
    index = 0
    while index < len(pieces):
        name = _start_tag(pieces[index])
        if name and _is_kept(pieces[index], ignored):
            end = _end_of_element(pieces, index)
            items.append(_kept(name, pieces[index:end]))
            index = end
        else:
            items += _items_of(pieces[index])
            index += 1
    return items


def _pieces(document: str) -> Iterator[_Piece]:
    """The tokens with their sources, and the source that the tokenizer drops: unfinished tags and ``</>``."""
    # The tokenizer counts \r\n as one character. It treats a space like \r; the sources are slices of the document.
    lines = document.replace("\r", " ")
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
                yield _Piece(document[end : end + size], token if is_text else None)
                end += size
        yield from _without_token(document, end, following)


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


def _is_kept(piece: _Piece, ignored: frozenset[str]) -> bool:
    token = piece.token
    assert token is not None
    translate = (token.attr("translate") or "").lower()
    is_code = token.tag == "code" and translate == "yes"
    return (
        translate == "no"
        or "notranslate" in (token.attr("class") or "").lower().split()
        or token.tag in ignored
        or (token.tag in _KEPT and not is_code)
    )


def _end_of_element(pieces: Sequence[_Piece], start: int) -> int:
    """The index after the last piece of an element, whose end tag may be missing."""
    root = _start_tag(pieces[start])
    if root in _VOID:
        return start + 1
    open_elements = [root]
    counts = Counter(open_elements)
    for index in range(start + 1, len(pieces)):
        token = pieces[index].token
        if token is None or token.tag is None or token.tag in _VOID:
            continue
        if token.type is TokenType.START_TAG:
            while open_elements and token.tag in _IMPLIED_ENDS.get(open_elements[-1], ()):
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
        elif root in _IMPLIED_ENDS and len(open_elements) == 1:
            return index  # the end of an element around this one
    return len(pieces)


def _kept(name: str, pieces: Sequence[_Piece]) -> Item:
    source = "".join(piece.source for piece in pieces)
    last = pieces[-1].token
    is_closed = name in _VOID or (last is not None and last.type is TokenType.END_TAG and last.tag == name)
    if name in _BLOCKS or not is_closed:  # source after an element that is not closed would be in it
        return Item(Role.BOUNDARY, source)
    if name in _HIDDEN:
        return Item(Role.POINT, source)
    texts = (piece.token.data or "" for piece in pieces if piece.token is not None and piece.token.type in _TEXTS)
    shown = " ".join("".join(texts).split())
    if not shown or len(shown) > MAX_SHOWN or _CONTROL.search(shown):
        return Item(Role.POINT, source)
    return Item(Role.CONTENT, source, text=shown)


def _items_of(piece: _Piece) -> Iterator[Item]:
    token = piece.token
    if token is None:
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
        yield _tag_item(piece.source, token)
    elif token.type is TokenType.DOCTYPE:
        yield Item(Role.BOUNDARY, piece.source)
    else:
        yield Item(Role.POINT, piece.source)


def _tag_item(source: str, token: Token) -> Item:
    name = token.tag or ""
    if name == "br":  # </br> is a line break as well
        return Item(Role.BREAK, source, text=" ")
    attributes = tuple(_translated_attributes(source, token)) if token.type is TokenType.START_TAG else ()
    if name in _BLOCKS:
        return Item(Role.BOUNDARY, source, name=name, attributes=attributes)
    if name in _VOID:
        return Item(Role.POINT, source, attributes=attributes)
    return Item(
        Role.OPENING if token.type is TokenType.START_TAG else Role.CLOSING, source, name=name, attributes=attributes
    )


def _translated_attributes(source: str, token: Token) -> Iterator[Attribute]:
    values = {name: value for name, value in token.attrs or () if name in _TRANSLATED_ATTRIBUTES}
    if not any(character.isalpha() for value in values.values() for character in value):
        return
    name_end = _TAG_NAME.match(source)
    position = name_end.end() if name_end else len(source)
    while position < len(source):
        match = _ATTRIBUTE.match(source, position)
        if match is None or match.end() == position:
            return
        position = match.end()
        text = values.pop(match["name"].lower(), "")  # the first of equal names counts
        if match["value"] and not _CONTROL.search(text) and any(character.isalpha() for character in text):
            yield Attribute(*match.span("value"), text)
