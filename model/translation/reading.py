"""From the characters of a sentence to the tokens that a model reads.

Most sentences are encoded by the tokenizer alone. If the model supports them (:mod:`model.translation.capabilities`),
protected spans become placeholders, translations of terms and of words of the lexicon follow the words, and the form of
address comes first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice, pairwise

from model.languages import plain_code
from model.text.accelerators import find_accelerator
from model.text.case_folding import begins_sentence, in_lower_case, is_in_capitals
from model.text.character_edits import (
    Edit,
    edits_outside,
    escape_of_apostrophes,
    find_edits,
    spans_outside,
    with_edits,
    with_quotes,
    with_stand_ins,
    within,
    without_code_quotes,
)
from model.text.glossary import find_terms, is_inflected
from model.text.layout import single_bars, unusual_spaces
from model.text.lexicon import Lexicon
from model.text.placeholders import TargetPrefix, TargetSentence, blank_spans, cut_spans, mask_spans, without_spans
from model.text.protection import Protect, merge_spans, spans_with_roles, unknown_spans
from model.text.punctuation import QUOTES, find_signs, has_signs, quotes_to_read
from model.text.quantities.agreement import has_names, right_form
from model.text.quantities.names import SIGNS
from model.text.quantities.reading import find_quantities
from model.text.quantities.spelling import spelled
from model.text.segmentation import Segment
from model.text.spans import Role
from model.text.symbols import (
    FORMAL,
    INFORMAL,
    Replacement,
    Span,
    overlaps,
    placeholder,
    shifted,
    term_parts,
)
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.translation.capabilities import Capabilities
from model.translation.model_input import ModelInput
from model.translation.options import Formality, TranslationOptions

_FEW_WORDS = 4
"""Words that stay together in a translation; more need not."""

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

    def moved(self, by: int) -> SourceTerm:
        """The same term in a text that has more characters before it, or fewer."""
        return replace(self, span=shifted(self.span, by))


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
        terms: Its glossary terms, without those that are not inflected.
        fixed_terms: Its terms that are not inflected; their spans are protected, and become the terms.
        hints: Its words of the lexicon, whose translations the model reads and need not use.
        numbers: The numbers among its protected spans, and how the target language spells them: those that an earlier
            translation lacked, and amounts with a sign that the model does not know.
        spaces: Unusual whitespace inside it, inserted into the translation by alignment.
        is_verified: Whether its translation is verified; not if nothing is protected.
        is_punctuated: Whether its translation gets its punctuation; not if the candidates of a search have to join to
            the translation, or if that was cut.
        prefix: The given beginning of its translation, if any.
        accelerator: The sign before the letter of a key, which the model does not read.
        edits: The characters that the model reads in another form.
        apostrophe: How its text escapes apostrophes; empty if it does not.
        is_kept: Whether it stays in its language (:meth:`SentenceReader.kept`).
        stored_translation: Its translation, if that is stored (:meth:`SentenceReader.with_translation`).

    Attributes:
        texts: Translations that were written without offsets, by their tokens: each is verified before it is used.
        targets: Those with offsets that were written without attention weights.
        respelled: The tokens of those that spell a number in another form than the model did.
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
    is_verified: bool = False
    is_punctuated: bool = False
    prefix: TargetPrefix | None = None
    accelerator: Span | None = None
    edits: tuple[Edit, ...] = ()
    apostrophe: str = ""
    is_kept: bool = False
    fixed_terms: tuple[SourceTerm, ...] = ()
    stored_translation: str | None = None
    hints: tuple[SourceTerm, ...] = ()
    numbers: Mapping[Span, str] = field(default_factory=dict)
    texts: dict[tuple[int, ...], str] = field(default_factory=dict, init=False, repr=False, compare=False)
    targets: dict[tuple[int, ...], TargetSentence] = field(default_factory=dict, init=False, repr=False, compare=False)
    respelled: set[tuple[int, ...]] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def prefix_ids(self) -> tuple[int, ...]:
        """The tokens of the given beginning of its translation."""
        return () if self.prefix is None else self.prefix.token_ids

    @property
    def kept(self) -> Sequence[Span]:
        """The characters that are no punctuation: its protected spans and edits, except for quotation marks."""
        others = [(start, end) for start, end, _ in self.edits if self.text[start:end] not in QUOTES]
        return merge_spans(self.protected, others) if others else self.protected

    @cached_property
    def pairs(self) -> tuple[tuple[Span, Span], ...]:
        """The quotation marks, brackets and protected spans that stand around a few words, without a space."""
        pairs = find_signs(self.text).pairs if has_signs(self.text) else ()
        signs = [((start, start + 1), (end, end + 1)) for start, end in pairs]
        signs = [pair for pair in signs if all(s in self.protected or not overlaps(s, self.protected) for s in pair)]
        return tuple(
            (first, last)
            for first, last in sorted({*signs, *pairwise(self.protected)})
            if (words := self.text[first[1] : last[0]])
            and not (words[0].isspace() or words[-1].isspace())
            and len(words.split()) <= _FEW_WORDS
        )

    @property
    def plain_text(self) -> str:
        """The sentence without its protected spans."""
        return without_spans(self.text, self.protected)


class SentenceReader:
    """Encodes the sentences of one model.

    Args:
        tokenizer: The model's tokenizer.
        capabilities: The options that the model supports.
        fold_capitals: Whether the case of a translation follows that of its source
            (:mod:`model.text.case_folding`).
        lexicon: Translations of words that the model hardly knows, if it supports glossary terms.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        capabilities: Capabilities,
        *,
        fold_capitals: bool,
        lexicon: Lexicon | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self._fold_capitals = fold_capitals
        self._lexicon = lexicon if capabilities.glossary else None
        self._num_markers: dict[tuple[str, str], int] = {}
        self._unknown_signs = "".join(sign for sign in SIGNS if sign not in tokenizer.known_characters)
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

    def protected_spans(
        self, text: str, protect: Protect, language: str = "", kept: Sequence[Span] = (), target: str = ""
    ) -> dict[Span, Role]:
        """The spans of a text that come back unchanged, in order, with their roles.

        Args:
            text: Any text.
            language: Its language, which may have characters that are read in another form (:meth:`edits`).
            kept: Spans that come back unchanged in any case; words beside them do not.
            target: The target language, if it may spell amounts in its own way (:meth:`read`).
            protect: The spans that the caller protects. Unless it is ``none``, words that the model does not know are
                protected, too. A model with placeholders writes no single bytes, so for it they always are.

        Raises:
            InvalidPattern: A pattern matches too often.
        """
        accelerator = find_accelerator(text) if "auto" in protect else None
        edits = find_edits(text, plain_code(language))
        searched = without_code_quotes(text, edits) if edits else text
        roles = spans_with_roles(blank_spans(searched, kept) if kept else searched, protect)
        if edits:
            roles = {span: roles[span] for span in spans_outside(list(roles), edits)}
        if kept:
            roles = {span: roles.get(span, "inside") for span in merge_spans(list(roles), kept)}
        if edits:
            text = with_stand_ins(text, edits_outside(edits, list(roles)))
        characters = self.tokenizer.known_characters
        spans = list(roles)
        if (protect == "none" and not self.capabilities.placeholders) or characters.includes(blank_spans(text, spans)):
            return roles
        # The model does not read bars between cells.
        bars = [] if protect == "none" else single_bars(mask_spans(text, spans))
        if protect != "none":
            text = with_stand_ins(text, [Edit(index, index + 1, '"') for index, _ in quotes_to_read(text, spans)])
        blank = blank_spans(text, merge_spans(spans, bars))
        if accelerator:
            blank = blank_spans(blank, [accelerator])
        if protect != "none" and (amounts := self._amounts(text, (language, target))):
            blank = blank_spans(blank, [span for span in amounts if not overlaps(span, spans)])
        merged = merge_spans(spans, unknown_spans(blank, characters.__contains__))
        return {span: roles.get(span, "inside") for span in merged}

    def edits(self, text: str, spans: Sequence[Span], language: str) -> list[Edit]:
        """The characters of a text that the model reads in another form.

        Args:
            text: Any text.
            spans: Its protected spans, which it does not read.
            language: Its language.
        """
        return edits_outside(find_edits(text, plain_code(language)), spans)

    def read(
        self,
        text: str,
        start: int,
        end: int,
        spans: Sequence[Span],
        options: TranslationOptions,
        pair: tuple[str, str],
        edits: Sequence[Edit] = (),
        given: Sequence[SourceTerm] | None = None,
    ) -> SourceSentence:
        """Encode a sentence.

        Args:
            text: The text that contains it.
            start: Index of its first character.
            end: Index after its last character.
            spans: The protected spans of the text.
            options: How to translate it.
            pair: Source and target language.
            edits: The characters of the text that the model reads in another form.
            given: The terms of the text, if its terms are not those of the glossary of the options.
        """
        part = text[start:end]
        edits_within = within(edits, start, end) if edits else ()
        language = plain_code(pair[0])
        protected = _within(spans, start, end) if spans else ()
        numbers: dict[Span, str] = {}
        if options.protect != "none" and not options.steering and (amounts := self._amounts(part, pair)):
            numbers = {span: form for span, form in amounts.items() if not overlaps(span, protected)}
            protected = tuple(merge_spans(protected, list(numbers)))
        terms: tuple[SourceTerm, ...] = ()
        fixed_terms: tuple[SourceTerm, ...] = ()
        if given:
            inside = (term.moved(-start) for term in given if start <= term.span[0] and term.span[1] <= end)
            terms = tuple(term for term in inside if not overlaps(term.span, protected))
        elif options.glossary and given is None:
            terms = tuple(SourceTerm(*term) for term in find_terms(part, options.glossary, language, protected))
        if terms:
            fixed_terms = self._fixed(terms, self.capabilities.placeholders - len(protected))
            if fixed_terms:
                terms = tuple(term for term in terms if term not in fixed_terms)
                protected = tuple(merge_spans(protected, [term.span for term in fixed_terms]))
        hints: tuple[SourceTerm, ...] = ()
        if self._lexicon is not None and options.lexicon and given is None:
            occupied = merge_spans(protected, [term.span for term in terms]) if terms else protected
            matches = self._lexicon.find(part, (language, plain_code(pair[1])), occupied)
            hints = tuple(SourceTerm(*match) for match in matches)
        spaces: tuple[Span, ...] = ()
        is_verified = options.protect != "none"
        if is_verified:
            spaces = tuple(space for space in unusual_spaces(part) if not overlaps(space, protected))
            edits_within = with_quotes(part, protected, edits_within)
        sign = find_accelerator(text) if "auto" in options.protect else None
        accelerators = [span for span in _within([sign] if sign else [], start, end) if not overlaps(span, protected)]
        accelerator = accelerators[0] if accelerators else None
        required_ids = self._required_ids(len(protected))
        in_capitals = self._fold_capitals and is_in_capitals(without_spans(part, protected))
        read = (*terms, *hints) if hints else terms
        model_input = self._input(part, in_capitals, protected, len(required_ids), read, edits_within, accelerator)
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
            is_verified,
            is_verified and not options.return_search,
            accelerator=accelerator,
            edits=edits_within,
            apostrophe=escape_of_apostrophes(text, edits) if edits else "",
            fixed_terms=fixed_terms,
            hints=hints,
            numbers=numbers,
        )

    def with_protected(self, sentence: SourceSentence, spans: Sequence[Span]) -> SourceSentence | None:
        """A sentence with further protected spans, as far as there are placeholders; None if there is none.

        Args:
            sentence: The sentence.
            spans: Spans that its translation lacks.
        """
        room = self.capabilities.placeholders - len(sentence.protected)
        if room <= 0 or sentence.prefix or not spans:
            return None
        protected = merge_spans(sentence.protected, spans[:room])
        return self._with_spans(sentence, protected, self._required_ids(len(protected)))

    def with_numbers(self, sentence: SourceSentence, numbers: Sequence[Span]) -> SourceSentence | None:
        """As :meth:`with_protected`; dates and numbers are spelled as the target language spells them.

        Args:
            sentence: The sentence.
            numbers: The numbers that its translation lacks.
        """
        source, target = map(plain_code, sentence.pair)
        forms = {span: sentence.text[slice(*span)] for span in numbers}
        if has_names(source, target) and sentence.is_punctuated and not sentence.in_capitals:
            right_forms = {span: right_form(sentence.text, span, (source, target)) for span in numbers}
            forms = {
                form[0].span if form else span: form[1] if form else forms[span] for span, form in right_forms.items()
            }
        forms = {span: form for span, form in forms.items() if not overlaps(span, sentence.protected)}
        protected = self.with_protected(sentence, sorted(forms))
        return protected and replace(protected, numbers={**sentence.numbers, **forms})

    def with_placed_spans(self, sentence: SourceSentence) -> SourceSentence:
        """A sentence that the model reads without its protected spans; alignment places them in its translation."""
        return self._with_spans(sentence, sentence.protected, ())

    def kept(self, sentence: SourceSentence) -> SourceSentence:
        """A sentence that stays as it is: it is one protected span, and its translation has no tokens."""
        whole = replace(
            sentence,
            formality=None,
            in_capitals=False,
            terms=(),
            fixed_terms=(),
            hints=(),
            numbers={},
            prefix=None,
            accelerator=None,
            edits=(),
            apostrophe="",
        )
        return replace(self._with_spans(whole, [(0, len(sentence.text))], ()), is_kept=True)

    def with_translation(self, sentence: SourceSentence, translation: str) -> SourceSentence:
        """A sentence whose translation is stored: its answer has no tokens, and nothing in it is protected.

        Args:
            sentence: The sentence.
            translation: Its translation.
        """
        return replace(
            sentence,
            protected=(),
            required_ids=(),
            terms=(),
            fixed_terms=(),
            spaces=(),
            accelerator=None,
            stored_translation=translation,
        )

    def _with_spans(
        self, sentence: SourceSentence, protected: Sequence[Span], required_ids: tuple[int, ...]
    ) -> SourceSentence:
        edits = tuple(edits_outside(sentence.edits, protected))
        hints = tuple(hint for hint in sentence.hints if not overlaps(hint.span, protected))
        model_input = self._input(
            sentence.text,
            sentence.in_capitals,
            protected,
            len(required_ids),
            (*sentence.terms, *hints),
            edits,
            sentence.accelerator,
        )
        return replace(
            sentence,
            token_ids=self._encode(model_input, sentence.formality, sentence.pair),
            protected=tuple(protected),
            required_ids=required_ids,
            spaces=tuple(space for space in sentence.spaces if not overlaps(space, protected)),
            edits=edits,
            hints=hints,
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
            (*sentence.terms, *sentence.hints),
            sentence.edits,
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

    def _amounts(self, text: str, pair: tuple[str, str]) -> dict[Span, str]:
        """The amounts with a sign that the model does not know, and how the target language spells them."""
        languages = plain_code(pair[0]), plain_code(pair[1])
        if not (self.capabilities.placeholders and has_names(*languages)):
            return {}
        if not any(sign in text for sign in self._unknown_signs):
            return {}
        return {
            quantity.span: spelled(quantity, text, languages[1])
            for quantity in find_quantities(text, languages[0])
            if quantity.sign and quantity.sign in self._unknown_signs
        }

    def _fixed(self, terms: Sequence[SourceTerm], room: int) -> tuple[SourceTerm, ...]:
        """The terms that are not inflected, or have unknown characters, as far as there are placeholders."""
        characters = self.tokenizer.known_characters
        fixed = (
            term for term in terms if not (is_inflected(term.target) and all(map(characters.__contains__, term.target)))
        )
        return tuple(islice(fixed, max(room, 0)))

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
        edits: Sequence[Edit] = (),
        accelerator: Span | None = None,
    ) -> ModelInput:
        """A sentence with placeholders for its first protected spans and without the others, folded if in capitals."""
        model_input = ModelInput(text, None)
        hidden = sorted([*protected[num_placeholders:], *([accelerator] if accelerator else [])])
        if hidden:
            model_input = ModelInput(*cut_spans(text, hidden))
        if edits:
            read, starts, ends = with_edits(model_input.text, model_input.origins, edits)
            model_input = ModelInput(read, starts, ends=ends)
        if in_capitals:
            model_input = replace(model_input, text=in_lower_case(model_input.text))
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
