"""The translation of a text in two legs, composed of both: from the text to what was written, and from that on.

What the first leg wrote is called the pivot text. The spans of the first leg end in it, and those of the second leg
begin in it; characters outside of the second leg's sentences are unchanged.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from model.text.symbols import Span, shifted
from model.translation.alignment import AlignmentLink
from model.translation.confidence import WordConfidence
from model.translation.joining import SourceText, WrittenText
from model.translation.results import SpanUse
from model.translation.terms import TermUse

_WORD = re.compile(r"\S+")
_DECIMALS = 4

_T = TypeVar("_T")


@dataclass(frozen=True)
class PivotTerm:
    """A glossary term of a text that is translated in two legs.

    Args:
        source: Characters of the text.
        pivot: Characters of the pivot text that it is aligned with; None if there are none.
    """

    source: Span
    pivot: Span | None


class _Index(Generic[_T]):
    """Elements by spans of a text, to find those that overlap another span.

    Args:
        elements: The elements, in any order.
        span_of: The span of an element. Few spans overlap each other.
    """

    def __init__(self, elements: Iterable[_T], span_of: Callable[[_T], Span]) -> None:
        self._elements = sorted(elements, key=span_of)
        self._span_of = span_of
        self._starts = [span_of(element)[0] for element in self._elements]

    def overlapping(self, span: Span) -> list[_T]:
        """The elements that share characters with a span, in order."""
        end = bisect_left(self._starts, span[1])
        begin = bisect_left(self._starts, span[0])
        while begin > 0 and self._span_of(self._elements[begin - 1])[1] > span[0]:
            begin -= 1
        return [element for element in self._elements[begin:end] if self._span_of(element)[1] > span[0]]


def compose(
    text: SourceText, first: WrittenText, terms: Sequence[PivotTerm], pivot: SourceText, second: WrittenText
) -> WrittenText:
    """The translation of a text in two legs.

    Args:
        text: The text.
        first: The pivot text, with all details.
        terms: The glossary terms of the text.
        pivot: The pivot text as the second leg read it.
        second: Its translation.

    Returns:
        The translation, with the details that the second leg has. A link has the product of both weights, and a word
        its probability times that of the least probable word of the pivot text that it is linked to.
    """
    if len(second.sentences) != len(pivot.sentences):
        return WrittenText(second.text)  # written without details
    composition = _Composition(text, first, pivot, second)
    links = composition.links()
    return WrittenText(
        second.text,
        tuple(links),
        composition.spans(),
        composition.terms(terms),
        composition.words(),
        composition.uncovered(),
        tuple(composition.nearest(links)) if text.has_marks else (),
        composition.sentences(),
    )


class _Composition:
    """The parts of :func:`compose`, with its arguments."""

    def __init__(self, text: SourceText, first: WrittenText, pivot: SourceText, second: WrittenText) -> None:
        self._text = text
        self._first = first
        self._second = second
        self._sentences = [(sentence.start, sentence.end) for sentence in pivot.sentences]
        self._ends = [end for _, end in self._sentences]
        self._to_pivot = _Index(first.links, lambda link: link.target)
        self._from_pivot = _Index(second.links, lambda link: link.source)
        self._to_target = _Index(second.links, lambda link: link.target)

    def links(self) -> list[AlignmentLink]:
        """Each token of the translation with the token of the text that it is linked to, in order of the former."""
        links = [
            AlignmentLink(before.source, link.target, round(before.weight * link.weight, _DECIMALS))
            for link in self._second.links
            if (before := self._before(link.source)) is not None
        ]
        if self._second.links or not self._sentences:
            links += [
                AlignmentLink(link.source, self._unchanged(link.target), link.weight)
                for link in self._first.links
                if self._is_outside(link.target)
            ]
        return sorted(links, key=lambda link: link.target)

    def spans(self) -> tuple[SpanUse, ...]:
        """The protected spans of the text."""
        uses = _Index(self._second.spans, lambda use: use.source)
        return tuple(self._span(use, uses.overlapping(use.target)) for use in self._first.spans)

    def _span(self, use: SpanUse, candidates: Sequence[SpanUse]) -> SpanUse:
        """A protected span, which is one of the pivot text, or part of one."""
        for onward in candidates:
            if onward.source[0] <= use.target[0] and use.target[1] <= onward.source[1]:
                target = shifted(use.target, onward.target[0] - onward.source[0])
                return SpanUse(use.source, target, use.restored or onward.restored)
        return SpanUse(use.source, self._unchanged(use.target), use.restored)

    def terms(self, terms: Sequence[PivotTerm]) -> tuple[TermUse, ...]:
        """The glossary terms of the text."""
        uses = {use.source: use for use in self._second.terms}
        return tuple(
            TermUse(term.source, uses[term.pivot].target, uses[term.pivot].status)
            if term.pivot in uses
            else TermUse(term.source, None, "missing")
            for term in terms
        )

    def words(self) -> tuple[WordConfidence, ...]:
        """The words of the translation."""
        before = _Index(self._first.words, lambda word: word.target)
        return tuple(
            WordConfidence(
                word.target,
                round(
                    word.probability
                    * min(
                        (
                            linked.probability
                            for link in self._to_target.overlapping(word.target)
                            for linked in before.overlapping(link.source)
                        ),
                        default=1.0,
                    ),
                    _DECIMALS,
                ),
            )
            for word in self._second.words
        )

    def uncovered(self) -> tuple[Span, ...]:
        """The words of the text that either leg leaves out."""
        if not (self._first.uncovered or self._second.uncovered):
            return ()
        words = _Index((match.span() for match in _WORD.finditer(self._text.text)), lambda span: span)
        lost = (
            word
            for span in self._second.uncovered
            for link in self._to_pivot.overlapping(span)
            for word in words.overlapping(link.source)
        )
        return tuple(sorted({*self._first.uncovered, *lost}))

    def nearest(self, links: Sequence[AlignmentLink]) -> Iterator[tuple[Span, Span]]:
        """For tokens of the text without a link, the most probable tokens of the translation."""
        linked = {link.source for link in links}
        nearest = _Index(self._second.nearest, lambda pair: pair[0])
        pairs = [*((link.source, link.target) for link in self._first.links), *self._first.nearest]
        for source, pivot in sorted(pairs):
            if source in linked:
                continue
            targets = [link.target for link in self._from_pivot.overlapping(pivot)]
            targets += [target for _, target in nearest.overlapping(pivot)]
            if targets:
                linked.add(source)
                yield source, targets[0]

    def sentences(self) -> tuple[Span, ...]:
        """The translations of the sentences of the text; one that the first leg left in its language is unchanged."""
        starts = [start for start, _ in self._sentences]
        spans: list[Span] = []
        for span in self._first.sentences:
            first, end = bisect_left(starts, span[0]), bisect_left(starts, span[1])
            targets = self._second.sentences[first:end]
            spans.append((targets[0][0], targets[-1][1]) if targets else self._unchanged(span))
        return tuple(spans)

    def _before(self, span: Span) -> AlignmentLink | None:
        """The link of the first leg whose token shares the most characters with one of the second leg."""
        return max(
            self._to_pivot.overlapping(span),
            key=lambda link: (min(link.target[1], span[1]) - max(link.target[0], span[0]), link.weight),
            default=None,
        )

    def _is_outside(self, span: Span) -> bool:
        """Whether characters of the pivot text are outside of the sentences of the second leg."""
        index = bisect_right(self._ends, span[0])
        return index == len(self._sentences) or span[1] <= self._sentences[index][0]

    def _unchanged(self, span: Span) -> Span:
        """Characters outside of sentences, in the translation."""
        index = bisect_right(self._ends, span[0])
        return span if index == 0 else shifted(span, self._second.sentences[index - 1][1] - self._ends[index - 1])
