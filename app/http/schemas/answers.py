"""Response bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from app.http.schemas.problems import ProblemBody
from model.network.heads import AttentionKind

if TYPE_CHECKING:
    from model.translation.search_trace import WrittenSearch


def _is_none(value: object) -> bool:
    return value is None


class _AnswerBody(BaseModel):
    """The base of answers; the bodies inside an answer are read from the attributes of the objects they describe."""

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True, use_attribute_docstrings=True)


class AlignmentLinkBody(_AnswerBody):
    """A stretch of the source and the stretch of the translation it became."""

    source: tuple[int, int]
    """First character and the one after the last, in the text that was sent."""

    target: tuple[int, int]
    """First character and the one after the last, in the translation."""

    weight: float
    """How much of the attention this link carries, 0 to 1."""


class SpanUseBody(_AnswerBody):
    """A protected span and its place in the translation."""

    source: tuple[int, int]
    """First character of the span and the one after its last, in the text that was sent."""

    target: tuple[int, int]
    """The same in the translation, where the same characters stand."""

    restored: bool
    """Whether the model did not place it itself, so that its place was found by alignment."""


class IntegrityBody(_AnswerBody):
    """What became of the protected spans of a text."""

    status: Literal["intact", "restored"]
    """`restored` if any span was."""

    spans: list[SpanUseBody]
    """The protected spans, in the order of the source. Each is in the translation exactly once."""


class TermUseBody(_AnswerBody):
    """A glossary term in a text, and in its translation."""

    source: tuple[int, int]
    """First character of the term and the one after its last, in the text that was sent."""

    target: tuple[int, int] | None
    """The same in the translation; null if it does not hold the term."""

    status: Literal["used", "replaced", "missing"]
    """`used` if the model wrote the term in some inflection, `replaced` if the term replaced what the model wrote,
    `missing` if the translation does not hold it."""


class AlternativeBody(_AnswerBody):
    """A hypothesis other than the best."""

    text: str
    """The translation."""

    score: float | None
    """Its score; null unless `return_scores`."""

    finish_reason: Literal["stop", "length"]
    """As for the best one."""


class WordConfidenceBody(_AnswerBody):
    """A word of a translation, and how sure the model is of it."""

    target: tuple[int, int]
    """First character and the one after the last, in the translation; punctuation at the word belongs to it."""

    probability: float
    """The product of the probabilities of its tokens, each given the source and what stands before, 0 to 1."""


class ConfidenceBody(_AnswerBody):
    """How sure the model is of a translation."""

    score: float
    """0 to 1. Of a calibrated model (`card.confidence.calibrated` in `/models`): the share of translations with this
    number that are adequate. Else the geometric mean of the tokens' probabilities. Of several sentences the mean,
    weighted by their tokens; 1 where nothing was translated."""

    words: list[WordConfidenceBody]
    """The words of the translation, in order; words are separated by whitespace."""

    uncovered: list[tuple[int, int]] | None
    """Source words that the translation seems to leave out, as first character and the one after the last; null if the
    model cannot tell, because it does not translate in both directions."""


class DetectedBody(_AnswerBody):
    """The detected language of a text."""

    language: str
    """Its code, as in `source`."""

    confidence: float
    """The confidence among the languages loaded, 0 to 1."""


class CandidateBody(_AnswerBody):
    """One more token for a hypothesis, which a step of the search considered."""

    id: int
    """Its number, counted from 1 over all steps."""

    parent: int
    """The `id` of the candidate that it continues; 0 for the beginning, which is `target_prefix`."""

    token: str
    """The token, as `target_tokens` of `/attention` has it."""

    text: str
    """What it adds to the sentence; a space stands before a word that is not the first. The texts of a candidate and
    of those that it continues, behind `target_prefix`, are the translation so far. Empty for the end of the sentence,
    and for a token that is only a part of a character."""

    log_prob: float
    """Sum of the log-probabilities of its hypothesis up to this token; `target_prefix` counts 0."""

    kept: bool
    """Whether the search went on with it, or it ended among the best; false if it was dropped."""

    finished: bool
    """Whether the translation ends with it."""


class SearchStepBody(_AnswerBody):
    """What one step of the search considered."""

    step: int
    """Its number, from 0."""

    hypotheses: list[CandidateBody]
    """The candidates, best first; greedy search considers one."""


def search_body(search: WrittenSearch | None) -> list[SearchStepBody] | None:
    """The candidates of a search as JSON has them."""
    if search is None:
        return None
    return [
        SearchStepBody.model_validate({"step": number, "hypotheses": candidates})
        for number, candidates in enumerate(search)
    ]


class TranslationBody(_AnswerBody):
    """The translation of one text."""

    text: str
    """The translation; everything between its sentences is unchanged."""

    source: str
    """Language translated from; `zxx` if it was to be detected and the text has no letters."""

    target: str
    """Language translated to."""

    finish_reason: Literal["stop", "length"]
    """`stop` if the model ended every sentence, `length` if one was cut at `max_new_tokens`."""

    score: float | None
    """Mean log-probability (at `length_penalty` 1) over the text's sentences; null unless `return_scores`."""

    alternatives: list[AlternativeBody]
    """The second best and following hypotheses, as many as asked for."""

    alignment: list[AlignmentLinkBody] | None
    """Links between characters; null unless `return_alignment`."""

    model: str | None
    """The model that translated it; null if `source` was `auto` and the text needed no translation: it has no
    letters, or is in the target language already."""

    detected: DetectedBody | None
    """Its detected language; null unless `source` was `auto`, and for a text without letters."""

    confidence: ConfidenceBody | None = Field(default=None, exclude_if=_is_none)
    """How sure the model is; absent unless `return_confidence`."""

    integrity: IntegrityBody | None = Field(default=None, exclude_if=_is_none)
    """What became of the protected spans; absent if the text has none."""

    glossary: list[TermUseBody] | None = Field(default=None, exclude_if=_is_none)
    """What became of the terms of the glossary that the text holds; absent without `glossary`."""

    search: list[SearchStepBody] | None = Field(default=None, exclude_if=_is_none)
    """What each step of the search considered; absent unless `return_search`."""


