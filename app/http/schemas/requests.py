"""Request bodies.

An unknown field is refused, so that a misspelt one is noticed. Bounds that an operator may set are not declared
here: they are fields of :mod:`app.settings`, :mod:`app.http.limits` checks them, and the OpenAPI document shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache, lru_cache
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

from app.errors import MAX_PROBLEMS, LimitExceeded
from model.decoding.options import MAX_BEAM_SIZE, Scoring
from model.network.heads import AttentionHead, AttentionKind
from model.process.files import is_digest
from model.text.glossary import Glossary, GlossaryTerm
from model.text.protection import MAX_PATTERN_CHARACTERS, MAX_PATTERNS
from model.translation.options import (
    MAX_PREFIX_CHARACTERS,
    MAX_TAGS,
    MAX_TERM_CHARACTERS,
    MAX_TERMS,
    STEERING_OPTIONS,
    Formality,
    TextFormat,
    TranslationOptions,
)

MAX_TEXTS = "max_texts"
"""In the context of a validation: most texts in one request."""


def measured(max_length: int) -> BeforeValidator:
    """Measures a list before its elements are looked at: what pydantic notes of wrong ones takes time and memory.

    Args:
        max_length: Most elements.
    """

    def measure(values: Any) -> Any:
        if isinstance(values, list | tuple) and len(values) > max_length:
            raise PydanticKnownError(
                "too_long", {"field_type": "List", "max_length": max_length, "actual_length": len(values)}
            )
        return values

    return BeforeValidator(measure)


def measured_texts(texts: Any, info: ValidationInfo) -> Any:
    """A list of texts, measured, and without those behind as many wrong ones as an answer names.

    Args:
        texts: The list; anything else is returned as it is.
        info: Its context says how many there may be.

    Raises:
        LimitExceeded: There are more.
    """
    if not isinstance(texts, list):
        return texts
    bound = (info.context or {}).get(MAX_TEXTS)
    if bound is not None and len(texts) > bound:
        raise LimitExceeded("text", len(texts), bound, "texts in one request")
    wrong = (number for number, text in enumerate(texts) if not isinstance(text, str) or "\0" in text)
    last = next(islice(wrong, MAX_PROBLEMS - 1, None), None)
    return texts if last is None else texts[: last + 1]


def without_most_unknown(values: Mapping[str, Any], schema: type[BaseModel]) -> dict[str, Any]:
    """Fields without most of those that are unknown: each would become an error, which takes time and memory.

    Args:
        values: The fields.
        schema: The model that knows the others.
    """
    known = schema.model_fields
    if len(values) <= len(known) + MAX_PROBLEMS:
        return dict(values)
    unknown = islice((name for name in values if name not in known), MAX_PROBLEMS)
    return {name: values[name] for name in (*known, *unknown) if name in values}


def _without_nul(text: str) -> str:
    position = text.find("\0")
    if position >= 0:
        raise PydanticCustomError("nul_character", "holds the NUL character at {position}", {"position": position})
    return text


def _trimmed(text: str) -> str:
    if text != text.strip() or len(text.splitlines()) > 1:
        raise PydanticCustomError("whitespace", "must have no whitespace at its ends and no line break")
    return _without_nul(text)


def _without_outer_space(text: str) -> str:
    if text != text.strip():
        raise PydanticCustomError("outer_space", "has whitespace at its ends; leave it out, the model writes its own")
    return _without_nul(text)


def _digest(value: str) -> str:
    if not is_digest(value):
        raise PydanticCustomError("digest", "must be 64 hexadecimal digits")
    return value


def _text_or_texts(value: Any) -> str | None:
    """The branch of ``text`` that a value belongs to, so that only the errors of that branch are reported."""
    if isinstance(value, str):
        return "text"
    return "texts" if isinstance(value, list) else None


def _word_or_patterns(value: Any) -> str | None:
    """The branch of ``protect`` that a value belongs to."""
    if isinstance(value, str):
        return "word"
    return "patterns" if isinstance(value, list | tuple) else None


def _id_or_terms(value: Any) -> str | None:
    """The branch of ``glossary`` that a value belongs to."""
    if value is None:
        return "none"
    return "id" if isinstance(value, str) else "terms" if isinstance(value, list | tuple) else None


Text = Annotated[str, AfterValidator(_without_nul)]
"""A text to translate: any Unicode except the NUL character."""

MAX_LANGUAGE_CHARACTERS = 35

LANGUAGE_PATTERN = r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*$"

Language = Annotated[str, Field(min_length=2, max_length=MAX_LANGUAGE_CHARACTERS, pattern=LANGUAGE_PATTERN)]
"""A language code such as ``en``, ``EN`` or ``en-US``; the loaded models decide which ones are served."""


Source = Annotated[
    str, Field(min_length=2, max_length=35, pattern=r"^([Aa][Uu][Tt][Oo]|[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*)$")
]
"""A language code, or ``auto``."""


Term = Annotated[str, Field(min_length=1, max_length=MAX_TERM_CHARACTERS), AfterValidator(_trimmed)]
"""One side of a glossary term."""


TagName = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s<>/\"'=]+$")]
"""The name of an element."""

Pattern = Annotated[str, Field(min_length=1, max_length=MAX_PATTERN_CHARACTERS), AfterValidator(_without_nul)]
"""A regular expression."""


class _RequestBody(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


class _PartOfBody(_RequestBody):
    @model_validator(mode="before")
    @classmethod
    def _without_most_unknown(cls, values: Any) -> Any:
        return without_most_unknown(values, cls) if isinstance(values, dict) else values


class GlossaryTermBody(_PartOfBody):
    """A term and how to translate it."""

    source: Term
    """The term in the source language."""

    target: Term
    """Its translation."""


class DecodingFields(_RequestBody):
    """How one sentence is decoded; the names are those of :class:`model.translation.options.TranslationOptions`."""

    source: Source | None = None
    """Language of the text. Optional if `target` leaves a single pair. `auto` detects it for each text, among the
    languages loaded; the language of a short text is sometimes detected wrongly."""

    target: Language | None = None
    """Language of the translation. Optional if `source` leaves a single pair."""

    decoding: Literal["greedy", "beam"] = "beam"
    """`greedy` takes the most probable token at every step and is fastest; `beam` keeps `beam_size` hypotheses."""

    beam_size: int = Field(4, ge=1, le=MAX_BEAM_SIZE)
    """Hypotheses kept per sentence; greedy decoding ignores it."""

    length_penalty: float | None = Field(None, ge=0.0, le=10.0)
    """How much length counts: 0 compares sums of log-probabilities and favours short answers, 1 compares means; the
    formula is that of `scoring`. Null for the model's own, which is 1 for the models that ship."""

    min_new_tokens: int = Field(0, ge=0, le=100_000)
    """A sentence may not end before this many tokens."""

    max_new_tokens: int | None = Field(None, ge=1, le=100_000)
    """A sentence is cut after this many tokens; null for twice the length of its source plus 20."""

    early_stopping: bool | None = None
    """Stop when `beam_size` hypotheses have ended, even if a running one could still beat them; null for the model's
    own choice."""

    scoring: Scoring | None = None
    """Rules that compare hypotheses and end a search: `hf` (transformers), `ct2` (CTranslate2), `marian`, or `wu` (Wu
    et al. 2016); null for the model's own."""

    no_repeat_ngram_size: int = Field(0, ge=0, le=1000)
    """A guard against repetition loops: no sequence of this many tokens occurs twice in one sentence; 0 for none."""

    formality: Formality | None = None
    """The form of address of the translation, for models that know one in the target language (`capabilities` of
    `GET /models`). Null leaves it to the model."""

    glossary: Annotated[
        Annotated[str, Field(min_length=1, max_length=100), Tag("id")]
        | Annotated[
            list[GlossaryTermBody], Field(min_length=1, max_length=MAX_TERMS), measured(MAX_TERMS), Tag("terms")
        ]
        | Annotated[None, Tag("none")],
        Discriminator(
            _id_or_terms,
            custom_error_type="id_or_terms",
            custom_error_message="must be a list of terms or the id of a stored glossary",
        ),
    ] = None
    """Terms and how to translate them, or the id of a stored glossary (`/v2/glossaries`), which needs `source` and
    `target` unless it has one language pair. A term in lower case is found in any case, one with a capital as it is
    written and in capitals; common endings are allowed (`house` finds `houses`). Models that were trained for it (see
    `capabilities` of `GET /models`) inflect the terms; with others a term replaces what the model wrote, in the form
    given here. The answer says what became of each term."""

    protect: Annotated[
        Annotated[Literal["auto", "none"], Tag("word")]
        | Annotated[
            list[Pattern], Field(min_length=1, max_length=MAX_PATTERNS), measured(MAX_PATTERNS), Tag("patterns")
        ],
        Discriminator(
            _word_or_patterns,
            custom_error_type="word_or_patterns",
            custom_error_message="must be 'auto', 'none' or a list of patterns",
        ),
    ] = "auto"
    """Spans that come back unchanged, exactly once. `auto`: URLs, e-mail addresses, placeholders such as `{name}` and
    `%s`, tags, `@user`, `#tag`, `:emoji:`, emoji, file paths, version numbers, code in backticks. `none`: none of
    these. A list of patterns (RE2's syntax) replaces the default unless it holds `"auto"`. Words in characters that the
    model does not know are protected, too."""

    def options(self, stored: Glossary = ()) -> TranslationOptions:
        """The decoding options requested; an option without a field keeps its default.

        Args:
            stored: The terms of a stored glossary, if ``glossary`` is an id.

        Raises:
            InvalidOptions: They contradict each other.
            InvalidPattern: A pattern of ``protect`` is wrong.
        """
        values = {name: getattr(self, name) for name in _option_names(type(self))}
        values["protect"] = self.protect if isinstance(self.protect, str) else tuple(self.protect)
        if "ignore_tags" in values:
            values["ignore_tags"] = tuple(values["ignore_tags"])
        if values.get("target_prefix") is None:
            values.pop("target_prefix", None)
        terms = self.glossary if isinstance(self.glossary, list) else ()
        values["glossary"] = stored or tuple(GlossaryTerm(term.source, term.target) for term in terms)
        # Most requests ask for the same few; what may be large is not kept.
        is_small = not values["glossary"] and isinstance(self.protect, str)
        return _checked_options(**values) if is_small else TranslationOptions(**values)


