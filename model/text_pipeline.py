"""The text side of translation: split, fold case, tokenise, decide what to decode again, and join.

A :class:`TextPlan` lists the sentences to decode and takes their outcomes. Its caller decodes them, by any means::

    plan = pipeline.prepare(text, "en", "de", options)
    while plan.pending:
        plan.settle(decode(plan.pending))
    translation = plan.complete()

There may be several rounds: if the model's manifest says so, a sentence whose output loops or is empty is decoded again
with a guard. Nothing here runs a model, so everything may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from torch import Tensor

from model.alignment import AlignmentLink, sentence_links
from model.decoding.options import DecodingOptions, FinishReason, Hypothesis, Outcome
from model.decoding.repetition_guard import guarded, is_empty, is_suspect, loops
from model.decoding.sentence import DecodingRequest
from model.errors import EmptySource, SeveralSentences, SourceTooLong
from model.languages import plain_code
from model.sentence_codec import SentenceCodec, SourceSentence
from model.term_use import TermUse, find_uses, put_terms
from model.text.placeholders import TargetSentence, masked, outside
from model.text.segmentation import join_text, split_text
from model.text.symbols import NUM_PLACEHOLDERS, Span
from model.text.tokenizer import TextTokenizer


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
    glossary: tuple[TermUse, ...] | None = None


class TextPipeline:
    """Prepares texts for one model and joins its outputs to texts.

    Args:
        codec: Encodes and decodes its sentences.
        max_source_tokens: Tokens of the longest sentence the model accepts, markers included.
        retry_loops: Whether a sentence whose output loops or is empty is decoded again with a guard
            (:mod:`model.decoding.repetition_guard`).
    """

    def __init__(self, codec: SentenceCodec, max_source_tokens: int, *, retry_loops: bool) -> None:
        self.codec = codec
        self._max_source_tokens = max_source_tokens
        self._retry_loops = retry_loops

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer."""
        return self.codec.tokenizer

    def prepare(self, text: str, source: str, target: str, options: DecodingOptions) -> TextPlan:
        """Split a text into sentences that the model accepts.

        Args:
            text: Any text.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.

        Raises:
            UnsupportedFormality: The model cannot be told the form of address in the target language.
        """
        self.codec.check(options, target)
        spans = self.codec.protected_spans(text)
        read: dict[Span, SourceSentence] = {}

        def fits(start: int, end: int) -> bool:
            sentence = self.codec.read(text, start, end, spans, options, (source, target))
            if len(sentence.token_ids) > self._max_source_tokens or len(sentence.protected) > NUM_PLACEHOLDERS:
                return False
            read[start, end] = sentence  # most parts that fit become sentences, which then need not be encoded again
            return True

        sentences: list[SourceSentence] = []
        for segment in split_text(masked(text, spans), plain_code(source), fits):
            place = segment.start, segment.end
            sentence = read.get(place) or self.codec.read(text, *place, spans, options, (source, target))
            # Segments without letters, such as numbers and emoji, are not translated.
            if any(map(str.isalpha, outside(text[slice(*place)], sentence.protected))):
                sentences.append(sentence)
        return TextPlan(self, text, source, target, sentences, options)

    def prepare_sentence(self, text: str, source: str, target: str, options: DecodingOptions) -> TextPlan:
        """Prepare one sentence without splitting it; surrounding white space is removed.

        Args:
            text: The sentence.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It has more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
            UnsupportedFormality: The model cannot be told the form of address in the target language.
        """
        self.codec.check(options, target)
        text = text.strip()
        if not text:
            raise EmptySource
        spans = self.codec.protected_spans(text)
        segments = split_text(masked(text, spans), plain_code(source), lambda start, end: True)
        if len(segments) > 1:
            raise SeveralSentences(len(segments))
        sentence = self.codec.read(text, 0, len(text), spans, options, (source, target))
        if len(sentence.token_ids) > self._max_source_tokens:
            raise SourceTooLong(len(sentence.token_ids), self._max_source_tokens)
        return TextPlan(self, text, source, target, [sentence], options)

    def to_retry(self, part: str, sentence: SourceSentence, hypothesis: Hypothesis, options: DecodingOptions) -> bool:
        """Whether a sentence has to be decoded again with a guard, because its output loops or is empty.

        Args:
            part: The sentence.
            sentence: Its tokens.
            hypothesis: Its hypothesis.
            options: How it was decoded; a sentence decoded with a guard is not decoded again.
        """
        if not self._retry_loops or options.no_repeat_ngram_size or not is_suspect(hypothesis.token_ids):
            return False
        answer = self.codec.write(part, sentence, hypothesis.token_ids)
        return loops(answer, part) or is_empty(answer, part)


