"""From the characters of a sentence to the tokens that a model reads, and from its output back to characters.

A sentence that needs nothing special is encoded by the tokenizer alone. Where the model can be told more
(:mod:`model.translation.capabilities`), protected spans become placeholders, glossary terms stand beside their words,
and a form of address stands at the start.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from model.decoding.options import DecodingOptions, Formality
from model.languages import plain_code
from model.text.case_folding import (
    begins_sentence,
    in_capitals,
    in_small_letters,
    index_to_capitalise,
    is_in_capitals,
    spans_in_capitals,
)
from model.text.glossary import find_terms, places_of
from model.text.layout import repeated_ending, single_bars, start_of_ending, unusual_spaces
from model.text.numbers import find_numbers, lost_numbers
from model.text.placeholders import (
    HeldSpan,
    Place,
    TargetPrefix,
    TargetSentence,
    after_tokens,
    blanked,
    hold,
    masked,
    original_spans,
    outside,
    put_back,
    taken_out,
    with_inserted,
    written_at,
)
from model.text.protection import Protect, find_spans, joined_spans, unknown_spans
from model.text.segmentation import Segment
from model.text.symbols import (
    FORMAL,
    INFORMAL,
    Replacement,
    Span,
    Symbol,
    overlaps,
    placeholder,
    term_parts,
    with_replacements,
)
from model.text.tokenizer import TargetText, TextTokenizer, Tokenizer
from model.translation.alignment import place_of
from model.translation.capabilities import Capabilities
from model.translation.confidence import UNCALIBRATED, Calibration
from model.translation.target_prefix import read_prefix

_FORMS: dict[Formality, str] = {"formal": FORMAL, "informal": INFORMAL}


@dataclass(frozen=True)
class SourceTerm:
    """A glossary term in a sentence.

    Args:
        span: Its characters in the sentence.
        target: How to translate it.
    """

    span: Span
    target: str


@dataclass(frozen=True)
class SourceSentence(Segment):
    """A tokenised segment of a text: a sentence, or a part of a long sentence.

    Args:
        token_ids: Its tokens, language marker and end token included.
        in_capitals: Whether it was in capitals. It is then translated in lower case, and its translation is put into
            capitals.
        begins_sentence: Whether it begins a sentence with a capital, as its translation then does.
        protected: The spans that stand in its translation as they are, in characters of the sentence.
        once_ids: The placeholders of the first of these spans; the others are taken out of the sentence, and their
            places are found by alignment.
        terms: The glossary terms in it.
        spaces: Unusual white space inside it, which is put back by alignment.
        ending: Repeated punctuation at its end, which its translation gets, too.
        prefix: What its translation begins with, if that is given.
    """

    token_ids: list[int]
    in_capitals: bool = False
    begins_sentence: bool = False
    protected: tuple[Span, ...] = ()
    once_ids: tuple[int, ...] = ()
    terms: tuple[SourceTerm, ...] = ()
    spaces: tuple[Span, ...] = ()
    ending: str = ""
    prefix: TargetPrefix | None = None

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """The tokens that its translation begins with."""
        return () if self.prefix is None else self.prefix.token_ids


@dataclass(frozen=True)
class _Reading:
    """What is passed to the tokenizer for a sentence.

    Args:
        text: The sentence without the spans that are placed by alignment; in lower case if it is folded.
        origins: Index in the sentence of each character of the text; None if it is the sentence itself.
        replacements: What stands in the model's input instead of characters of the text.
    """

    text: str
    origins: list[int] | None
    replacements: list[Replacement]

    def in_sentence(self, spans: Sequence[Span], num_characters: int) -> list[Span]:
        """Spans of the text as spans of the sentence.

        Args:
            spans: Spans of the text.
            num_characters: Length of the sentence.
        """
        return list(spans) if self.origins is None else original_spans(spans, self.origins, num_characters)


class SentenceCodec:
    """Encodes the sentences of one model, and decodes their translations.

    Args:
        tokenizer: The model's tokenizer.
        capabilities: What the model can be told.
        fold_capitals: Whether the case of a translation follows that of its source
            (:mod:`model.text.case_folding`).
        calibration: What turns the model's probabilities into confidences.
    """

    def __init__(
        self,
        tokenizer: TextTokenizer,
        capabilities: Capabilities,
        *,
        fold_capitals: bool,
        calibration: Calibration = UNCALIBRATED,
    ) -> None:
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self.calibration = calibration
        self._fold_capitals = fold_capitals
        self._num_markers: dict[tuple[str, str], int] = {}
        self._with_symbols = tokenizer if isinstance(tokenizer, Tokenizer) else None

    def num_markers(self, source: str, target: str) -> int:
        """Number of tokens of a sentence that stand for nothing in it: language markers and the end token.

        Args:
            source: Its language.
            target: The target language.
        """
        pair = source, target
        if pair not in self._num_markers:
            self._num_markers[pair] = len(self.tokenizer.encode("", target, source))
        return self._num_markers[pair]

    def check(self, options: DecodingOptions, target: str) -> None:
        """Refuse options that the model lacks the capability for.

        Args:
            options: The options of a request.
            target: The target language.

        Raises:
            UnsupportedFormality: The model cannot be told the form of address in this language.
        """
        self.capabilities.check_formality(options.formality, target)

    def protected_spans(self, text: str, protect: Protect) -> list[Span]:
        """The spans of a text that come back unchanged.

        Args:
            text: Any text.
            protect: What the caller protects. Words that the model does not know are protected, too; if it has
                placeholders, in any case, because it then writes no single bytes.

        Raises:
            InvalidPattern: A pattern matches too often.
        """
        spans = find_spans(text, protect)
        known = self.tokenizer.known_characters
        if (protect == "none" and not self.capabilities.placeholders) or known.includes(text):
            return spans
        # Bars between cells are not passed to the model.
        bars = [] if protect == "none" else single_bars(masked(text, spans))
        blank = blanked(text, joined_spans(spans, bars))
        return joined_spans(spans, unknown_spans(blank, known.__contains__))

    def read(
        self, text: str, start: int, end: int, spans: Sequence[Span], options: DecodingOptions, pair: tuple[str, str]
    ) -> SourceSentence:
        """Encode a sentence.

        Args:
            text: The text that holds it.
            start: Index of its first character.
            end: Index after its last character.
            spans: The protected spans of the text.
            options: What to tell the model about it.
            pair: Source and target language.
        """
        part = text[start:end]
        spaces: tuple[Span, ...] = ()
        ending = ""
        if options.protect != "none":
            spaces, ending = tuple(unusual_spaces(part)), repeated_ending(part)
        protected = _within(spans, start, end) if spans else ()
        begins = self._fold_capitals and begins_sentence(text, start, end, plain_code(pair[0]))
        if not (protected or options.glossary or options.formality):
            folds = self._fold_capitals and is_in_capitals(part)
            token_ids = self.tokenizer.encode(in_small_letters(part) if folds else part, pair[1], pair[0])
            return SourceSentence(start, end, token_ids, folds, begins, spaces=spaces, ending=ending)
        terms: tuple[SourceTerm, ...] = ()
        if options.glossary:
            found = find_terms(part, options.glossary, plain_code(pair[0]), protected)
            terms = tuple(SourceTerm(span, target) for span, target in found)
        folds = self._fold_capitals and is_in_capitals(outside(part, protected))
        sentence = SourceSentence(start, end, [], folds, begins, terms=terms, spaces=spaces, ending=ending)
        return self._protecting(part, sentence, protected, options, pair)

    def with_prefix(self, part: str, sentence: SourceSentence, text: str) -> SourceSentence:
        """A sentence whose translation begins with a text.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            text: What its translation begins with.

        Raises:
            InvalidPrefix: The model would write it differently.
        """
        prefix = read_prefix(
            text,
            [part[slice(*span)] for span in sentence.protected],
            [part[slice(*span)] for span in sentence.spaces],
            len(sentence.once_ids),
            self.tokenizer,
            folds=sentence.in_capitals,
        )
        return replace(sentence, prefix=prefix)

    def with_numbers(
        self,
        part: str,
        sentence: SourceSentence,
        token_ids: Sequence[int],
        options: DecodingOptions,
        pair: tuple[str, str],
    ) -> SourceSentence | None:
        """A sentence whose lost numbers are protected, if the model's translation lacks any; otherwise None.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            token_ids: The output of the model.
            options: How the sentence was decoded.
            pair: Source and target language.
        """
        room = self.capabilities.placeholders - len(sentence.protected)
        if room <= 0 or options.protect == "none" or sentence.prefix:
            return None
        taken = joined_spans(sentence.protected, [term.span for term in sentence.terms])
        numbers = [number for number in find_numbers(part) if not overlaps(number, taken)]
        lost = lost_numbers(part, numbers, self.tokenizer.decode(token_ids)) if numbers else []
        if not lost:
            return None
        protected = tuple(joined_spans(sentence.protected, lost[:room]))
        return self._protecting(part, sentence, protected, options, pair)

    def folded(self, text: str) -> str:
        """A sentence in lower case if it is in capitals and these are folded."""
        return in_small_letters(text) if self._fold_capitals and is_in_capitals(text) else text

    def source_offsets(self, part: str, sentence: SourceSentence, pair: tuple[str, str]) -> list[Span]:
        """The characters of a sentence that each of its tokens covers.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            pair: Source and target language.
        """
        reading = self._reading(part, sentence)
        text = reading.text
        if self._with_symbols is None or not reading.replacements:
            _, spans = self.tokenizer.encode_with_offsets(text, pair[1], pair[0])
        else:
            inner = _part_offsets(self._with_symbols, text, reading.replacements)
            spans = [(0, 0), *inner, (len(text), len(text))]
        # The form of address stands behind the language marker.
        spans = [*spans[:1], *[(0, 0)] * (len(sentence.token_ids) - len(spans)), *spans[1:]]
        return reading.in_sentence(spans, len(part))

    def terms_as_written(self, sentence: SourceSentence) -> tuple[SourceTerm, ...]:
        """The terms of a sentence as they are put into its translation: in capitals if it is."""
        if not sentence.in_capitals:
            return sentence.terms
        return tuple(SourceTerm(term.span, in_capitals(term.target)) for term in sentence.terms)

    def needs_attention(self, sentence: SourceSentence, token_ids: Sequence[int]) -> bool:
        """Whether attention weights are needed to put spans or terms into a translation.

        Args:
            sentence: A sentence.
            token_ids: The output of the model.
        """
        if sentence.spaces or (sentence.terms and self._lacks_a_term(sentence, token_ids)):
            return True
        if not sentence.protected:
            return False
        return len(sentence.once_ids) < len(sentence.protected) or not set(sentence.once_ids).issubset(token_ids)

    def _lacks_a_term(self, sentence: SourceSentence, token_ids: Sequence[int]) -> bool:
        terms = (term.target for term in sentence.terms)
        return None in places_of(self.tokenizer.decode(token_ids), terms)

    def write(self, part: str, sentence: SourceSentence, token_ids: Sequence[int]) -> str:
        """The translation of a sentence; the places of spans that the model did not write are in proportion.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            token_ids: The output of the model.
        """
        if sentence.protected or sentence.spaces or sentence.ending or sentence.prefix:
            return self.write_with_offsets(part, sentence, token_ids, None, []).text
        answer = self.tokenizer.decode(token_ids)
        if sentence.in_capitals:
            return in_capitals(answer)
        first = index_to_capitalise(answer) if sentence.begins_sentence else None
        return answer if first is None else _with_capital(answer, first)

    def write_with_offsets(
        self,
        part: str,
        sentence: SourceSentence,
        token_ids: Sequence[int],
        rows: Tensor | None,
        source_spans: Sequence[Span],
    ) -> TargetSentence:
        """As :meth:`write`, with the characters that each token covers and the places of the protected spans.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            token_ids: The output of the model.
            rows: Attention weights, (target tokens, source tokens), if :meth:`needs_attention`.
            source_spans: The result of :meth:`source_offsets`, if there are rows.
        """
        parts = self._written_parts(sentence, token_ids)
        parts = self._with_missing(parts, part, sentence, token_ids, rows, source_spans)
        translation = _put_back(parts, part, sentence, len(sentence.protected))
        if sentence.begins_sentence and not sentence.prefix:
            first = index_to_capitalise(translation.text, translation.spans)
            if first is not None:
                translation = replace(translation, text=_with_capital(translation.text, first))
        return _with_ending(translation, sentence.ending, sentence.prefix)

    def write_beginning(self, part: str, sentence: SourceSentence, token_ids: Sequence[int]) -> str:
        """What the first tokens of a translation are written as, to compare with that of one token more.

        Nothing is placed by alignment, and a prefix may be written as the model would write it.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            token_ids: The first tokens of the output, those of its prefix included.
        """
        if sentence.protected or sentence.spaces:
            parts = after_tokens(self._written_parts(sentence, token_ids), len(sentence.prefix_ids))
            text = _put_back(parts, part, sentence, 0).text
        else:
            text = self.tokenizer.decode(token_ids)  # a search has thousands of these
            text = in_capitals(text) if sentence.in_capitals else text
        return text.rstrip("\ufffd")  # a character of which some bytes are still missing

    def _with_missing(
        self,
        parts: list[Place | TargetText],
        part: str,
        sentence: SourceSentence,
        token_ids: Sequence[int],
        rows: Tensor | None,
        source_spans: Sequence[Span],
    ) -> list[Place | TargetText]:
        """What the model wrote behind the prefix, with other protected spans and white space placed by alignment."""
        num_given = len(sentence.prefix_ids)
        spans = [*sentence.protected, *sentence.spaces]
        written = dict(written_at(parts))
        parts = after_tokens(parts, num_given)
        missing = set(range(len(spans))).difference(written.values(), sentence.prefix.held if sentence.prefix else ())
        if not missing:
            return parts
        answer, target_spans = self.tokenizer.decode_with_offsets(token_ids)
        known = {token: spans[number][0] for token, number in written.items()}
        places: list[tuple[int, int]] = []
        for number in missing:
            is_space = number >= len(sentence.protected)
            first = 0 if is_space else num_given
            token = place_of(rows, part, source_spans, answer, target_spans, spans[number][0], known, first)
            # White space at the ends of a translation would be no white space inside it, and a prefix has its own.
            if not is_space or max(num_given, 1) <= token < len(target_spans):
                places.append((token - num_given, number))
        return with_inserted(parts, sorted(places))

    def _written_parts(self, sentence: SourceSentence, token_ids: Sequence[int]) -> list[Place | TargetText]:
        """The texts and placeholders that a model wrote."""
        if self._with_symbols is None or not sentence.once_ids:
            answer, spans = self.tokenizer.decode_with_offsets(token_ids)
            return [TargetText(answer, tuple(spans), begins_word=True)]
        numbers = {placeholder(number): number for number in range(len(sentence.once_ids))}
        return [
            Place(numbers[one.name], written=True) if isinstance(one, Symbol) else one
            for one in self._with_symbols.decode_parts(token_ids)
        ]

    def _once_ids(self, num_spans: int) -> tuple[int, ...]:
        if self._with_symbols is None or not num_spans:
            return ()
        number = min(num_spans, self.capabilities.placeholders)
        return tuple(self._with_symbols.symbol_id(placeholder(index)) for index in range(number))

    def _protecting(
        self,
        part: str,
        sentence: SourceSentence,
        protected: tuple[Span, ...],
        options: DecodingOptions,
        pair: tuple[str, str],
    ) -> SourceSentence:
        """A sentence with these protected spans, and its tokens."""
        spaces = tuple(space for space in sentence.spaces if not overlaps(space, protected))
        held = replace(sentence, protected=protected, once_ids=self._once_ids(len(protected)), spaces=spaces)
        return replace(held, token_ids=self._encode(part, held, options.formality, pair))

    def _encode(
        self, part: str, sentence: SourceSentence, formality: Formality | None, pair: tuple[str, str]
    ) -> list[int]:
        reading = self._reading(part, sentence)
        if self._with_symbols is None or not (reading.replacements or formality):
            return self.tokenizer.encode(reading.text, pair[1], pair[0])
        parts = [one for one, _ in with_replacements(reading.text, reading.replacements)]
        token_ids = self._with_symbols.encode_parts(parts, pair[1])
        return self._with_symbols.tagged(token_ids, _FORMS[formality]) if formality else token_ids

    def _reading(self, part: str, sentence: SourceSentence) -> _Reading:
        text = in_small_letters(part) if sentence.in_capitals else part
        told, by_alignment = _divided(sentence)
        origins: list[int] | None = None
        if by_alignment:
            text, origins = taken_out(text, by_alignment)
        spans = [
            Replacement(*_moved(span, origins), (Symbol(placeholder(number)),)) for number, span in enumerate(told)
        ]
        terms = [
            Replacement(*span, term_parts(text[slice(*span)], term.target))
            for term in (sentence.terms if self.capabilities.glossary else ())
            for span in (_moved(term.span, origins),)
        ]
        return _Reading(text, origins, spans + terms)


def _with_capital(text: str, index: int) -> str:
    """A text with a capital at an index."""
    return text[:index] + text[index].upper() + text[index + 1 :]


def _put_back(
    parts: Sequence[Place | TargetText], part: str, sentence: SourceSentence, num_protected: int
) -> TargetSentence:
    """Texts behind the prefix of a sentence, in capitals if it is, with its protected spans and unusual white space.

    Args:
        parts: Texts, and the places of spans.
        part: The sentence.
        sentence: What its codec made of it.
        num_protected: Number of the first protected spans whose places are returned; all of these have one.
    """
    if sentence.in_capitals:
        parts = [_in_capitals(one) if isinstance(one, TargetText) else one for one in parts]
    held = [*hold(part, sentence.protected), *(HeldSpan(part[slice(*space)]) for space in sentence.spaces)]
    return put_back(parts, held, num_protected, sentence.prefix)


def _in_capitals(run: TargetText) -> TargetText:
    return replace(run, text=in_capitals(run.text), tokens=tuple(spans_in_capitals(run.text, run.tokens)))


def _with_ending(translation: TargetSentence, ending: str, prefix: TargetPrefix | None) -> TargetSentence:
    """A translation with the repeated punctuation of its source at its end, unless its prefix has other punctuation."""
    text = translation.text
    start = start_of_ending(text)
    if not ending or text[start:] == ending or any(end > start for _, end in translation.spans):
        return translation
    if prefix is not None and not ending.startswith(prefix.text[start:]):
        return translation
    return translation.with_replaced(start, len(text), ending)


def _within(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The spans of a text that lie in a part of it, in characters of the part."""
    first = bisect_left(spans, (start, start))
    last = bisect_right(spans, (end, end))
    return tuple((begin - start, stop - start) for begin, stop in spans[first:last] if stop <= end)


def _divided(sentence: SourceSentence) -> tuple[Sequence[Span], Sequence[Span]]:
    """The protected spans with a placeholder, and those that are placed by alignment."""
    number = len(sentence.once_ids)
    return sentence.protected[:number], sentence.protected[number:]


def _moved(span: Span, origins: Sequence[int] | None) -> Span:
    """A span of the sentence in a text of which some characters were taken out, none of them inside the span."""
    if origins is None:
        return span
    start = bisect_left(origins, span[0])
    return start, start + span[1] - span[0]


def _part_offsets(tokenizer: Tokenizer, text: str, replacements: Sequence[Replacement]) -> list[Span]:
    """The characters of a text with replacements that each token covers; those of a replacement cover all it replaces.

    Inside a replacement, the tokens of the replaced text itself cover their own characters.
    """
    spans: list[Span] = []
    for part, (start, end) in with_replacements(text, replacements):
        inner = tokenizer.part_offsets(part, begins=not spans)
        if part == text[start:end]:
            spans += [(start + first, start + last) for first, last in inner]
        else:
            spans += [(start, end)] * len(inner)
    return spans
