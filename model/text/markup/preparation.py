"""Items before they form texts: whitespace, line breaks, and elements that are one unit of a sentence.

An element without letters, such as a note reference, a number or a link around code, is one unit: it comes back
exactly, and no other word enters it. A line break divides the text unless a sentence clearly runs over it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from model.text.markup.items import MAX_SHOWN, OBJECT, Item, Role

SPACES = " \t\r\n\f"
"""Whitespace of markup; other spaces are characters of a text."""

LINE_ENDS = re.compile(r"(?<![ \t\f])[ \t\f]*+(?:(?:\r\n|\r|\n)[ \t\f]*+)++")
"""Line ends of a text, with the whitespace around them."""

_INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]+")
_DIVIDING = re.compile(f"{_INVISIBLE.pattern}|{LINE_ENDS.pattern}")
_SENTENCE_SIGNS = frozenset(".,;:!?…。，、；：！？")
_BETWEEN_UNITS = re.compile(r" ?[-+/\\>→›·×–] ?|")
_FORMULA = re.compile(r"(?<!\w)(?:\w|[A-Za-z]{0,2}[A-Z0-9][A-Za-z]?|[cdkmnµ]m)\Z")
_FORMULA_REACH = 8
_NOTE = re.compile(r"\[\w{1,2}\]")
_NOTES = ("sup", "fn", "footnote")
"""Elements in which a single letter is the reference of a note."""

_MAX_JOINED_LINES = 8
_MIN_WRAPPED = 17
_MIN_LONG = 50
"""The fewest characters of a line over which a sentence clearly runs: those of greetings and addresses are shorter."""


def prepare_items(items: Sequence[Item], *, is_html: bool, has_capital_nouns: bool = True) -> list[Item]:
    """The items, with whitespace around line breaks and images merged into these, and elements without letters as one.

    Whitespace on both sides of an image would otherwise be two spaces in the text, and a translation keeps only one.

    Args:
        items: The items of a document.
        is_html: Whether adjacent links are separate texts, as in a menu, and empty elements are points. In XML empty
            elements are content.
        has_capital_nouns: Whether a capital may be the beginning of a noun, as in German, so that it begins no line.
    """
    preparation = _Preparation(items, is_html)
    for number, item in enumerate(items):
        for part in _parts_of(item, is_html) if item.role is Role.TEXT else (item,):
            preparation.add(number, part)
    return _divided(preparation.result, has_capital_nouns)


class _Preparation:
    """Prepares the items one after the other.

    Args:
        items: The items of a document.
        is_html: As for :func:`prepare_items`.
    """

    def __init__(self, items: Sequence[Item], is_html: bool) -> None:
        self.result: list[Item] = []
        self._items = items
        self._is_html = is_html
        self._after_space = False  # the text so far ends in whitespace
        self._open: list[int] = []  # in the result, the opening tags with no letter after them

    def add(self, number: int, item: Item) -> None:
        """Add the next item.

        Args:
            number: Its index.
            item: The item.
        """
        last = self.result[-1] if self.result else None
        if item.role is Role.TEXT:
            text = self._without_space(number, item)
            if text is None:
                return
            item = text
        elif item.role is Role.OPENING and item.name == "a" and self._is_html and last is not None:
            if last.role in (Role.CLOSING, Role.CONTENT) and last.name == "a":
                self._append(Item(Role.BREAK, "", "\n"))
        elif item.role is Role.CLOSING:
            item = self._unit(number, item) or item
        elif item.role is Role.BREAK:
            item = _join_break(self.result, item)
        self._append(item)

    def _append(self, item: Item) -> None:
        if item.role is Role.TEXT:
            self._after_space = item.text[-1:].isspace()
        elif item.role is not Role.POINT:
            self._after_space = False
        if item.role is Role.OPENING:
            self._open.append(len(self.result))
        elif item.role is Role.TEXT:
            before = self.result[-1] if self.result else None
            is_letter = len(item.text) == 1 and before is not None and before.name in _NOTES
            if _has_letters(item.text) and not is_letter and not _NOTE.fullmatch(item.text):
                self._open.clear()
        elif item.role not in (Role.POINT, Role.CONTENT):
            self._open.clear()
        self.result.append(_joined_unit(self.result, item) if item.role is Role.CONTENT else item)

    def _without_space(self, number: int, item: Item) -> Item | None:
        """A text without whitespace that the item before it takes; None if nothing else is in it."""
        last = self.result[-1] if self.result else None
        if item.is_reference or item.keeps_space or last is None:
            return item
        visible = item.text.lstrip(SPACES)
        takes_space = last.role is Role.BREAK or (last.role is Role.POINT and self._after_space)
        if takes_space and len(visible) < len(item.text):
            source = item.source.lstrip(SPACES)
            space = item.source[: len(item.source) - len(source)]
            self.result[-1] = last._replace(source=last.source + space)
            return item._replace(source=source, text=visible) if source else None
        if self._is_html and not visible and _separates_links(self._items, number):
            return Item(Role.BREAK, item.source, "\n")
        return item

    def _unit(self, number: int, closing: Item) -> Item | None:
        """The element that a closing tag ends as one item, if it has no letters to translate."""
        if not self._open:
            return None
        start = self._open.pop()
        inside = self.result[start + 1 :]
        if self.result[start].name != closing.name:
            self._open.clear()
            return None
        texts = [item for item in inside if item.role in (Role.TEXT, Role.CONTENT)]
        shown = "".join(item.text for item in texts)
        if texts:
            is_sign = not any(item.role is Role.CONTENT for item in texts) and _SENTENCE_SIGNS.issuperset(shown)
            if is_sign or shown != shown.strip() or len(shown) > MAX_SHOWN or self._is_in_word(number, start):
                self._open.clear()
                return None
        elif not self._is_html:
            shown = OBJECT
        unit = _joined([*self.result[start:], closing], Role.CONTENT if shown else Role.POINT, " ".join(shown.split()))
        del self.result[start:]
        self._after_space = bool(self.result) and self.result[-1].role is Role.TEXT and self._ends_in_space()
        return unit

    def _ends_in_space(self) -> bool:
        return self.result[-1].text[-1:].isspace()

    def _is_in_word(self, number: int, start: int) -> bool:
        """Whether an element is a part of a word, such as the digit of H2O or CO2; a note may follow any word."""
        before = self.result[start - 1] if start else None
        if before is None or before.role is not Role.TEXT or not before.text[-1:].isalnum():
            return False
        after = self._items[number + 1] if number + 1 < len(self._items) else None
        if after is not None and after.role is Role.TEXT and after.text[:1].isalnum():
            return True
        is_index = self.result[start].name in ("sub", "sup") and self.result[start + 1].text.isalnum()
        return is_index and _FORMULA.search(before.text[-_FORMULA_REACH:]) is not None


def _parts_of(item: Item, is_html: bool) -> Iterator[Item]:
    """A text without the characters that only say where a word may be divided, and without line ends that are kept.

    The model does not read such characters; words that stay as they are keep them.
    """
    if item.is_reference or (item.text.isascii() and not ("\n" in item.text or "\r" in item.text)):
        yield item._replace(text="") if item.is_reference and _INVISIBLE.fullmatch(item.text) else item
        return
    source, position = item.source, 0
    pattern = _INVISIBLE if is_html and not item.keeps_space else _DIVIDING
    for match in pattern.finditer(source):
        start, end = match.span()
        if position < start:
            yield item._replace(source=source[position:start], text=source[position:start])
        is_invisible = _INVISIBLE.match(match[0]) is not None
        yield Item(Role.TEXT, match[0], is_reference=True) if is_invisible else Item(Role.BREAK, match[0], " ")
        position = end
    if position < len(source):
        yield item._replace(source=source[position:], text=source[position:])


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _joined(items: Sequence[Item], role: Role, text: str) -> Item:
    """Several items as one, with the attributes of all."""
    attributes = []
    length = 0
    for item in items:
        attributes += [
            attribute._replace(start=attribute.start + length, end=attribute.end + length)
            for attribute in item.attributes
        ]
        length += len(item.source)
    source = "".join(item.source for item in items)
    return Item(role, source, text, name=items[-1].name, attributes=tuple(attributes))


def _joined_unit(result: list[Item], item: Item) -> Item:
    """A unit joined with the one before it, if there is only a sign between them: Ctrl+V."""
    if result and (result[-1].role, result[-1].text, item.text) == (Role.CONTENT, OBJECT, OBJECT):
        return _joined([result.pop(), item], Role.CONTENT, OBJECT)
    if len(result) < 2 or (result[-2].role, result[-1].role) != (Role.CONTENT, Role.TEXT):
        return item
    text = result[-2].text + result[-1].text + item.text
    if OBJECT in text or len(text) > MAX_SHOWN or not _BETWEEN_UNITS.fullmatch(result[-1].text):
        return item
    parts = [*result[-2:], item]
    del result[-2:]
    return _joined(parts, Role.CONTENT, text)


def _separates_links(items: Sequence[Item], number: int) -> bool:
    around = (items[number - 1], items[number + 1]) if 0 < number < len(items) - 1 else ()
    return [(item.role, item.name) for item in around] == [(Role.CLOSING, "a"), (Role.OPENING, "a")]


def _join_break(result: list[Item], item: Item) -> Item:
    """Remove the whitespace and the line break before a line break from the result, and return all as one."""
    if result and result[-1].role is Role.TEXT and not result[-1].is_reference and not result[-1].keeps_space:
        before = result.pop()
        source = before.source.rstrip(SPACES)
        item = item._replace(source=before.source[len(source) :] + item.source)
        if source:
            result.append(before._replace(source=source, text=before.text.rstrip(SPACES)))
    if result and result[-1].role is Role.BREAK:
        item = Item(Role.BREAK, result.pop().source + item.source, "\n")
    return item


def _divided(items: list[Item], has_capital_nouns: bool) -> list[Item]:
    """The items with each line break as the end of a line, unless a sentence clearly runs over it.

    It does if the line is not short and has no sign at its end, and the next one begins with a small letter, or with
    any letter if the line is long and nouns have capitals. Few lines are joined, so that the positions of line
    breaks in a translation are found in linear time.
    """
    next_character = ""
    begins = [""] * len(items)  # by line break: the first character of the next line
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        begins[index] = next_character
        if item.role in (Role.BREAK, Role.BOUNDARY):
            next_character = ""
        elif item.role in (Role.TEXT, Role.CONTENT):
            next_character = next(islice(item.text.lstrip(), 1), next_character)
    last_character, length, num_joined = "", 0, 0
    for index, item in enumerate(items):
        if item.role is Role.BREAK:
            if begins[index].islower():
                is_wrapped = length >= _MIN_WRAPPED or num_joined > 0
            else:
                is_wrapped = has_capital_nouns and length >= _MIN_LONG and begins[index].isalpha()
            runs_over = item.text == " " and is_wrapped and last_character.isalnum() and num_joined < _MAX_JOINED_LINES
            num_joined = num_joined + 1 if runs_over else 0
            if not runs_over:
                items[index] = item._replace(text="\n")
        if item.role in (Role.BREAK, Role.BOUNDARY):
            last_character, length = "", 0
        elif item.role in (Role.TEXT, Role.CONTENT):
            last_character, length = item.text.rstrip()[-1:] or last_character, length + len(item.text)
    return items
