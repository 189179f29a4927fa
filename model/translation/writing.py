"""From the output of a model to the characters of a sentence's translation.

Protected spans replace the placeholders that the model wrote. Spans without one, unusual whitespace and glossary terms
that the model did not write are placed by alignment.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from model.languages import plain_code
from model.text.accelerators import place_of_accelerator
from model.text.case_folding import capitals_of_source, in_capitals, index_to_capitalise, spans_in_capitals
from model.text.glossary import spans_of_terms
from model.text.layout import dashes_of_source, has_hyphens
from model.text.placeholders import (
    Place,
    ProtectedSpan,
    TargetSentence,
    after_tokens,
    describe_spans,
    restore_spans,
    with_inserted,
    without_spans,
    written_places,
)
from model.text.protection import merge_spans
from model.text.punctuation import STYLES, Change, certain_changes
from model.text.symbols import Span, Symbol, TargetText, overlaps, placeholder
from model.text.tokenizer import Tokenizer, VersoTokenizer
from model.translation.alignment import counterpart, insertion_point
from model.translation.quantities import NUM_RESPELLINGS, agreement_of, double_stops, with_right_forms
from model.translation.reading import SourceSentence
from model.translation.terms import TermUse, find_uses, put_terms

if TYPE_CHECKING:
    from torch import Tensor

_HALF_OF_DAY = re.compile(r"\b[ap]\.m\.")
_APOSTROPHE = re.compile("['\u2019]")
_APOSTROPHE_IN_WORD = re.compile(r"(?<=\w)['\u2019](?=\w)")


class SentenceWriter:
    """Writes the translations of sentences from the output of one model.

    Args:
        tokenizer: The model's tokenizer.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def needs_attention(self, sentence: SourceSentence, token_ids: Sequence[int]) -> bool:
        """Whether attention weights are needed to put spans or terms into a translation.

        Args:
            sentence: A sentence.
            token_ids: The output of the model.
        """
        if sentence.stored_translation is not None:
            return False
        if sentence.spaces or (sentence.terms and self._lacks_a_term(sentence, token_ids)):
            return True
        if not sentence.protected:
            return False
        return len(sentence.required_ids) < len(sentence.protected) or not set(sentence.required_ids).issubset(
            token_ids
        )

    def write(self, sentence: SourceSentence, token_ids: Sequence[int]) -> str:
        """The translation of a sentence; spans that the model did not write are placed in proportion.

        Args:
            sentence: The sentence.
            token_ids: The output of the model.
        """
        if sentence.stored_translation is not None:
            return sentence.stored_translation
        is_plain = not (sentence.protected or sentence.spaces or sentence.prefix or sentence.apostrophe)
        if not is_plain or sentence.accelerator:
            return self.write_with_offsets(sentence, token_ids, None, []).text
        key = tuple(token_ids)
        if key in sentence.texts:
            return sentence.texts[key]
        answer = self.tokenizer.decode(token_ids)
        if sentence.in_capitals:
            answer = in_capitals(answer)
        else:
            first = index_to_capitalise(answer) if sentence.begins_sentence else None
            answer = answer if first is None else _with_capital(answer, first)
        for _ in range(NUM_RESPELLINGS):
            respellings = agreement_of(sentence, answer, ()).respellings
            if not respellings:
                break
            sentence.respelled.add(key)
            for item in reversed(respellings):
                answer = answer[: item.start] + item.text + answer[item.end :]
        for changes in _PASSES:
            for start, end, new in changes(sentence, answer, ()):
                answer = answer[:start] + new + answer[end:]
        sentence.texts[key] = answer
        return answer

    def write_with_terms(
        self, sentence: SourceSentence, token_ids: Sequence[int], rows: Tensor | None, source_spans: Sequence[Span]
    ) -> tuple[TargetSentence, list[TermUse]]:
        """As :meth:`write_with_offsets`; missing terms replace the words aligned with them.

        Args:
            sentence: The sentence.
            token_ids: The output of the model.
            rows: Attention weights, (target tokens, source tokens); None if they are not needed.
            source_spans: The characters of the sentence that each source token covers, if there are rows.
        """
        target = self.write_with_offsets(sentence, token_ids, rows, source_spans)
        terms = sentence.terms
        uses: list[TermUse] = []
        if sentence.in_capitals:
            terms = tuple(replace(term, target=in_capitals(term.target)) for term in terms)
        if terms and rows is not None:
            num_given = len(sentence.prefix.text) if sentence.prefix else 0
            target, uses = put_terms(terms, target, rows, source_spans, num_given)
        elif terms:
            uses = find_uses(terms, target)
        for term in sentence.fixed_terms:
            uses.append(TermUse(term.span, target.spans[sentence.protected.index(term.span)], "used"))
        return target, sorted(uses, key=lambda use: use.source) if sentence.fixed_terms else uses

    def write_with_offsets(
        self, sentence: SourceSentence, token_ids: Sequence[int], rows: Tensor | None, source_spans: Sequence[Span]
    ) -> TargetSentence:
        """As :meth:`write`, with the characters that each token covers and the positions of the protected spans.

        Args:
            sentence: The sentence.
            token_ids: The output of the model.
            rows: Attention weights, (target tokens, source tokens), if :meth:`needs_attention`.
            source_spans: The characters of the sentence that each source token covers, if there are rows.
        """
        if sentence.stored_translation is not None:
            return TargetSentence(sentence.stored_translation, ())
        key = tuple(token_ids)
        if rows is None and key in sentence.targets:
            return sentence.targets[key]
        parts = self._with_missing(sentence, token_ids, rows, source_spans)
        translation = _restored(parts, sentence, len(sentence.protected))
        if sentence.begins_sentence and not sentence.prefix:
            first = index_to_capitalise(translation.text, translation.spans)
            if first is not None:
                translation = replace(translation, text=_with_capital(translation.text, first))
        num_given = len(sentence.prefix.text) if sentence.prefix else 0
        translation = with_right_forms(sentence, translation, num_given)
        for changes in _PASSES:
            for start, end, new in changes(sentence, translation.text, sorted(translation.spans)):
                if start >= num_given:
                    translation = translation.with_replaced(start, end, new)
        if sentence.apostrophe:
            translation = _with_escapes(translation, sentence, num_given)
        translation = _with_accelerator(translation, sentence)
        if translation.respelled:
            sentence.respelled.add(key)
        if rows is None:
            sentence.targets[key] = translation
        return translation

    def write_beginning(self, sentence: SourceSentence, token_ids: Sequence[int]) -> str:
        """The text of the first tokens of a translation, to be compared with that of one more token.

        Nothing is placed by alignment, and a prefix may appear as the model would write it.

        Args:
            sentence: The sentence.
            token_ids: The first tokens of the output, those of its prefix included.
        """
        if sentence.protected or sentence.spaces:
            parts = after_tokens(self.parts(sentence, token_ids), len(sentence.prefix_ids))
            text = _restored(parts, sentence, 0).text
        else:
            text = self.tokenizer.decode(token_ids)  # a search has thousands of these
            text = in_capitals(text) if sentence.in_capitals else text
        return text.rstrip("\ufffd")  # an incomplete character

    def parts(self, sentence: SourceSentence, token_ids: Sequence[int]) -> list[Place | TargetText]:
        """The texts and placeholders that a model wrote.

        Args:
            sentence: The sentence.
            token_ids: The output of the model, or its first tokens.
        """
        if sentence.required_ids and isinstance(self.tokenizer, VersoTokenizer):
            numbers = {placeholder(number): number for number in range(len(sentence.required_ids))}
            return [
                Place(numbers[part.name], written=True) if isinstance(part, Symbol) else part
                for part in self.tokenizer.decode_parts(token_ids)
            ]
        if not token_ids:
            return []
        answer, spans = self.tokenizer.decode_with_offsets(token_ids)
        return [TargetText(answer, tuple(spans), begins_word=True)]

    def _lacks_a_term(self, sentence: SourceSentence, token_ids: Sequence[int]) -> bool:
        terms = (term.target for term in sentence.terms)
        return None in spans_of_terms(self.tokenizer.decode(token_ids), terms)

    def _with_missing(
        self, sentence: SourceSentence, token_ids: Sequence[int], rows: Tensor | None, source_spans: Sequence[Span]
    ) -> list[Place | TargetText]:
        """The output after the prefix, with other protected spans and whitespace placed by alignment."""
        num_given = len(sentence.prefix_ids)
        spans = [*sentence.protected, *sentence.spaces]
        parts = self.parts(sentence, token_ids)
        written = dict(written_places(parts))
        parts = after_tokens(parts, num_given)
        missing = set(range(len(spans))).difference(written.values(), sentence.prefix.spans if sentence.prefix else ())
        if not missing:
            return parts
        answer, target_spans = self.tokenizer.decode_with_offsets(token_ids)
        anchors = {token: spans[number][0] for token, number in written.items()}
        around = {} if rows is None else _around_words(sentence, missing, rows, source_spans, answer, target_spans)
        places = [(max(token - num_given, 0), number) for number, token in around.items()]
        for number in missing.difference(around):
            is_space = number >= len(sentence.protected)
            first = 0 if is_space else num_given
            token = insertion_point(
                rows, sentence.text, source_spans, answer, target_spans, spans[number][0], anchors, first
            )
            # Whitespace at the ends of a translation is not inside it, and a prefix has its own.
            if not is_space or max(num_given, 1) <= token < len(target_spans):
                places.append((token - num_given, number))
        return with_inserted(parts, sorted(places))


