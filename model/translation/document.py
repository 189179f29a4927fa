"""A document on its way through a model: its texts are plans of their own, and their markup is put back at the end."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from types import MappingProxyType
from typing import TYPE_CHECKING

from torch import Tensor

from model.decoding.options import DecodingOptions, Hypothesis, Outcome
from model.decoding.sentence import DecodingRequest
from model.text.symbols import Span, shifted
from model.translation.alignment import AlignmentLink, word_links
from model.translation.confidence import Calibration, Confidence, Evidence, WordConfidence
from model.translation.plan import (
    Alternative,
    AnswerKey,
    AttendedSentence,
    SpanUse,
    TextPlan,
    TranslatedSentence,
    Translation,
    mean_score,
    settle_all,
)
from model.translation.reading import SourceSentence
from model.translation.terms import TermUse

if TYPE_CHECKING:
    from model.text.markup import MarkedText, MarkedUp, OffsetMap, PlacedText


class MarkupPlan:
    """The plans of a document's texts as one plan; see :class:`model.translation.plan.TextPlan`. Not thread-safe.

    Args:
        document: The document.
        plans: A plan for each of its texts.
        source: Its language.
        target: The target language.
        options: How to translate it.
        calibration: What turns the model's probabilities into confidences.
    """

    def __init__(
        self,
        document: MarkedUp,
        plans: Sequence[TextPlan],
        source: str,
        target: str,
        options: DecodingOptions,
        calibration: Calibration,
    ) -> None:
        self.text = document.source
        self.source = source
        self.target = target
        self.options = options
        self.forced_ids: tuple[int, ...] = plans[0].forced_ids if plans else ()
        self._document = document
        self._plans = plans
        *self._firsts, self.num_sentences = accumulate((plan.num_sentences for plan in plans), initial=0)
        self._calibration = calibration

    @property
    def sentences(self) -> Sequence[SourceSentence]:
        """The sentences of all texts, in order."""
        return [sentence for plan in self._plans for sentence in plan.sentences]

    @property
    def pending(self) -> Sequence[DecodingRequest]:
        """The requests to decode now; empty once all are settled."""
        return [
            replace(request, key=first + request.key) for first, plan in self._numbered() for request in plan.pending
        ]

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of the pending requests. Sentences that must be decoded again are pending afterwards.

        Args:
            outcomes: One for each pending request, in order.
        """
        settle_all(self._plans, outcomes)

    def settle_one(self, index: int, outcome: Outcome) -> None:
        """Store the outcome of the pending request of one sentence, which is pending again if it must be retried.

        Args:
            index: The index of the sentence.
            outcome: Its outcome.
        """
        number, inner = self._plan_of(index)
        self._plans[number].settle_one(inner, outcome)

    def drop_retries(self) -> list[int]:
        """Let the first answers stand where a second decoding is pending; returns the indices of these sentences."""
        return [first + index for first, plan in self._numbered() for index in plan.drop_retries()]

    def outcome(self, index: int) -> Outcome | None:
        """The outcome of a sentence; None while its request is pending.

        Args:
            index: The index of the sentence.
        """
        number, inner = self._plan_of(index)
        return self._plans[number].outcome(inner)

    def attended_by(self, index: int) -> list[AttendedSentence]:
        """As :attr:`attended`, of the best answer to one sentence, for :meth:`sentence`.

        Args:
            index: The index of the sentence, which has a hypothesis.
        """
        number, inner = self._plan_of(index)
        return [replace(one, index=index) for one in self._plans[number].attended_by(inner)]

    def sentence(self, index: int, attention: Mapping[AnswerKey, Tensor]) -> TranslatedSentence:
        """The translation of one sentence without its marks, in characters of the document.

        Args:
            index: The index of the sentence, which has a hypothesis.
            attention: The weights of :meth:`attended_by`.
        """
        number, inner = self._plan_of(index)
        weights = {(inner, 0): attention[index, 0]} if (index, 0) in attention else {}
        found = self._plans[number].sentence(inner, weights)
        return replace(found, source=self._source_offsets[number].span(found.source))

    @property
    def failure(self) -> Exception | None:
        """The error of the first sentence that failed, or None."""
        return next((plan.failure for plan in self._plans if plan.failure is not None), None)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses of the sentences, in order.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        return [hypothesis for plan in self._plans for hypothesis in plan.hypotheses]

    @property
    def attended(self) -> list[AttendedSentence]:
        """The answers whose attention :meth:`complete` needs: for links, or places of marks, spans and terms."""
        return [replace(one, index=first + one.index) for first, plan in self._numbered() for one in plan.attended]

    def complete(
        self, attention: Mapping[AnswerKey, Tensor] = MappingProxyType({}), evidence: Sequence[Evidence] | None = None
    ) -> Translation:
        """Put the translated texts into the document.

        Args:
            attention: Attention weights of the answers that are :attr:`attended`.
            evidence: What the model says about each sentence's translation, if a confidence is requested.

        Raises:
            Exception: The error of the first sentence that failed.
            MarkupNotKept: The document would have other markup.
        """
        texts: list[Translation] = []
        for first, plan in self._numbered():
            end = first + plan.num_sentences
            keys = product(range(first, end), range(self.options.num_hypotheses))
            rows = {(index - first, rank): attention[index, rank] for index, rank in keys if (index, rank) in attention}
            texts.append(plan.complete(rows, None if evidence is None else evidence[first:end]))
        with_sentences = [one for one, plan in zip(texts, self._plans, strict=True) if plan.sentences]
        num_alternatives = min((len(one.alternatives) for one in with_sentences), default=0)
        document, target_offsets = self._document.render_with_offsets(self._placed(texts))
        translation = Translation(
            text=document,
            source=self.source,
            target=self.target,
            finish_reason="length" if any(one.finish_reason == "length" for one in texts) else "stop",
            score=_score(self.hypotheses),
            alternatives=tuple(self._alternative(texts, rank) for rank in range(num_alternatives)),
            alignment=None,
            num_source_tokens=sum(one.num_source_tokens for one in texts),
            num_target_tokens=sum(one.num_target_tokens for one in texts),
            num_sentences=sum(one.num_sentences for one in texts),
        )
        has_spans = any(one.integrity is not None for one in texts)
        if not (self.options.return_alignment or self.options.glossary or evidence is not None or has_spans):
            return translation
        details = _Details(texts, self._source_offsets, target_offsets)
        return replace(
            translation,
            alignment=details.alignment() if self.options.return_alignment else None,
            confidence=None if evidence is None else details.confidence(self._calibration.text_score(evidence)),
            integrity=details.integrity() if has_spans else None,
            glossary=details.glossary() if self.options.glossary else None,
        )

    def _numbered(self) -> Iterator[tuple[int, TextPlan]]:
        """The plans, each with the number of sentences before it."""
        return zip(self._firsts, self._plans, strict=True)

    def _plan_of(self, index: int) -> tuple[int, int]:
        """The plan with a sentence, and the index of the sentence in it."""
        number = bisect_right(self._firsts, index) - 1
        return number, index - self._firsts[number]

    @cached_property
    def _source_offsets(self) -> list[OffsetMap]:
        """Where the characters of each text stand in the document."""
        return self._document.offsets()

    def _alternative(self, texts: Sequence[Translation], rank: int) -> Alternative:
        """The document with an alternative of each text."""
        chosen = [one.alternatives[rank] if one.alternatives else None for one in texts]
        others = [other for other in chosen if other is not None]
        return Alternative(
            self._document.render(self._placed([other or one for other, one in zip(chosen, texts, strict=True)])),
            _score([hypothesis.alternatives[rank] for hypothesis in self.hypotheses]),
            "length" if any(other.finish_reason == "length" for other in others) else "stop",
        )

    def _placed(self, translations: Sequence[Translation | Alternative]) -> list[PlacedText]:
        """The translated texts with the places of their marks."""
        each = zip(self._document.texts, translations, self._plans, strict=True)
        return [_placed(marked, translation, plan.sentences) for marked, translation, plan in each]


