"""The terms of a glossary in a translation: written by the model, or inserted by alignment."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from model.text.glossary import spans_of_terms
from model.text.placeholders import TargetSentence
from model.text.symbols import Span, overlaps, shifted
from model.translation.alignment import counterpart
from model.translation.reading import SourceTerm

if TYPE_CHECKING:
    from torch import Tensor

TermStatus = Literal["used", "replaced", "missing"]


@dataclass(frozen=True)
class TermUse:
    """A glossary term in a text, and in its translation.

    Args:
        source: Characters of the source text.
        target: Characters of the translation; None if it does not contain the term.
        status: ``used`` if the model wrote the term, inflected or not; ``replaced`` if the term replaced other words;
            ``missing`` if the translation does not contain it.
    """

    source: Span
    target: Span | None
    status: TermStatus

    def moved(self, source_by: int, target_by: int) -> TermUse:
        """The same use with shifted spans.

        Args:
            source_by: The shift in the source.
            target_by: The shift in the translation.
        """
        target = None if self.target is None else shifted(self.target, target_by)
        return TermUse(shifted(self.source, source_by), target, self.status)


def find_uses(terms: Sequence[SourceTerm], translation: TargetSentence) -> list[TermUse]:
    """The terms of a sentence in its translation; each occurrence counts for one term.

    Args:
        terms: The terms.
        translation: The sentence's translation.
    """
    spans = spans_of_terms(translation.text, (term.target for term in terms), sorted(translation.spans))
    return [
        TermUse(term.span, span, "missing" if span is None else "used") for term, span in zip(terms, spans, strict=True)
    ]


def put_terms(
    terms: Sequence[SourceTerm],
    translation: TargetSentence,
    rows: Tensor,
    source_spans: Sequence[Span],
    num_given: int = 0,
) -> tuple[TargetSentence, list[TermUse]]:
    """Replace the words that are aligned with missing terms by these terms, as the glossary has them.

    Args:
        terms: The terms of the sentence.
        translation: Its translation.
        rows: Attention weights, (target tokens, source tokens).
        source_spans: Characters of the sentence that each source token covers.
        num_given: Characters at the beginning of the translation that are not replaced.

    Returns:
        The new translation and the use of each term.
    """
    uses = find_uses(terms, translation)
    occupied = sorted([*translation.spans, *(use.target for use in uses if use.target is not None)])
    replaced: dict[int, Span] = {}  # by index of the term
    for index, use in enumerate(uses):
        if use.target is None:
            words = counterpart(rows, source_spans, translation.tokens, translation.text, use.source)
            if words is not None and words[0] >= num_given and not overlaps(words, occupied):
                replaced[index] = words
                insort(occupied, words)
    # From right to left, so that a replacement does not shift the others.
    for index in sorted(replaced, key=lambda number: replaced[number], reverse=True):
        start, end = replaced[index]
        new = terms[index].target
        translation = translation.with_replaced(start, end, new)
        by = len(new) - (end - start)
        uses = [use.moved(0, by) if use.target is not None and use.target[0] >= end else use for use in uses]
        uses[index] = TermUse(uses[index].source, (start, start + len(new)), "replaced")
    return translation, uses
