"""The JSON contract: what a request may hold and what an answer holds.

A field that is not listed is refused, so that a misspelt one is noticed. Bounds that an operator may set are not
here: they stand in :mod:`app.settings`, are checked by :mod:`app.http.limits` and shown in the OpenAPI document.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from app.serving.detection import Detection
from model.decoding.options import MAX_BEAM_SIZE, DecodingOptions, Scoring
from model.digests import is_digest

AttentionKind = Literal["encoder", "decoder", "cross"]


def _without_nul(text: str) -> str:
    position = text.find("\0")
    if position >= 0:
        raise PydanticCustomError("nul_character", "holds the NUL character at {position}", {"position": position})
    return text


def _digest(value: str) -> str:
    if not is_digest(value):
        raise PydanticCustomError("digest", "must be 64 hexadecimal digits")
    return value


def _text_or_texts(value: Any) -> str | None:
    """Which branch of ``text`` a value belongs to, so that only that branch's errors are reported."""
    if isinstance(value, str):
        return "text"
    return "texts" if isinstance(value, list) else None


Text = Annotated[str, AfterValidator(_without_nul)]
"""A text to translate: any Unicode but the NUL character."""

Language = Annotated[str, Field(min_length=2, max_length=35, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$")]
"""A language code such as ``en``, ``EN`` or ``en-US``; which ones are loaded is the model's matter."""


Source = Annotated[
    str, Field(min_length=2, max_length=35, pattern=r"^([Aa][Uu][Tt][Oo]|[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*)$")
]
"""A language code, or ``auto``."""


class _Contract(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class _DecodingFields(_Contract):
    """How one sentence is decoded; the names are those of :class:`model.decoding.options.DecodingOptions`."""

    source: Source | None = None
    """Language of the text; may be left out where the other one leaves a single pair. `auto` tells it for each text,
    among the languages loaded; short texts are told wrongly now and then."""

    target: Language | None = None
    """Language wanted; may be left out where the other one leaves a single pair."""

    decoding: Literal["greedy", "beam"] = "beam"
    """`greedy` takes the likeliest token at every step and is fastest; `beam` keeps `beam_size` hypotheses."""

    beam_size: int = Field(4, ge=1, le=MAX_BEAM_SIZE)
    """Hypotheses kept per sentence; greedy ignores it."""

    length_penalty: float | None = Field(None, ge=0.0, le=10.0)
    """How much length counts: 0 compares sums of log-probabilities and favours short answers, 1 compares means; the
    formula is that of `scoring`. Null for the model's own, which is 1 for the models that ship."""

    min_new_tokens: int = Field(0, ge=0, le=100_000)
    """A sentence may not end before this many tokens."""

    max_new_tokens: int | None = Field(None, ge=1, le=100_000)
    """A sentence is cut after this many tokens; null stands for twice its source plus 20."""

    early_stopping: bool | None = None
    """Stop when `beam_size` hypotheses have ended, even if one that still runs could beat them; null for the model's
    own choice."""

    scoring: Scoring | None = None
    """Whose rules compare hypotheses and end a search: `hf` (transformers), `ct2` (CTranslate2), `marian`, or `wu` (Wu
    et al. 2016); null for the model's own."""

    no_repeat_ngram_size: int = Field(0, ge=0, le=1000)
    """A guard against loops: no sequence of this many tokens twice in one sentence; 0 switches it off."""

    def options(self) -> DecodingOptions:
        """The decoding options asked for; what a request has no field for keeps its default.

        Raises:
            InvalidOptions: They contradict each other.
        """
        names = [option.name for option in fields(DecodingOptions) if option.name in type(self).model_fields]
        return DecodingOptions(**{name: getattr(self, name) for name in names})


class TranslateRequest(_DecodingFields):
    """Texts to translate, and how."""

    text: Annotated[
        Annotated[Text, Tag("text")] | Annotated[list[Text], Tag("texts"), Field(min_length=1)],
        Discriminator(
            _text_or_texts,
            custom_error_type="text_or_texts",
            custom_error_message="must be a string or a list of strings",
        ),
    ]
    """One text or a list of texts, of any length within the service's limits; line breaks and spacing are kept."""

    num_hypotheses: int = Field(1, ge=1, le=MAX_BEAM_SIZE)
    """Best hypotheses returned, at most `beam_size`: the first is `text`, the others are `alternatives`."""

    return_scores: bool = False
    """Whether translations and alternatives carry their score."""

    return_alignment: bool = False
    """Whether translations carry the links between characters of the source and of the translation."""

    @property
    def texts(self) -> list[str]:
        """The texts, as a list in any case."""
        return [self.text] if isinstance(self.text, str) else self.text


class AttentionRequest(_DecodingFields):
    """One sentence whose attention weights are wanted, and which of them."""

    text: Text
    """One sentence."""

    target_text: Text | None = None
    """A translation to look at instead of the one the model would give."""

    kinds: list[AttentionKind] = Field(default=["cross"], min_length=1, max_length=3)
    """Which attention: `encoder` (source to source), `decoder` (target to target), `cross` (target to source)."""

    layers: list[Annotated[int, Field(ge=0)]] | None = Field(None, min_length=1, max_length=1000)
    """Layers, counted from 0; null for all of them."""

    heads: list[Annotated[int, Field(ge=0)]] | None = Field(None, min_length=1, max_length=1000)
    """Heads, counted from 0; null for all of them."""

    average_heads: bool = False
    """Whether the heads chosen are averaged to one."""


class FieldProblemBody(_Contract):
    """One field that was refused."""

    field: str
    """Where: `beam_size`, or `text[2]` for the third text."""

    message: str
    """What is wrong and what would be right."""

    value: Any = None
    """The value sent, where it is short enough to repeat."""

    bound: Any = None
    """The bound it broke, where there is one."""


class ProblemBody(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)

    type: str = "about:blank"
    """A name for this kind of problem."""

    title: str
    """This kind of problem, for people."""

    status: int
    """The HTTP status."""

    code: str
    """This kind of problem, for programs: it does not change between versions."""

    detail: str | None = None
    """What happened this time, with the number given, the bound and the way out."""


class InvalidRequestBody(ProblemBody):
    """A request with fields that cannot be served, each named."""

    errors: list[FieldProblemBody] = []
    """The fields refused."""


class AlignmentLinkBody(_Contract):
    """A stretch of the source and the stretch of the translation it became."""

    source: tuple[int, int]
    """First character and the one after the last, in the text that was sent."""

    target: tuple[int, int]
    """First character and the one after the last, in the translation."""

    weight: float
    """How much of the attention this link carries, 0 to 1."""


class AlternativeBody(_Contract):
    """A hypothesis that was not the best."""

    text: str
    """The translation."""

    score: float | None
    """Its score; null unless `return_scores`."""

    finish_reason: Literal["stop", "length"]
    """As for the best one."""


class DetectedBody(_Contract):
    """The language a text was found to be in."""

    language: str
    """Its code, as `source` has it."""

    confidence: float
    """How sure that is among the languages loaded, 0 to 1."""


def detected_body(detected: Detection | None) -> DetectedBody | None:
    """How a language was told, as JSON has it."""
    return None if detected is None else DetectedBody(language=detected.language, confidence=detected.confidence)


class TranslationBody(_Contract):
    """One text's translation."""

    text: str
    """The translation; all that stood between its sentences is as it was."""

    source: str
    """Language translated from; `zxx` where it was to be detected and the text has no letters."""

    target: str
    """Language translated to."""

    finish_reason: Literal["stop", "length"]
    """`stop` when every sentence was closed by the model, `length` when one was cut at `max_new_tokens`."""

    score: float | None
    """Mean log-probability (at `length_penalty` 1) over the text's sentences; null unless `return_scores`."""

    alternatives: list[AlternativeBody]
    """The second best and following hypotheses, as many as asked for."""

    alignment: list[AlignmentLinkBody] | None
    """Links between characters; null unless `return_alignment`."""

    model: str | None
    """The model that translated it; null where `source` was `auto` and the text needed no translation: it has no
    letters, or is in the target language already."""

    detected: DetectedBody | None
    """Its language as it was told; null unless `source` was `auto`, and for a text without letters."""


class FailedTranslationBody(_Contract):
    """One text that could not be translated, while the others of its request were."""

    error: ProblemBody
    """What went wrong with this text."""


class UsageBody(_Contract):
    """Tokens the request took."""

    source_tokens: int
    """Tokens read."""

    target_tokens: int
    """Tokens written."""


class TimingsBody(_Contract):
    """Where the time went, in milliseconds."""

    queue: float
    """Until the model took up the first sentence."""

    decode: float
    """In the model."""

    total: float
    """All told, inside the service."""


class TranslateResponse(_Contract):
    """The translations, in the order of the texts."""

    translations: list[TranslationBody | FailedTranslationBody]
    """One entry for each text."""

    model: str
    """The model of the first text that was translated; each entry names its own."""

    usage: UsageBody
    """Tokens read and written."""

    timings_ms: TimingsBody
    """Where the time went."""


class AttentionMatrices(_Contract):
    """The weights of one kind of attention; each row sums to 1."""

    layers: list[int]
    """The layers given, in order of the first axis."""

    heads: list[int]
    """The heads given, in order of the second axis; where `averaged`, those that were averaged to one."""

    averaged: bool
    """Whether the second axis holds the mean of the heads only."""

    weights: list[list[list[list[float]]]]
    """Layer, head, position that looks, position looked at."""


class AttentionResponse(_Contract):
    """The tokens of a sentence and of its translation, and how they attend to each other."""

    source_tokens: list[str]
    """The source as the model sees it, markers included."""

    target_tokens: list[str]
    """The tokens chosen, the closing one included: the rows of `decoder` and `cross`."""

    decoder_input_tokens: list[str]
    """The tokens a choice could look back at, the start token first: the columns of `decoder`."""

    translation: str
    """The translation, or the `target_text` sent."""

    model: str
    """The model that answered."""

    detected: DetectedBody | None
    """The language of the sentence as it was told; null unless `source` was `auto`."""

    encoder: AttentionMatrices | None = None
    """Source to source, S x S; absent unless asked for."""

    decoder: AttentionMatrices | None = None
    """Target to target, T x T; absent unless asked for."""

    cross: AttentionMatrices | None = None
    """Target to source, T x S; absent unless asked for."""


class LimitsBody(_Contract):
    """What one request may ask for."""

    max_texts: int
    """Texts in one request."""

    max_text_characters: int
    """Characters of one text."""

    max_body_bytes: int
    """Bytes of one request body."""

    max_beam_size: int
    """Widest beam."""

    max_hypotheses: int
    """Most hypotheses per text."""

    deadline_s: float
    """Seconds after which a request is given up."""

    max_source_tokens: int
    """Tokens of one sentence the model reads; longer ones are split for translation."""

    max_target_tokens: int
    """Tokens of one sentence the model writes."""


class ModelBody(_Contract):
    """One loaded model."""

    name: str
    """Its name."""

    pairs: list[tuple[str, str]]
    """Source and target languages it translates between, one by one."""

    languages: list[str]
    """Languages each of which it translates into each other, besides `pairs`."""

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

    decoding: dict[str, Any]
    """How it is decoded where a request does not say: scoring, length penalty, and so on."""

    licence: str
    """Licence of its weights."""

    attribution: list[str]
    """Whom to name when passing it or its data on."""

    card: dict[str, Any]
    """What it was trained on, how good it is, by which measure, and what it is bad at."""


class ModelsResponse(_Contract):
    """The models that are loaded."""

    models: list[ModelBody]
    """One entry for each."""


class HealthResponse(_Contract):
    """A sign of life."""

    status: Literal["alive", "ready"]
    """`alive` for the process, `ready` for the model."""


class LoadRequest(_Contract):
    """A bundle to load."""

    file: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_without_nul)]
    """Its path, relative to the folder of the bundles configured; or `auto`, the translator that ships."""

    sha256: Annotated[str, AfterValidator(_digest)] | None = None
    """SHA-256 it must have; another file is refused before anything of it runs."""


class UnloadResponse(_Contract):
    """A model that was unloaded."""

    name: str
    """Its name."""

    duration_ms: float
    """How long it took, waiting for running requests included."""
