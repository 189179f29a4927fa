"""The translation of a document: its translated texts with their marks, and details in characters of the document."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING

from model.errors import MarkupNotKept
from model.languages import plain_code
from model.text.markup import ElementRules, MarkedUp, place_marks, unchanged, words
from model.text.symbols import Span, overlaps, shifted
from model.translation.alignment import AlignmentLink, word_links
from model.translation.confidence import WordConfidence
from model.translation.joining import SourceText, WrittenText
from model.translation.options import TranslationOptions
from model.translation.quantities import NumberUse
from model.translation.results import SpanUse
from model.translation.terms import TermUse

if TYPE_CHECKING:
    from model.text.markup import MarkedText, OffsetMap, PlacedText


def read_document(text: str, options: TranslationOptions, language: str = "") -> MarkedUp:
    """A document with its texts.

    Args:
        text: The document, in a format other than plain text.
        options: How to translate it.
        language: Its language; empty if it is unknown.

    Raises:
        InvalidMarkup: It is not a document of the format.
    """
    assert options.format != "text"
    rules = ElementRules(
        options.ignore_tags,
        options.splitting_tags,
        options.non_splitting_tags,
        options.outline_detection,
        plain_code(language) if language else "",
        options.is_lenient,
    )
    return MarkedUp(text, options.format, rules)


class DocumentWriter:
    """Puts translated texts into a document.

    Args:
        document: The document.
    """

    def __init__(self, document: MarkedUp) -> None:
        self._document = document

    @cached_property
    def source_offsets(self) -> list[OffsetMap]:
        """For each text, the positions of its characters in the document."""
        return self._document.offsets()

    def source_span(self, number: int, span: Span) -> Span:
        """The characters of the document that characters of a text stand for.

        Args:
            number: The number of the text.
            span: Its characters.
        """
        return self.source_offsets[number].span(span)

    def write(self, texts: Sequence[SourceText], written: Sequence[WrittenText], *, detailed: bool) -> WrittenText:
        """The translation of the document.

        Args:
            texts: Its texts.
            written: The translation of each.
            detailed: Whether more than its text is requested.

        Raises:
            MarkupNotKept: The document would have other markup, even if its texts with markup stayed as they are.
        """
        placed = list(map(_place, self._document.texts, texts, written))
        try:
            document, target_offsets = self._document.render_with_offsets(placed)
        except MarkupNotKept:
            placed = [
                unchanged(marked) if marked.marks else text
                for marked, text in zip(self._document.texts, placed, strict=True)
            ]
            document, target_offsets = self._document.render_with_offsets(placed)
        num_kept = sum(
            len(source.sentences)
            for source, text, mark in zip(texts, written, placed, strict=True)
            if mark.text != text.text
        )
        written = [
            text if mark.text == text.text else _untranslated(source, text, mark.text)
            for source, text, mark in zip(texts, written, placed, strict=True)
        ]
        if not detailed:
            return WrittenText(document, sentences=_sentences(texts, written, target_offsets), num_kept=num_kept)
        each = list(zip(written, self.source_offsets, target_offsets, strict=True))
        links = (
            AlignmentLink(source.span(link.source), target.span(link.target), link.weight)
            for text, source, target in each
            for link in text.links
        )
        spans = (
            SpanUse(source.span(use.source), target.span(use.target), use.restored)
            for text, source, target in each
            for use in text.spans
        )
        numbers = (
            NumberUse(source.span(use.source), target.span(use.target), use.status)
            for text, source, target in each
            for use in text.numbers
        )
        terms, hints = (
            [
                TermUse(source.span(use.source), None if use.target is None else target.span(use.target), use.status)
                for text, source, target in each
                for use in uses(text)
            ]
            for uses in (attrgetter("terms"), attrgetter("hints"))
        )
        confidences = (
            WordConfidence(target.span(word.target), word.probability)
            for text, _, target in each
            for word in text.words
        )
        return WrittenText(
            document,
            tuple(sorted(links, key=lambda link: link.target)),
            tuple(sorted(spans, key=lambda use: use.source)),
            tuple(sorted(terms, key=lambda use: use.source)),
            tuple(sorted(confidences, key=lambda word: word.target)),
            tuple(sorted(source.span(span) for text, source, _ in each for span in text.uncovered)),
            sentences=_sentences(texts, written, target_offsets),
            num_kept=num_kept,
            numbers=tuple(sorted(numbers, key=lambda use: use.source)),
            hints=tuple(sorted(hints, key=lambda use: use.source)),
        )


def _place(marked: MarkedText, text: SourceText, written: WrittenText) -> PlacedText:
    """A translated text with the positions of its marks; the text itself if they have none."""
    if written.text == marked.text:
        return unchanged(marked)
    sentences = [(sentence.start, sentence.end) for sentence in text.sentences]
    # A protected span is linked word by word to its copy, whatever the model attends to.
    sources = sorted(use.source for use in written.spans)
    targets = sorted(use.target for use in written.spans)
    links = [
        (source, target)
        for source, target in word_links(written.links, marked.text, written.text, sentences)
        if not overlaps(source, sources) and not overlaps(target, targets)
    ]
    return place_marks(marked, written.text, [*links, *_span_links(marked, written.spans)], written.nearest, targets)


def _sentences(
    texts: Sequence[SourceText], written: Sequence[WrittenText], offsets: Sequence[OffsetMap]
) -> tuple[Span, ...]:
    """The sentences of a translated document, in its characters; none if one of them is empty or its text has none."""
    spans: list[Span] = []
    for source, text, target in zip(texts, written, offsets, strict=True):
        if len(source.sentences) != len(text.sentences) or any(start == end for start, end in text.sentences):
            return ()
        spans += [target.span(span) for span in text.sentences]
    return tuple(spans)


def _untranslated(text: SourceText, written: WrittenText, source: str) -> WrittenText:
    """The details of a text that stays in its language."""
    return WrittenText(
        source,
        spans=tuple(SpanUse(use.source, use.source, use.restored) for use in written.spans),
        terms=tuple(TermUse(use.source, None, "missing") for use in written.terms),
        sentences=tuple((sentence.start, sentence.end) for sentence in text.sentences),
    )


def _span_links(marked: MarkedText, uses: Sequence[SpanUse]) -> Iterator[tuple[Span, Span]]:
    """Links of protected spans, word by word, because a tag may be inside a span."""
    all_words = words(marked.text, marked.protected) if uses else []
    starts = [start for start, _ in all_words]
    for use in uses:
        (start, end), by = use.source, use.target[0] - use.source[0]
        inside = all_words[bisect_left(starts, start) : bisect_left(starts, end)]
        for first, last in inside or [use.source]:
            word = (first, min(last, end))
            yield word, shifted(word, by)