@dataclass(frozen=True)
class _Details:
    """What is known of the translations of a document's texts, in characters of the document and of its translation.

    Args:
        texts: The translation of each text.
        source: Where the characters of each text stand in the document.
        target: Where those of its translation stand in the translated document.
    """

    texts: Sequence[Translation]
    source: Sequence[OffsetMap]
    target: Sequence[OffsetMap]

    def alignment(self) -> tuple[AlignmentLink, ...]:
        """The links of all texts, in the order of the translated document."""
        links = (
            AlignmentLink(source.span(link.source), target.span(link.target), link.weight)
            for text, source, target in self._all()
            for link in text.alignment or ()
        )
        return tuple(sorted(links, key=lambda link: link.target))

    def confidence(self, score: float) -> Confidence:
        """The confidence of the document with this score."""
        known = [(one.confidence, source, target) for one, source, target in self._all() if one.confidence is not None]
        words = [
            WordConfidence(target.span(word.target), word.probability)
            for confidence, _, target in known
            for word in confidence.words
        ]
        uncovered = [source.span(span) for confidence, source, _ in known for span in confidence.uncovered or ()]
        is_known = all(confidence.uncovered is not None for confidence, _, _ in known)
        words.sort(key=lambda word: word.target)
        return Confidence(score, tuple(words), tuple(sorted(uncovered)) if is_known else None)

    def integrity(self) -> tuple[SpanUse, ...]:
        """The protected spans of all texts, in the order of the document."""
        uses = (
            SpanUse(source.span(use.source), target.span(use.target), use.restored)
            for text, source, target in self._all()
            for use in text.integrity or ()
        )
        return tuple(sorted(uses, key=lambda use: use.source))

    def glossary(self) -> tuple[TermUse, ...]:
        """The terms in all texts, in the order of the document."""
        uses = (
            TermUse(source.span(use.source), None if use.target is None else target.span(use.target), use.status)
            for text, source, target in self._all()
            for use in text.glossary or ()
        )
        return tuple(sorted(uses, key=lambda use: use.source))

    def _all(self) -> Iterator[tuple[Translation, OffsetMap, OffsetMap]]:
        return zip(self.texts, self.source, self.target, strict=True)


