"""The answers of the service as dataclasses; docs/api.md of Verso and ``/docs`` of a service describe them in full.

A ``Span`` is a part of a text: the index of its first character, and the index after its last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from verso_client.memories import MemoryCounts, MemoryUse

Span = tuple[int, int]
"""Index of the first character, and the index after the last."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """An invalid field of a request.

    Args:
        field: Its path: ``beam_size``, or ``text[2]`` for the third text.
        message: The error, and what is accepted.
        value: The value in the request, if it is short.
        bound: The bound that it exceeds, if any.
    """

    field: str
    message: str
    value: Any = None
    bound: Any = None


@dataclass(frozen=True, slots=True)
class Problem:
    """An RFC 9457 problem.

    Args:
        title: The kind of problem, for people.
        status: The HTTP status.
        code: The kind of problem, for programs.
        detail: What happened this time, and what to do about it.
        errors: The invalid fields.
    """

    title: str
    status: int
    code: str
    detail: str | None = None
    errors: tuple[FieldProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class Detected:
    """A detected language.

    Args:
        language: Its code.
        confidence: The confidence among the languages that the service has loaded, 0 to 1.
    """

    language: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """A hypothesis other than the best.

    Args:
        text: The translation.
        score: Its score; None unless ``return_scores``.
        finish_reason: ``stop`` or ``length``.
    """

    text: str
    score: float | None
    finish_reason: str


@dataclass(frozen=True, slots=True)
class AlignmentLink:
    """A part of the source and the corresponding part of the translation.

    Args:
        source: In the source text.
        target: In the translation.
        weight: The link's share of the attention, 0 to 1.
    """

    source: Span
    target: Span
    weight: float


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """A word of a translation and its probability.

    Args:
        target: The word, in the translation.
        probability: 0 to 1.
    """

    target: Span
    probability: float


@dataclass(frozen=True, slots=True)
class Confidence:
    """The model's confidence in a translation.

    Args:
        score: 0 to 1.
        words: The words of the translation, in order.
        uncovered: Source words that the translation seems to omit; None if the model does not support this.
    """

    score: float
    words: tuple[WordConfidence, ...]
    uncovered: tuple[Span, ...] | None


@dataclass(frozen=True, slots=True)
class SpanUse:
    """A protected span.

    Args:
        source: In the source text.
        target: In the translation, with the same characters.
        restored: Whether alignment placed it, instead of the model.
    """

    source: Span
    target: Span
    restored: bool


@dataclass(frozen=True, slots=True)
class NumberUse:
    """A number, date or time that the model did not write, or wrote in another form.

    Args:
        source: In the source text.
        target: In the translation.
        status: ``respelled`` if it replaces what the model wrote, ``protected`` if the model only placed it.
    """

    source: Span
    target: Span
    status: str


@dataclass(frozen=True, slots=True)
class Integrity:
    """The protected spans of a text in its translation, and its numbers that the model did not write.

    Args:
        status: ``intact``, or ``restored`` if any span was restored.
        spans: The spans, in the order of the source.
        numbers: Numbers, dates and times that the model did not write, or wrote in another form.
    """

    status: str
    spans: tuple[SpanUse, ...]
    numbers: tuple[NumberUse, ...] = ()


@dataclass(frozen=True, slots=True)
class TermUse:
    """A glossary term or word of the lexicon in a text.

    Args:
        source: In the source text.
        target: In the translation; None if it lacks the term.
        status: ``used``, ``replaced`` or ``missing``.
    """

    source: Span
    target: Span | None
    status: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A token that a step of the search considered as the next of a hypothesis.

    Args:
        id: Its number, counted from 1 over all steps.
        parent: The ``id`` of the candidate that it continues; 0 for the beginning, which is ``target_prefix``.
        token: The token as the model has it.
        text: The text that it adds: ``target_prefix``, the texts of its predecessors and its own are the translation so
            far.
        log_prob: Sum of the log-probabilities of its hypothesis up to this token.
        kept: Whether the search continued it, or it ended among the best.
        finished: Whether the translation ends with it.
    """

    id: int
    parent: int
    token: str
    text: str
    log_prob: float
    kept: bool
    finished: bool


