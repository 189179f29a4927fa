"""A text on its way through a model: the sentences to decode, their outcomes, and the translation made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Protocol

from torch import Tensor

from model.decoding.options import DecodingOptions, FinishReason, Hypothesis, Outcome
from model.decoding.repetition_guard import guarded
from model.decoding.sentence import DecodingRequest
from model.errors import DecodingError
from model.text.placeholders import TargetSentence
from model.text.segmentation import join_text
from model.text.symbols import Span, shifted
from model.translation.alignment import AlignmentLink, sentence_links
from model.translation.confidence import Confidence, Evidence, WordConfidence, word_confidences, word_gains
from model.translation.reading import SentenceCodec, SourceSentence
from model.translation.search_trace import WrittenSearch, written_search
from model.translation.terms import TermUse, find_uses, put_terms

MustRetry = Callable[[str, SourceSentence, Hypothesis, DecodingOptions], bool]
"""Whether a sentence has to be decoded again, by its text, its tokens, its hypothesis and its options."""

AnswerKey = tuple[int, int]
"""The index of a sentence in its text, and the rank of an answer: 0 for the best, k for the k-th alternative."""


@dataclass(frozen=True)
class SpanUse:
    """A protected span of a text, and its place in the translation.

    Args:
        source: Characters of the source text.
        target: Characters of the translation; they are equal to those of the source, but for the tags and character
            references in a span of a document.
        restored: Whether the model did not write it, and its place was found by alignment.
    """

    source: Span
    target: Span
    restored: bool


@dataclass(frozen=True)
class Alternative:
    """An alternative translation of a text.

    Args:
        text: The translation.
        score: Its score, if scores were requested.
        finish_reason: As in :class:`Translation`.
        alignment: As in :class:`Translation`; None unless markup is placed by it.
        integrity: As in :class:`Translation`; None unless markup is placed by it.
    """

    text: str
    score: float | None
    finish_reason: FinishReason
    alignment: tuple[AlignmentLink, ...] | None = None
    integrity: tuple[SpanUse, ...] | None = None


@dataclass(frozen=True)
class Translation:
    """A translated text.

    Args:
        text: The translation, with the line breaks, indentation and blank lines of the source.
        source: Language of the source.
        target: Language of the translation.
        finish_reason: ``length`` if any sentence was cut at ``max_new_tokens``, else ``stop``.
        score: Mean of the sentences' scores, weighted by their tokens; None unless requested.
        alternatives: The k-th alternative joins the k-th hypotheses of the sentences.
        alignment: Links in the order of the translation; None unless requested.
        num_source_tokens: Number of tokens of all sentences, without markers.
        num_target_tokens: Number of tokens of the best hypotheses.
        confidence: How sure the model is of it; None unless requested.
        integrity: The protected spans of the text, in its order; None for a text without.
        glossary: The terms of the glossary in the text; None without a glossary.
        search: The candidates of the search for the translation of its only sentence; None unless requested.
        num_sentences: Number of sentences that were decoded.
    """

    text: str
    source: str
    target: str
    finish_reason: FinishReason
    score: float | None
    alternatives: tuple[Alternative, ...]
    alignment: tuple[AlignmentLink, ...] | None
    num_source_tokens: int
    num_target_tokens: int
    confidence: Confidence | None = None
    integrity: tuple[SpanUse, ...] | None = None
    glossary: tuple[TermUse, ...] | None = None
    search: WrittenSearch | None = None
    num_sentences: int = 0


@dataclass(frozen=True)
class AttendedSentence:
    """A sentence and its answer, whose attention weights are needed.

    Args:
        index: The index of the sentence in its text.
        rank: 0 for the best answer, k for the k-th alternative.
        source_ids: Its token ids, markers included.
        forced_ids: Tokens between the start token and the answer.
        answer_ids: Token ids of the answer, without the end token.
    """

    index: int
    rank: int
    source_ids: Sequence[int]
    forced_ids: Sequence[int]
    answer_ids: Sequence[int]

    @property
    def key(self) -> AnswerKey:
        """What its attention weights are found by."""
        return self.index, self.rank


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text and its translation.

    Args:
        source: Characters of the text.
        text: The translation, without the markup of a document.
        finish_reason: As in :class:`Translation`.
    """

    source: Span
    text: str
    finish_reason: FinishReason


