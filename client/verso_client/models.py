"""The models of a service, as dataclasses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request to a model.

    Args:
        max_texts: Texts in one request.
        max_text_characters: Characters of one text.
        max_body_bytes: Bytes of one request body.
        max_beam_size: Largest ``beam_size``.
        max_hypotheses: Largest ``num_hypotheses``.
        deadline_s: Seconds after which a request is stopped.
        max_source_tokens: Source tokens of one sentence; longer sentences are split.
        max_target_tokens: Target tokens of one sentence.
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
        placeholders: Number of placeholder symbols that it copies into the translation.
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
        pairs: Its pairs of source and target language.
        languages: Languages that it translates between in every direction, besides ``pairs``.
        precision: The precision of its weights.
        device: ``cpu`` or ``cuda``.
        format_version: Version of the bundle's format.
        architecture: Its layers, heads, widths and vocabulary.
        limits: The limits of one request.
        capabilities: The options that it supports beside the text.
        decoding: Its default decoding options.
        licence: Licence of its weights.
        attribution: Sources to name.
        card: Its training data and quality.
        memory_bytes: Memory that it takes when it is loaded, estimated.
        in_memory: Whether it is loaded; otherwise its next request loads it. None if the service does not know.
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
    memory_bytes: int = 0
    in_memory: bool | None = None