def _around_words(
    sentence: SourceSentence,
    missing: Set[int],
    rows: Tensor,
    source_spans: Sequence[Span],
    answer: str,
    target_spans: Sequence[Span],
) -> dict[int, int]:
    """The target tokens that missing pairs precede, by number of the span.

    A pair around a few words stands around those that are aligned with them.
    """
    numbers = {sentence.protected[number]: number for number in missing if number < len(sentence.protected)}
    places: dict[int, int] = {}
    for (start, first), (last, end) in sentence.pairs if numbers else ():
        ends = numbers.get((start, first)), numbers.get((last, end))
        words = counterpart(rows, source_spans, target_spans, answer, (first, last)) if None not in ends else None
        for number, index in zip(ends, words or (), strict=False):
            if number is not None:
                places[number] = sum(token < index for token, _ in target_spans)
    return places


def _with_capital(text: str, index: int) -> str:
    """A text with a capital at an index."""
    return text[:index] + text[index].upper() + text[index + 1 :]


def _restored(parts: Sequence[Place | TargetText], sentence: SourceSentence, num_protected: int) -> TargetSentence:
    """A translation from its parts after the prefix, in capitals if the sentence is, with spans restored.

    Args:
        parts: Texts, and places of spans.
        sentence: The sentence.
        num_protected: Number of protected spans, counted from the first, whose positions are returned.
    """
    if sentence.in_capitals:
        parts = [_in_capitals(part) if isinstance(part, TargetText) else part for part in parts]
    spaces = [ProtectedSpan(sentence.text[slice(*space)]) for space in sentence.spaces]
    protected = describe_spans(sentence.text, sentence.protected)
    if style := STYLES.get(sentence.pair):  # a quotation mark that is placed by alignment
        protected = [
            replace(span, text=span.text.translate(style)) if len(span.text) == 1 else span for span in protected
        ]
    forms = {**sentence.numbers, **{term.span: term.target for term in sentence.fixed_terms}}
    if forms:
        described = zip(sentence.protected, protected, strict=True)
        protected = [replace(item, text=forms.get(span, item.text)) for span, item in described]
    spans = [*protected, *spaces]
    return restore_spans(parts, spans, num_protected, sentence.prefix)


