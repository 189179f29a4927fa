"""The fields of requests, as keyword arguments.

Omitted fields, and those that are None, are not sent, and the service uses its defaults. docs/api.md of Verso explains
the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

AttentionKind = Literal["encoder", "decoder", "cross"]


class GlossaryTerm(TypedDict):
    """A term and how to translate it."""

    source: str
    target: str


class AttentionHead(TypedDict):
    """One attention head; layers and heads are counted from 0."""

    kind: AttentionKind
    layer: int
    head: int


class DecodingOptions(TypedDict, total=False):
    """How sentences are decoded: the fields that ``/translate``, ``/attention`` and ``/documents`` share."""

    source: str | None
    """Language of the text; ``auto`` detects it."""
    target: str | None
    """Language of the translation."""
    decoding: Literal["greedy", "beam"] | None
    beam_size: int | None
    length_penalty: float | None
    min_new_tokens: int | None
    max_new_tokens: int | None
    early_stopping: bool | None
    scoring: Literal["hf", "ct2", "marian", "wu"] | None
    no_repeat_ngram_size: int | None
    formality: Literal["formal", "informal"] | None
    glossary: Sequence[GlossaryTerm] | None
    """Terms and how to translate them."""
    lexicon: bool | None
    """Whether the model reads translations of rare words from its lexicon."""
    protect: Literal["auto", "none"] | Sequence[str] | None
    """Spans that come back unchanged: a word, or patterns."""


class MemoryOptions(DecodingOptions, total=False):
    """The translation memories of ``/translate`` and ``/documents``."""

    memory: str | Sequence[str] | None
    """The id of a translation memory, or several; ``corrections`` for the caller's corrected sentences."""
    memory_threshold: float | None
    """The similarity, 0.5 to 1, from which on the stored translation of a similar sentence is used."""


class SteeringOptions(DecodingOptions, total=False):
    """Options for one text of a single sentence, in ``/translate`` and ``/attention``."""

    target_prefix: str | None
    """The beginning of the translation."""
    return_search: bool | None
    """Whether the answer has every token that the search considered."""


class TranslateOptions(SteeringOptions, MemoryOptions, total=False):
    """How texts are translated, and what the answer has besides."""

    format: Literal["text", "html", "xml"] | None
    """The format of the texts."""
    ignore_tags: Sequence[str] | None
    """Names of further elements whose content is not translated."""
    num_hypotheses: int | None
    """The number of returned hypotheses."""
    return_scores: bool | None
    return_alignment: bool | None
    return_confidence: bool | None


class AttentionOptions(SteeringOptions, total=False):
    """Which attention weights are returned."""

    target_text: str | None
    """A translation to use instead of the model's own."""
    kinds: Sequence[AttentionKind] | None
    """``encoder``, ``decoder``, ``cross``."""
    layers: Sequence[int] | None
    """Layers, counted from 0; all by default."""
    heads: Sequence[int] | None
    """Heads, counted from 0; all by default."""
    average_heads: bool | None
    steps: AttentionHead | None
    """A head whose computation is returned step by step."""


def body_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The given options as JSON values."""
    return {
        name: list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value
        for name, value in options.items()
        if value is not None
    }
