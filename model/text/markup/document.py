"""A document with markup, taken apart into texts, and put together again with their translations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from model.errors import MarkupNotKept
from model.text.markup.items import Attribute, Item, Role
from model.text.markup.marked_text import MarkedText, MarkKind, PlacedText, unchanged
from model.text.markup.nesting import contents
from model.text.markup.parsing import MarkupFormat, items_of
from model.text.markup.runs import Run, prepared, runs
from model.text.markup.verification import verify

_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class MarkedUp:
    """A document whose texts are to be translated.

    Args:
        source: The document.
        format: What it is written in.
        ignore_tags: Names of elements that are not translated, besides those that the format or an attribute names.

    Raises:
        InvalidMarkup: XML that is not well-formed or declares entities.
    """

    def __init__(self, source: str, format: MarkupFormat, ignore_tags: Iterable[str] = ()) -> None:
        self.source = source
        self._format = format
        self._ignore_tags = tuple(ignore_tags)
        self._source_items = items_of(source, format, self._ignore_tags)
        self._items = prepared(self._source_items, splits_links=format == "html")
        self._parts = list(runs(self._items, keeps_blank_lines=format == "xml"))
        texts: list[MarkedText] = []
        self._part_texts: list[int] = []  # by part: the text of a run
        self._first_attribute: dict[int, int] = {}  # by item: the text of its first attribute
        for part in self._parts:
            self._part_texts.append(len(texts))
            if isinstance(part, Run):
                texts.append(part.text)
            for index in range(part.start, part.end) if isinstance(part, Run) else (part,):
                if self._items[index].attributes:
                    self._first_attribute[index] = len(texts)
                    texts += [MarkedText(attribute.text) for attribute in self._items[index].attributes]
        self.texts = tuple(texts)
        """The texts, in the order in which they begin; a text comes before those of attributes in it."""

    def render(self, translations: Sequence[PlacedText]) -> str:
        """The document with its texts replaced by their translations.

        A text that is its own translation keeps its source, character references included.

        Args:
            translations: One for each of the texts, in order.

        Raises:
            MarkupNotKept: A translation has not every mark at a possible position, or the result has other markup than
                the document.
            ValueError: There are more or fewer translations than texts.
        """
        if len(translations) != len(self.texts):
            raise ValueError(f"There are {len(translations)} translations and {len(self.texts)} texts.")
        sources = [
            self._with_attributes(index, item, translations) if item.attributes else item.source
            for index, item in enumerate(self._items)
        ]
        rendered: list[str] = []
        for part, text in zip(self._parts, self._part_texts, strict=True):
            if isinstance(part, Run):
                rendered += self._run(part, translations[text], sources)
            else:
                rendered.append(sources[part])
        document = "".join(rendered)
        verify(self._source_items, "".join(sources), document, self._format, self._ignore_tags)
        return document

    def _with_attributes(self, index: int, item: Item, translations: Sequence[PlacedText]) -> str:
        parts: list[str] = []
        done = 0
        for number, attribute in enumerate(item.attributes, start=self._first_attribute[index]):
            text = translations[number].text
            if text != attribute.text:
                parts += [item.source[done : attribute.start], _quoted(text, item.source, attribute)]
                done = attribute.end
        return "".join([*parts, item.source[done:]])

    def _run(self, run: Run, placed: PlacedText, sources: Sequence[str]) -> Iterator[str]:
        if placed == unchanged(run.text):
            yield from sources[run.start : run.end]
        else:
            yield run.leading
            yield from _emitted(run, placed, sources, _escapes(self._items[run.start : run.end]))
            yield run.trailing


def _emitted(run: Run, placed: PlacedText, sources: Sequence[str], escapes: Mapping[int, str]) -> Iterator[str]:
    """The source of a translated text: its characters escaped, and its marks at their places."""
    marks = run.text.marks
    inside = contents(run.text, placed)
    emitted: set[int] = set()
    position = 0
    stack = [(-1, iter(inside.get(-1, ())))]
    while stack:
        element, rest = stack[-1]
        mark = next(rest, None)
        if mark is None:
            end = placed.spans[element][1] if element >= 0 else len(placed.text)
            yield placed.text[position:end].translate(escapes)
            position = end
            if element >= 0:
                yield sources[run.closings[element]]
            stack.pop()
            continue
        start, end = placed.spans[mark]
        yield placed.text[position:start].translate(escapes)
        yield sources[run.openings[mark]]
        if marks[mark].partner in emitted:
            raise MarkupNotKept(f"The closing tag of {marks[mark].opening[:100]!r} is before it.")
        emitted.add(mark)
        if marks[mark].kind is MarkKind.ELEMENT:
            stack.append((mark, iter(inside.get(mark, ()))))
            position = start
        else:
            position = end


def _escapes(items: Sequence[Item]) -> dict[int, str]:
    """How characters of a translation are written: as in its source if that has a reference for them."""
    texts = [item for item in items if item.role is Role.TEXT]
    plain = set("".join(item.text for item in texts if not item.is_reference))
    references = {
        item.text: item.source
        for item in texts
        if item.is_reference and len(item.text) == 1 and item.source.endswith(";") and item.text not in plain
    }
    return {ord(character): source for character, source in {**_ESCAPES, **references}.items()}


def _quoted(text: str, source: str, attribute: Attribute) -> str:
    """A value of an attribute in the quotation marks that it has in its source; in double ones if it has none."""
    quote = source[attribute.start] if source[attribute.start] in "\"'" else '"'
    escapes = {**_ESCAPES, quote: "&quot;" if quote == '"' else "&#39;"}
    return quote + "".join(escapes.get(character, character) for character in text) + quote