class TextPlan:
    """The sentences of a text, the requests still to be decoded, and the outcomes so far. Not thread-safe.

    Args:
        codec: Encodes and decodes the sentences of its model.
        must_retry: Whether a sentence has to be decoded again.
        text: The text.
        source: Its language.
        target: The target language.
        sentences: Its sentences in order; empty for a blank text. One whose translation lacks a number is replaced by
            the same with this number protected.
        options: How to translate them.
        spans: The protected spans of the text.
        has_marks: Whether markup is placed in its translation, by alignment.
    """

    def __init__(
        self,
        codec: SentenceCodec,
        must_retry: MustRetry,
        text: str,
        source: str,
        target: str,
        sentences: Sequence[SourceSentence],
        options: DecodingOptions,
        spans: Sequence[Span] = (),
        *,
        has_marks: bool = False,
    ) -> None:
        self.text = text
        self.source = source
        self.target = target
        self.sentences = list(sentences)
        self.num_sentences = len(self.sentences)
        self.forced_ids = codec.tokenizer.forced_ids(target)
        self._codec = codec
        self._must_retry = must_retry
        self._spans = spans
        self._has_marks = has_marks
        self.options = options
        self._outcomes: dict[int, Outcome] = {}  # by sentence
        # The sentence and the answer that stand if a second decoding fails or is dropped.
        self._first: dict[int, tuple[SourceSentence, Hypothesis]] = {}
        self._with_numbers: set[int] = set()  # sentences that were replaced by the same with a number protected
        self._pending = {
            index: self._request(index, sentence, options.for_decoding) for index, sentence in enumerate(sentences)
        }

    @property
    def pending(self) -> Sequence[DecodingRequest]:
        """The requests to decode now; empty once all are settled. The key of a request is its sentence's index."""
        return list(self._pending.values())

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of the pending requests. Sentences that must be decoded again are pending afterwards.

        Args:
            outcomes: One for each pending request, in order.
        """
        for request, outcome in zip(self.pending, outcomes, strict=True):
            self.settle_one(request.key, outcome)

    def settle_one(self, index: int, outcome: Outcome) -> None:
        """Store the outcome of the pending request of one sentence, which is pending again if it must be retried.

        An error of a second decoding leaves the first answer as it was.

        Args:
            index: The index of the sentence.
            outcome: Its outcome.
        """
        request = self._pending.pop(index)
        if not isinstance(outcome, Hypothesis) and index in self._first:
            self._restore_first(index)
            return
        self._outcomes[index] = outcome
        before = self.sentences[index]
        retry = self._retry(request, outcome) if isinstance(outcome, Hypothesis) else None
        if retry is not None and isinstance(outcome, Hypothesis):
            self._pending[index] = retry
            if before is self.sentences[index] and index in self._with_numbers:
                return  # the attempt at numbers is repeated: the answer without it stands
            self._first[index] = before, outcome

    def drop_retries(self) -> list[int]:
        """Let the first answers stand where a second decoding is pending; returns the indices of these sentences."""
        dropped = [index for index in self._pending if index in self._outcomes]
        for index in dropped:
            del self._pending[index]
            self._restore_first(index)
        return dropped

    def _restore_first(self, index: int) -> None:
        self.sentences[index], self._outcomes[index] = self._first[index]

    def outcome(self, index: int) -> Outcome | None:
        """The outcome of a sentence; None while its request is pending.

        Args:
            index: The index of the sentence.
        """
        return None if index in self._pending else self._outcomes[index]

    def attended_by(self, index: int) -> list[AttendedSentence]:
        """As :attr:`attended`, of the best answer to one sentence, for :meth:`sentence`.

        Args:
            index: The index of the sentence, which has a hypothesis.
        """
        sentence, hypothesis = self.sentences[index], self._hypothesis(index)
        if not (self._is_linked(0) or self._codec.needs_attention(sentence, hypothesis.token_ids)):
            return []
        return [AttendedSentence(index, 0, sentence.token_ids, self.forced_ids, hypothesis.token_ids)]

    def sentence(self, index: int, attention: Mapping[AnswerKey, Tensor]) -> TranslatedSentence:
        """The translation of one sentence, as it will stand in the translation of the text.

        Args:
            index: The index of the sentence, which has a hypothesis.
            attention: The weights of :meth:`attended_by`.
        """
        sentence, hypothesis = self.sentences[index], self._hypothesis(index)
        pair = (self.source, self.target)
        source_spans = self._codec.source_offsets(self._part(sentence), sentence, pair) if attention else []
        target, _ = self._written(sentence, source_spans, hypothesis, attention.get((index, 0)))
        return TranslatedSentence((sentence.start, sentence.end), target.text, hypothesis.finish_reason)

    @property
    def attended(self) -> list[AttendedSentence]:
        """The answers whose attention :meth:`complete` needs: for links, or places of markup, spans and terms."""
        needs = self._codec.needs_attention
        return [
            AttendedSentence(index, rank, sentence.token_ids, self.forced_ids, hypothesis.token_ids)
            for rank, chosen in enumerate(self._ranked)
            for index, (sentence, hypothesis) in enumerate(zip(self.sentences, chosen, strict=True))
            if self._is_linked(rank) or needs(sentence, hypothesis.token_ids)
        ]

    @property
    def failure(self) -> Exception | None:
        """The error of the first sentence that failed, or None."""
        outcomes = (self._outcomes[index] for index in range(len(self.sentences)))
        return next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses of the sentences, in order.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        return [self._hypothesis(index) for index in range(len(self.sentences))]

    def complete(
        self, attention: Mapping[AnswerKey, Tensor] = MappingProxyType({}), evidence: Sequence[Evidence] | None = None
    ) -> Translation:
        """Join the hypotheses of all sentences to the translation.

        Args:
            attention: Attention weights of the answers that are :attr:`attended`: a row for each token of the answer, a
                column for each of the source.
            evidence: What the model says about each sentence's translation, if a confidence is requested.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        best, *others = self._ranked
        options = self.options
        detailed = self._spans or options.glossary or options.return_alignment or attention or evidence is not None
        written = self._write_with_offsets(best, 0, attention) if detailed else None
        answers = self._write(best) if written is None else [one.target.text for one in written]
        joined = self._join(best, answers)
        num_markers = self._codec.num_markers(self.source, self.target)
        translation = Translation(
            text=joined.text,
            source=self.source,
            target=self.target,
            finish_reason=joined.finish_reason,
            score=joined.score,
            alternatives=tuple(
                self._alternative(chosen, rank, attention) for rank, chosen in enumerate(others, start=1)
            ),
            alignment=None,
            num_source_tokens=sum(len(sentence.token_ids) - num_markers for sentence in self.sentences),
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in best),
            search=self._search(best) if options.return_search else None,
            num_sentences=len(self.sentences),
        )
        if written is None:
            return translation
        return replace(
            translation,
            alignment=_links(written) if self._is_linked(0) else None,
            confidence=None if evidence is None else self._confidence(written, evidence),
            integrity=self._integrity(written) if self._spans else None,
            glossary=tuple(use for one in written for use in one.term_uses()) if options.glossary else None,
        )

    def source_gains(self, evidence: Sequence[Evidence]) -> list[tuple[Span, float]]:
        """The words of the text, and how much more probable the translation makes each of them, in nats.

        Args:
            evidence: What the model says about each sentence's translation; without gains there are no words.
        """
        return [
            gain
            for sentence, source_spans, found in zip(self.sentences, self._source_spans, evidence, strict=True)
            for gain in word_gains(found, self._part(sentence), source_spans, sentence.start)
        ]

    @property
    def _ranked(self) -> list[Sequence[Hypothesis]]:
        """The hypotheses of the sentences by rank: the best of all sentences, then their k-th alternatives."""
        best = self.hypotheses
        num_alternatives = min((len(hypothesis.alternatives) for hypothesis in best), default=0)
        others = ([hypothesis.alternatives[rank] for hypothesis in best] for rank in range(num_alternatives))
        return [best, *others]

    def _hypothesis(self, index: int) -> Hypothesis:
        outcome = self._outcomes[index]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _is_linked(self, rank: int) -> bool:
        """Whether the alignment of all answers of a rank is needed."""
        return self._has_marks or (self.options.return_alignment and rank == 0)

    def _retry(self, request: DecodingRequest, hypothesis: Hypothesis) -> DecodingRequest | None:
        """The request to decode a sentence again, or None."""
        index, is_cut = request.key, hypothesis.finish_reason == "length"
        sentence = self.sentences[index]
        if is_cut and index in self._with_numbers:
            self._restore_first(index)
            return None
        if request.once_ids and is_cut and request.options.max_new_tokens is None:
            # The end had to wait for a placeholder that the model does not write: it is placed by alignment instead.
            return replace(request, once_ids=())
        if self._must_retry(self._part(sentence), sentence, hypothesis, request.options):
            return replace(request, options=guarded(request.options))
        # An answer that is cut may lack what would have followed.
        if is_cut or index in self._with_numbers or request.once_ids != sentence.once_ids:
            return None
        pair = self.source, self.target
        held = self._codec.with_numbers(self._part(sentence), sentence, hypothesis.token_ids, self.options, pair)
        if held is None:
            return None
        self._with_numbers.add(index)
        self.sentences[index] = held
        return self._request(index, held, request.options)

    def _request(self, index: int, sentence: SourceSentence, options: DecodingOptions) -> DecodingRequest:
        return DecodingRequest(
            index, sentence.token_ids, options, self.forced_ids, sentence.once_ids, sentence.prefix_ids
        )

    def _part(self, sentence: SourceSentence) -> str:
        return self.text[sentence.start : sentence.end]

    def _write(self, chosen: Sequence[Hypothesis]) -> list[str]:
        """The translation of each sentence by one of its hypotheses."""
        write = self._codec.write
        return [
            write(self._part(sentence), sentence, hypothesis.token_ids)
            for sentence, hypothesis in zip(self.sentences, chosen, strict=True)
        ]

    def _write_with_offsets(
        self, chosen: Sequence[Hypothesis], rank: int, attention: Mapping[AnswerKey, Tensor]
    ) -> list[_WrittenSentence]:
        """The translation of each sentence by one of its hypotheses with its offsets, spans and terms in place."""
        found: list[_WrittenSentence] = []
        position = source_end = 0
        each = zip(self.sentences, self._source_spans, chosen, strict=True)
        for index, (sentence, source_spans, hypothesis) in enumerate(each):
            position += sentence.start - source_end
            rows = attention.get((index, rank))
            target, uses = self._written(sentence, source_spans, hypothesis, rows)
            found.append(_WrittenSentence(sentence, source_spans, target, position, rows, uses))
            position += len(target.text)
            source_end = sentence.end
        return found

    def _written(
        self, sentence: SourceSentence, source_spans: Sequence[Span], hypothesis: Hypothesis, rows: Tensor | None
    ) -> tuple[TargetSentence, list[TermUse]]:
        """A sentence's translation with its spans and terms in place, and what became of the terms."""
        codec = self._codec
        target = codec.write_with_offsets(self._part(sentence), sentence, hypothesis.token_ids, rows, source_spans)
        if not sentence.terms:
            return target, []
        if rows is None:
            return target, find_uses(sentence.terms, target)
        num_given = len(sentence.prefix.text) if sentence.prefix else 0
        return put_terms(codec.terms_as_written(sentence), target, rows, source_spans, num_given)

    def _alternative(
        self, chosen: Sequence[Hypothesis], rank: int, attention: Mapping[AnswerKey, Tensor]
    ) -> Alternative:
        """The text with the hypotheses of one rank, written as the best ones are where they are attended."""
        if not any((index, rank) in attention for index in range(len(chosen))):
            return self._join(chosen, self._write(chosen))
        written = self._write_with_offsets(chosen, rank, attention)
        joined = self._join(chosen, [one.target.text for one in written])
        if not self._has_marks:
            return joined
        return replace(joined, alignment=_links(written), integrity=self._integrity(written))

    @cached_property
    def _source_spans(self) -> list[list[Span]]:
        """For each sentence, the characters that each of its tokens covers."""
        pair = (self.source, self.target)
        return [self._codec.source_offsets(self._part(sentence), sentence, pair) for sentence in self.sentences]

    def _join(self, chosen: Sequence[Hypothesis], answers: Sequence[str]) -> Alternative:
        """The text with each sentence replaced by its translation, which is one of its hypotheses."""
        cut = any(hypothesis.finish_reason == "length" for hypothesis in chosen)
        text = join_text(self.text, self.sentences, answers)
        if not text.startswith(self.options.target_prefix):
            raise DecodingError("The translation does not begin with target_prefix.")
        score = mean_score([(hypothesis.score, len(hypothesis.token_ids)) for hypothesis in chosen])
        return Alternative(text, score, "length" if cut else "stop")

    def _search(self, best: Sequence[Hypothesis]) -> WrittenSearch:
        """The candidates of the search for the translation of the only sentence."""
        (sentence,), (hypothesis,) = self.sentences, best
        return written_search(hypothesis.search, self._part(sentence), sentence, self._codec)

    def _confidence(self, written: Sequence[_WrittenSentence], evidence: Sequence[Evidence]) -> Confidence:
        calibration = self._codec.calibration
        words: list[WordConfidence] = []
        for one, found in zip(written, evidence, strict=True):
            words += word_confidences(found, one.target.text, one.target.tokens, one.target_start)
        uncovered = tuple(span for span, gain in self.source_gains(evidence) if gain < calibration.coverage_bound)
        translates_back = all(found.gains is not None for found in evidence)
        return Confidence(calibration.text_score(evidence), tuple(words), uncovered if translates_back else None)

    def _integrity(self, written: Sequence[_WrittenSentence]) -> tuple[SpanUse, ...]:
        """Where the protected spans of the text stand in the translation."""
        found = {use.source: use for one in written for use in one.span_uses()}
        # Spans outside of sentences move with the sentence before them.
        ends = [(0, 0)] + [(one.sentence.end, one.target_start + len(one.target.text)) for one in written]
        index = 0
        for start, end in self._spans:
            while index + 1 < len(ends) and ends[index + 1][0] <= start:
                index += 1
            by = ends[index][1] - ends[index][0]
            found.setdefault((start, end), SpanUse((start, end), shifted((start, end), by), restored=False))
        return tuple(found[span] for span in self._spans)


