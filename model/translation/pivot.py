"""Translation in two legs: the sentences that one model writes in a third language are translated by another model.

The text is read once, by the rules of its language. What the first model wrote for a sentence is a sentence of the
second one, with its protected spans where they are; glossary terms are those of the words that alignment names.
Whitespace and markup between the sentences are those of the text.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from types import MappingProxyType

from torch import Tensor

from model.languages import plain_code
from model.text.glossary import find_terms
from model.text.symbols import Span, overlaps, shifted
from model.translation.alignment import heaviest_words
from model.translation.composition import PivotTerm, compose
from model.translation.confidence import Confidence, Evidence
from model.translation.joining import SourceText, WrittenText
from model.translation.options import TranslationOptions
from model.translation.pipeline import TextPipeline, expect_sentence
from model.translation.plan import Container, Plan
from model.translation.reading import SourceSentence, SourceTerm
from model.translation.results import AnswerKey, Translation


def prepare_first(
    first: TextPipeline, second: TextPipeline, text: str, languages: tuple[str, str, str], options: TranslationOptions
) -> Plan:
    """Split a text into sentences for the first leg.

    Args:
        first: The pipeline of its model.
        second: The pipeline of the second leg's model.
        text: Any text or document.
        languages: Its language and the pivot language, as the first model spells them, and the target language.
        options: How to translate the text into the target language.

    Raises:
        UnsupportedFormality: The second model does not support the form of address.
        InputError: As for :meth:`model.translation.pipeline.TextPipeline.prepare`.
    """
    source, pivot, target = languages
    second.reader.capabilities.check_formality(options.formality, target)
    plan = first.prepare(text, source, pivot, _options_of_first(options))
    if options.steering:
        expect_sentence(text, plan.num_sentences, options)
    return plan


def _options_of_first(options: TranslationOptions) -> TranslationOptions:
    """The options of the first leg: those of reading, and the search without what describes its result."""
    return replace(
        options,
        num_hypotheses=1,
        min_new_tokens=0,
        max_new_tokens=None,
        return_scores=False,
        return_search=False,
        formality=None,
        glossary=(),
        lexicon=False,
        target_prefix="",
        return_alignment=_needs_links(options) or bool(options.glossary),
    )


def _options_of_second(options: TranslationOptions) -> TranslationOptions:
    """The options of the second leg: the caller's patterns and markup belong to the text of the first one."""
    protect = options.protect
    return replace(
        options,
        protect=protect if isinstance(protect, str) else tuple(kind for kind in protect if kind == "auto"),
        format="text",
        ignore_tags=(),
        splitting_tags=(),
        non_splitting_tags=(),
        return_alignment=_needs_links(options),
    )


def _needs_links(options: TranslationOptions) -> bool:
    # The confidence in a word is that of the words it is linked to, in both legs.
    return options.return_alignment or options.return_confidence


class SecondLeg(Plan):
    """The plan of the second leg, whose translation is that of the text.

    Args:
        first: The plan of the first leg; all its sentences have answers.
        attention: The attention weights of its ``attended`` answers.
        evidence: The evidence of its sentences, if a confidence is requested.
        pipeline: The pipeline of the second leg's model.
        pair: The pivot language, and the target language, as this model spells them.
        options: How to translate the text into the target language.

    Raises:
        SeveralSentences: A sentence has to be split for the second leg, and an option needs a single one.
        InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
    """

    def __init__(
        self,
        first: Plan,
        attention: Mapping[AnswerKey, Tensor],
        evidence: Sequence[Evidence] | None,
        pipeline: TextPipeline,
        pair: tuple[str, str],
        options: TranslationOptions,
    ) -> None:
        own_options = _options_of_second(options)
        pivots = [
            _PivotText(text, sentences, written, options, plain_code(first.source))
            for text, sentences, written in zip(
                first.texts, _by_text(first), first.write_texts(attention, evidence), strict=True
            )
        ]
        texts = [pivot.read(pipeline, pair, own_options) for pivot in pivots]
        super().__init__(
            pipeline.reader,
            pipeline.verifier,
            first.text,
            pair,
            texts,
            own_options,
            pipeline.calibration,
            _Legs(first.container, pivots),
        )
        self._first = first
        self._first_evidence = evidence
        self._requested = options

    def complete(
        self, attention: Mapping[AnswerKey, Tensor] = MappingProxyType({}), evidence: Sequence[Evidence] | None = None
    ) -> Translation:
        """The translation of the text; see :meth:`model.translation.plan.Plan.complete`.

        Its score is that of the second leg. Its confidence is the product of both, as it is right if both legs are.
        """
        translation = super().complete(attention, evidence)
        first = self._first
        num_kept = sum(sentence.is_kept for sentence in first.sentences)
        is_cut = any(hypothesis.finish_reason == "length" for hypothesis in first.hypotheses)
        return replace(
            translation,
            source=first.source,
            finish_reason="length" if is_cut else translation.finish_reason,
            alignment=translation.alignment if self._requested.return_alignment else None,
            num_source_tokens=first.num_source_tokens,
            confidence=None if translation.confidence is None else self._confidence(translation.confidence),
            integrity=translation.integrity if any(text.spans for text in first.texts) else None,
            num_sentences=first.num_sentences,
            num_untranslated=translation.num_untranslated + num_kept,
            num_unchanged=translation.num_unchanged + num_kept,
        )

    @property
    def source_spans(self) -> list[Span]:
        """The sentences of the text or document, which may be divided for the second leg."""
        return self._first.source_spans

    def _confidence(self, confidence: Confidence) -> Confidence:
        evidence = self._first_evidence or ()
        translates_back = all(item.gains is not None for item in evidence)
        return Confidence(
            round(self._first.score_of(evidence) * confidence.score, 4),
            confidence.words,
            confidence.uncovered if translates_back else None,
        )


