"""The numbers, dates and times of a sentence in its translation (:mod:`model.text.quantities`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from model.languages import plain_code
from model.text.placeholders import TargetSentence
from model.text.protection import merge_spans
from model.text.quantities.agreement import NO_QUANTITIES, Agreement, before_form, find_agreement, has_names
from model.text.quantities.reading import position_of, read_quantities
from model.text.symbols import Span, shifted
from model.translation.reading import SourceSentence

NUM_RESPELLINGS = 2
"""How often a translation is read: the end of a range may decide how its beginning is read."""
_DOUBLE_STOP = re.compile(r"(?<=\b[ap]\.m\.)\.(?!\.)")
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class NumberUse:
    """A number, date or time of a text that the model did not write, or wrote in another form.

    Args:
        source: Characters of the source text.
        target: Characters of the translation.
        status: ``respelled`` if it replaces what the model wrote, ``protected`` if the model placed it.
    """

    source: Span
    target: Span
    status: Literal["respelled", "protected"]


def agreement_of(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> Agreement:
    """The quantities of a sentence and of its translation; none if they are not to be changed.

    Args:
        sentence: The sentence.
        text: Its translation.
        spans: The positions of its protected spans in it, in order.
    """
    if not _DIGIT.search(sentence.text) or not sentence.is_punctuated or sentence.in_capitals or sentence.is_kept:
        return NO_QUANTITIES
    languages = plain_code(sentence.pair[0]), plain_code(sentence.pair[1])
    if not has_names(*languages):
        return NO_QUANTITIES
    kept: Sequence[Span] = sentence.protected
    if sentence.terms:
        kept = merge_spans(kept, [term.span for term in sentence.terms])
    escapes = [(start, end) for start, end, _ in sentence.edits if _DIGIT.search(sentence.text, start, end)]
    if escapes:
        kept = merge_spans(kept, escapes)
    return find_agreement(sentence.text, tuple(kept), text, tuple(spans), languages)


def with_right_forms(sentence: SourceSentence, target: TargetSentence, num_given: int) -> TargetSentence:
    """A translation whose numbers, dates and times are spelled as its language spells them.

    Args:
        sentence: The sentence.
        target: Its translation.
        num_given: Characters at its beginning that do not change.
    """
    for _ in range(NUM_RESPELLINGS):
        respellings = agreement_of(sentence, target.text, sorted(target.spans)).respellings
        if not respellings:
            break
        for item in reversed(respellings):
            if item.start >= num_given:
                target = target.with_respelled(item.source, (item.start, item.end), item.text)
    return _with_words_before(sentence, target, num_given) if sentence.numbers else target


def _with_words_before(sentence: SourceSentence, target: TargetSentence, num_given: int) -> TargetSentence:
    """A translation with the words that its protected dates and times need before them: am 9. August."""
    languages = plain_code(sentence.pair[0]), plain_code(sentence.pair[1])
    if not has_names(*languages) or sentence.in_capitals:
        return target
    for number, span in enumerate(sentence.protected):
        if span not in sentence.numbers:
            continue
        quantity = position_of(read_quantities(sentence.text, languages[0]), span)
        if quantity is not None:
            start, form = target.spans[number][0], sentence.numbers[span]
            begin, before = before_form(target.text, start, form, quantity.kind, languages[1])
            if num_given <= begin < start:
                target = target.with_replaced(begin, start, before)
    return target


def double_stops(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> list[tuple[int, int, str]]:
    """The changes of an English translation that remove a full stop behind ``p.m.``, from right to left.

    Args:
        sentence: The sentence.
        text: Its translation.
        spans: The positions of its protected spans in it, in order.
    """
    if ".m.." not in text or plain_code(sentence.pair[1]) != "en":
        return []
    return [(match.start(), match.end(), "") for match in reversed(list(_DOUBLE_STOP.finditer(text)))]


def number_uses(sentence: SourceSentence, target: TargetSentence, target_start: int) -> Iterator[NumberUse]:
    """The numbers that the model did not write or wrote in another form, in characters of the texts.

    Args:
        sentence: The sentence.
        target: Its translation.
        target_start: Index of its first character in the translated text.
    """
    for source, written in target.respelled:
        yield NumberUse(shifted(source, sentence.start), shifted(written, target_start), "respelled")
    for source, written in zip(sentence.protected, target.spans, strict=True):
        if source in sentence.numbers:
            yield NumberUse(shifted(source, sentence.start), shifted(written, target_start), "protected")
