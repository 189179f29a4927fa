"""What the service answers, as dataclasses; docs/api.md of Verso and ``/docs`` of a service describe it in full.

A ``Span`` is a stretch of a text: its first character and the one after its last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int]
"""First character and the one after the last."""

Weights = tuple[tuple[tuple[tuple[float, ...], ...], ...], ...]
"""Attention weights: layer, head, attending position, attended position."""

Matrix = tuple[tuple[float, ...], ...]
"""A row for each position."""


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """A field of a request that was refused.

    Args:
        field: Its path: ``beam_size``, or ``text[2]`` for the third text.
        message: What is wrong and what would be right.
        value: The value sent, if it is short.
        bound: The bound it exceeds, if there is one.
    """

    field: str
    message: str
    value: Any = None
    bound: Any = None


@dataclass(frozen=True, slots=True)
class Problem:
    """An error, as RFC 9457 defines it.

    Args:
        title: The kind of problem, for people.
        status: The HTTP status.
        code: The kind of problem, for programs.
        detail: What happened this time, and what to do about it.
        errors: The fields that were refused.
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
    """A stretch of the source and the stretch of the translation it became.

    Args:
        source: In the text that was sent.
        target: In the translation.
        weight: How much of the attention this link carries, 0 to 1.
    """

    source: Span
    target: Span
    weight: float


@dataclass(frozen=True, slots=True)
class WordConfidence:
    """A word of a translation, and how sure the model is of it.

    Args:
        target: The word, in the translation.
        probability: 0 to 1.
    """

    target: Span
    probability: float


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure the model is of a translation.

    Args:
        score: 0 to 1.
        words: The words of the translation, in order.
        uncovered: Source words that the translation seems to leave out; None if the model cannot tell.
    """

    score: float
    words: tuple[WordConfidence, ...]
    uncovered: tuple[Span, ...] | None


@dataclass(frozen=True, slots=True)
class SpanUse:
    """A protected span.

    Args:
        source: In the text that was sent.
        target: In the translation, where the same characters stand.
        restored: Whether it was placed by alignment and not by the model.
    """

    source: Span
    target: Span
    restored: bool


@dataclass(frozen=True, slots=True)
class Integrity:
    """What became of the protected spans of a text.

    Args:
        status: ``intact``, or ``restored`` if any span was.
        spans: The spans, in the order of the source.
    """

    status: str
    spans: tuple[SpanUse, ...]


@dataclass(frozen=True, slots=True)
class TermUse:
    """A glossary term in a text.

    Args:
        source: In the text that was sent.
        target: In the translation; None if it does not hold the term.
        status: ``used``, ``replaced`` or ``missing``.
    """

    source: Span
    target: Span | None
    status: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One more token for a hypothesis, which a step of the search considered.

    Args:
        id: Its number, counted from 1 over all steps.
        parent: The ``id`` of the candidate that it continues; 0 for the beginning, which is ``target_prefix``.
        token: The token as the model has it.
        text: What it adds to the translation: the texts of a candidate and of those that it continues, behind
            ``target_prefix``, are the translation so far.
        log_prob: Sum of the log-probabilities of its hypothesis up to this token.
        kept: Whether the search went on with it, or it ended among the best.
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
    """What one step of the search considered.

    Args:
        step: Its number, from 0.
        hypotheses: The candidates, best first.
    """

    step: int
    hypotheses: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Translation:
    """The translation of one text.

    Args:
        text: The translation.
        source: Language translated from; ``zxx`` if it was to be detected and the text has no letters.
        target: Language translated to.
        finish_reason: ``stop``, or ``length`` if a sentence was cut at ``max_new_tokens``.
        score: None unless ``return_scores``.
        alternatives: Further hypotheses, with ``num_hypotheses``.
        alignment: None unless ``return_alignment``.
        model: The model that translated it; None if it needed no translation.
        detected: Its detected language, with ``source="auto"``.
        confidence: None unless ``return_confidence``.
        integrity: None if the text has no protected spans.
        glossary: None without ``glossary``.
        search: What each step of the search considered; None unless ``return_search``.
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


@dataclass(frozen=True, slots=True)
class FailedTranslation:
    """One text of several that could not be translated.

    Args:
        error: Why.
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
        total: Inside the service.
    """

    queue: float
    decode: float
    total: float


@dataclass(frozen=True, slots=True)
class Matrices:
    """The weights of one kind of attention; each row sums to 1.

    Args:
        layers: The layers given, in order of the first axis.
        heads: The heads given, in order of the second axis; if ``averaged``, those that were averaged into one.
        averaged: Whether the second axis holds only the mean of the heads.
        weights: Layer, head, attending position, attended position.
    """

    layers: tuple[int, ...]
    heads: tuple[int, ...]
    averaged: bool
    weights: Weights


