"""From the characters of a sentence to the tokens that a model reads, and from its output back to characters.

A sentence that needs nothing special is encoded by the tokenizer alone. Where the model can be told more
(:mod:`model.capabilities`), protected spans become placeholders, glossary terms stand beside their words, and a form of
address stands at the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from model.capabilities import Capabilities
from model.decoding.options import DecodingOptions, Formality
from model.errors import UnsupportedFormality
from model.languages import plain_code
from model.text.case_folding import in_capitals, in_small_letters, is_in_capitals, spans_in_capitals
from model.text.glossary import find_terms
from model.text.placeholders import TargetSentence, hold, outside, put_back
from model.text.protection import unwritable_spans
from model.text.segmentation import Segment
from model.text.symbols import (
    FORMAL,
    INFORMAL,
    Replacement,
    Span,
    Symbol,
    placeholder,
    term_parts,
    with_replacements,
)
from model.text.tokenizer import TargetText, TextTokenizer, Tokenizer

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
        protected: The spans that stand in its translation as they are, in characters of the sentence.
        terms: The glossary terms in it.
        once_ids: The tokens of the placeholders that it holds.
    """

    token_ids: list[int]
    in_capitals: bool = False
    protected: tuple[Span, ...] = ()
    terms: tuple[SourceTerm, ...] = ()
    once_ids: tuple[int, ...] = ()


class SentenceCodec:
    """Encodes the sentences of one model, and decodes their translations.

    Args:
        tokenizer: The model's tokenizer.
        capabilities: What the model can be told.
        fold_capitals: Whether sentences in capitals are translated in lower case and their translations put into
            capitals (:mod:`model.text.case_folding`).
    """

    def __init__(self, tokenizer: TextTokenizer, capabilities: Capabilities, *, fold_capitals: bool) -> None:
        self.tokenizer = tokenizer
        self.capabilities = capabilities
        self._fold_capitals = fold_capitals
        self._with_symbols = tokenizer if isinstance(tokenizer, Tokenizer) else None

    def check(self, options: DecodingOptions, target: str) -> None:
        """Refuse options that the model lacks the capability for.

        Args:
            options: The options of a request.
            target: The target language.

        Raises:
            UnsupportedFormality: The model cannot be told the form of address in this language.
        """
        languages = self.capabilities.formality
        if options.formality is not None and plain_code(target) not in languages:
            raise UnsupportedFormality(options.formality, target, languages)

    def protected_spans(self, text: str) -> list[Span]:
        """The spans of a text that come back unchanged: words that the model cannot write.

        Args:
            text: Any text.
        """
        tokenizer = self._with_symbols
        if tokenizer is None or not self.capabilities.placeholders or tokenizer.can_write_all(text):
            return []
        return unwritable_spans(text, tokenizer.can_write)

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
        protected = tuple((first - start, last - start) for first, last in spans if start <= first and last <= end)
        terms = (
            tuple(
                SourceTerm(span, target)
                for span, target in find_terms(part, options.glossary, plain_code(pair[0]), protected)
            )
            if options.glossary
            else ()
        )
        folds = self._fold_capitals and is_in_capitals(outside(part, protected))
        sentence = SourceSentence(start, end, [], folds, protected, terms, self._once_ids(len(protected)))
        return replace(sentence, token_ids=self._encode(part, sentence, options.formality, pair))

    def folded(self, text: str) -> str:
        """A sentence in lower case if it is in capitals and these are folded."""
        return in_small_letters(text) if self._fold_capitals and is_in_capitals(text) else text

    def as_read(self, part: str, sentence: SourceSentence) -> str:
        """A sentence as it is passed to the model: in lower case if it is in capitals and these are folded."""
        return in_small_letters(part) if sentence.in_capitals else part

    def source_offsets(self, part: str, sentence: SourceSentence, pair: tuple[str, str]) -> list[Span]:
        """The characters of a sentence that each of its tokens covers.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            pair: Source and target language.
        """
        part = self.as_read(part, sentence)
        replacements = self._replacements(part, sentence)
        if self._with_symbols is None or not replacements:
            _, spans = self.tokenizer.encode_with_offsets(part, pair[1], pair[0])
        else:
            spans = [(0, 0), *_part_offsets(self._with_symbols, part, replacements), (len(part), len(part))]
        # The form of address stands behind the language marker.
        return [*spans[:1], *[(0, 0)] * (len(sentence.token_ids) - len(spans)), *spans[1:]]

    def write(self, part: str, sentence: SourceSentence, token_ids: Sequence[int]) -> str:
        """The translation of a sentence.

        Args:
            part: The sentence.
            sentence: What :meth:`read` made of it.
            token_ids: The output of the model.
        """
        if sentence.protected:
            return self.write_with_offsets(part, sentence, token_ids).text
        answer = self.tokenizer.decode(token_ids)
        return in_capitals(answer) if sentence.in_capitals else answer

    def write_with_offsets(self, part: str, sentence: SourceSentence, token_ids: Sequence[int]) -> TargetSentence:
        """As :meth:`write`, with the characters that each token covers and the places of the protected spans."""

        def convert(run: TargetText) -> TargetText:
            if not sentence.in_capitals:
                return run
            return replace(run, text=in_capitals(run.text), tokens=tuple(spans_in_capitals(run.text, run.tokens)))

        if self._with_symbols is not None and sentence.protected:
            return put_back(self._with_symbols.decode_parts(token_ids), hold(part, sentence.protected), convert)
        answer, spans = self.tokenizer.decode_with_offsets(token_ids)
        run = convert(TargetText(answer, tuple(spans), begins_word=True))
        return TargetSentence(run.text, run.tokens)

    def _once_ids(self, number: int) -> tuple[int, ...]:
        if self._with_symbols is None or not number:
            return ()
        return tuple(self._with_symbols.symbol_id(placeholder(index)) for index in range(number))

    def _encode(
        self, part: str, sentence: SourceSentence, formality: Formality | None, pair: tuple[str, str]
    ) -> list[int]:
        part = self.as_read(part, sentence)
        replacements = self._replacements(part, sentence)
        if self._with_symbols is None or not (replacements or formality):
            return self.tokenizer.encode(part, pair[1], pair[0])
        parts = [one for one, _ in with_replacements(part, replacements)]
        token_ids = self._with_symbols.encode_parts(parts, pair[1])
        return self._with_symbols.tagged(token_ids, _FORMS[formality]) if formality else token_ids

    def _replacements(self, part: str, sentence: SourceSentence) -> list[Replacement]:
        """What stands in the model's input instead of characters of the sentence."""
        spans = [
            Replacement(start, end, (Symbol(placeholder(number)),))
            for number, (start, end) in enumerate(sentence.protected)
        ]
        if not self.capabilities.glossary:
            return spans
        terms = [Replacement(*term.span, term_parts(part[slice(*term.span)], term.target)) for term in sentence.terms]
        return spans + terms


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