class FailedTranslationBody(_AnswerBody):
    """One text that could not be translated, while the others of its request were."""

    error: ProblemBody
    """Why this text could not be translated."""


class UsageBody(_AnswerBody):
    """Tokens of the request."""

    source_tokens: int
    """Tokens of the texts."""

    target_tokens: int
    """Tokens of the translations."""


class TimingsBody(_AnswerBody):
    """Durations in milliseconds."""

    queue: float
    """Until the model started the first sentence."""

    decode: float
    """In the model."""

    total: float
    """Inside the service, in total."""


class TranslateResponse(_AnswerBody):
    """The translations, in the order of the texts."""

    translations: list[TranslationBody | FailedTranslationBody]
    """One entry for each text."""

    model: str
    """The model of the first text that was translated; each entry names its own."""

    usage: UsageBody
    """Tokens of the texts and translations."""

    timings_ms: TimingsBody
    """Where the time was spent."""


class SentenceEvent(_AnswerBody):
    """A finished sentence of a streamed answer; those of a text come in its order."""

    text: int
    """The index of its text."""

    sentence: int
    """Its index among the sentences of the text."""

    source: tuple[int, int]
    """First character of the sentence and the one after its last, in the text that was sent."""

    translation: str
    """Its translation. What stands between sentences comes back as it was; of a document only the text is here."""

    finish_reason: Literal["stop", "length"]
    """`length` if it was cut at `max_new_tokens`."""


class TranslationEvent(_AnswerBody):
    """A finished text of a streamed answer."""

    text: int
    """Its index."""

    translation: TranslationBody
    """Its entry, as in an answer that is not streamed."""


class ErrorEvent(ProblemBody):
    """A text of a streamed answer that failed; without `text`, the request, and no event follows."""

    text: int | None = Field(None, exclude_if=_is_none)
    """The index of the text."""


class DoneEvent(_AnswerBody):
    """The end of a streamed answer."""

    model: str
    """The model of the first text that was translated."""

    usage: UsageBody
    """Tokens of the texts and translations."""

    timings_ms: TimingsBody
    """Where the time was spent."""


class AttentionMatrices(_AnswerBody):
    """The weights of one kind of attention; each row sums to 1."""

    layers: list[int]
    """The layers given, in order of the first axis."""

    heads: list[int]
    """The heads given, in order of the second axis; if `averaged`, those that were averaged into one."""

    averaged: bool
    """Whether the second axis holds only the mean of the heads."""

    weights: list[list[list[list[float]]]]
    """Layer, head, attending position, attended position."""


Matrix = list[list[float]]
"""Rows of positions."""