class _PivotText:
    """A text as the first leg wrote it.

    Args:
        text: The text.
        sentences: Its sentences as they were decoded.
        written: Its translation, with all details.
        options: How to translate it into the target language.
        language: Its language.
    """

    def __init__(
        self,
        text: SourceText,
        sentences: Sequence[SourceSentence],
        written: WrittenText,
        options: TranslationOptions,
        language: str,
    ) -> None:
        self.text = text
        self.written = written
        self._sentences = sentences
        self._kept = sorted(use.target for use in written.spans)
        self.terms: list[PivotTerm] = []
        self._targets: list[SourceTerm] = []
        if options.glossary:
            self._find_terms(options, language)

    def read(self, pipeline: TextPipeline, pair: tuple[str, str], options: TranslationOptions) -> SourceText:
        """The text for the second leg; sentences that the first leg left in their language are not translated."""
        spans = [
            span for sentence, span in zip(self._sentences, self.written.sentences, strict=True) if not sentence.is_kept
        ]
        return pipeline.read_divided(
            self.written.text,
            pair,
            options,
            spans,
            self._kept,
            self._targets,
            apostrophe=next((sentence.apostrophe for sentence in self._sentences), ""),
            has_marks=self.text.has_marks,
        )

    def source_span(self, span: Span) -> Span:
        """The sentence of the text that a sentence of the second leg translates; of its further parts, the end."""
        sentences = self.written.sentences
        index = bisect_right(sentences, (span[0], len(self.written.text))) - 1
        sentence = self._sentences[index]
        is_first_part = not self.written.text[sentences[index][0] : span[0]].strip()
        return (sentence.start if is_first_part else sentence.end), sentence.end

    def _find_terms(self, options: TranslationOptions, language: str) -> None:
        """Find the terms of the text, and the words that alignment places them at."""
        occupied = list(self._kept)
        links = self.written.links
        starts = [link.target[0] for link in links]
        for sentence, (start, end) in zip(self._sentences, self.written.sentences, strict=True):
            links_within = links[bisect_left(starts, start) : bisect_left(starts, end)]
            for span, target in find_terms(sentence.text, options.glossary, language, sentence.protected):
                source = shifted(span, sentence.start)
                words = heaviest_words(
                    ((link.weight, link.target) for link in links_within if overlaps(link.source, [source])),
                    self.written.text,
                )
                if words is not None and not overlaps(words, occupied):
                    insort(occupied, words)
                    self._targets.append(SourceTerm(words, target))
                else:
                    words = None
                self.terms.append(PivotTerm(source, words))


class _Legs:
    """Composes the translations of both legs; the :class:`model.translation.plan.Container` of the second one.

    Args:
        container: The container of the text.
        pivots: What the first leg wrote.
    """

    def __init__(self, container: Container | None, pivots: Sequence[_PivotText]) -> None:
        self._container = container
        self._pivots = pivots

    def source_span(self, number: int, span: Span) -> Span:
        """The sentence of the container that a sentence of the second leg translates."""
        source = self._pivots[number].source_span(span)
        return source if self._container is None else self._container.source_span(number, source)

    def write(self, texts: Sequence[SourceText], written: Sequence[WrittenText], *, detailed: bool) -> WrittenText:
        """The translation of the container."""
        composed = [
            compose(pivot.text, pivot.written, pivot.terms, text, translation)
            for pivot, text, translation in zip(self._pivots, texts, written, strict=True)
        ]
        if self._container is not None:
            return self._container.write([pivot.text for pivot in self._pivots], composed, detailed=detailed)
        (translation,) = composed
        return translation


def _by_text(plan: Plan) -> list[Sequence[SourceSentence]]:
    """The sentences of each text of a plan, as they were decoded."""
    edges = accumulate((len(text.sentences) for text in plan.texts), initial=0)
    return [plan.sentences[first:end] for first, end in pairwise(edges)]
