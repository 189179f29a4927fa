"""HTML: the stretches between block elements are units, and go through the text pipeline as they are."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial

from app.documents.formats.document_file import TextFile, Unit, unescaped, with_stretches
from app.documents.formats.encodings import HTML
from app.documents.formats.front_matter import add_front_matter, front_matter_marks
from app.documents.formats.languages import LanguageMark, is_right_to_left, language_mark
from model.text.markup.html_items import html_items, tag_attributes
from model.text.markup.html_names import is_other_language
from model.text.markup.items import ElementRules, Item, Role

_MARKS = re.compile(r"\b(?:lang|dir)\s*=|<meta\b[^<>]*lang|locale", re.IGNORECASE)
"""What the source of a tag has in it that depends on a language."""

_META = re.compile(r"<meta\b", re.IGNORECASE)
_LANGUAGE_KEYS = frozenset(
    {"content-language", "language", "og:locale", "inlanguage", "dc.language", "dcterms.language"}
)
_WITH_DIRECTION = frozenset({"html", "body"})
_SENTENCE_END = re.compile(r"[.!?…][\"'»”’)]{0,3}\s+|[。！？]")
_TEXT_AREA = re.compile(r"<textarea\b[^<>]{0,500}+>\Z", re.IGNORECASE)
_LONGEST_TAG = 520
_LONG = 10_000
"""Characters after which a paragraph is divided at the end of a line or sentence: the length of a text is limited."""


class WebPage(TextFile):
    """An HTML page.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is no text.
    """

    declaration = HTML

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.text = self.prepared(self.text)
        begin = add_front_matter(self)
        items = html_items(self.text[begin:])
        self._marks = [*front_matter_marks(self.text), *_marks(items, begin)]
        outer = (mark for item in items if item.name == "html" for mark in _marks_of_tag(item.source, item.name))
        self._language = next((mark.language for mark in outer if mark.language), "")
        for start, end in stretches_of(self.text[begin:], items):
            self._add(begin + start, begin + end)

    def _add(self, start: int, end: int) -> None:
        """Add a stretch. What is in a text area is plain text, whose lines are shown as lines."""
        if not _TEXT_AREA.search(self.text, max(0, start - _LONGEST_TAG), start):
            self.add_stretch(start, end, "html")
            return
        text = Unit(unescaped(self.text[start:end]))
        self.add(text, lambda translation: self.replace(start, end, html.escape(translation, quote=False)))

    def prepared(self, text: str) -> str:
        """The page as HTML."""
        return text

    def language_marks(self) -> Iterable[LanguageMark]:
        """The attributes of translated elements that name their language or its direction, and metadata that does."""
        return self._marks

    def in_language(self, text: str, target: str) -> str:
        """A paragraph whose tags name the target language."""
        if not target or not _MARKS.search(text):
            return text
        items = html_items(text, ElementRules(language=self._language))
        marks = (mark for mark in _marks(items, 0) if not is_other_language(mark.language, self._language))
        return with_stretches(text, ((mark.start, mark.end, mark.write(target)) for mark in marks))


def _marks(items: Iterable[Item], position: int) -> Iterator[LanguageMark]:
    """What depends on the language of some items.

    Args:
        items: The items.
        position: The index of the first one in the file.
    """
    for item in items:
        # Elements that are kept have no name.
        if item.name in _WITH_DIRECTION or (_MARKS.search(item.source) and (item.name or _META.match(item.source))):
            for mark in _marks_of_tag(item.source, item.name):
                yield replace(mark, start=position + mark.start, end=position + mark.end)
        position += len(item.source)


def _marks_of_tag(tag: str, name: str) -> list[LanguageMark]:
    """The marks of a tag.

    Args:
        tag: Its source.
        name: The name of its element; empty for metadata.
    """
    values = {  # the first of several with one name
        key: (start + 1, end - 1) if tag[start : start + 1] in ("'", '"') else (start, end)
        for key, start, end in reversed(list(tag_attributes(tag)))
    }
    if name:
        names = ["lang", "xml:lang"]
    else:
        keys = {
            tag[slice(*values[key])].lower() for key in ("name", "property", "itemprop", "http-equiv") if key in values
        }
        names = ["content"] if keys & _LANGUAGE_KEYS else []
    marks = [language_mark(tag, *values[key]) for key in names if key in values]
    direction = values.get("dir", (-1, -1))
    if name and tag[slice(*direction)].lower() in ("rtl", "ltr"):
        is_outer = name in _WITH_DIRECTION
        marks.append(LanguageMark(*direction, partial(_direction_like, tag[slice(*direction)], is_outer)))
    elif name == "html" and "dir" not in values and not tag.startswith("</"):
        end = len(name) + 1
        marks.append(LanguageMark(end, end, lambda target: ' dir="rtl"' if is_right_to_left(target) else ""))
    return sorted(filter(None, marks), key=lambda mark: mark.start)


def _direction_like(direction: str, is_outer: bool, target: str) -> str:
    """The direction of an element of a page in the target language.

    Args:
        direction: The one that it has.
        is_outer: Whether it is around all text. In others, text may be from left to right in any language.
        target: The target language.
    """
    if is_right_to_left(target):
        return "rtl" if is_outer else direction
    return "ltr"


def html_stretches(document: str) -> Iterator[tuple[int, int]]:
    """First and last character of each part of a page that has text of its own, between block elements.

    A part that would be read otherwise by itself, such as ``<title>a <b> c</title>``, is left out.

    Args:
        document: The page.
    """
    return stretches_of(document, html_items(document))


def stretches_of(document: str, items: Iterable[Item]) -> Iterator[tuple[int, int]]:
    """As :func:`html_stretches`, with the items of the page."""
    run: list[Item] = []
    start = position = 0
    for item in _divided_at_sentences(items):
        is_boundary = item.role is Role.BOUNDARY
        if is_boundary or (run and position - start > _LONG and _ends_sentence(run[-1])):
            yield from _stretch(document, start, run)
            run = []
        if is_boundary and item.attributes:
            yield from _stretch(document, position, [item])
        elif not is_boundary:
            start = position if not run else start
            run.append(item)
        position += len(item.source)
    yield from _stretch(document, start, run)


def _divided_at_sentences(items: Iterable[Item]) -> Iterator[Item]:
    """The items of a page. In a long paragraph the text after which it can be divided is an item of its own."""
    size = 0  # of the paragraph, or of its last part
    for item in items:
        start = 0
        size = 0 if item.role is Role.BOUNDARY else size + len(item.source)
        if size > _LONG and item.role is Role.TEXT and not item.is_reference:
            for end in (match.end() for match in _SENTENCE_END.finditer(item.source)):
                if size - len(item.source) + end > _LONG:
                    yield item._replace(source=item.source[start:end], text=item.text[start:end])
                    size, start = len(item.source) - end, end
        if start < len(item.source):
            yield item._replace(source=item.source[start:], text=item.text[start:]) if start else item


def _ends_sentence(item: Item) -> bool:
    """Whether a line or a sentence ends with an item."""
    return item.role is Role.BREAK or (item.role is Role.TEXT and bool(_SENTENCE_END.search(item.text[-10:] + " ")))


def _stretch(document: str, start: int, run: list[Item]) -> Iterator[tuple[int, int]]:
    if not any(any(map(str.isalpha, item.text)) or item.attributes for item in run):
        return
    end = start + sum(len(item.source) for item in run)
    source = document[start:end]
    if "".join(item.text for item in html_items(source)) == "".join(item.text for item in run):
        yield start, end