@dataclass(frozen=True)
class _WrittenSentence:
    """The translation of a sentence, and what it was made with.

    Args:
        sentence: The sentence.
        source_spans: The characters of the sentence that each source token covers.
        target: The translation.
        target_start: Index of its first character in the translated text.
        rows: Attention weights, if there are any.
        uses: What became of the terms in the sentence, in characters of the sentence and of its translation.
    """

    sentence: SourceSentence
    source_spans: Sequence[Span]
    target: TargetSentence
    target_start: int
    rows: Tensor | None
    uses: Sequence[TermUse]

    def links(self) -> Iterator[AlignmentLink]:
        """Its alignment, in characters of the texts."""
        if self.rows is not None:
            yield from sentence_links(
                self.rows, self.source_spans, self.target.tokens, self.sentence.start, self.target_start
            )

    def term_uses(self) -> Iterator[TermUse]:
        """Its terms, in characters of the texts."""
        for use in self.uses:
            yield use.moved(self.sentence.start, self.target_start)

    def span_uses(self) -> Iterator[SpanUse]:
        """Its protected spans, in characters of the texts."""
        target = self.target
        for span, place, restored in zip(self.sentence.protected, target.spans, target.restored, strict=True):
            yield SpanUse(shifted(span, self.sentence.start), shifted(place, self.target_start), restored)


def _links(written: Iterable[_WrittenSentence]) -> tuple[AlignmentLink, ...]:
    return tuple(link for one in written for link in one.links())


class Settled(Protocol):
    """A plan whose requests can be settled."""

    @property
    def pending(self) -> Sequence[DecodingRequest]:
        """The requests to decode now."""
        ...

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of the pending requests."""
        ...


def settle_all(plans: Iterable[Settled], outcomes: Iterable[Outcome]) -> None:
    """Settle several plans with the outcomes of their pending requests.

    Args:
        plans: The plans.
        outcomes: The outcomes of all pending requests, plan by plan.
    """
    remaining = iter(outcomes)
    for plan in plans:
        plan.settle(list(islice(remaining, len(plan.pending))))


def mean_score(scored: Sequence[tuple[float | None, int]]) -> float | None:
    """The mean of scores, each weighted by its length, which counts the end token: empty output weighs above 0.

    Args:
        scored: Scores and lengths without the end token; a part without a score does not count.

    Returns:
        None if no part has a score.
    """
    weighted = [(score, length + 1) for score, length in scored if score is not None]
    if not weighted:
        return None
    return sum(score * weight for score, weight in weighted) / sum(weight for _, weight in weighted)