class AttentionStepsBody(_AnswerBody):
    """How one head computes its weights, and what its sub-layer makes of them: the running model's numbers.

    T positions attend: `source_tokens` if `kind` is `encoder`, else `decoder_input_tokens`. S positions are attended
    to: the columns of the weights. Vectors are C wide, within a head D.
    """

    kind: AttentionKind
    """Which attention."""

    layer: int
    """The layer, counted from 0."""

    head: int
    """The head, counted from 0."""

    embedding: Matrix
    """Embeddings of the tokens as the model uses them, after scaling, T x C."""

    position: Matrix
    """What is added to them for their positions, T x C."""

    embedded: Matrix | None = None
    """Their sum after a norm, T x C; absent unless the model has that norm."""

    input: Matrix
    """What enters the attention sub-layer, T x C: in layer 0, except of `cross`, the sum of `embedding` and `position`,
    or `embedded`."""

    normed: Matrix | None = None
    """`input` after the norm, T x C; only of models with the norm before the sub-layer (pre-norm)."""

    query: Matrix
    """The head's queries, T x D."""

    key: Matrix
    """The head's keys, S x D."""

    value: Matrix
    """The head's values, S x D."""

    scores: Matrix
    """`query` times `key` transposed, divided by the square root of D, T x S."""

    masked: list[list[float | None]]
    """`scores` with null where a position may not be attended to, T x S; in npz, minus infinity."""

    weights: Matrix
    """The softmax of each row of `masked`, T x S: the weights of this layer and head."""

    mixed: Matrix
    """`weights` times `value`, T x D."""

    output: Matrix
    """The output projection of `mixed` of all heads, side by side, T x C."""

    normed_output: Matrix | None = None
    """`output` after the norm, T x C; only of models with the norm before the sum (residual-post-norm)."""

    residual: Matrix
    """`input` + `output` (or `normed_output`), T x C."""

    result: Matrix
    """What leaves the sub-layer, T x C: `residual`; with the norm after the sum (post-norm), after that norm."""

    feed_forward: Matrix | None = None
    """What the feed-forward block makes of `result`, before it is added to it, T x C; absent for `decoder`, where
    cross-attention follows."""


class AttentionResponse(_AnswerBody):
    """The tokens of a sentence and of its translation, and how they attend to each other."""

    source_tokens: list[str]
    """The source as the model reads it, markers included."""

    target_tokens: list[str]
    """The tokens chosen, the end token included: the rows of `decoder` and `cross`."""

    decoder_input_tokens: list[str]
    """The tokens a choice can attend to, the start token first: the columns of `decoder`."""

    translation: str
    """The translation, or the `target_text` sent."""

    model: str
    """The model that answered."""

    detected: DetectedBody | None
    """The detected language of the sentence; null unless `source` was `auto`."""

    search: list[SearchStepBody] | None = None
    """What each step of the search for the translation considered; absent unless `return_search`."""

    encoder: AttentionMatrices | None = None
    """Source to source, S x S; absent unless asked for."""

    decoder: AttentionMatrices | None = None
    """Target to target, T x T; absent unless asked for."""

    cross: AttentionMatrices | None = None
    """Target to source, T x S; absent unless asked for."""

    steps: AttentionStepsBody | None = None
    """The steps of one head; absent unless asked for."""


class LimitsBody(_AnswerBody):
    """What one request may ask for."""

    max_texts: int
    """Texts in one request."""

    max_text_characters: int
    """Characters of one text."""

    max_body_bytes: int
    """Bytes of one request body."""

    max_beam_size: int
    """Largest `beam_size`."""

    max_hypotheses: int
    """Largest `num_hypotheses`."""

    deadline_s: float
    """Seconds after which a request is stopped."""

    max_source_tokens: int
    """Tokens of one sentence the model reads; longer sentences are split for translation."""

    max_target_tokens: int
    """Tokens of one sentence the model writes."""


class CapabilitiesBody(_AnswerBody):
    """What a model can be told beside the text."""

    placeholders: int
    """Number of placeholder symbols that it copies to where they belong."""

    formality: list[str]
    """Target languages in which it can be told the form of address."""

    glossary: bool
    """Whether it can be told how to translate a term. Otherwise terms replace what it wrote."""


class ModelBody(_AnswerBody):
    """One loaded model."""

    name: str
    """Its name."""

    pairs: list[tuple[str, str]]
    """Source and target languages it translates between."""

    languages: list[str]
    """Languages that it translates between in every direction, besides `pairs`."""

    precision: str
    """How its weights are stored: float32, float16, bfloat16 or int8."""

    device: str
    """Where it runs: cpu or cuda."""

    format_version: int
    """Version of the bundle's format."""

    architecture: dict[str, Any]
    """Its shape: layers, heads, widths, vocabulary."""

    limits: LimitsBody
    """What one request may ask for."""

    capabilities: CapabilitiesBody
    """What it can be told beside the text."""

    decoding: dict[str, Any]
    """Its defaults for what a request leaves open: scoring, length penalty, and so on."""

    licence: str
    """Licence of its weights."""

    attribution: list[str]
    """Sources to name when passing on the model or its data."""

    card: dict[str, Any]
    """What it was trained on, how good it is, by which measure, and what it is bad at."""


class ModelsResponse(_AnswerBody):
    """The loaded models."""

    models: list[ModelBody]
    """One entry for each."""


class UnloadResponse(_AnswerBody):
    """A model that was unloaded."""

    name: str
    """Its name."""

    duration_ms: float
    """How long it took, waiting for running requests included."""


class HealthResponse(_AnswerBody):
    """The state of the process or of the service."""

    status: Literal["alive", "ready"]
    """`alive` for the process, `ready` for the model."""
