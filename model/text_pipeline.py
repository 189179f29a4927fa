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

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from torch import Tensor

from model.alignment import AlignmentLink, sentence_links
from model.confidence import (
    UNCALIBRATED,
    Calibration,
    Confidence,
    Evidence,
    WordConfidence,
    word_confidences,
    word_gains,
)
from model.decoding.options import DecodingOptions, FinishReason, Hypothesis, Outcome
from model.decoding.repetition_guard import guarded, is_empty, is_suspect, loops
from model.decoding.sentence import DecodingRequest
from model.errors import EmptySource, SeveralSentences, SourceTooLong
from model.languages import plain_code
from model.text.case_folding import in_capitals, in_small_letters, is_in_capitals, spans_in_capitals
from model.text.segmentation import Segment, join_text, split_text
from model.text.tokenizer import Span, TextTokenizer


@dataclass(frozen=True)
class SourceSentence(Segment):
    """A tokenised segment of a text: a sentence, or a part of a long sentence.

    Args:
        token_ids: Its tokens, language marker and end token included.
        in_capitals: Whether it was in capitals. It is then translated in lower case, and its translation is put into
            capitals.
    """

    token_ids: list[int]
    in_capitals: bool = False


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
        confidence: How sure the model is of it; None unless requested.
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


class _PlacedSentence(NamedTuple):
    """A sentence and its translation, where they begin in their texts, and the characters that each token covers."""

    source: str
    source_start: int
    source_spans: Sequence[Span]
    target: str
    target_start: int
    target_spans: Sequence[Span]


