"""Bodies of answers; fields that are None are left out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, RootModel


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class DeepLError(_Answer):
    """An error."""

    message: str
    """What happened, and what to do about it."""


class DeepLTranslation(_Answer):
    """The translation of a text."""

    detected_source_language: str
    """The language of the text: the one given, or the one detected."""

    text: str
    """The translation."""

    billed_characters: int | None = None
    """Unicode characters of the text; with `show_billed_characters`."""

    model_type_used: str | None = None
    """With `model_type`."""

    tag_handling_version: str | None = None
    """With `tag_handling_version`."""


class DeepLTranslations(_Answer):
    """Translations, in the order of the texts."""

    translations: list[DeepLTranslation]
    """One for each text."""


class DeepLLanguage(_Answer):
    """A language."""

    language: str
    """Its code."""

    name: str
    """Its name in English."""

    supports_formality: bool | None = None
    """Whether translations into it can have a form of address; target languages only."""


class DeepLLanguages(RootModel[list[DeepLLanguage]]):
    """Languages, by code."""


class DeepLUsage(_Answer):
    """What has been translated by this process."""

    character_count: int
    """Characters of the texts translated since its start."""

    character_limit: int
    """The number that stands for no limit."""


class DeepLDocument(_Answer):
    """What identifies a document."""

    document_id: str
    """Its id."""

    document_key: str
    """Its key."""


class DeepLDocumentStatus(_Answer):
    """How far a document is."""

    document_id: str
    """Its id."""

    status: Literal["queued", "translating", "done", "error"]
    """What has become of it."""

    seconds_remaining: int | None = None
    """Seconds until it is done, if that is known."""

    billed_characters: int | None = None
    """Characters of its texts; when it is done."""

    error_message: str | None = None
    """Why it could not be translated."""


class DeepLPair(_Answer):
    """A language pair."""

    source_lang: str
    """The source language."""

    target_lang: str
    """The target language."""


class DeepLPairs(_Answer):
    """Language pairs that a glossary can have."""

    supported_languages: list[DeepLPair]
    """The pairs."""


class DeepLGlossary(DeepLPair):
    """A glossary of one language pair."""

    glossary_id: str
    """Its id."""

    name: str
    """Its name."""

    ready: bool
    """Always true."""

    creation_time: str
    """When it was created."""

    entry_count: int
    """Number of its terms."""


class DeepLGlossaries(_Answer):
    """The glossaries of one language pair each."""

    glossaries: list[DeepLGlossary]
    """The oldest first."""


class DeepLDictionary(DeepLPair):
    """The terms of one language pair."""

    entry_count: int
    """Number of terms."""


class DeepLMultilingual(_Answer):
    """A glossary."""

    glossary_id: str
    """Its id."""

    name: str
    """Its name."""

    dictionaries: list[DeepLDictionary]
    """Its language pairs."""

    creation_time: str
    """When it was created."""


class DeepLMultilinguals(_Answer):
    """All glossaries."""

    glossaries: list[DeepLMultilingual]
    """The oldest first."""


class DeepLEntries(DeepLPair):
    """The terms of one language pair."""

    entries: str
    """A line for each term: source, tab, target."""

    entries_format: str
    """Always `tsv`."""


class DeepLDictionaries(_Answer):
    """Dictionaries of a glossary."""

    dictionaries: list[DeepLEntries]
    """The one asked for."""