@dataclass(frozen=True, slots=True)
class AttentionSteps:
    """How one head computes its weights, and what its sub-layer makes of them.

    Rows are the positions that attend: ``source_tokens`` of kind ``encoder``, else ``decoder_input_tokens``; rows of
    ``key`` and ``value``, and columns of ``scores``, ``masked`` and ``weights``, are those attended to. docs/api.md of
    Verso has the formulas.

    Args:
        kind: ``encoder``, ``decoder`` or ``cross``.
        layer: The layer, counted from 0.
        head: The head, counted from 0.
        embedding: Token embeddings, after scaling.
        position: What is added to them for their positions.
        input: What enters the attention sub-layer.
        query: The head's queries.
        key: The head's keys.
        value: The head's values.
        scores: Queries times keys, divided by the square root of a head's width.
        masked: ``scores`` with None where a position may not be attended to.
        weights: The softmax of each row of ``masked``.
        mixed: ``weights`` times ``value``.
        output: The output projection of all heads.
        residual: ``input`` plus ``output``, or plus ``normed_output``.
        result: What leaves the sub-layer.
        embedded: The sum of ``embedding`` and ``position`` after a norm; None if the model has none there.
        normed: ``input`` after the norm; None unless the model is pre-norm.
        normed_output: ``output`` after the norm; None unless the model is residual-post-norm.
        feed_forward: What the feed-forward block makes of ``result``; None for ``decoder``.
    """

    kind: str
    layer: int
    head: int
    embedding: Matrix
    position: Matrix
    input: Matrix
    query: Matrix
    key: Matrix
    value: Matrix
    scores: Matrix
    masked: tuple[tuple[float | None, ...], ...]
    weights: Matrix
    mixed: Matrix
    output: Matrix
    residual: Matrix
    result: Matrix
    embedded: Matrix | None = None
    normed: Matrix | None = None
    normed_output: Matrix | None = None
    feed_forward: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Attention:
    """The tokens of a sentence and of its translation, and how they attend to each other.

    Args:
        source_tokens: The source as the model reads it.
        target_tokens: The tokens chosen: the rows of ``decoder`` and ``cross``.
        decoder_input_tokens: The tokens a choice can attend to: the columns of ``decoder``.
        translation: The translation, or the ``target_text`` sent.
        model: The model that answered.
        detected: The detected language, with ``source="auto"``.
        encoder: Source to source; None unless asked for.
        decoder: Target to target; None unless asked for.
        cross: Target to source; None unless asked for.
        steps: The computation of one head; None unless asked for.
        search: What each step of the search considered; None unless ``return_search``.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    decoder_input_tokens: tuple[str, ...]
    translation: str
    model: str
    detected: Detected | None = None
    encoder: Matrices | None = None
    decoder: Matrices | None = None
    cross: Matrices | None = None
    steps: AttentionSteps | None = None
    search: tuple[SearchStep, ...] | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request to a model may ask for.

    Args:
        max_texts: Texts in one request.
        max_text_characters: Characters of one text.
        max_body_bytes: Bytes of one request body.
        max_beam_size: Largest ``beam_size``.
        max_hypotheses: Largest ``num_hypotheses``.
        deadline_s: Seconds after which a request is stopped.
        max_source_tokens: Tokens of one sentence that the model reads; longer sentences are split.
        max_target_tokens: Tokens of one sentence that the model writes.
    """

    max_texts: int
    max_text_characters: int
    max_body_bytes: int
    max_beam_size: int
    max_hypotheses: int
    deadline_s: float
    max_source_tokens: int
    max_target_tokens: int


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The options that a model supports beside the text.

    Args:
        placeholders: Number of placeholder symbols that it copies to where they belong.
        formality: Target languages for which it supports a form of address.
        glossary: Whether it supports terms and their translations.
    """

    placeholders: int
    formality: tuple[str, ...]
    glossary: bool


@dataclass(frozen=True, slots=True)
class Model:
    """A loaded model.

    Args:
        name: Its name.
        pairs: Source and target languages it translates between.
        languages: Languages that it translates between in every direction, besides ``pairs``.
        precision: How its weights are stored.
        device: Where it runs: ``cpu`` or ``cuda``.
        format_version: Version of the bundle's format.
        architecture: Its shape: layers, heads, widths, vocabulary.
        limits: What one request may ask for.
        capabilities: The options that it supports beside the text.
        decoding: Its defaults for what a request leaves open.
        licence: Licence of its weights.
        attribution: Sources to name.
        card: What it was trained on, and how good it is.
    """

    name: str
    pairs: tuple[tuple[str, str], ...]
    languages: tuple[str, ...]
    precision: str
    device: str
    format_version: int
    architecture: dict[str, Any]
    limits: Limits
    capabilities: Capabilities
    decoding: dict[str, Any]
    licence: str
    attribution: tuple[str, ...]
    card: dict[str, Any]


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
    """A document that is translated, or was.

    Args:
        id: Its id.
        status: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        filename: Its name, as it was uploaded.
        sentences: How much of it is translated.
        seconds_left: Estimated seconds until it is done; None if unknown.
        expires_at: When the service deletes it, as ISO 8601 writes it.
        untranslated: Sentences that could not be translated and stay as in the source.
        problem: Why it failed.
    """

    id: str
    status: str
    filename: str
    sentences: SentenceCounts
    seconds_left: float | None = None
    expires_at: str | None = None
    untranslated: int = 0
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
        source: Where it stands in its text.
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
        translation: All of it, as in an answer that is not streamed.
    """

    text: int
    translation: Translation


@dataclass(frozen=True, slots=True)
class TextError:
    """Event of a stream: a text cannot be translated; no further events of it follow.

    Args:
        text: Index of the text.
        error: Why.
    """

    text: int
    error: Problem


@dataclass(frozen=True, slots=True)
class Done:
    """Last event of a stream: every text is translated or has failed.

    Args:
        model: The model of the first text that was translated.
        usage: Tokens of the request.
        timings_ms: Where the time was spent.
        request_id: The id of the request.
    """

    model: str
    usage: Usage
    timings_ms: Timings
    request_id: str | None = field(default=None, compare=False)


StreamEvent = Sentence | TranslatedText | TextError | Done
"""An event of a stream."""