class TextPipeline:
    """Prepares texts for one model and joins its outputs to texts.

    Args:
        tokenizer: The model's tokenizer.
        max_source_tokens: Tokens of the longest sentence the model accepts, markers included.
        fold_capitals: Whether sentences in capitals are translated in lower case and their translations put into
            capitals (:mod:`model.text.case_folding`).
        retry_loops: Whether a sentence whose output loops or is empty is decoded again with a guard
            (:mod:`model.decoding.repetition_guard`).
        calibration: What turns the model's probabilities into confidences.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        max_source_tokens: int,
        *,
        fold_capitals: bool,
        retry_loops: bool,
        calibration: Calibration = UNCALIBRATED,
    ) -> None:
        self.tokenizer = tokenizer
        self.calibration = calibration
        self._max_source_tokens = max_source_tokens
        self._fold_capitals = fold_capitals
        self._retry_loops = retry_loops

    def prepare(self, text: str, source: str, target: str, options: DecodingOptions) -> TextPlan:
        """Split a text into sentences that the model accepts.

        Args:
            text: Any text.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to decode it.
        """
        encoded: dict[str, list[int]] = {}

        def fits(part: str) -> bool:
            ids = self.tokenizer.encode(self.as_read(part), target, source)
            if len(ids) > self._max_source_tokens:
                return False
            encoded[part] = ids  # most parts that fit become sentences, which then need not be encoded again
            return True

        sentences: list[SourceSentence] = []
        for segment in split_text(text, plain_code(source), fits):
            part = text[segment.start : segment.end]
            # Segments without letters, such as numbers and emoji, are not translated.
            if any(character.isalpha() for character in part):
                if part not in encoded:
                    encoded[part] = self.tokenizer.encode(self.as_read(part), target, source)
                sentences.append(SourceSentence(segment.start, segment.end, encoded[part], self._folds(part)))
        return TextPlan(self, text, source, target, sentences, options)

    def prepare_sentence(self, text: str, source: str, target: str, options: DecodingOptions) -> TextPlan:
        """Prepare one sentence without splitting it; surrounding white space is removed.

        Args:
            text: The sentence.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to decode it.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It has more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
        """
        text = text.strip()
        if not text:
            raise EmptySource
        sentences = split_text(text, plain_code(source), lambda part: True)
        if len(sentences) > 1:
            raise SeveralSentences(len(sentences))
        token_ids = self.tokenizer.encode(self.as_read(text), target, source)
        if len(token_ids) > self._max_source_tokens:
            raise SourceTooLong(len(token_ids), self._max_source_tokens)
        sentence = SourceSentence(0, len(text), token_ids, self._folds(text))
        return TextPlan(self, text, source, target, [sentence], options)

    def as_read(self, part: str) -> str:
        """The sentence as it is passed to the model: in lower case if it is in capitals and these are folded."""
        return in_small_letters(part) if self._folds(part) else part

    def to_retry(self, part: str, hypothesis: Hypothesis, options: DecodingOptions) -> bool:
        """Whether a sentence has to be decoded again with a guard, because its output loops or is empty.

        Args:
            part: The sentence.
            hypothesis: Its hypothesis.
            options: How it was decoded; a sentence decoded with a guard is not decoded again.
        """
        if not self._retry_loops or options.no_repeat_ngram_size or not is_suspect(hypothesis.token_ids):
            return False
        answer = self.tokenizer.decode(hypothesis.token_ids)
        return loops(answer, part) or is_empty(answer, part)

    def _folds(self, part: str) -> bool:
        """Whether a sentence is translated in lower case and its translation put into capitals."""
        return self._fold_capitals and is_in_capitals(part)


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
        self._outcomes: dict[int, Outcome] = {}  # by sentence
        self._pending = [
            DecodingRequest(index, sentence.token_ids, options, self.forced_ids)
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

    def complete(
        self, attention: Sequence[Tensor] | None = None, evidence: Sequence[Evidence] | None = None
    ) -> Translation:
        """Join the hypotheses of all sentences to the translation.

        Args:
            attention: The result of :func:`model.alignment.answer_rows` for each sentence, if links are requested.
            evidence: What the model says about each sentence's translation, if a confidence is requested.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        hypotheses = self.hypotheses
        best = self._join(hypotheses)
        num_alternatives = min((len(hypothesis.alternatives) for hypothesis in hypotheses), default=0)
        num_markers = len(self._pipeline.tokenizer.encode("", self.target, self.source))
        return Translation(
            text=best.text,
            source=self.source,
            target=self.target,
            finish_reason=best.finish_reason,
            score=best.score,
            alternatives=tuple(
                self._join([hypothesis.alternatives[rank] for hypothesis in hypotheses])
                for rank in range(num_alternatives)
            ),
            alignment=None if attention is None else self._links(hypotheses, attention),
            num_source_tokens=sum(len(sentence.token_ids) - num_markers for sentence in self.sentences),
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in hypotheses),
            confidence=None if evidence is None else self._confidence(hypotheses, evidence),
        )

    def source_gains(self, evidence: Sequence[Evidence]) -> list[tuple[Span, float]]:
        """The words of the text, and how much more probable the translation makes each of them, in nats.

        Args:
            evidence: What the model says about each sentence's translation; without gains there are no words.
        """
        gains: list[tuple[Span, float]] = []
        for one, found in zip(self._placed(self.hypotheses), evidence, strict=True):
            gains += word_gains(found, one.source, one.source_spans, one.source_start)
        return gains

    def _is_to_retry(self, request: DecodingRequest, hypothesis: Hypothesis) -> bool:
        return self._pipeline.to_retry(self._part(self.sentences[request.key]), hypothesis, request.options)

    def _part(self, sentence: SourceSentence) -> str:
        return self.text[sentence.start : sentence.end]

    def _join(self, chosen: Sequence[Hypothesis]) -> Alternative:
        """The text with each sentence replaced by one of its hypotheses."""
        answers = [self._pipeline.tokenizer.decode(hypothesis.token_ids) for hypothesis in chosen]
        text = join_text(
            self.text,
            self.sentences,
            [
                in_capitals(answer) if sentence.in_capitals else answer
                for sentence, answer in zip(self.sentences, answers, strict=True)
            ],
        )
        cut = any(hypothesis.finish_reason == "length" for hypothesis in chosen)
        return Alternative(text, _mean_score(chosen), "length" if cut else "stop")

    def _links(self, hypotheses: Sequence[Hypothesis], attention: Sequence[Tensor]) -> tuple[AlignmentLink, ...]:
        links: list[AlignmentLink] = []
        for one, rows in zip(self._placed(hypotheses), attention, strict=True):
            links += sentence_links(rows, one.source_spans, one.target_spans, one.source_start, one.target_start)
        return tuple(links)

    def _confidence(self, hypotheses: Sequence[Hypothesis], evidence: Sequence[Evidence]) -> Confidence:
        calibration = self._pipeline.calibration
        words: list[WordConfidence] = []
        for one, found in zip(self._placed(hypotheses), evidence, strict=True):
            words += word_confidences(found, one.target, one.target_spans, one.target_start)
        uncovered = tuple(span for span, gain in self.source_gains(evidence) if gain < calibration.coverage_bound)
        translates_back = all(found.gains is not None for found in evidence)
        return Confidence(calibration.text_score(evidence), tuple(words), uncovered if translates_back else None)

    def _placed(self, hypotheses: Sequence[Hypothesis]) -> Iterator[_PlacedSentence]:
        tokenizer = self._pipeline.tokenizer
        target_start = 0  # index of the sentence's translation in the translated text
        source_end = 0  # index of the end of the previous sentence in the text
        for sentence, hypothesis in zip(self.sentences, hypotheses, strict=True):
            target_start += sentence.start - source_end
            part = self._pipeline.as_read(self._part(sentence))
            _, source_spans = tokenizer.encode_with_offsets(part, self.target, self.source)
            answer, target_spans = tokenizer.decode_with_offsets(hypothesis.token_ids)
            if sentence.in_capitals:
                answer, target_spans = in_capitals(answer), spans_in_capitals(answer, target_spans)
            yield _PlacedSentence(part, sentence.start, source_spans, answer, target_start, target_spans)
            target_start += len(answer)
            source_end = sentence.end


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