class TextPlan:
    """The sentences of a text, the requests still to be decoded, and the outcomes so far. Not thread-safe.

    Args:
        pipeline: The pipeline of the model that translates it.
        text: The text.
        source: Its language.
        target: The target language.
        sentences: Its sentences in order; empty for a blank text.
        options: How to decode them.
    """

    def __init__(
        self,
        pipeline: TextPipeline,
        text: str,
        source: str,
        target: str,
        sentences: Sequence[SourceSentence],
        options: DecodingOptions,
    ) -> None:
        self.text = text
        self.source = source
        self.target = target
        self.sentences = sentences
        self.forced_ids = pipeline.tokenizer.forced_ids(target)
        self._pipeline = pipeline
        self._with_glossary = bool(options.glossary)
        self._outcomes: dict[int, Outcome] = {}  # by sentence
        # The tokens say what these told the model. Without them, equal sentences share one decoding.
        if options.formality or options.glossary:
            options = replace(options, formality=None, glossary=())
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
        self._pending = [
            replace(request, options=guarded(request.options))
            for request, outcome in settled
            if isinstance(outcome, Hypothesis) and self._is_to_retry(request, outcome)
        ]

    @property
    def needs_attention(self) -> bool:
        """Whether :meth:`complete` needs attention weights to put glossary terms into the translation."""
        return not self._pipeline.codec.capabilities.glossary and any(sentence.terms for sentence in self.sentences)

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
        uses: list[list[TermUse]] = []
        written: list[TargetSentence] = []
        if attention is None:
            answers = self._write(hypotheses)
        else:
            written, uses = self._write_with_terms(hypotheses, attention)
            answers = [one.text for one in written]
        if self._with_glossary and not self.needs_attention:
            uses = [find_uses(sentence.terms, answer) for sentence, answer in zip(self.sentences, answers, strict=True)]
        starts = self._target_starts(answers)
        num_alternatives = min((len(hypothesis.alternatives) for hypothesis in hypotheses), default=0)
        num_markers = len(self._pipeline.tokenizer.encode("", self.target, self.source))
        best = self._join(hypotheses, answers)
        others = [[hypothesis.alternatives[rank] for hypothesis in hypotheses] for rank in range(num_alternatives)]
        return Translation(
            text=best.text,
            source=self.source,
            target=self.target,
            finish_reason=best.finish_reason,
            score=best.score,
            alternatives=tuple(self._join(chosen, self._write(chosen)) for chosen in others),
            alignment=self._links(written, attention, starts) if return_alignment and attention is not None else None,
            num_source_tokens=sum(len(sentence.token_ids) - num_markers for sentence in self.sentences),
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in hypotheses),
            glossary=self._term_uses(uses, starts) if self._with_glossary else None,
        )

    def _is_to_retry(self, request: DecodingRequest, hypothesis: Hypothesis) -> bool:
        sentence = self.sentences[request.key]
        return self._pipeline.to_retry(self._part(sentence), sentence, hypothesis, request.options)

    def _part(self, sentence: SourceSentence) -> str:
        return self.text[sentence.start : sentence.end]

    def _write(self, chosen: Sequence[Hypothesis]) -> list[str]:
        """The translation of each sentence by one of its hypotheses."""
        write = self._pipeline.codec.write
        return [
            write(self._part(sentence), sentence, hypothesis.token_ids)
            for sentence, hypothesis in zip(self.sentences, chosen, strict=True)
        ]

    def _write_with_terms(
        self, hypotheses: Sequence[Hypothesis], attention: Sequence[Tensor]
    ) -> tuple[list[TargetSentence], list[list[TermUse]]]:
        """The translation of each sentence with its offsets; terms that the model could not be told are put into it."""
        codec = self._pipeline.codec
        written: list[TargetSentence] = []
        uses: list[list[TermUse]] = []
        for sentence, hypothesis, rows in zip(self.sentences, hypotheses, attention, strict=True):
            one = codec.write_with_offsets(self._part(sentence), sentence, hypothesis.token_ids)
            if sentence.terms and self.needs_attention:
                one, found = put_terms(sentence.terms, one, rows, self._source_spans(sentence))
                uses.append(found)
            else:
                uses.append([])
            written.append(one)
        return written, uses

    def _source_spans(self, sentence: SourceSentence) -> list[Span]:
        return self._pipeline.codec.source_offsets(self._part(sentence), sentence, (self.source, self.target))

    def _target_starts(self, answers: Sequence[str]) -> list[int]:
        """Index of the first character of each sentence's translation in the translated text."""
        starts: list[int] = []
        position = source_end = 0
        for sentence, answer in zip(self.sentences, answers, strict=True):
            position += sentence.start - source_end
            starts.append(position)
            position += len(answer)
            source_end = sentence.end
        return starts

    def _join(self, chosen: Sequence[Hypothesis], answers: Sequence[str]) -> Alternative:
        """The text with each sentence replaced by its translation, which is one of its hypotheses."""
        cut = any(hypothesis.finish_reason == "length" for hypothesis in chosen)
        text = join_text(self.text, self.sentences, answers)
        return Alternative(text, _mean_score(chosen), "length" if cut else "stop")

    def _links(
        self, written: Sequence[TargetSentence], attention: Sequence[Tensor], starts: Sequence[int]
    ) -> tuple[AlignmentLink, ...]:
        return tuple(
            link
            for sentence, one, rows, start in zip(self.sentences, written, attention, starts, strict=True)
            for link in sentence_links(rows, self._source_spans(sentence), one.tokens, sentence.start, start)
        )

    def _term_uses(self, uses: Sequence[Sequence[TermUse]], starts: Sequence[int]) -> tuple[TermUse, ...]:
        """The uses of the sentences in characters of the texts."""
        return tuple(
            use.moved(sentence.start, start)
            for sentence, start, found in zip(self.sentences, starts, uses, strict=True)
            for use in found
        )


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
