"""From the characters of a sentence to the tokens that a model reads.

Most sentences are encoded by the tokenizer alone. If the model supports them (:mod:`model.translation.capabilities`),
protected spans become placeholders, glossary terms follow their words, and the form of address comes first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from model.languages import plain_code
from model.text.accelerators import find_accelerator
from model.text.case_folding import begins_sentence, in_lower_case, is_in_capitals
from model.text.glossary import find_terms
from model.text.layout import lost_hyphens, repeated_ending, single_bars, unusual_spaces
from model.text.numbers import find_numbers, lost_numbers
from model.text.placeholders import TargetPrefix, blank_spans, cut_spans, mask_spans, original_spans, without_spans
from model.text.protection import Protect, merge_spans, spans_with_roles, unknown_spans
from model.text.segmentation import Segment
from model.text.spans import Role
from model.text.symbols import (
    FORMAL,
    INFORMAL,
    Part,
    Replacement,
    Span,
    Symbol,
    overlaps,
    placeholder,
    term_parts,
    with_replacements,
)
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.translation.capabilities import Capabilities
from model.translation.options import Formality, TranslationOptions

_FORMS: dict[Formality, str] = {"formal": FORMAL, "informal": INFORMAL}


@dataclass(frozen=True)
class SourceTerm:
    """A glossary term in a sentence.

    Args:
        span: Its characters in the sentence.
        target: Its translation.
    """

    span: Span
    target: str


@dataclass(frozen=True)
class SourceSentence(Segment):
    """An encoded segment of a text: a sentence, or a part of a long sentence. Its spans are characters of the segment.

    Args:
        text: Its characters.
        token_ids: Its tokens, language marker and end token included.
        pair: Source and target language.
        formality: The form of address of its translation; None leaves it to the model.
        in_capitals: Whether it is in capitals. The model then reads it in lower case, and its translation is put into
            capitals.
        begins_sentence: Whether it begins a sentence with a capital, so that its translation does, too.
        protected: The spans that its translation contains unchanged, in order.
        required_ids: The placeholder tokens of the first protected spans. The other spans are cut out of the source,
            and inserted into the translation by alignment.
        terms: Its glossary terms.
        spaces: Unusual whitespace inside it, inserted into the translation by alignment.
        ending: Repeated punctuation at its end, with which its translation ends, too; empty if there is none.
        prefix: The given beginning of its translation, if any.
        accelerator: The sign before the letter of a key, which the model does not read.
    """

    text: str
    token_ids: list[int]
    pair: tuple[str, str]
    formality: Formality | None = None
    in_capitals: bool = False
    begins_sentence: bool = False
    protected: tuple[Span, ...] = ()
    required_ids: tuple[int, ...] = ()
    terms: tuple[SourceTerm, ...] = ()
    spaces: tuple[Span, ...] = ()
    ending: str = ""
    prefix: TargetPrefix | None = None
    accelerator: Span | None = None

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """The tokens of the given beginning of its translation."""
        return () if self.prefix is None else self.prefix.token_ids

    @property
    def plain_text(self) -> str:
        """The sentence without its protected spans."""
        return without_spans(self.text, self.protected)


@dataclass(frozen=True)
class ModelInput:
    """The characters of a sentence or prefix that a model reads, and the symbols among them.

    Args:
        text: The original characters without those that were cut out.
        origins: The original index of each character of the text; None if nothing was cut out.
        replacements: The symbols and texts that the model reads instead of characters of the text.
    """

    text: str
    origins: Sequence[int] | None
    replacements: Sequence[Replacement] = ()

    @property
    def parts(self) -> list[tuple[Part, Span]]:
        """Texts and symbols in order, each with the characters of the text that it covers."""
        return with_replacements(self.text, self.replacements)

    def with_placeholders(self, spans: Mapping[int, Span]) -> ModelInput:
        """The same input with placeholders.

        Args:
            spans: By number of the placeholder, the original characters that it replaces.
        """
        symbols = [Replacement(*self.moved(span), (Symbol(placeholder(number)),)) for number, span in spans.items()]
        return replace(self, replacements=[*self.replacements, *symbols])

    def moved(self, span: Span) -> Span:
        """Map a span of original characters to the text. None of its characters was cut out."""
        if self.origins is None:
            return span
        start = bisect_left(self.origins, span[0])
        return start, start + span[1] - span[0]

    def original(self, spans: Sequence[Span], num_characters: int) -> list[Span]:
        """Map spans of the text to the original characters.

        Args:
            spans: Spans of the text.
            num_characters: Number of original characters.
        """
        return list(spans) if self.origins is None else original_spans(spans, self.origins, num_characters)


class SentenceReader:
    """Encodes the sentences of one model.

    Args:
        tokenizer: The model's tokenizer.
        capabilities: The options that the model supports.
        fold_capitals: Whether the case of a translation follows that of its source
            (:mod:`model.text.case_folding`).
    """

    def __init__(self, tokenizer: Tokenizer, capabilities: Capabilities, *, fold_capitals: bool) -> None:
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self._fold_capitals = fold_capitals
        self._num_markers: dict[tuple[str, str], int] = {}
        self._with_symbols = tokenizer if isinstance(tokenizer, VersoTokenizer) else None

    def num_markers(self, source: str, target: str) -> int:
        """Number of tokens of a sentence that cover none of its characters: language markers and the end token.

        Args:
            source: Its language.
            target: The target language.
        """
        pair = source, target
        if pair not in self._num_markers:
            self._num_markers[pair] = len(self.tokenizer.encode("", target, source))
        return self._num_markers[pair]

    def protected_spans(self, text: str, protect: Protect, kept: Sequence[Span] = ()) -> dict[Span, Role]:
        """The spans of a text that come back unchanged, in order, with their roles.

        Args:
            text: Any text.
            kept: Spans that come back unchanged in any case; words beside them do not.
            protect: The spans that the caller protects. Unless it is ``none``, words that the model does not know are
                protected, too. A model with placeholders writes no single bytes, so for it they always are.

        Raises:
            InvalidPattern: A pattern matches too often.
        """
        roles = spans_with_roles(text, protect)
        if kept:
            roles = {span: roles.get(span, "inside") for span in merge_spans(list(roles), kept)}
        characters = self.tokenizer.known_characters
        if (protect == "none" and not self.capabilities.placeholders) or characters.includes(text):
            return roles
        spans = list(roles)
        # The model does not read bars between cells.
        bars = [] if protect == "none" else single_bars(mask_spans(text, spans))
        accelerator = find_accelerator(text) if "auto" in protect else None
        blank = blank_spans(text, merge_spans(spans, bars))
        if accelerator:
            blank = blank_spans(blank, [accelerator])
        merged = merge_spans(spans, unknown_spans(blank, characters.__contains__))
        return {span: roles.get(span, "inside") for span in merged}

    def read(
        self, text: str, start: int, end: int, spans: Sequence[Span], options: TranslationOptions, pair: tuple[str, str]
    ) -> SourceSentence:
        """Encode a sentence.

        Args:
            text: The text that contains it.
            start: Index of its first character.
            end: Index after its last character.
            spans: The protected spans of the text.
            options: How to translate it.
            pair: Source and target language.
        """
        part = text[start:end]
        language = plain_code(pair[0])
        protected = _within(spans, start, end) if spans else ()
        terms: tuple[SourceTerm, ...] = ()
        if options.glossary:
            terms = tuple(SourceTerm(*term) for term in find_terms(part, options.glossary, language, protected))
        spaces: tuple[Span, ...] = ()
        ending = ""
        if options.protect != "none":
            spaces = tuple(space for space in unusual_spaces(part) if not overlaps(space, protected))
            ending = repeated_ending(part)
        accelerator = find_accelerator(text) if "auto" in options.protect else None
        accelerator = next(iter(_within([accelerator], start, end)), None) if accelerator else None
        if accelerator and overlaps(accelerator, protected):
            accelerator = None
        required_ids = self._required_ids(len(protected))
        in_capitals = self._fold_capitals and is_in_capitals(without_spans(part, protected))
        model_input = self._input(part, in_capitals, protected, len(required_ids), terms, accelerator)
        return SourceSentence(
            start,
            end,
            part,
            self._encode(model_input, options.formality, pair),
            pair,
            options.formality,
            in_capitals,
            self._fold_capitals and begins_sentence(text, start, end, language),
            protected,
            required_ids,
            terms,
            spaces,
            ending,
            accelerator=accelerator,
        )

    def with_numbers(self, sentence: SourceSentence, token_ids: Sequence[int]) -> SourceSentence | None:
        """A sentence whose lost numbers and hyphens are protected, if its translation lacks any; otherwise None.

        Args:
            sentence: The sentence.
            token_ids: The output of the model.
        """
        room = self.capabilities.placeholders - len(sentence.protected)
        if room <= 0 or sentence.prefix:
            return None
        occupied = merge_spans(sentence.protected, [term.span for term in sentence.terms])
        numbers = [number for number in find_numbers(sentence.text) if not overlaps(number, occupied)]
        answer = self.tokenizer.decode(token_ids)
        lost = lost_numbers(sentence.text, numbers, answer) if numbers else []
        lost = sorted([*lost, *(sign for sign in lost_hyphens(sentence.text, answer) if not overlaps(sign, occupied))])
        if not lost:
            return None
        protected = tuple(merge_spans(sentence.protected, lost[:room]))
        required_ids = self._required_ids(len(protected))
        model_input = self._input(
            sentence.text, sentence.in_capitals, protected, len(required_ids), sentence.terms, sentence.accelerator
        )
        return replace(
            sentence,
            token_ids=self._encode(model_input, sentence.formality, sentence.pair),
            protected=protected,
            required_ids=required_ids,
            spaces=tuple(space for space in sentence.spaces if not overlaps(space, protected)),
        )

    def folded(self, text: str) -> str:
        """A sentence in lower case if it is in capitals and these are folded."""
        return in_lower_case(text) if self._fold_capitals and is_in_capitals(text) else text

    def source_offsets(self, sentence: SourceSentence) -> list[Span]:
        """The characters of a sentence that each of its tokens covers."""
        source, target = sentence.pair
        model_input = self._input(
            sentence.text,
            sentence.in_capitals,
            sentence.protected,
            len(sentence.required_ids),
            sentence.terms,
            sentence.accelerator,
        )
        text = model_input.text
        if self._with_symbols is None or not model_input.replacements:
            _, spans = self.tokenizer.encode_with_offsets(text, target, source)
        else:
            spans = [(0, 0), *_part_offsets(self._with_symbols, model_input), (len(text), len(text))]
        # The form of address comes after the language marker.
        spans = [*spans[:1], *[(0, 0)] * (len(sentence.token_ids) - len(spans)), *spans[1:]]
        return model_input.original(spans, len(sentence.text))

    def _required_ids(self, num_spans: int) -> tuple[int, ...]:
        if self._with_symbols is None or not num_spans:
            return ()
        number = min(num_spans, self.capabilities.placeholders)
        return tuple(self._with_symbols.symbol_id(placeholder(index)) for index in range(number))

    def _input(
        self,
        text: str,
        in_capitals: bool,
        protected: Sequence[Span],
        num_placeholders: int,
        terms: Sequence[SourceTerm],
        accelerator: Span | None,
    ) -> ModelInput:
        """A sentence with placeholders for its first protected spans and without the others, folded if in capitals."""
        model_input = ModelInput(in_lower_case(text) if in_capitals else text, None)
        hidden = sorted([*protected[num_placeholders:], *([accelerator] if accelerator else [])])
        if hidden:
            model_input = ModelInput(*cut_spans(model_input.text, hidden))
        if terms and self.capabilities.glossary:
            spans = ((model_input.moved(term.span), term.target) for term in terms)
            replacements = [
                Replacement(*span, term_parts(model_input.text[slice(*span)], target)) for span, target in spans
            ]
            model_input = replace(model_input, replacements=replacements)
        if num_placeholders:
            model_input = model_input.with_placeholders(dict(enumerate(protected[:num_placeholders])))
        return model_input

    def _encode(self, model_input: ModelInput, formality: Formality | None, pair: tuple[str, str]) -> list[int]:
        source, target = pair
        if self._with_symbols is None or not (model_input.replacements or formality):
            return self.tokenizer.encode(model_input.text, target, source)
        token_ids = self._with_symbols.encode_parts([part for part, _ in model_input.parts], target)
        return self._with_symbols.tagged(token_ids, _FORMS[formality]) if formality else token_ids


def _within(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """The spans of a text that lie in a part of it, in characters of the part."""
    first = bisect_left(spans, (start, start))
    last = bisect_right(spans, (end, end))
    return tuple((begin - start, stop - start) for begin, stop in spans[first:last] if stop <= end)


def _part_offsets(tokenizer: VersoTokenizer, model_input: ModelInput) -> list[Span]:
    """The characters of a text with replacements that each token covers.

    The tokens of a replacement cover all that it replaces; a replaced text's own tokens cover their characters.
    """
    spans: list[Span] = []
    for part, (start, end) in model_input.parts:
        inner = tokenizer.part_offsets(part, begins=not spans)
        if part == model_input.text[start:end]:
            spans += [(start + first, start + last) for first, last in inner]
        else:
            spans += [(start, end)] * len(inner)
    return spans