@dataclass(frozen=True, slots=True)
class SearchStep:
    """A step of the search.

    Args:
        step: Its number, from 0.
        hypotheses: The candidates, best first.
    """

    step: int
    hypotheses: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Via:
    """The first of two legs of a translation.

    Args:
        language: The pivot language.
        model: The model that translated into it.
    """

    language: str
    model: str


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one text.

    Args:
        text: The translation.
        source: The source language; ``zxx`` if it was to be detected and the text has no letters.
        target: The target language.
        finish_reason: ``stop``, or ``length`` if a sentence was cut at ``max_new_tokens``.
        score: None unless ``return_scores``.
        alternatives: Further hypotheses, with ``num_hypotheses``.
        alignment: None unless ``return_alignment``.
        model: The model that wrote it; None if it needed no translation.
        detected: The detected language, with ``source="auto"``.
        confidence: None unless ``return_confidence``.
        integrity: None if the text has no protected spans.
        glossary: None without ``glossary``.
        lexicon: Rare words whose translations the model took from its lexicon.
        search: The steps of the search; None unless ``return_search``.
        untranslated: Sentences that stay in the source language, as no translation of them was sound.
        via: The first of two legs, if no model has the pair.
        memory: The sentences that the translation memories have; None without ``memory``.
    """

    text: str
    source: str
    target: str
    finish_reason: str
    score: float | None = None
    alternatives: tuple[Alternative, ...] = ()
    alignment: tuple[AlignmentLink, ...] | None = None
    model: str | None = None
    detected: Detected | None = None
    confidence: Confidence | None = None
    integrity: Integrity | None = None
    glossary: tuple[TermUse, ...] | None = None
    search: tuple[SearchStep, ...] | None = None
    untranslated: int = 0
    via: Via | None = None
    memory: tuple[MemoryUse, ...] | None = None
    lexicon: tuple[TermUse, ...] = ()


@dataclass(frozen=True, slots=True)
class FailedTranslation:
    """One text of several that could not be translated.

    Args:
        error: The reason.
    """

    error: Problem


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of a request.

    Args:
        source_tokens: Tokens of the texts.
        target_tokens: Tokens of the translations.
    """

    source_tokens: int
    target_tokens: int


@dataclass(frozen=True, slots=True)
class Timings:
    """Durations in milliseconds.

    Args:
        queue: Until the model started the first sentence.
        decode: In the model.
        total: In the service.
    """

    queue: float
    decode: float
    total: float


@dataclass(frozen=True, slots=True)
class SentenceCounts:
    """Sentences of a document.

    Args:
        done: Sentences that are translated.
        total: All of them; None until the document has been read.
    """

    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """A document and the state of its translation.

    Args:
        id: Its id.
        status: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        filename: Its name, as it was uploaded.
        sentences: Its progress.
        seconds_left: Estimated seconds until it is done; None if unknown.
        expires_at: When the service deletes it (ISO 8601).
        untranslated: Sentences that could not be translated and stay as in the source.
        memory: How many of its processed sentences the translation memories have; None without ``memory``.
        already_in: The target language, if the document was detected to be in it and came back unchanged.
        problem: The reason of its failure.
    """

    id: str
    status: str
    filename: str
    sentences: SentenceCounts
    seconds_left: float | None = None
    expires_at: str | None = None
    untranslated: int = 0
    memory: MemoryCounts | None = None
    already_in: str | None = None
    problem: Problem | None = None

    @property
    def is_finished(self) -> bool:
        """Whether its status no longer changes."""
        return self.status not in ("queued", "running")


@dataclass(frozen=True, slots=True)
class Sentence:
    """Event of a stream: a sentence is translated.

    Args:
        text: Index of its text.
        sentence: Index of the sentence in its text.
        source: Its position in the text.
        translation: Its translation.
        finish_reason: ``stop`` or ``length``.
    """

    text: int
    sentence: int
    source: Span
    translation: str
    finish_reason: str


@dataclass(frozen=True, slots=True)
class TranslatedText:
    """Event of a stream: a text is translated.

    Args:
        text: Index of the text.
        translation: The whole translation, as in an answer that is not streamed.
    """

    text: int
    translation: Translation


@dataclass(frozen=True, slots=True)
class TextError:
    """Event of a stream: a text cannot be translated; no further events of it follow.

    Args:
        text: Index of the text.
        error: The reason.
    """

    text: int
    error: Problem


@dataclass(frozen=True, slots=True)
class Done:
    """Last event of a stream: every text is translated or has failed.

    Args:
        model: The model of the first text that was translated.
        usage: Tokens of the request.
        timings_ms: Durations of the request.
        request_id: The id of the request.
    """

    model: str
    usage: Usage
    timings_ms: Timings
    request_id: str | None = field(default=None, compare=False)


StreamEvent = Sentence | TranslatedText | TextError | Done
"""An event of a stream."""