def _in_capitals(run: TargetText) -> TargetText:
    return replace(run, text=in_capitals(run.text), tokens=tuple(spans_in_capitals(run.text, run.tokens)))


def _with_accelerator(translation: TargetSentence, sentence: SourceSentence) -> TargetSentence:
    """A translation with the sign of its accelerator before a letter."""
    if sentence.accelerator is None:
        return translation
    start, end = sentence.accelerator
    place = place_of_accelerator(sentence.text[end], translation.text, translation.spans)
    return translation if place is None else translation.with_replaced(place, place, sentence.text[start:end])


def _punctuated(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> list[Change]:
    """The changes of a translation's punctuation that leave no doubt, from right to left."""
    if not sentence.is_punctuated:
        return []
    source, target = map(plain_code, sentence.pair)
    if ".m." in text and target == "en":
        spans = merge_spans(spans, [match.span() for match in _HALF_OF_DAY.finditer(text)])
    return certain_changes(sentence.text, sentence.kept, text, spans, (source, target))


def _hyphenated(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> list[Change]:
    """The changes of a translation's dashes between spaces to those of the sentence, from right to left."""
    if not has_hyphens(sentence.text):
        return []
    return [(start, end, sign) for (start, end), sign in reversed(dashes_of_source(sentence.text, text))]


def _with_capital_x(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> list[Change]:
    """The changes of words that differ from one of the sentence in X and x only: models rarely see the capital."""
    if "X" not in sentence.text or sentence.in_capitals:
        return []
    words = capitals_of_source(sentence.text, text)
    return [(*span, word) for span, word in reversed(words) if not overlaps(span, spans)]


_PASSES = (_punctuated, _hyphenated, _with_capital_x, double_stops)


def _with_escapes(translation: TargetSentence, sentence: SourceSentence, num_given: int) -> TargetSentence:
    """A translation with the apostrophes that the model wrote escaped as in the source.

    If the source also has bare ones, which are quotation marks, only those between letters are escaped.
    """
    bare = "'" in without_spans(sentence.text, sentence.kept)
    spans = sorted(translation.spans)
    for match in reversed(list((_APOSTROPHE_IN_WORD if bare else _APOSTROPHE).finditer(translation.text, num_given))):
        if not overlaps(match.span(), spans):
            translation = translation.with_replaced(*match.span(), sentence.apostrophe)
    return translation
