"""The results of translation, for texts, documents and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from model.decoding.options import FinishReason, Hypothesis, Outcome
from model.text.symbols import Span
from model.translation.alignment import AlignmentLink
from model.translation.confidence import Confidence
from model.translation.memory import MemoryUse
from model.translation.quantities import NumberUse
from model.translation.search_trace import WrittenSearch
from model.translation.terms import TermUse

AnswerKey = tuple[int, int]
"""The index of a sentence in its text, and the rank of an answer: 0 for the best, k for the k-th alternative."""


@dataclass(frozen=True)
class SpanUse:
    """A protected span of a text, and its position in the translation.

    Args:
        source: Characters of the source text.
        target: Characters of the translation, equal to those of the source except for tags and character references in
            a span of a document.
        restored: Whether the model did not write it, so that its position follows from alignment.
    """

    source: Span
    target: Span
    restored: bool


@dataclass(frozen=True)
class Alternative:
    """An alternative translation of a text.

    Args:
        text: The translation.
        score: Its score, if scores were requested.
        finish_reason: As in :class:`Translation`.
    """

    text: str
    score: float | None
    finish_reason: FinishReason


@dataclass(frozen=True)
class Translation:
    """A translated text.

    Args:
        text: The translation, with the line breaks, indentation and blank lines of the source.
        source: Language of the source.
        target: Language of the translation.
        finish_reason: ``length`` if any sentence was cut at ``max_new_tokens``, else ``stop``.
        score: Mean of the sentences' scores, weighted by their tokens; None unless requested.
        alternatives: The k-th alternative joins the k-th hypotheses of the sentences.
        alignment: Links in the order of the translation; None unless requested.
        num_source_tokens: Number of tokens of all sentences, without markers.
        num_target_tokens: Number of tokens of the best hypotheses.
        confidence: How sure the model is of it; None unless requested.
        integrity: The protected spans of the text, in its order; None if it has none.
        glossary: The glossary terms in the text; None without a glossary.
        search: The candidates of the search for the translation of its only sentence; None unless requested.
        memory: The stored translations that were found for its sentences; None if no memory was searched.
        sentences: The characters of each sentence of the source and of its translation, in order; None unless
            requested, or if the position of a translation is unknown.
        num_sentences: Number of sentences that were decoded.
        num_untranslated: Number of sentences that stay as they are, as no translation of them was sound.
        num_unchanged: Number of sentences with words whose translation is the sentence as it was: these, and names.
        numbers: The numbers that the model did not write, or wrote in another form; none in two legs.
        lexicon: The words of the lexicon whose translations the model used; none in two legs.
    """

    text: str
    source: str
    target: str
    finish_reason: FinishReason
    score: float | None
    alternatives: tuple[Alternative, ...]
    alignment: tuple[AlignmentLink, ...] | None
    num_source_tokens: int
    num_target_tokens: int
    confidence: Confidence | None = None
    integrity: tuple[SpanUse, ...] | None = None
    glossary: tuple[TermUse, ...] | None = None
    search: WrittenSearch | None = None
    memory: tuple[MemoryUse, ...] | None = None
    sentences: tuple[tuple[Span, Span], ...] | None = None
    num_sentences: int = 0
    num_untranslated: int = 0
    num_unchanged: int = 0
    numbers: tuple[NumberUse, ...] = ()
    lexicon: tuple[TermUse, ...] = ()


@dataclass(eq=False)
class LastTranslation:
    """The last translation of a text that is translated again and again. Any thread may use it.

    Args:
        made_of: The answers to its sentences, each of them sound, and their translation; None at first.
    """

    made_of: tuple[Sequence[Hypothesis], Translation] | None = None

    def is_sound(self, index: int, answer: Outcome) -> bool:
        """Whether an answer is the same as the last one, which was sound.

        Args:
            index: The index of its sentence.
            answer: The answer.
        """
        made_of = self.made_of
        return made_of is not None and made_of[0][index] == answer

    def of(self, answers: Sequence[Hypothesis]) -> Translation | None:
        """The translation, if it was made of the same answers.

        Args:
            answers: One for each sentence.
        """
        if self.made_of is None:
            return None
        last, translation = self.made_of
        return translation if last == answers else None


@dataclass(frozen=True)
class AttendedSentence:
    """An answer whose attention weights are needed.

    Args:
        index: The index of the sentence in its text.
        rank: 0 for the best answer, k for the k-th alternative.
        source_ids: Its token ids, markers included.
        forced_ids: Tokens between the start token and the answer.
        answer_ids: Token ids of the answer, without the end token.
    """

    index: int
    rank: int
    source_ids: Sequence[int]
    forced_ids: Sequence[int]
    answer_ids: Sequence[int]

    @property
    def key(self) -> AnswerKey:
        """The key of its attention weights."""
        return self.index, self.rank


@dataclass(frozen=True)
class TranslatedSentence:
    """A sentence of a text and its translation.

    Args:
        source: Characters of the text.
        text: The translation, without the markup of a document.
        finish_reason: As in :class:`Translation`.
    """

    source: Span
    text: str
    finish_reason: FinishReason