_checked_options = lru_cache(maxsize=256)(TranslationOptions)


@cache
def _option_names(schema: type[BaseModel]) -> tuple[str, ...]:
    """The decoding options that a request body has a field for."""
    return tuple(option.name for option in fields(TranslationOptions) if option.name in schema.model_fields)


class SteeringFields(DecodingFields):
    """What is for one text of a single sentence."""

    target_prefix: (
        Annotated[str, Field(max_length=MAX_PREFIX_CHARACTERS), AfterValidator(_without_outer_space)] | None
    ) = None
    """What the translation begins with, character for character; the model continues it, also in the middle of a word.
    It needs one text of a single sentence, in `format` `text`. Null or empty leaves the beginning to the model."""

    return_search: bool = False
    """Whether the answer carries every token that the search considered, step by step. It needs one text of a single
    sentence, in `format` `text`."""

    @property
    def steering(self) -> list[str]:
        """The names of these fields that are used."""
        return [name for name in STEERING_OPTIONS if getattr(self, name)]


class TranslateRequest(SteeringFields):
    """Texts to translate, and how."""

    text: Annotated[
        Annotated[Text, Tag("text")]
        | Annotated[list[Text], Field(min_length=1), BeforeValidator(measured_texts), Tag("texts")],
        Discriminator(
            _text_or_texts,
            custom_error_type="text_or_texts",
            custom_error_message="must be a string or a list of strings",
        ),
    ]
    """One text or a list of texts, of any length within the service's limits; line breaks and spacing are kept."""

    format: TextFormat = "text"
    """What the texts are written in. Of `html` and `xml` only the text is translated (in HTML also `alt`, `title`,
    `placeholder` and `aria-label`): everything else comes back byte for byte, and inline elements go around the words
    that they belong to. `script`, `style`, `code`, `pre`, `translate="no"` and `class="notranslate"` are left alone."""

    ignore_tags: Annotated[list[TagName], Field(max_length=MAX_TAGS), measured(MAX_TAGS)] = []
    """Names of further elements whose content is not translated."""

    num_hypotheses: int = Field(1, ge=1, le=MAX_BEAM_SIZE)
    """Best hypotheses returned, at most `beam_size`: the first is `text`, the others are `alternatives`."""

    return_scores: bool = False
    """Whether translations and alternatives carry their score."""

    return_alignment: bool = False
    """Whether translations carry the links between characters of the source and of the translation."""

    return_confidence: bool = False
    """Whether translations carry how sure the model is: of the text, of each word, and which source words it may have
    left out."""

    @property
    def texts(self) -> list[str]:
        """The texts, always as a list."""
        return [self.text] if isinstance(self.text, str) else self.text


