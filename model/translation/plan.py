"""The plan of a translation: the sentences of a text or document, their outcomes, and which to decode again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from model.decoding.options import DecodingOptions, FinishReason, Hypothesis, Outcome
from model.decoding.sentence import DecodingRequest
from model.errors import DecodingError
from model.text.symbols import Span
from model.translation.attempts import Attempt, Pieces, attempt_of, next_request, pieces_of
from model.translation.confidence import UNCALIBRATED, Calibration, Confidence, Evidence
from model.translation.joining import SourceText, TextWriter, WrittenText
from model.translation.memory import MemoryMatch, MemoryStatus, MemoryUse
from model.translation.options import TranslationOptions
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.results import (
    Alternative,
    AnswerKey,
    AttendedSentence,
    LastTranslation,
    TranslatedSentence,
    Translation,
)
from model.translation.search_trace import written_search
from model.translation.transfer import steered
from model.translation.verification import SOUND, Verifier

if TYPE_CHECKING:
    from torch import Tensor


class Container(Protocol):
    """What the texts of a plan were taken from: a document, or the text that another model translated into them."""

    def source_span(self, number: int, span: Span) -> Span:
        """The characters of the container that characters of a text stand for.

        Args:
            number: The number of the text.
            span: Its characters.
        """
        ...

    def write(self, texts: Sequence[SourceText], written: Sequence[WrittenText], *, detailed: bool) -> WrittenText:
        """The translation of the container.

        Args:
            texts: Its texts.
            written: The translation of each.
            detailed: Whether more than its text is requested.
        """
        ...


class Plan:
    """The sentences of a text or document, the requests still to decode, and the outcomes so far. Not thread-safe.

    Args:
        reader: Encoded the sentences.
        verifier: Verifies its translations.
        text: The text or document.
        pair: Source and target language.
        texts: The text with its sentences, or the texts of the document.
        options: How to translate it.
        calibration: Turns the model's probabilities into confidences.
        container: Puts the translations of the texts into what they were taken from, such as their document.

    Attributes:
        texts: As above.
        container: As above.
        sentences: The sentences in order. If a translation lacks a number or a sign, its sentence is replaced by the
            same with this part protected. If no translation is sound, it is replaced by one that stays as it is.
        last: The last translation of the same text, which need not be made again of the same answers; None if the text
            is not remembered, or once a sentence is decoded again.
    """

    def __init__(
        self,
        reader: SentenceReader,
        verifier: Verifier,
        text: str,
        pair: tuple[str, str],
        texts: Sequence[SourceText],
        options: TranslationOptions,
        calibration: Calibration = UNCALIBRATED,
        container: Container | None = None,
    ) -> None:
        self.text = text
        self.source, self.target = pair
        self.options = options
        self.sentences = [sentence for source_text in texts for sentence in source_text.sentences]
        self.num_sentences = len(self.sentences)
        self.forced_ids = reader.tokenizer.forced_ids(self.target)
        self._reader = reader
        self._writer = verifier.writer
        self._verifier = verifier
        self.texts = texts
        self.container = container
        self._text_numbers = [number for number, source_text in enumerate(texts) for _ in source_text.sentences]
        self._calibration = calibration
        self._outcomes: dict[int, Outcome] = {}  # by sentence
        self._attempts: dict[int, list[Attempt]] = {}  # of sentences that are decoded again
        self._pieces: dict[int, Pieces] = {}  # of those for which nothing holds
        self._unchanged: set[int] = set()
        self.last: LastTranslation | None = None
        self._memory: dict[int, tuple[MemoryMatch, MemoryStatus]] | None = None  # by sentence, once it was searched
        self._stored_translations: Mapping[str, str] = {}
        for_decoding = options.for_decoding
        self._pending = {
            index: self._request(index, sentence, for_decoding) for index, sentence in enumerate(self.sentences)
        }

    @property
    def pending(self) -> Sequence[DecodingRequest]:
        """The requests to decode now; empty once all are settled. The key of a request is its sentence's index."""
        return list(self._pending.values())

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Store the outcomes of the pending requests. Sentences to decode again are pending afterwards.

        Args:
            outcomes: One for each pending request, in order.
        """
        for request, outcome in zip(self.pending, outcomes, strict=True):
            self.settle_one(request.key, outcome)

    def settle_one(self, index: int, outcome: Outcome) -> None:
        """Store the outcome of one pending request. The sentence is pending again if it must be retried.

        If a further decoding fails, or nothing holds, the best answer is restored (:meth:`_settle_best`).

        Args:
            index: The index of the sentence.
            outcome: Its outcome.
        """
        request = self._pending.pop(index)
        if not isinstance(outcome, Hypothesis):
            if index in self._attempts:
                self._settle_best(index)
            else:
                self._outcomes[index] = outcome
            return
        if index in self._pieces:
            self._settle_piece(index, outcome)
            return
        if self.last is not None and self.last.is_sound(index, outcome):
            self._outcomes[index] = outcome
            self._steer(index)
            return
        attempt = attempt_of(self._verifier, self.sentences[index], request, outcome, self.options)
        if attempt.findings is SOUND and index not in self._attempts and outcome.finish_reason == "stop":
            self._outcomes[index] = attempt.hypothesis
            self._steer(index)
            return
        self.last = None
        attempts = self._attempts.setdefault(index, [])
        attempts.append(attempt)
        retry = next_request(self._reader, request, attempts, self.options.num_hypotheses)
        if retry is not None:
            self.sentences[index], self._pending[index] = retry
        elif (pieces := pieces_of(self._reader, request, attempts, self.options)) and pieces.request:
            self._pieces[index], self._pending[index] = pieces, pieces.request
        else:
            self._settle_best(index)

    @property
    def to_look_up(self) -> list[str | None]:
        """The sentences to look up in a translation memory, in order; None for those that markup divides."""
        return [
            sentence.text if self.texts[number].is_whole(sentence) else None
            for sentence, number in zip(self.sentences, self._text_numbers, strict=True)
        ]

    def remember(
        self, matches: Sequence[MemoryMatch | None], translations: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        """Settle the sentences whose translation is stored, before any of them is decoded.

        Args:
            matches: The match for each sentence, or None.
            translations: The model's translations of stored sentences that are similar, whose stored translations
                steer those of their sentences.
        """
        self._stored_translations = translations
        self._memory = {}
        for index, match in enumerate(matches):
            if match is None:
                continue
            self._memory[index] = match, "exact" if match.is_exact else "offered"
            if match.is_exact:
                del self._pending[index]
                self.sentences[index] = self._reader.with_translation(self.sentences[index], match.target)
                self._outcomes[index] = Hypothesis([], None, "stop")

    def drop_retries(self) -> list[int]:
        """Settle the sentences whose further decoding is pending with their best answer, and return their indices."""
        dropped = [index for index in self._pending if index in self._attempts]
        for index in dropped:
            del self._pending[index]
            self._settle_best(index)
        return dropped

    def outcome(self, index: int) -> Outcome | None:
        """The outcome of a sentence; None while its request is pending.

        Args:
            index: The index of the sentence.
        """
        return None if index in self._pending else self._outcomes[index]

    @property
    def failure(self) -> Exception | None:
        """The error of the first sentence that failed, or None."""
        outcomes = (self._outcomes[index] for index in range(self.num_sentences))
        return next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """The hypotheses of the sentences, in order.

        Raises:
            Exception: The error of the first sentence that failed.
        """
        return [self._hypothesis(index) for index in range(self.num_sentences)]

    @property
    def attended(self) -> list[AttendedSentence]:
        """The answers whose attention :meth:`complete` needs, for links or for positions of markup, spans and terms."""
        return [
            self._attended(index, rank, hypothesis)
            for rank, answers in enumerate(self._ranked)
            for index, hypothesis in enumerate(answers)
            if self._needs_attention(index, rank, hypothesis)
        ]

    def attended_by(self, index: int) -> list[AttendedSentence]:
        """As :attr:`attended`, for the best answer to one sentence, for :meth:`sentence`.

        Args:
            index: The index of the sentence, which has a hypothesis.
        """
        hypothesis = self._hypothesis(index)
        return [self._attended(index, 0, hypothesis)] if self._needs_attention(index, 0, hypothesis) else []

    def sentence(self, index: int, attention: Mapping[AnswerKey, Tensor]) -> TranslatedSentence:
        """The translation of one sentence, as the translation of the text will contain it, without marks.

        Args:
            index: The index of the sentence, which has a hypothesis.
            attention: The weights of :meth:`attended_by`.
        """
        sentence, hypothesis = self.sentences[index], self._hypothesis(index)
        rows = attention.get((index, 0))
        source_spans = [] if rows is None else self._reader.source_offsets(sentence)
        target, _ = self._writer.write_with_terms(sentence, hypothesis.token_ids, rows, source_spans)
        return TranslatedSentence(self._source_span(index), target.text, hypothesis.finish_reason)

    def complete(
        self, attention: Mapping[AnswerKey, Tensor] = MappingProxyType({}), evidence: Sequence[Evidence] | None = None
    ) -> Translation:
        """Join the hypotheses of all sentences to the translation.

        Args:
            attention: Attention weights of the :attr:`attended` answers, (target tokens, source tokens).
            evidence: The evidence of each sentence, if a confidence is requested.

        Raises:
            Exception: The error of the first sentence that failed.
            MarkupNotKept: A document would have other markup.
        """
        is_plain = not attention and evidence is None and self._memory is None
        if self.last is None or not is_plain:
            return self._completed(attention, evidence)
        answers = self.hypotheses
        translation = self.last.of(answers)
        if translation is None:
            translation = self._completed(attention, evidence)
            self.last.made_of = answers, translation
        return translation

    def _completed(self, attention: Mapping[AnswerKey, Tensor], evidence: Sequence[Evidence] | None) -> Translation:
        """The translation, made of the hypotheses."""
        best, *others = self._ranked
        options = self.options
        writers = self._text_writers()
        written = self._write(writers, best, 0, attention, evidence)
        confidence = None
        if evidence is not None:
            translates_back = all(item.gains is not None for item in evidence)
            uncovered = written.uncovered if translates_back else None
            confidence = Confidence(self.score_of(evidence), written.words, uncovered)
        return Translation(
            text=written.text,
            source=self.source,
            target=self.target,
            finish_reason=_finish_reason(best),
            score=_mean_score(best),
            alternatives=tuple(
                Alternative(
                    self._write(writers, answers, rank, attention).text, _mean_score(answers), _finish_reason(answers)
                )
                for rank, answers in enumerate(others, start=1)
            ),
            alignment=written.links if options.return_alignment else None,
            num_source_tokens=self.num_source_tokens,
            num_target_tokens=sum(len(hypothesis.token_ids) for hypothesis in best),
            confidence=confidence,
            integrity=written.spans if any(source_text.spans for source_text in self.texts) else None,
            glossary=written.terms if options.glossary else None,
            search=written_search(best[0].search, self.sentences[0], self._writer) if options.return_search else None,
            memory=self._memory_uses(),
            sentences=self._sentence_pairs(written.sentences) if options.return_sentences else None,
            num_sentences=self.num_sentences,
            num_untranslated=sum(sentence.is_kept for sentence in self.sentences) + written.num_kept,
            num_unchanged=len(self._unchanged),
            numbers=written.numbers,
            lexicon=written.hints,
        )

    @property
    def source_spans(self) -> list[Span]:
        """The sentences of the text or document, in its characters."""
        spans = [
            (number, (sentence.start, sentence.end))
            for number, source_text in enumerate(self.texts)
            for sentence in source_text.sentences
        ]
        if self.container is None:
            return [span for _, span in spans]
        return [self.container.source_span(number, span) for number, span in spans]

    def _sentence_pairs(self, written: Sequence[Span]) -> tuple[tuple[Span, Span], ...] | None:
        sources = self.source_spans
        return tuple(zip(sources, written, strict=True)) if len(sources) == len(written) else None

    def write_texts(
        self, attention: Mapping[AnswerKey, Tensor], evidence: Sequence[Evidence] | None
    ) -> list[WrittenText]:
        """The translation of each text with all its details, outside of its container.

        Args:
            attention: As for :meth:`complete`.
            evidence: As for :meth:`complete`.
        """
        bound = self._calibration.coverage_bound
        return [
            writer.write(self.hypotheses, 0, attention, evidence, detailed=True, aligned=True, coverage_bound=bound)
            for writer in self._text_writers()
        ]

    def score_of(self, evidence: Sequence[Evidence]) -> float:
        """The confidence in the translation of the text, from the evidence of each sentence that was decoded."""
        decoded = [
            item for item, sentence in zip(evidence, self.sentences, strict=True) if sentence.stored_translation is None
        ]
        return self._calibration.text_score(decoded)

    @property
    def num_source_tokens(self) -> int:
        """Number of tokens of all sentences, without markers."""
        num_markers = self._reader.num_markers(self.source, self.target)
        return sum(len(sentence.token_ids) - num_markers for sentence in self.sentences)

    def source_gains(self, evidence: Sequence[Evidence]) -> list[tuple[Span, float]]:
        """The words of a text with their gains, in nats (:func:`model.translation.confidence.word_gains`).

        Args:
            evidence: The evidence of each sentence; without gains there are no words.
        """
        return [gain for writer in self._text_writers() for gain in writer.source_gains(evidence)]

    @property
    def _ranked(self) -> list[Sequence[Hypothesis]]:
        """The hypotheses of the sentences by rank: the best of all sentences, then their k-th alternatives.

        A sentence with fewer alternatives than others has its best hypothesis in their place.
        """
        best = self.hypotheses
        if not any(hypothesis.alternatives for hypothesis in best):  # most texts
            return [best]
        num_alternatives = max(len(hypothesis.alternatives) for hypothesis in best)
        answers = [(hypothesis, *hypothesis.alternatives) for hypothesis in best]
        return [
            best,
            *([own[rank] if rank < len(own) else own[0] for own in answers] for rank in range(1, num_alternatives + 1)),
        ]

    def _memory_uses(self) -> tuple[MemoryUse, ...] | None:
        if self._memory is None:
            return None
        return tuple(MemoryUse(self._source_span(index), *use) for index, use in self._memory.items())

    def _source_span(self, index: int) -> Span:
        """The characters of the text or document that are a sentence."""
        span = self.sentences[index].start, self.sentences[index].end
        return span if self.container is None else self.container.source_span(self._text_numbers[index], span)

    def _hypothesis(self, index: int) -> Hypothesis:
        outcome = self._outcomes[index]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _attended(self, index: int, rank: int, hypothesis: Hypothesis) -> AttendedSentence:
        return AttendedSentence(index, rank, self.sentences[index].token_ids, self.forced_ids, hypothesis.token_ids)

    def _needs_attention(self, index: int, rank: int, hypothesis: Hypothesis) -> bool:
        return self.sentences[index].stored_translation is None and (
            self.texts[self._text_numbers[index]].has_marks
            or (self.options.return_alignment and rank == 0)
            or self._writer.needs_attention(self.sentences[index], hypothesis.token_ids)
        )

    def _settle_piece(self, index: int, outcome: Hypothesis) -> None:
        """Store the outcome of a piece of a sentence; the next one is pending, or else the sentence is settled."""
        pieces = self._pieces[index]
        pieces.add(outcome)
        if pieces.request and outcome.finish_reason == "stop":
            self._pending[index] = pieces.request
            return
        if not pieces.request:
            sentence, answer = pieces.sentence, pieces.hypothesis
            self._attempts[index].append(Attempt(sentence, answer, self._verifier.verify(sentence, answer)))
        self._settle_best(index)

    def _settle_best(self, index: int) -> None:
        """Settle a sentence with its best attempt. It stays as it is if even that is broken."""
        best = min(self._attempts.pop(index), key=lambda attempt: attempt.findings.severity)
        sentence, answer = best.sentence, best.hypothesis
        if best.findings.is_broken and not self.options.steering:
            sentence = self._reader.kept(sentence)
            nothing = Hypothesis([], answer.score, "stop")
            answer = Hypothesis.ranked([nothing] * self.options.num_hypotheses)
        if answer.finish_reason == "length":
            sentence = replace(sentence, is_punctuated=False)  # a translation that was cut has no end
        self.sentences[index], self._outcomes[index] = sentence, answer
        self._steer(index)
        if best.findings.is_unchanged or sentence.is_kept:
            self._unchanged.add(index)

    def _steer(self, index: int) -> None:
        """Write a settled sentence by the stored translation of a similar one, if there is one and it fits."""
        match, _ = (self._memory or {}).get(index, (None, None))
        if match is None or match.source not in self._stored_translations:
            return
        sentence, before = self.sentences[index], self._stored_translations[match.source]
        after = self._writer.write(sentence, self._hypothesis(index).token_ids)
        translation = steered(match.source, match.target, sentence.text, before, after)
        if translation is not None and self._memory is not None:
            self._memory[index] = match, "steered"
            self.sentences[index] = self._reader.with_translation(sentence, translation)
            self._outcomes[index] = Hypothesis([], None, "stop")

    def _request(self, index: int, sentence: SourceSentence, options: DecodingOptions) -> DecodingRequest:
        return DecodingRequest(
            index, sentence.token_ids, options, self.forced_ids, sentence.required_ids, sentence.prefix_ids
        )

    def _text_writers(self) -> list[TextWriter]:
        edges = accumulate((len(source_text.sentences) for source_text in self.texts), initial=0)
        return [
            TextWriter(source_text, self.sentences[first:end], first, self._reader, self._writer)
            for source_text, (first, end) in zip(self.texts, pairwise(edges), strict=True)
        ]

    def _write(
        self,
        writers: Sequence[TextWriter],
        answers: Sequence[Hypothesis],
        rank: int,
        attention: Mapping[AnswerKey, Tensor],
        evidence: Sequence[Evidence] | None = None,
    ) -> WrittenText:
        """The text or document with the answers of one rank."""
        options = self.options
        is_requested = bool(options.glossary or options.return_alignment or evidence is not None)
        detailed = [
            rank == 0 and (is_requested or bool(source_text.spans) or writer.has_hints or writer.has_numbers(answers))
            for source_text, writer in zip(self.texts, writers, strict=True)
        ]
        written = [
            writer.write(
                answers,
                rank,
                attention,
                evidence,
                detailed=with_details,
                aligned=rank == 0 and options.return_alignment,
                coverage_bound=self._calibration.coverage_bound,
                divided=rank == 0 and options.return_sentences,
            )
            for writer, with_details in zip(writers, detailed, strict=True)
        ]
        if self.container is not None:
            return self.container.write(self.texts, written, detailed=any(detailed))
        if not written[0].text.startswith(options.target_prefix):
            raise DecodingError("The translation does not begin with target_prefix.")
        return written[0]


def settle_all(plans: Iterable[Plan], outcomes: Iterable[Outcome]) -> None:
    """Settle several plans with the outcomes of their pending requests.

    Args:
        plans: The plans.
        outcomes: The outcomes of all pending requests, plan by plan.
    """
    remaining = iter(outcomes)
    for plan in plans:
        plan.settle(list(islice(remaining, len(plan.pending))))


def _finish_reason(answers: Sequence[Hypothesis]) -> FinishReason:
    return "length" if any(hypothesis.finish_reason == "length" for hypothesis in answers) else "stop"


def _mean_score(answers: Sequence[Hypothesis]) -> float | None:
    """The mean score of answers, weighted by their lengths with the end token; None if they have no scores."""
    weighted = [(answer.score, len(answer.token_ids) + 1) for answer in answers if answer.score is not None]
    if not weighted:
        return None
    return sum(score * weight for score, weight in weighted) / sum(weight for _, weight in weighted)
