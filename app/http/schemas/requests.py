"""Request bodies, and examples.

An unknown field is refused, so that a misspelt one is noticed. Bounds that the operator sets are not declared here:
they are fields of :mod:`app.settings`, :mod:`app.http.limits` checks them, and the OpenAPI document shows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache, lru_cache
from typing import Annotated, Any, Literal

from fastapi.openapi.models import Example
from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, Field, Tag

from app.http.schemas.fields import (
    Language,
    PartOfBody,
    Pattern,
    RequestBody,
    Source,
    TagName,
    Term,
    Text,
    measured,
    measured_texts,
    without_outer_space,
)
from app.http.schemas.memory_fields import MemoryFields
from model.decoding.options import MAX_BEAM_SIZE, Scoring
from model.network.heads import AttentionHead, AttentionKind
from model.text.glossary import Glossary, GlossaryTerm
from model.text.protection import MAX_PATTERNS
from model.translation.options import (
    MAX_PREFIX_CHARACTERS,
    MAX_TAGS,
    MAX_TERMS,
    STEERING_OPTIONS,
    Formality,
    TextFormat,
    TranslationOptions,
)


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


TextOrTexts = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[list[Text], Field(min_length=1), BeforeValidator(measured_texts), Tag("texts")],
    Discriminator(
        _text_or_texts,
        custom_error_type="text_or_texts",
        custom_error_message="must be a string or a list of strings",
    ),
]
"""One text or a list of texts."""


class GlossaryTermBody(PartOfBody):
    """A term and how to translate it."""

    source: Term
    """The term in the source language."""

    target: Term
    """Its translation."""


class DecodingFields(RequestBody):
    """How sentences are decoded; the names are those of :class:`model.translation.options.TranslationOptions`."""

    source: Source | None = None
    """Language of the text. Optional if `target` leaves a single pair. `auto` detects it for each text, among the
    loaded languages; the language of a short text is sometimes detected wrongly."""

    target: Language | None = None
    """Language of the translation. Optional if `source` leaves a single pair."""

    decoding: Literal["greedy", "beam"] = "beam"
    """`greedy` takes the most probable token at every step and is fastest; `beam` keeps `beam_size` hypotheses."""

    beam_size: int = Field(4, ge=1, le=MAX_BEAM_SIZE)
    """Hypotheses kept per sentence; greedy decoding ignores it."""

    length_penalty: float | None = Field(None, ge=0.0, le=10.0)
    """How much length counts: 0 compares sums of log-probabilities and favours short translations, 1 compares means,
    by the formula of `scoring`. Null for the model's own, which is 1 for the shipped models."""

    min_new_tokens: int = Field(0, ge=0, le=100_000)
    """A sentence may not end before this many tokens."""

    max_new_tokens: int | None = Field(None, ge=1, le=100_000)
    """A sentence is cut after this many tokens; null for twice the length of its source plus 20."""

    early_stopping: bool | None = None
    """Stop when `beam_size` hypotheses have ended, even if a running one could still beat them; null for the model's
    own choice."""

    scoring: Scoring | None = None
    """The rules that compare hypotheses and end a search: `hf` (transformers), `ct2` (CTranslate2), `marian`, or `wu`
    (Wu et al. 2016); null for the model's own."""

    no_repeat_ngram_size: int = Field(0, ge=0, le=1000)
    """Guard against repetition loops: no sequence of this many tokens occurs twice in a sentence; 0 for no guard."""

    formality: Formality | None = None
    """The form of address of the translation, for models that support it in the target language (`capabilities` of
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
    `target` unless it has one language pair. A term in lower case matches any case, one with a capital only
    as written and in capitals; common endings are allowed (`house` matches `houses`). Models trained with terms
    (`capabilities` of `GET /models`) inflect them; with other models a term replaces what the model wrote, in the form
    given here. The answer reports the use of each term."""

    lexicon: bool = True
    """Whether the model reads the translations of rare words from its lexicon, if it has one. Terms of `glossary` come
    first. The model may write another translation."""

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
    these. A list of patterns (RE2's syntax) replaces the default unless it contains `"auto"`. Words with characters
    that the model does not know are always protected."""

    def options(self, stored: Glossary = ()) -> TranslationOptions:
        """The requested decoding options; an option without a field keeps its default.

        Args:
            stored: The terms of a stored glossary, if ``glossary`` is an id.

        Raises:
            InvalidOptions: The options contradict each other.
            InvalidPattern: A pattern of ``protect`` is invalid.
        """
        values = {name: getattr(self, name) for name in _option_names(type(self))}
        values["protect"] = self.protect if isinstance(self.protect, str) else tuple(self.protect)
        if "ignore_tags" in values:
            values["ignore_tags"] = tuple(values["ignore_tags"])
        if values.get("target_prefix") is None:
            values.pop("target_prefix", None)
        terms = self.glossary if isinstance(self.glossary, list) else ()
        values["glossary"] = stored or tuple(GlossaryTerm(term.source, term.target) for term in terms)
        # Most requests have the same few options; those that may be large are not cached.
        is_small = not values["glossary"] and isinstance(self.protect, str)
        return _checked_options(**values) if is_small else TranslationOptions(**values)


_checked_options = lru_cache(maxsize=256)(TranslationOptions)


@cache
def _option_names(schema: type[BaseModel]) -> tuple[str, ...]:
    """The decoding options that a request body has a field for."""
    return tuple(option.name for option in fields(TranslationOptions) if option.name in schema.model_fields)


class SteeringFields(DecodingFields):
    """Fields that need one text of a single sentence."""

    target_prefix: (
        Annotated[str, Field(max_length=MAX_PREFIX_CHARACTERS), AfterValidator(without_outer_space)] | None
    ) = None
    """The beginning of the translation, character for character; the model continues it, even in the middle of a word.
    It needs one text of a single sentence, in `format` `text`. Null or empty leaves the beginning to the model."""

    return_search: bool = False
    """Whether the answer has every token that the search considered, step by step. It needs one text of a single
    sentence, in `format` `text`."""

    @property
    def steering(self) -> list[str]:
        """The names of those fields that are set."""
        return [name for name in STEERING_OPTIONS if getattr(self, name)]


class TranslateRequest(SteeringFields, MemoryFields):
    """Texts to translate, and how."""

    text: TextOrTexts
    """One text or a list of texts, within the service's limits; line breaks and spacing are kept."""

    format: TextFormat = "text"
    """The format of the texts. In `html` and `xml` only the text is translated (in HTML also attributes that readers
    see, such as `alt` and `title`). Everything else comes back byte for byte, and inline elements enclose the words
    that they belong to. `script`, `style`, `code`, `pre`, `translate="no"` and `class="notranslate"` are left alone."""

    ignore_tags: Annotated[list[TagName], Field(max_length=MAX_TAGS), measured(MAX_TAGS)] = Field([])
    """Names of further elements whose content is not translated."""

    num_hypotheses: int = Field(1, ge=1, le=MAX_BEAM_SIZE)
    """Best hypotheses returned, at most `beam_size`: the first is `text`, the others are `alternatives`."""

    return_scores: bool = False
    """Whether translations and alternatives have their scores."""

    return_alignment: bool = False
    """Whether translations have the links between characters of the source and of the translation."""

    return_confidence: bool = False
    """Whether translations have the model's confidence in the text and in each word, and the source words that it may
    have left out."""

    @property
    def texts(self) -> list[str]:
        """The texts, always as a list."""
        return [self.text] if isinstance(self.text, str) else self.text


class DetectRequest(RequestBody):
    """Texts whose languages to detect."""

    text: TextOrTexts
    """One text or a list of texts, within the service's limits; only the first few thousand characters are read."""

    @property
    def texts(self) -> list[str]:
        """The texts, always as a list."""
        return [self.text] if isinstance(self.text, str) else self.text


class HeadBody(PartOfBody):
    """One attention head."""

    kind: AttentionKind
    """The kind of attention."""

    layer: int = Field(ge=0)
    """The layer, counted from 0."""

    head: int = Field(ge=0)
    """The head, counted from 0."""


Number = Annotated[int, Field(ge=0)]
"""The number of a layer or a head."""


class AttentionRequest(SteeringFields):
    """A sentence, and the attention weights to return."""

    text: Text
    """One sentence."""

    target_text: Text | None = None
    """A translation to use instead of the model's own; not together with `target_prefix` or `return_search`."""

    kinds: Annotated[list[AttentionKind], Field(min_length=1, max_length=3), measured(3)] = Field(["cross"])
    """Kinds of attention: `encoder` (source to source), `decoder` (target to target), `cross` (target to source)."""

    layers: Annotated[list[Number], Field(min_length=1, max_length=1000), measured(1000)] | None = None
    """Layers, counted from 0; null for all."""

    heads: Annotated[list[Number], Field(min_length=1, max_length=1000), measured(1000)] | None = None
    """Heads, counted from 0; null for all."""

    average_heads: bool = False
    """Whether the chosen heads are averaged into one."""

    steps: HeadBody | None = None
    """A head whose computation is returned step by step: queries, keys, scores, softmax, residual sum and norm. Not
    available as a picture."""

    @property
    def steps_of(self) -> AttentionHead | None:
        """The head of ``steps``."""
        return None if self.steps is None else AttentionHead(**dict(self.steps))


def request_examples(bodies: Mapping[str, Mapping[str, Any]]) -> dict[str, Example]:
    """Examples of bodies, by title, in OpenAPI's form."""
    return {name: Example(summary=name, value=body) for name, body in bodies.items()}


TRANSLATE_REQUESTS = request_examples(
    {
        "one text": {"text": "Good morning.", "source": "en", "target": "de"},
        "a list, fast": {
            "text": ["The cat sleeps.", "It is raining."],
            "source": "en",
            "target": "de",
            "decoding": "greedy",
        },
        "three hypotheses with scores": {
            "text": "Das Haus ist alt.",
            "source": "de",
            "target": "en",
            "beam_size": 4,
            "num_hypotheses": 3,
            "return_scores": True,
        },
        "alignment": {"text": "The house is old.", "source": "en", "target": "de", "return_alignment": True},
        "protected spans": {
            "text": "Hello {name}, see https://example.com/a_b.",
            "source": "en",
            "target": "de",
            "protect": ["auto", "[A-Z]{2}-[0-9]+"],
        },
        "HTML": {
            "text": '<p>Please click <a href="/start">here</a>.</p>',
            "source": "en",
            "target": "de",
            "format": "html",
        },
        "a glossary": {
            "text": "The house is old.",
            "source": "en",
            "target": "de",
            "glossary": [{"source": "house", "target": "Gebäude"}],
        },
        "confidence": {"text": "The house is old.", "source": "en", "target": "de", "return_confidence": True},
        "a given beginning, and what else was considered": {
            "text": "Good morning, my friend.",
            "source": "en",
            "target": "de",
            "target_prefix": "Guten",
            "return_search": True,
        },
        "texts of any language": {
            "text": ["The house is old.", "Das Haus ist alt."],
            "source": "auto",
            "target": "de",
        },
    }
)

ATTENTION_REQUESTS = request_examples(
    {
        "cross-attention, heads averaged": {
            "text": "Good morning.",
            "source": "en",
            "target": "de",
            "average_heads": True,
        },
        "a given translation": {
            "text": "Good morning.",
            "target_text": "Guten Tag.",
            "source": "en",
            "target": "de",
            "kinds": ["encoder", "cross"],
            "layers": [0],
            "heads": [0, 1],
        },
        "one head, step by step": {
            "text": "Good morning.",
            "source": "en",
            "target": "de",
            "kinds": ["decoder"],
            "layers": [0],
            "heads": [1],
            "steps": {"kind": "decoder", "layer": 0, "head": 1},
        },
    }
)