def _score(chosen: Iterable[Hypothesis]) -> float | None:
    """The mean score of one hypothesis of each sentence, weighted as in a text without markup."""
    return mean_score([(hypothesis.score, len(hypothesis.token_ids)) for hypothesis in chosen])


def _placed(
    marked: MarkedText, translation: Translation | Alternative, sentences: Sequence[SourceSentence]
) -> PlacedText:
    """A translated text with the places of its marks."""
    from model.text.markup import place_marks, unchanged

    if translation.text == marked.text:
        return unchanged(marked)
    parts = [(sentence.start, sentence.end) for sentence in sentences]
    links = word_links(translation.alignment or (), marked.text, translation.text, parts)
    links += _span_links(marked, translation.integrity or ())
    return place_marks(marked, translation.text, links)


def _span_links(marked: MarkedText, uses: Sequence[SpanUse]) -> Iterator[tuple[Span, Span]]:
    """Links of protected spans, word by word, because a tag may stand inside of one."""
    from model.text.markup import words

    found = words(marked.text, marked.protected) if uses else []
    starts = [start for start, _ in found]
    for use in uses:
        (start, end), by = use.source, use.target[0] - use.source[0]
        inside = found[bisect_left(starts, start) : bisect_left(starts, end)]
        for first, last in inside or [use.source]:
            word = (first, min(last, end))
            yield word, shifted(word, by)
