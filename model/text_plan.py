"""A text on its way through a model: the sentences to decode, their outcomes, and the translation made of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from torch import Tensor

from model.alignment import AlignmentLink, sentence_links
from model.decoding.options import DecodingOptions, FinishReason, Hypothesis, Outcome
from model.decoding.repetition_guard import guarded
from model.decoding.sentence import DecodingRequest
from model.sentence_codec import SentenceCodec, SourceSentence
from model.term_use import TermUse, find_uses, put_terms
from model.text.placeholders import TargetSentence
from model.text.segmentation import join_text
from model.text.symbols import Span

MustRetry = Callable[[str, SourceSentence, Hypothesis, DecodingOptions], bool]
"""Whether a sentence has to be decoded again, by its text, its tokens, its hypothesis and its options."""


@dataclass(frozen=True)
class Alternative:
    """An alternative translation of a text.

    Args:
        text: The translation.
        score: Its score, if scores were requested.
        finish_reason: As in :class:`Translation`.
    """

    text: str
    score: float | None
    finish_reason: FinishReason


@dataclass(frozen=True)
class SpanUse:
    """A protected span of a text, and its place in the translation.

    Args:
        source: Characters of the source text.
        target: Characters of the translation; they are equal to those of the source.
        restored: Whether the model did not write it, and its place was found by alignment.
    """

    source: Span
    target: Span
    restored: bool


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
        integrity: The protected spans of the text, in its order; None for a text without.
        glossary: The terms of the glossary in the text; None without a glossary.
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
    integrity: tuple[SpanUse, ...] | None = None
    glossary: tuple[TermUse, ...] | None = None


class TextPlan:
    """The sentences of a text, the requests still to be decoded, and the outcomes so far. Not thread-safe.

    Args:
        codec: Encodes and decodes the sentences of its model.
        must_retry: Whether a sentence has to be decoded again.
        text: The text.
        source: Its language.
        target: The target language.
        sentences: Its sentences in order; empty for a blank text.
        options: How to translate them.
        spans: The protected spans of the text.
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
    ) -> None:
        self.text = text
        self.source = source
        self.target = target
        self.sentences = sentences
        self.forced_ids = codec.tokenizer.forced_ids(target)
        self._codec = codec
        self._must_retry = must_retry
        self._spans = spans
        self._with_glossary = bool(options.glossary)
        self._outcomes: dict[int, Outcome] = {}  # by sentence
        # The tokens say what these told the model. Without them, equal sentences share one decoding.
        if options.formality or options.glossary or options.protect != "auto":
            options = replace(options, formality=None, glossary=(), protect="auto")
        self._pending = [
            DecodingRequest(index, sentence.token_ids, options, self.forced_ids, sentence.once_ids)
            for index, sentence in enumerate(sentences)
        ]

    @property
    def pending(self) -> Sequence[DecodingRequest]:
        """The requests to decode now; empty once all are settled. The key of a request is its sentence's index."""
        return self._pending

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of the pending requests. Sentences that must be decoded again are pending afterwards.

        Args:
            outcomes: One for each pending request, in order.
        """
        settled = list(zip(self._pending, outcomes, strict=True))
        self._outcomes.update((request.key, outcome) for request, outcome in settled)
        retries = [self._retry(request, outcome) for request, outcome in settled if isinstance(outcome, Hypothesis)]
        self._pending = [retry for retry in retries if retry is not None]

    @property
    def needs_attention(self) -> bool:
        """Whether :meth:`complete` needs attention weights to put spans or terms into the translation."""
        needs = self._codec.needs_attention
        return any(
            needs(sentence, hypothesis.token_ids)
            for sentence, hypothesis in zip(self.sentences, self.hypotheses, strict=True)
        )

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
        found: list[Hypothesis] = []
        for index in range(len(self.sentences)):
            outcome = self._outcomes[index]
            if isinstance(outcome, Exception):
                raise outcome
            found.append(outcome)
        return found

    def complete(self, attention: Sequence[Tensor] | None = None, *, return_alignment: bool = False) -> Translation:
        """Join the hypotheses of all sentences to the translation.

        Args:
            attention: The result of :func:`model.alignment.answer_rows` for each sentence, if links are requested or
                :attr:`needs_attention`.
            return_alignment: Whether the translation carries its alignment.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        hypotheses = self.hypotheses
        if attention is None and not self._spans and not self._with_glossary:
            written, answers = None, self._write(hypotheses)
        else:
            written = self._write_with_offsets(hypotheses, attention)
            answers = [one.target.text for one in written]
        best = self._join(hypotheses, answers)
        num_alternatives = min((len(hypothesis.alternatives) for hypothesis in hypotheses), default=0)
        others = [[hypothesis.alternatives[rank] for hypothesis in hypotheses] for rank in range(num_alternatives)]
        num_markers = len(self._codec.tokenizer.encode("", self.target, self.source))
        translation = Translation(
            text=best.text,
            source=self.source,
            target=self.target,
            finish_reason=best.finish_reason,
            score=best.score,
            alternatives=tuple(self._join(chosen, self._write(chosen)) for chosen in others),
            alignment=None,
            num_source_tokens=sum(len(sentence.token_ids) - num_markers for sentence in self.sentences),
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in hypotheses),
        )
        if written is None:
            return translation
        places = self._places(answers)
        return replace(
            translation,
            alignment=self._links(written, places) if return_alignment else None,
            integrity=self._integrity(written, places) if self._spans else None,
            glossary=self._term_uses(written, places) if self._with_glossary else None,
        )

    def _retry(self, request: DecodingRequest, hypothesis: Hypothesis) -> DecodingRequest | None:
        """The request to decode a sentence again, or None."""
        sentence = self.sentences[request.key]
        if request.once_ids and hypothesis.finish_reason == "length" and request.options.max_new_tokens is None:
            # The end had to wait for a placeholder that the model does not write: it is placed by alignment instead.
            return replace(request, once_ids=())
        if self._must_retry(self._part(sentence), sentence, hypothesis, request.options):
            return replace(request, options=guarded(request.options))
        return None

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
        self, hypotheses: Sequence[Hypothesis], attention: Sequence[Tensor] | None
    ) -> list[_Written]:
        """The translation of each sentence with its offsets, spans and terms in place."""
        codec = self._codec
        found: list[_Written] = []
        for index, (sentence, hypothesis) in enumerate(zip(self.sentences, hypotheses, strict=True)):
            rows = None if attention is None else attention[index]
            source_spans = [] if rows is None else self._source_spans(sentence)
            part = self._part(sentence)
            target = codec.write_with_offsets(part, sentence, hypothesis.token_ids, rows, source_spans)
            if not sentence.terms:
                uses: list[TermUse] = []
            elif codec.capabilities.glossary or rows is None:
                uses = find_uses(sentence.terms, target.text)
            else:
                target, uses = put_terms(sentence.terms, target, rows, source_spans)
            found.append(_Written(target, rows, source_spans, uses))
        return found

    def _source_spans(self, sentence: SourceSentence) -> list[Span]:
        return self._codec.source_offsets(self._part(sentence), sentence, (self.source, self.target))

    def _places(self, answers: Sequence[str]) -> list[tuple[SourceSentence, int]]:
        """Each sentence with the index of the first character of its translation in the translated text."""
        places: list[tuple[SourceSentence, int]] = []
        position = source_end = 0
        for sentence, answer in zip(self.sentences, answers, strict=True):
            position += sentence.start - source_end
            places.append((sentence, position))
            position += len(answer)
            source_end = sentence.end
        return places

    def _join(self, chosen: Sequence[Hypothesis], answers: Sequence[str]) -> Alternative:
        """The text with each sentence replaced by its translation, which is one of its hypotheses."""
        cut = any(hypothesis.finish_reason == "length" for hypothesis in chosen)
        text = join_text(self.text, self.sentences, answers)
        return Alternative(text, _mean_score(chosen), "length" if cut else "stop")

    def _links(
        self, written: Sequence[_Written], places: Sequence[tuple[SourceSentence, int]]
    ) -> tuple[AlignmentLink, ...]:
        return tuple(
            link
            for one, (sentence, start) in zip(written, places, strict=True)
            if one.rows is not None
            for link in sentence_links(one.rows, one.source_spans, one.target.tokens, sentence.start, start)
        )

    def _term_uses(
        self, written: Sequence[_Written], places: Sequence[tuple[SourceSentence, int]]
    ) -> tuple[TermUse, ...]:
        return tuple(
            use.moved(sentence.start, start)
            for one, (sentence, start) in zip(written, places, strict=True)
            for use in one.uses
        )

    def _integrity(
        self, written: Sequence[_Written], places: Sequence[tuple[SourceSentence, int]]
    ) -> tuple[SpanUse, ...]:
        """Where the protected spans of the text stand in the translation."""
        found: dict[Span, SpanUse] = {}
        for one, (sentence, start) in zip(written, places, strict=True):
            for span, place, restored in zip(sentence.protected, one.target.spans, one.target.restored, strict=True):
                source = span[0] + sentence.start, span[1] + sentence.start
                found[source] = SpanUse(source, (place[0] + start, place[1] + start), restored)
        # Spans outside of sentences move with the sentence before them.
        ends = [(0, 0)] + [
            (sentence.end, start + len(one.target.text)) for one, (sentence, start) in zip(written, places, strict=True)
        ]
        index = 0
        for start, end in self._spans:
            while index + 1 < len(ends) and ends[index + 1][0] <= start:
                index += 1
            by = ends[index][1] - ends[index][0]
            found.setdefault((start, end), SpanUse((start, end), (start + by, end + by), restored=False))
        return tuple(found[span] for span in sorted(found))


@dataclass(frozen=True)
class _Written:
    """The translation of a sentence, and what it was made with.

    Args:
        target: The translation.
        rows: Attention weights, if there are any.
        source_spans: The characters of the sentence that each source token covers, if there are rows.
        uses: What became of the terms in the sentence.
    """

    target: TargetSentence
    rows: Tensor | None
    source_spans: Sequence[Span]
    uses: Sequence[TermUse]


def settle_all(plans: Iterable[TextPlan], outcomes: Iterable[Outcome]) -> None:
    """Settle several plans with the outcomes of their pending requests.

    Args:
        plans: The plans.
        outcomes: The outcomes of all pending requests, plan by plan.
    """
    remaining = iter(outcomes)
    for plan in plans:
        plan.settle(list(islice(remaining, len(plan.pending))))


def _mean_score(hypotheses: Sequence[Hypothesis]) -> float | None:
    """Mean score weighted by tokens. The end token is counted, so that empty output has a weight above 0."""
    weighted = [
        (hypothesis.score, len(hypothesis.token_ids) + 1) for hypothesis in hypotheses if hypothesis.score is not None
    ]
    if not weighted:
        return None
    return sum(score * weight for score, weight in weighted) / sum(weight for _, weight in weighted)
