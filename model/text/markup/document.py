"""A document with markup: its texts, and the document with their translations."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from model.errors import InvalidMarkup
from model.text.markup.items import NO_RULES, ElementRules, MarkupFormat, Syntax, items_of
from model.text.markup.marked_text import MarkedText, PlacedText, unchanged
from model.text.markup.offsets import OffsetMap
from model.text.markup.preparation import prepare_items
from model.text.markup.rendering import Rendering, attribute_parts
from model.text.markup.runs import Run, runs
from model.text.markup.verification import verify


class MarkedUp:
    """A document with its texts, which are translated.

    Args:
        source: The document.
        format: Its format.
        rules: Which elements are translated and which separate texts, in addition to the rules of the format.

    Raises:
        InvalidMarkup: XML that is not well-formed or declares entities, unless the rules are lenient.
    """

    def __init__(self, source: str, format: MarkupFormat, rules: ElementRules = NO_RULES) -> None:
        self.source = source
        self._syntax: Syntax = format
        self._rules = rules
        try:
            self._source_items = items_of(source, format, rules)
        except InvalidMarkup:
            if not rules.is_lenient:
                raise
            self._syntax = "loose"
            self._source_items = items_of(source, "loose", rules)
        self._items = prepare_items(
            self._source_items,
            is_html=format == "html",
            has_capital_nouns=rules.language.partition("-")[0] in ("de", ""),
        )
        self._parts = list(runs(self._items))
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

    def offsets(self) -> list[OffsetMap]:
        """For each text, the positions of its characters in the document."""
        starts = list(accumulate((len(item.source) for item in self._items), initial=0))
        offsets = [OffsetMap() for _ in self.texts]
        for run, text in zip(self._parts, self._part_texts, strict=True):
            if isinstance(run, Run):
                for index, part in run.parts:
                    offsets[text].add(part, starts[index])
        for index, first in self._first_attribute.items():
            item = self._items[index]
            for text, attribute in enumerate(item.attributes, start=first):
                for part in attribute_parts(item, attribute):
                    offsets[text].add(part, starts[index])
        return offsets

    def render(self, translations: Sequence[PlacedText]) -> str:
        """The document with its texts replaced by their translations.

        A text that is its own translation keeps its source, character references included.

        Args:
            translations: One for each of the texts, in order.

        Raises:
            MarkupNotKept: A translation lacks a mark or has it at an impossible position, or the result has other
                markup than the document.
            ValueError: There are more or fewer translations than texts.
        """
        return self.render_with_offsets(translations)[0]

    def render_with_offsets(self, translations: Sequence[PlacedText]) -> tuple[str, list[OffsetMap]]:
        """As :meth:`render`, with the positions of each translation's characters in the result."""
        if len(translations) != len(self.texts):
            raise ValueError(f"There are {len(translations)} translations and {len(self.texts)} texts.")
        rendering = Rendering(self._items, self._first_attribute, translations)
        for part, text in zip(self._parts, self._part_texts, strict=True):
            if not isinstance(part, Run):
                rendering.write_item(part)
            elif translations[text] == unchanged(part.text):
                rendering.write_unchanged(part, text)
            else:
                rendering.write_translated(part, text)
        with_attributes = self._with_attributes(translations)
        verify(self._source_items, with_attributes, rendering.document, self._syntax, self._rules)
        return rendering.document, rendering.offsets

    def _with_attributes(self, translations: Sequence[PlacedText]) -> str:
        """The document with only its attributes translated."""
        if not self._first_attribute:
            return self.source
        rendering = Rendering(self._items, self._first_attribute, translations)
        for index, _ in enumerate(self._items):
            rendering.write_item(index)
        return rendering.document