class HeadBody(_PartOfBody):
    """One attention head."""

    kind: AttentionKind
    """Which attention."""

    layer: int = Field(ge=0)
    """The layer, counted from 0."""

    head: int = Field(ge=0)
    """The head, counted from 0."""


Number = Annotated[int, Field(ge=0)]
"""The number of a layer or a head."""


class AttentionRequest(SteeringFields):
    """One sentence, and which of its attention weights to return."""

    text: Text
    """One sentence."""

    target_text: Text | None = None
    """A translation to use instead of the model's own; it goes with neither `target_prefix` nor `return_search`."""

    kinds: Annotated[list[AttentionKind], Field(min_length=1, max_length=3), measured(3)] = ["cross"]
    """Which attention: `encoder` (source to source), `decoder` (target to target), `cross` (target to source)."""

    layers: Annotated[list[Number], Field(min_length=1, max_length=1000), measured(1000)] | None = None
    """Layers, counted from 0; null for all of them."""

    heads: Annotated[list[Number], Field(min_length=1, max_length=1000), measured(1000)] | None = None
    """Heads, counted from 0; null for all of them."""

    average_heads: bool = False
    """Whether the heads chosen are averaged into one."""

    steps: HeadBody | None = None
    """A head whose computation is returned step by step: queries, keys, scores, softmax, residual sum and norm. Not for
    pictures."""

    @property
    def steps_of(self) -> AttentionHead | None:
        """The head of ``steps``."""
        return None if self.steps is None else AttentionHead(**dict(self.steps))


class LoadRequest(_RequestBody):
    """A bundle to load."""

    file: Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_without_nul)]
    """Its path, relative to the folder of the bundles configured; or `auto`, the translator that ships."""

    sha256: Annotated[str, AfterValidator(_digest)] | None = None
    """SHA-256 it must have; a file with another digest is refused before anything of it runs."""
