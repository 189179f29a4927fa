"""The verification of a written sentence: what its translation must have in common with it.

Each sentence is verified as it will be delivered, after the changes that leave no doubt. What is wrong is decoded again
by the :class:`model.translation.plan.Plan`; a sentence for which nothing holds stays in its language.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from model.decoding.options import Hypothesis
from model.decoding.repetition_guard import is_empty, is_suspect, loops
from model.languages import plain_code
from model.text.address import is_formal, is_informal
from model.text.layout import lost_hyphens
from model.text.numbers import find_numbers, wrong_numbers
from model.text.protection import merge_spans
from model.text.punctuation import wrong_signs
from model.text.symbols import Span, overlaps
from model.translation.quantities import agreement_of
from model.translation.reading import SentenceReader, SourceSentence
from model.translation.writing import SentenceWriter

_WORDS = re.compile(r"[^\W\d_]{3,}")
_LONG = 4
_ARTICLE = re.compile(r"(?<!\w)(?:the|an?|this|d(?:as|er|ie|e[nmrs])|eine?[nmrs]?)\Z", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]*[a-zäöüß]{2}")


@dataclass(frozen=True)
class Findings:
    """What is wrong with the translation of a sentence. Spans are characters of the sentence.

    Args:
        numbers: Numbers that the translation lacks, or does not have as often or as a whole.
        signs: Quotation marks, brackets and hyphens between spaces that it lacks.
        loose: Protected spans that it has at a wrong place, and signs around words that it does not translate.
        has_stray: Whether it has quotation marks or brackets that the sentence does not have.
        loops: Whether it is a repetition loop, or empty.
        is_unchanged: Whether it is the sentence as it was, although that has words. Names are, too.
        is_cut: Whether it was cut before all its placeholders.
        has_other_form: Whether it has another form of address than the requested one.
    """

    numbers: tuple[Span, ...] = ()
    signs: tuple[Span, ...] = ()
    loose: tuple[Span, ...] = ()
    has_stray: bool = False
    loops: bool = False
    is_unchanged: bool = False
    is_cut: bool = False
    has_other_form: bool = False

    @property
    def severity(self) -> int:
        """0 if the translation is sound; it grows with the harm to the reader. An unchanged sentence may be a name."""
        if self.is_broken:
            return 5 if self.is_cut else 4 if self.loops else 3
        return 2 if self.signs or self.has_stray else 1 if self.loose or self.has_other_form else 0

    @property
    def is_broken(self) -> bool:
        """Whether the sentence as it was is better than the translation."""
        return self.is_cut or self.loops or bool(self.numbers)


SOUND = Findings()


class Verifier:
    """Verifies the translations of one model.

    Args:
        reader: Encodes its sentences. Numbers and signs are verified if the model has placeholders, which protect them
            in a further decoding.
        writer: Writes its translations.
        retry_loops: Whether repetition loops and empty translations are found.

    Attributes:
        writer: The writer.
    """

    def __init__(self, reader: SentenceReader, writer: SentenceWriter, *, retry_loops: bool) -> None:
        self._tokenizer = reader.tokenizer
        self.writer = writer
        self._has_placeholders = reader.capabilities.placeholders > 0
        self._retry_loops = retry_loops

    def verify(
        self, sentence: SourceSentence, hypothesis: Hypothesis, *, may_loop: bool = False, may_lack: bool = False
    ) -> Findings:
        """What is wrong with a translation.

        Args:
            sentence: The sentence.
            hypothesis: The output of the model. One that is cut may lack what would have followed.
            may_loop: Whether loops are allowed: the caller has chosen a guard.
            may_lack: Whether only loops are searched.
        """
        token_ids = hypothesis.token_ids
        if self._retry_loops and not may_loop and self._is_loop(sentence, token_ids):
            return Findings(loops=True)
        is_verified = self._has_placeholders and sentence.is_verified and not may_lack
        if not is_verified or hypothesis.finish_reason == "length":
            return SOUND
        spans: Sequence[Span] = ()
        misplaced: Sequence[Span] = ()
        if sentence.protected:
            target = self.writer.write_with_offsets(sentence, token_ids, None, [])
            text, spans = target.text, sorted(target.spans)
            misplaced = list(_misplaced(sentence, text, target.spans)) if sentence.required_ids else ()
        else:
            text = self.writer.write(sentence, token_ids)
        kept = sentence.kept
        numbers: Sequence[Span] = ()
        read = merge_spans(kept, [term.span for term in sentence.terms]) if sentence.terms else kept
        if source_numbers := find_numbers(sentence.text, read):
            agreement = agreement_of(sentence, text, spans)
            if agreement.sources:
                source_numbers = [span for span in source_numbers if not overlaps(span, agreement.sources)]
            written = find_numbers(text, merge_spans(spans, agreement.targets) if agreement.targets else spans)
            language = plain_code(sentence.pair[0])
            numbers = wrong_numbers(sentence.text, source_numbers, text, written, language)
            numbers = merge_spans(numbers, agreement.lost) if agreement.lost else numbers
        signs, has_stray = wrong_signs(sentence.text, kept, text, spans) if sentence.is_punctuated else ((), False)
        hyphens = [hyphen for hyphen in lost_hyphens(sentence.text, text) if not overlaps(hyphen, kept)]
        around = _around_untranslated(sentence, text) if sentence.is_punctuated else []
        signs = sorted([*signs, *hyphens]) if hyphens else signs
        loose = sorted({*around, *misplaced})
        is_unchanged = text == sentence.text and _WORD.search(sentence.plain_text) is not None
        other_form = _has_other_form(sentence, text)
        if not (numbers or signs or loose or has_stray or is_unchanged or other_form):
            return SOUND
        return Findings(
            tuple(numbers),
            tuple(signs),
            tuple(loose),
            has_stray,
            is_unchanged=is_unchanged,
            has_other_form=other_form,
        )

    def _is_loop(self, sentence: SourceSentence, token_ids: Sequence[int]) -> bool:
        if not is_suspect(token_ids):
            return False
        # Protected spans do not count as a translation of the words around them.
        answer, source = self._tokenizer.decode(token_ids), sentence.plain_text
        return loops(answer, source) or is_empty(answer, source)


def _misplaced(sentence: SourceSentence, text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """The spans that a translation tears from their words: a letter and a note after a word, a tag before one."""
    for (start, end), (first, last) in zip(sentence.protected, spans, strict=True):
        if end - start == 1 and sentence.text[start].isalpha():
            is_torn = sentence.text[:start].strip() and not any(map(str.isalnum, text[:first]))
        elif sentence.text[end : end + 1].isalpha():
            is_torn = text[last : last + 1] in tuple(",;.:!?")
        else:
            follows = start > 0 and sentence.text[start - 1].isalpha() and not _ARTICLE.search(sentence.text, 0, start)
            is_torn = follows and _ARTICLE.search(text, max(0, first - 8), first) is not None
        if is_torn:
            yield start, end


def _has_other_form(sentence: SourceSentence, text: str) -> bool:
    """Whether a translation addresses its reader otherwise than the caller requests: Please wait, Bitte warten Sie."""
    if sentence.formality is None or plain_code(sentence.pair[1]) != "de":
        return False
    return is_informal(text) if sentence.formality == "formal" else is_formal(text, sentence.text)


def _around_untranslated(sentence: SourceSentence, text: str) -> list[Span]:
    """The pairs around words of which a translation has some as they were. Names in quotation marks stay as a whole."""
    around: list[Span] = []
    for first, last in sentence.pairs:
        words = _WORDS.findall(sentence.text, first[1], last[0])
        others = _WORDS.findall(text) if words else ()
        same = sum(word in others for word in words)
        if same and (same < len(words) or words[0].islower()) and len(words) < _LONG:
            around += (first, last)
    return around
