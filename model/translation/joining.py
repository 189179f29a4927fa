"""The translation of a text, joined from those of its sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from model.decoding.options import Hypothesis
from model.text.placeholders import TargetSentence
from model.text.segmentation import join_text
from model.text.symbols import Span, overlaps, shifted
from model.translation.alignment import AlignmentLink, nearest_links, sentence_links
from model.translation.confidence import Evidence, WordConfidence, word_confidences, word_gains
from model.translation.quantities import NumberUse, number_uses
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.results import AnswerKey, SpanUse
from model.translation.terms import TermUse, find_uses
from model.translation.writing import SentenceWriter

if TYPE_CHECKING:
    from torch import Tensor

_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class SourceText:
    """A text to translate.

    Args:
        text: The text.
        sentences: Its sentences in order; none for a blank text.
        spans: Its protected spans.
        has_marks: Whether markup is placed in its translation, by alignment.
        edges: Where its elements of markup begin and end, in order.
    """

    text: str
    sentences: Sequence[SourceSentence]
    spans: Sequence[Span] = ()
    has_marks: bool = False
    edges: Sequence[int] = ()

    def is_whole(self, sentence: SourceSentence) -> bool:
        """Whether no element of markup begins or ends inside a sentence, so that its translation may be a stored one.

        Args:
            sentence: A sentence of the text.
        """
        return bisect_right(self.edges, sentence.start) == bisect_left(self.edges, sentence.end)


@dataclass(frozen=True)
class WrittenText:
    """The translation of a text. Spans are characters of the text and of its translation.

    Args:
        text: The translation.
        links: Its alignment, if it is requested or places marks.
        spans: The protected spans of the text, in its order.
        terms: The glossary terms in the text.
        hints: The words of the lexicon in the text whose translations the model used.
        numbers: The numbers that the model did not write, or wrote in another form.
        words: The words of the translation, if there is evidence.
        uncovered: The source words that the translation leaves out, if there is evidence.
        nearest: For tokens of the text without a link, the most probable tokens of the translation, if it has marks.
        sentences: The translations of its sentences, if it was written with details or they were requested; none if the
            position of one is unknown.
        num_kept: Number of sentences that stay as they are because their markup cannot be placed.
    """

    text: str
    links: tuple[AlignmentLink, ...] = ()
    spans: tuple[SpanUse, ...] = ()
    terms: tuple[TermUse, ...] = ()
    words: tuple[WordConfidence, ...] = ()
    uncovered: tuple[Span, ...] = ()
    nearest: tuple[tuple[Span, Span], ...] = ()
    sentences: tuple[Span, ...] = ()
    num_kept: int = 0
    numbers: tuple[NumberUse, ...] = ()
    hints: tuple[TermUse, ...] = ()


@dataclass(frozen=True)
class _WrittenSentence:
    """The translation of a sentence, and its inputs.

    Args:
        sentence: The sentence.
        source_spans: The characters of the sentence that each source token covers, if there are rows.
        target: The translation.
        target_start: Index of its first character in the translated text.
        rows: Attention weights, if there are any.
        uses: The terms in the sentence, in characters of the sentence and of its translation.
    """

    sentence: SourceSentence
    source_spans: Sequence[Span]
    target: TargetSentence
    target_start: int
    rows: Tensor | None
    uses: Sequence[TermUse]

    @property
    def span(self) -> Span:
        """The characters of the translated text that are its translation."""
        return self.target_start, self.target_start + len(self.target.text)

    def links(self) -> Iterator[AlignmentLink]:
        """Its alignment, in characters of the texts; that of a sentence that stays as it is, word by word."""
        if self.sentence.is_kept:
            for word in _WORD.finditer(self.sentence.text):
                source, target = shifted(word.span(), self.sentence.start), shifted(word.span(), self.target_start)
                yield AlignmentLink(source, target, 1.0)
            return
        if self.sentence.stored_translation is not None:
            yield AlignmentLink((self.sentence.start, self.sentence.end), self.span, 1.0)
        elif self.rows is not None:
            yield from sentence_links(
                self.rows, self.source_spans, self.target.tokens, self.sentence.start, self.target_start
            )

    def nearest_links(self) -> Iterator[tuple[Span, Span]]:
        """The most probable tokens of its translation for its tokens without a link, in characters of the texts."""
        if self.rows is not None:
            yield from nearest_links(
                self.rows, self.source_spans, self.target.tokens, self.sentence.start, self.target_start
            )

    def term_uses(self) -> Iterator[TermUse]:
        """Its terms, in characters of the texts."""
        return (use.moved(self.sentence.start, self.target_start) for use in self.uses)

    def hint_uses(self) -> Iterator[TermUse]:
        """Its words of the lexicon whose translations the model used, in characters of the texts."""
        uses = find_uses(self.sentence.hints, self.target) if self.sentence.hints else ()
        return (use.moved(self.sentence.start, self.target_start) for use in uses if use.target is not None)

    def number_uses(self) -> Iterator[NumberUse]:
        """Its numbers that the model did not write, or wrote in another form, in characters of the texts."""
        return number_uses(self.sentence, self.target, self.target_start)

    def span_uses(self) -> Iterator[SpanUse]:
        """Its protected spans, in characters of the texts."""
        target = self.target
        for source, written, restored in zip(self.sentence.protected, target.spans, target.restored, strict=True):
            yield SpanUse(shifted(source, self.sentence.start), shifted(written, self.target_start), restored)


class TextWriter:
    """Joins the answers to a text's sentences.

    Args:
        text: The text.
        sentences: Its sentences as they were decoded.
        first: Index of the first of them in the plan.
        reader: Encoded them.
        writer: Writes their translations.
    """

    def __init__(
        self,
        text: SourceText,
        sentences: Sequence[SourceSentence],
        first: int,
        reader: SentenceReader,
        writer: SentenceWriter,
    ) -> None:
        self._text = text
        self._sentences = sentences
        self._indices = range(first, first + len(sentences))
        self._reader = reader
        self._writer = writer

    def write(
        self,
        answers: Sequence[Hypothesis],
        rank: int,
        attention: Mapping[AnswerKey, Tensor],
        evidence: Sequence[Evidence] | None = None,
        *,
        detailed: bool = False,
        aligned: bool = False,
        coverage_bound: float = 0.0,
        divided: bool = False,
    ) -> WrittenText:
        """Join the answers of one rank to all sentences of the plan.

        Args:
            answers: The answers.
            rank: Their rank.
            attention: Attention weights of answers.
            evidence: The evidence of each answer, if a confidence is requested.
            detailed: Whether more than the text is requested. Texts with attention are written with details, too.
            aligned: Whether the alignment is requested; a text with marks has it in any case.
            coverage_bound: A source word is uncovered if its gain is smaller, in nats.
            divided: Whether the positions of the sentences are requested.
        """
        chosen = [answers[index].token_ids for index in self._indices]
        if not detailed and not any((index, rank) in attention for index in self._indices):
            translations = list(map(self._writer.write, self._sentences, chosen))
            return WrittenText(self._join(translations), sentences=self._spans(translations) if divided else ())
        written = self._written_sentences(chosen, [attention.get((index, rank)) for index in self._indices])
        words: list[WordConfidence] = []
        uncovered: list[Span] = []
        if evidence is not None:
            for sentence, index in zip(written, self._indices, strict=True):
                target = sentence.target
                if sentence.sentence.stored_translation is not None:
                    continue
                words += word_confidences(evidence[index], target.text, target.tokens, sentence.target_start)
            uncovered = [span for span, gain in self.source_gains(evidence) if gain < coverage_bound]
        return WrittenText(
            self._join([sentence.target.text for sentence in written]),
            tuple(link for sentence in written for link in sentence.links()) if aligned or self._text.has_marks else (),
            self._span_uses(written),
            tuple(use for sentence in written for use in sentence.term_uses()),
            tuple(words),
            tuple(uncovered),
            tuple(link for sentence in written for link in sentence.nearest_links()) if self._text.has_marks else (),
            tuple(sentence.span for sentence in written),
            numbers=tuple(use for sentence in written for use in sentence.number_uses()),
            hints=tuple(use for sentence in written for use in sentence.hint_uses()),
        )

    @property
    def has_hints(self) -> bool:
        """Whether the model read translations of the lexicon."""
        return any(sentence.hints for sentence in self._sentences)

    def has_numbers(self, answers: Sequence[Hypothesis]) -> bool:
        """Whether any of the answers has numbers in another form than the model wrote.

        Args:
            answers: The answers to all sentences of the plan.
        """
        return any(
            sentence.numbers or tuple(answers[index].token_ids) in sentence.respelled
            for index, sentence in zip(self._indices, self._sentences, strict=True)
        )

    def source_gains(self, evidence: Sequence[Evidence]) -> list[tuple[Span, float]]:
        """The words of the text with their gains, in nats (:func:`model.translation.confidence.word_gains`).

        Args:
            evidence: The evidence of each sentence of the plan; without gains there are no words.
        """
        return [
            gain
            for index, sentence in zip(self._indices, self._sentences, strict=True)
            if sentence.stored_translation is None
            for gain in word_gains(
                evidence[index], sentence.text, self._reader.source_offsets(sentence), sentence.start
            )
        ]

    def _join(self, translations: Sequence[str]) -> str:
        return join_text(self._text.text, self._sentences, translations)

    def _spans(self, translations: Sequence[str]) -> tuple[Span, ...]:
        """The characters of the translated text that are the translation of each sentence."""
        spans: list[Span] = []
        position = source_end = 0
        for sentence, translation in zip(self._sentences, translations, strict=True):
            position += sentence.start - source_end
            spans.append((position, position + len(translation)))
            position += len(translation)
            source_end = sentence.end
        return tuple(spans)

    def _written_sentences(
        self, answers: Sequence[Sequence[int]], rows: Sequence[Tensor | None]
    ) -> list[_WrittenSentence]:
        written: list[_WrittenSentence] = []
        position = source_end = 0
        for sentence, token_ids, weights in zip(self._sentences, answers, rows, strict=True):
            position += sentence.start - source_end
            source_spans = [] if weights is None else self._reader.source_offsets(sentence)
            target, uses = self._writer.write_with_terms(sentence, token_ids, weights, source_spans)
            written.append(_WrittenSentence(sentence, source_spans, target, position, weights, uses))
            position += len(target.text)
            source_end = sentence.end
        return written

    def _span_uses(self, written: Sequence[_WrittenSentence]) -> tuple[SpanUse, ...]:
        """The protected spans of the text in the translation, without those in sentences with a stored translation."""
        stored_spans = [
            (sentence.start, sentence.end) for sentence in self._sentences if sentence.stored_translation is not None
        ]
        uses = {use.source: use for sentence in written for use in sentence.span_uses()}
        # Spans outside of sentences shift with the sentence before them.
        ends = [(0, 0)] + [
            (sentence.sentence.end, sentence.target_start + len(sentence.target.text)) for sentence in written
        ]
        index = 0
        for start, end in self._text.spans:
            while index + 1 < len(ends) and ends[index + 1][0] <= start:
                index += 1
            by = ends[index][1] - ends[index][0]
            uses.setdefault((start, end), SpanUse((start, end), shifted((start, end), by), restored=False))
        return tuple(uses[span] for span in self._text.spans if not stored_spans or not overlaps(span, stored_spans))
