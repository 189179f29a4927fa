"""The sentences of a unit beside their translations, and the unit's translation with edited sentences.

The inline elements of a unit are numbered markers in its sentences, ``Please {1}click{/1} here{2}``, as in translation
tools. A number that stands in braces in the text itself is no marker. The values of attributes that are translated,
such as the description of an image, are sentences of their own.

A sentence has whole elements: if a link goes over two sentences, they are shown as one.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.documents.edit_check import MARKER
from app.documents.formats.document_file import Unit
from app.documents.markup_side import Side, Tag
from app.documents.positions import Pairs
from model.text.markup.items import MAX_SHOWN, Attribute, Item, Role
from model.text.segmentation import stripped
from model.text.symbols import Span


@dataclass(frozen=True)
class Sentence:
    """A sentence of a unit and its translation, with markers.

    Args:
        source: The sentence.
        translation: Its translation.
        markers: By the number of each marker of the translation, the text that its element shows and that is not
            translated; empty for others.
    """

    source: str
    translation: str
    markers: Mapping[int, str] = field(default_factory=dict)


class Division(ABC):
    """A unit and its translation, divided into sentences."""

    @property
    @abstractmethod
    def sentences(self) -> Sequence[Sentence]:
        """The sentences, in the order of the unit."""

    @abstractmethod
    def edited(self, edits: Mapping[int, str]) -> str:
        """The translation of the unit.

        Args:
            edits: The translations of sentences, by their index, with each marker of the sentence once.
        """


def divided(unit: Unit, translation: str, pairs: Pairs) -> Division:
    """Divide a unit and its translation.

    Args:
        unit: The unit.
        translation: Its translation.
        pairs: The positions of the sentences; empty if they are unknown. The unit is then one sentence.
    """
    if unit.format == "text":
        return _TextDivision(unit.text, translation, pairs)
    return _MarkupDivision(unit.text, translation, pairs)


class _TextDivision(Division):
    """A plain text; the arguments are those of :func:`divided`."""

    def __init__(self, source: str, translation: str, pairs: Pairs) -> None:
        whole = stripped(source, 0, len(source)), stripped(translation, 0, len(translation))
        self._source = source
        self._translation = translation
        self._pairs = pairs or [whole]

    @property
    def sentences(self) -> Sequence[Sentence]:
        """The sentences."""
        return [Sentence(self._source[a:b], self._translation[c:d]) for (a, b), (c, d) in self._pairs]

    def edited(self, edits: Mapping[int, str]) -> str:
        """The translation of the text."""
        parts: list[str] = []
        done = 0
        for index, (_, (start, end)) in enumerate(self._pairs):
            parts += [self._translation[done:start], edits.get(index, self._translation[start:end])]
            done = end
        return "".join([*parts, self._translation[done:]])


@dataclass(frozen=True)
class _Row:
    """A sentence, and where it is.

    Args:
        position: Where it begins in the unit.
        sentence: The sentence.
        span: The characters of the translation; None if it is the value of an attribute.
        tags: The tags of the translation by the number of their markers.
        item: The index of the item of the translation with the attribute.
        attribute: The attribute.
    """

    position: int
    sentence: Sentence
    span: Span | None = None
    tags: Mapping[int, Tag] = field(default_factory=dict)
    item: int = -1
    attribute: Attribute | None = None


class _MarkupDivision(Division):
    """A fragment of HTML; the arguments are those of :func:`divided`."""

    def __init__(self, source: str, translation: str, pairs: Pairs) -> None:
        self._before, self._after = Side(source), Side(translation)
        self._pair_tags()
        pairs = self._of_text(pairs)
        rows = list(self._rows(pairs))
        if not all(map(self._is_whole, rows)):
            rows = list(self._rows(self._undivided()))
        self._list = sorted([*rows, *self._attributes()], key=lambda row: row.position)

    @property
    def sentences(self) -> Sequence[Sentence]:
        """The sentences."""
        return [row.sentence for row in self._list]

    def edited(self, edits: Mapping[int, str]) -> str:
        """The translation of the fragment."""
        sources = [item.source for item in self._after.items]
        changed = [(self._list[index], text) for index, text in sorted(edits.items(), reverse=True)]
        for row, text in changed:  # the last ones of a tag first, so that positions before them stay
            if row.attribute is not None:
                start, end = row.attribute.start, row.attribute.end
                escaped = html.escape(text, quote=False) if row.attribute.is_text else f'"{html.escape(text)}"'
                sources[row.item] = f"{sources[row.item][:start]}{escaped}{sources[row.item][end:]}"
        parts: list[str] = []
        done = 0
        for row, text in reversed(changed):
            if row.span is not None:
                parts += [self._source(sources, done, row.span[0]), _with_tags(text, row.tags, sources)]
                done = row.span[1]
        return "".join([*parts, self._source(sources, done, self._after.starts[-1])])

    def _source(self, sources: Sequence[str], start: int, end: int) -> str:
        """Characters of the translation, with changed sources of its tags."""
        starts, items = self._after.starts, self._after.items
        parts: list[str] = []
        for index in range(self._after.item_at(start), bisect_left(starts, end, hi=len(items))):
            is_text = items[index].role is Role.TEXT
            first = max(0, start - starts[index])
            parts.append(sources[index][first : end - starts[index]] if is_text else sources[index])
        return "".join(parts)

    def _pair_tags(self) -> None:
        """Find the tags of the translation in the unit."""
        by_key: dict[tuple[str, str], deque[Tag]] = defaultdict(deque)
        for tag in self._before.tags:
            by_key[tag.key].append(tag)
        for tag in self._after.tags:
            if by_key[tag.key]:
                tag.other = by_key[tag.key].popleft()
                tag.other.other = tag

    def _of_text(self, pairs: Pairs) -> Pairs:
        """The sentences outside of attributes; all of the text is one if their positions fit no more."""
        of_text = [(a, b) for a, b in pairs if not self._before.is_inside_tag(a) and not self._after.is_inside_tag(b)]
        for side in (0, 1):
            spans = [pair[side] for pair in of_text]
            if any(first[1] > second[0] for first, second in pairwise(spans)):
                return self._undivided()
        return of_text or self._undivided()

    def _undivided(self) -> Pairs:
        before, after = self._before.visible, self._after.visible
        return [(before, after)] if before[0] < before[1] and after[0] < after[1] else []

    def _rows(self, pairs: Pairs) -> Iterator[_Row]:
        """The sentences of the text, each with whole elements."""
        self._before.spans = [before for before, _ in pairs]
        self._after.spans = [after for _, after in pairs]
        follows = [False] * len(pairs)  # whether a sentence is shown with the one before
        extents = [[list(span) for span in side.spans] for side in (self._before, self._after)]
        for tag in self._after.tags:
            if tag.closing < 0 or not any(self._is_in_sentence(*pair) for pair in self._sides(tag)):
                continue
            for number, (side, own) in enumerate(self._sides(tag)):
                opening, closing = side.region(own.opening), side.region(own.closing)
                first, last = opening // 2, (closing - 1) // 2
                if first > last:
                    continue  # it has no text
                follows[first + 1 : last + 1] = [True] * (last - first)
                extents[number][first][0] = min(extents[number][first][0], side.starts[own.opening])
                extents[number][last][1] = max(extents[number][last][1], side.starts[own.closing + 1])
        first = 0
        for end in range(1, len(pairs) + 1):
            if end == len(pairs) or not follows[end]:
                before, after = ((spans[first][0], spans[end - 1][1]) for spans in extents)
                yield self._row(before, after)
                first = end

    def _sides(self, tag: Tag) -> list[tuple[Side, Tag]]:
        """A tag of the translation with its side, after that of the unit if it has the tag."""
        if tag.other is None or tag.other.closing < 0:
            return [(self._after, tag)]
        return [(self._before, tag.other), (self._after, tag)]

    def _is_in_sentence(self, side: Side, tag: Tag) -> bool:
        return bool(side.region(tag.opening) % 2 or side.region(tag.closing) % 2)

    def _row(self, before: Span, after: Span) -> _Row:
        inside = [self._before.tags_in(before), self._after.tags_in(after)]
        in_source, in_translation = (set(map(id, tags)) for tags in inside)
        order = [tag.other for tag in inside[0] if id(tag.other) in in_translation]
        order += [tag for tag in inside[1] if id(tag.other) not in in_source]
        of_text = _numbers_in(self._before, before) | _numbers_in(self._after, after)
        free = (number for number in range(1, len(order) + len(of_text) + 1) if number not in of_text)
        numbers = {id(tag): number for tag, number in zip(order, free, strict=False)}
        tags = {numbers[id(tag)]: tag for tag in order if tag is not None}
        shown = [_markers(side, inside[index], numbers) for index, side in enumerate((self._before, self._after))]
        sentence = Sentence(
            self._before.shown(before, shown[0]),
            self._after.shown(after, shown[1]),
            {number: _content(self._after.items[tag.opening]) for number, tag in tags.items()},
        )
        return _Row(before[0], sentence, after, tags)

    def _is_whole(self, row: _Row) -> bool:
        """Whether both tags of each element are in the translation of a sentence."""
        if row.span is None:
            return True
        start, end = row.span
        for tag in self._after.tags_in(row.span):
            if tag.closing >= 0:
                ends = self._after.starts[tag.opening], self._after.starts[tag.closing]
                if not all(start <= position < end for position in ends):
                    return False
        return True

    def _attributes(self) -> Iterator[_Row]:
        """The values of attributes that are translated."""
        for tag in self._after.tags:
            if tag.other is None:
                continue
            before, after = self._before.items[tag.other.opening].attributes, self._after.items[tag.opening].attributes
            if len(before) != len(after):
                continue
            position = self._before.starts[tag.other.opening]
            for source, target in zip(before, after, strict=True):
                sentence = Sentence(source.text.strip(), target.text.strip())
                yield _Row(position + source.start, sentence, item=tag.opening, attribute=target)


def _numbers_in(side: Side, span: Span) -> set[int]:
    """The numbers in braces that the text itself has."""
    return {int(match["number"]) for match in MARKER.finditer(side.shown(span, {}))}


def _markers(side: Side, tags: Sequence[Tag], numbers: Mapping[int, int]) -> dict[int, str]:
    """The markers by the items that they stand for."""
    markers: dict[int, str] = {}
    for tag in tags:
        number = numbers.get(id(tag)) or numbers.get(id(tag.other))
        if number:
            markers[tag.opening] = f"{{{number}}}"
            if tag.closing >= 0:
                markers[tag.closing] = f"{{/{number}}}"
    return markers


def _content(item: Item) -> str:
    """What a reader sees of an element that is not translated, shortened."""
    if item.role is not Role.CONTENT:
        return ""
    shown = " ".join(Unit(item.source, "html").words.split())
    return shown if len(shown) <= MAX_SHOWN else f"{shown[:MAX_SHOWN]} …"


def _with_tags(text: str, tags: Mapping[int, Tag], sources: Sequence[str]) -> str:
    """An edited sentence as a fragment of HTML."""
    parts: list[str] = []
    done = 0
    for match in MARKER.finditer(text):
        tag = tags.get(int(match["number"]))
        if tag is not None:
            parts.append(html.escape(text[done : match.start()], quote=False))
            parts.append(sources[tag.closing if match["closing"] else tag.opening])
            done = match.end()
    return "".join([*parts, html.escape(text[done:], quote=False)])
