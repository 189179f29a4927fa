"""The text side of translation: split, fold case, tokenise, decide which sentences to decode again, and join.

A :class:`model.translation.plan.Plan` lists the sentences to decode and takes their outcomes. Its caller decodes them::

    plan = pipeline.prepare(text, "en", "de", options)
    while plan.pending:
        plan.settle(decode(plan.pending))
    translation = plan.complete()

There may be several rounds: each translation is verified (:mod:`model.translation.verification`), and a sentence whose
translation is not sound is decoded again, with a guard against loops, with the numbers and signs protected that it
lacks, or for other hypotheses. Nothing here runs a model, so everything may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from model.errors import EmptySource, InvalidPrefix, SeveralSentences, SourceTooLong
from model.languages import plain_code
from model.text.layout import after_marker, is_numbered, with_cells_as_lines, without_edges, without_unpaired
from model.text.placeholders import break_spans, mask_spans
from model.text.segmentation import split_segment, split_text
from model.text.spans import Role
from model.text.symbols import Span, after_span
from model.text.tokenizer import Tokenizer
from model.translation.confidence import UNCALIBRATED, Calibration
from model.translation.joining import SourceText
from model.translation.options import TranslationOptions
from model.translation.plan import Container, Plan
from model.translation.reading import SentenceReader, SourceSentence, SourceTerm
from model.translation.target_prefix import with_prefix
from model.translation.verification import Verifier
from model.translation.writing import SentenceWriter


class TextPipeline:
    """Prepares texts for one model and joins its outputs to texts.

    Args:
        reader: Encodes its sentences.
        max_source_tokens: Tokens of the longest sentence that the model accepts, markers included.
        max_target_tokens: Tokens of the longest translation that the model writes, the end token included.
        retry_loops: Whether a sentence whose output loops or is empty is decoded again with a guard
            (:mod:`model.decoding.repetition_guard`).
        calibration: Turns the model's probabilities into confidences.
    """

    def __init__(
        self,
        reader: SentenceReader,
        max_source_tokens: int,
        max_target_tokens: int,
        *,
        retry_loops: bool,
        calibration: Calibration = UNCALIBRATED,
    ) -> None:
        self.reader = reader
        self.writer = SentenceWriter(reader.tokenizer)
        self.calibration = calibration
        self._max_source_tokens = max_source_tokens
        self._max_target_tokens = max_target_tokens
        self.verifier = Verifier(reader, self.writer, retry_loops=retry_loops)

    @property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer."""
        return self.reader.tokenizer

    def prepare(self, text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        """Split a text into sentences that the model accepts.

        Args:
            text: Any text.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.

        Raises:
            UnsupportedFormality: The model does not support the form of address in the target language.
            InvalidPattern: A pattern of protected spans matches too often.
            InvalidMarkup: The text is not a document of the format.
            EmptySource: The text is blank, and an option needs a single sentence (``options.steering``).
            SeveralSentences: The text does not have exactly one sentence, and an option needs one.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
        """
        pair = source, target
        self.reader.capabilities.check_formality(options.formality, target)
        if options.format == "text":
            return self.plan(text, pair, [self._split(text, pair, options)], options)
        # Imported here: plain text needs no parsers.
        from model.translation.document import DocumentWriter, read_document

        document = read_document(text, options, source)
        texts = [
            replace(
                self._split(marked.text, pair, options, marked.protected, has_marks=bool(marked.marks)),
                edges=sorted(index for mark in marked.marks for index in mark.span),
            )
            for marked in document.texts
        ]
        return self.plan(text, pair, texts, options, DocumentWriter(document))

    def prepare_sentence(self, text: str, source: str, target: str, options: TranslationOptions) -> Plan:
        """Prepare one sentence without splitting it; surrounding whitespace is removed.

        Args:
            text: The sentence.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: It has more than one sentence.
            SourceTooLong: The sentence is longer than the model accepts.
            UnsupportedFormality: The model does not support the form of address in the target language.
            InvalidPattern: A pattern of protected spans matches too often.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
        """
        self.reader.capabilities.check_formality(options.formality, target)
        text = text.strip()
        if not text:
            raise EmptySource
        spans = list(self._protected_spans(text, options, (source, target)))
        segments = split_text(mask_spans(text, spans), plain_code(source), lambda start, end: True)
        if len(segments) > 1:
            raise SeveralSentences(len(segments))
        return self.plan_sentence(text, source, target, options, spans)

    def plan_sentence(
        self, text: str, source: str, target: str, options: TranslationOptions, spans: Sequence[Span] = ()
    ) -> Plan:
        """The plan of a text that is one sentence.

        Args:
            text: The sentence.
            source: Its language, in the model's spelling.
            target: The target language, in the model's spelling.
            options: How to translate it.
            spans: Its protected spans.

        Raises:
            SourceTooLong: The sentence is longer than the model accepts.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
        """
        edits = self.reader.edits(text, spans, source)
        sentence = self.reader.read(text, 0, len(text), spans, options, (source, target), edits)
        if len(sentence.token_ids) > self._max_source_tokens:
            raise SourceTooLong(len(sentence.token_ids), self._max_source_tokens)
        if options.steering:
            sentence = self._steer(text, [sentence], target, options)
        return self.plan(text, (source, target), [SourceText(text, [sentence], spans)], options)

    def plan(
        self,
        text: str,
        pair: tuple[str, str],
        texts: Sequence[SourceText],
        options: TranslationOptions,
        container: Container | None = None,
    ) -> Plan:
        """The plan of a text or document that has been read.

        Args:
            text: The text or document.
            pair: Source and target language.
            texts: The text with its sentences, or the texts of the document.
            options: How to translate it.
            container: What the texts were taken from.
        """
        return Plan(self.reader, self.verifier, text, pair, texts, options, self.calibration, container)

    def _split(
        self,
        text: str,
        pair: tuple[str, str],
        options: TranslationOptions,
        kept: Sequence[Span] = (),
        *,
        has_marks: bool = False,
    ) -> SourceText:
        """Split a plain text into sentences.

        Args:
            text: Any text without markup.
            pair: Source and target language.
            options: How to translate it.
            kept: Spans that come back unchanged, whatever the options protect.
            has_marks: Whether markup is placed in its translation, by alignment.
        """
        roles = self._protected_spans(text, options, pair, kept)
        spans = list(roles)
        edits = self.reader.edits(text, spans, pair[0])
        fitting: dict[Span, SourceSentence] = {}

        def fits(start: int, end: int) -> bool:
            sentence = self.reader.read(text, start, end, spans, options, pair, edits)
            if len(sentence.token_ids) > self._max_source_tokens:
                return False
            fitting[start, end] = sentence  # most become sentences, which are then not encoded again
            return True

        sentences: list[SourceSentence] = []
        keeps_layout = options.protect != "none"
        plain = mask_spans(text, spans)
        lines = with_cells_as_lines(plain) if keeps_layout else plain
        # Markers are searched in the original text: the model may not know their signs, which are then protected.
        cells = with_cells_as_lines(text) if keeps_layout else text
        boundaries = [span for span in spans if roles.get(span) == "boundary"]
        if boundaries:
            lines, cells = break_spans(lines, boundaries), break_spans(cells, boundaries)
        numbered = keeps_layout and is_numbered(cells)
        for segment in split_text(lines, plain_code(pair[0]), fits, spans):
            start, end = segment.start, segment.end
            if keeps_layout:
                after = after_marker(cells, start, end, numbered=numbered)
                start = after if after_span(after, spans) == after else start
                start, end = without_unpaired(plain, start, end)
            if spans:
                start, end = without_edges(text, start, end, spans, roles)
            sentence = fitting.get((start, end)) or self.reader.read(text, start, end, spans, options, pair, edits)
            # Segments without letters, such as numbers and emoji, are not translated, nor are the letters of equations.
            letters = list(islice(filter(str.isalpha, sentence.plain_text), 2))
            if len(letters) > 1 or (letters and not (boundaries and letters[0].isascii())):
                sentences.append(sentence)
        if options.steering:
            sentences = [self._steer(text, sentences, pair[1], options)]
        return SourceText(text, sentences, spans, has_marks)

    def read_divided(
        self,
        text: str,
        pair: tuple[str, str],
        options: TranslationOptions,
        sentences: Sequence[Span],
        kept: Sequence[Span],
        terms: Sequence[SourceTerm],
        *,
        apostrophe: str,
        has_marks: bool,
    ) -> SourceText:
        """A plain text whose sentences are given; those that the model does not accept are split.

        Args:
            text: The text.
            pair: Source and target language.
            options: How to translate it.
            sentences: Its sentences, in order. Those without letters are not translated.
            kept: Spans that come back unchanged, whatever the options protect.
            terms: Its glossary terms.
            apostrophe: How apostrophes of its translation are escaped, if its own ones are not; empty if they are not.
            has_marks: Whether markup is placed in its translation, by alignment.

        Raises:
            EmptySource: The text is blank, and an option needs a single sentence (``options.steering``).
            SeveralSentences: The text does not have exactly one sentence, and an option needs one.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
        """
        spans = list(self._protected_spans(text, options, pair, kept))
        edits = self.reader.edits(text, spans, pair[0])

        @lru_cache(maxsize=1)  # most sentences fit
        def read(start: int, end: int) -> SourceSentence:
            sentence = self.reader.read(text, start, end, spans, options, pair, edits, terms)
            return sentence if sentence.apostrophe else replace(sentence, apostrophe=apostrophe)

        def fits(start: int, end: int) -> bool:
            return len(read(start, end).token_ids) <= self._max_source_tokens

        encoded = [
            sentence
            for first, last in sentences
            for segment in split_segment(text, first, last, fits, spans)
            if any(map(str.isalpha, (sentence := read(segment.start, segment.end)).plain_text))
        ]
        if options.steering:
            encoded = [self._steer(text, encoded, pair[1], options)]
        return SourceText(text, encoded, spans, has_marks)

    def _protected_spans(
        self, text: str, options: TranslationOptions, pair: tuple[str, str], kept: Sequence[Span] = ()
    ) -> dict[Span, Role]:
        """The protected spans of a text; if its search is steered, amounts stay as they are spelled."""
        target = "" if options.steering else pair[1]
        return self.reader.protected_spans(text, options.protect, pair[0], kept, target)

    def _steer(
        self, text: str, sentences: Sequence[SourceSentence], target: str, options: TranslationOptions
    ) -> SourceSentence:
        """The only sentence of a text, with the given beginning of its translation.

        Raises:
            EmptySource: The text is blank.
            SeveralSentences: The text does not have exactly one sentence.
            InvalidPrefix: The translation cannot begin with ``options.target_prefix``.
        """
        expect_sentence(text, len(sentences), options)
        (sentence,) = sentences
        if not options.target_prefix:
            return sentence
        before = text[: sentence.start]
        if before[:1].isspace():
            raise InvalidPrefix(
                "The text begins with whitespace, and so does its translation, but no target_prefix may: leave it out "
                "of the text."
            )
        if not options.target_prefix.startswith(before):
            raise InvalidPrefix(
                f"The text begins with {before!r}, and so does its translation: begin target_prefix with it, or leave "
                "it out of the text."
            )
        sentence = with_prefix(sentence, options.target_prefix.removeprefix(before), self.writer)
        # One more token is the end token, or the one at which the translation is cut.
        limit = self._max_target_tokens - len(self.tokenizer.forced_ids(target)) - 1
        if len(sentence.prefix_ids) > limit:
            raise InvalidPrefix(
                f"target_prefix has {len(sentence.prefix_ids)} tokens and may have {limit}, so that the model can "
                "write at least one more; shorten it."
            )
        return sentence


def expect_sentence(text: str, num_sentences: int, options: TranslationOptions) -> None:
    """Refuse a text that does not have exactly one sentence, for options that need one (``options.steering``).

    Args:
        text: The text.
        num_sentences: The number of its sentences.
        options: The options in use.

    Raises:
        EmptySource: It is blank.
        SeveralSentences: It does not have exactly one sentence.
    """
    if not text.strip():
        raise EmptySource
    if num_sentences != 1:
        raise SeveralSentences(num_sentences, " with ".join(options.steering))
