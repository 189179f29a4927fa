"""Bodies of answers, and examples. Fields that are None are left out."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, RootModel


class DeepLAnswer(BaseModel):
    """The base of answers."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class DeepLError(DeepLAnswer):
    """An error."""

    message: str
    """What happened, and what to do about it."""


class DeepLTranslation(DeepLAnswer):
    """The translation of a text."""

    detected_source_language: str
    """The given or detected language of the text."""

    text: str
    """The translation."""

    billed_characters: int | None = None
    """Unicode characters of the text; with `show_billed_characters`."""

    model_type_used: str | None = None
    """With `model_type`."""

    tag_handling_version: str | None = None
    """With `tag_handling_version`."""


class DeepLTranslations(DeepLAnswer):
    """Translations, in the order of the texts."""

    translations: list[DeepLTranslation]
    """One for each text."""


class DeepLLanguage(DeepLAnswer):
    """A language."""

    language: str
    """Its code."""

    name: str
    """Its name in English."""

    supports_formality: bool | None = None
    """Whether translations into it can have a form of address; target languages only."""


class DeepLLanguages(RootModel[list[DeepLLanguage]]):
    """Languages, by code."""


class DeepLFeature(DeepLAnswer):
    """What can be requested for a language."""

    status: Literal["stable"] = "stable"
    """Always `stable`."""


class DeepLServedLanguage(DeepLAnswer):
    """A language, and what it can be used for."""

    lang: str
    """Its code."""

    name: str
    """Its name in English."""

    status: Literal["stable"] = "stable"
    """Always `stable`."""

    usable_as_source: bool
    """Whether texts can be translated from it."""

    usable_as_target: bool
    """Whether texts can be translated into it."""

    features: dict[str, DeepLFeature]
    """`formality` if translations into it can have a form of address."""


class DeepLServedLanguages(RootModel[list[DeepLServedLanguage]]):
    """Languages, by code."""


class DeepLUsage(DeepLAnswer):
    """The translated characters, and their limit."""

    character_count: int
    """With keys: characters translated with this key this month. Without: by this process."""

    character_limit: int
    """The limit of the key; a very large number means no limit."""


class DeepLDocument(DeepLAnswer):
    """The id and the key of a document."""

    document_id: str
    """Its id."""

    document_key: str
    """Its key."""


class DeepLDocumentStatus(DeepLAnswer):
    """The status of a document."""

    document_id: str
    """Its id."""

    status: Literal["queued", "translating", "done", "error"]
    """The state of its translation."""

    seconds_remaining: int | None = None
    """Estimated seconds until it is done."""

    billed_characters: int | None = None
    """Characters of its texts, once it is done."""

    error_message: str | None = None
    """Why it could not be translated."""


class DeepLPair(DeepLAnswer):
    """A language pair."""

    source_lang: str
    """The source language."""

    target_lang: str
    """The target language."""


class DeepLPairs(DeepLAnswer):
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


class DeepLGlossaries(DeepLAnswer):
    """The glossaries of one language pair each."""

    glossaries: list[DeepLGlossary]
    """The glossaries, the oldest first."""


class DeepLDictionary(DeepLPair):
    """The terms of one language pair."""

    entry_count: int
    """Number of terms."""


class DeepLMultilingual(DeepLAnswer):
    """A glossary."""

    glossary_id: str
    """Its id."""

    name: str
    """Its name."""

    dictionaries: list[DeepLDictionary]
    """Its language pairs."""

    creation_time: str
    """When it was created."""


class DeepLMultilinguals(DeepLAnswer):
    """All glossaries."""

    glossaries: list[DeepLMultilingual]
    """The glossaries, the oldest first."""


class DeepLEntries(DeepLPair):
    """The terms of one language pair."""

    entries: str
    """A line for each term: source, tab, target."""

    entries_format: str
    """Always `tsv`."""


class DeepLDictionaries(DeepLAnswer):
    """Dictionaries of a glossary."""

    dictionaries: list[DeepLEntries]
    """The requested dictionary."""


TRANSLATIONS = DeepLTranslations(
    translations=[
        DeepLTranslation(detected_source_language="EN", text="Die Katze schläft.", billed_characters=15),
        DeepLTranslation(detected_source_language="EN", text="Es regnet.", billed_characters=14),
    ]
)

LANGUAGES = DeepLLanguages(
    [
        DeepLLanguage(language="DE", name="German", supports_formality=True),
        DeepLLanguage(language="EN-GB", name="English (British)", supports_formality=False),
        DeepLLanguage(language="EN-US", name="English (American)", supports_formality=False),
    ]
)

SERVED_LANGUAGES = DeepLServedLanguages(
    [
        DeepLServedLanguage(
            lang="de",
            name="German",
            usable_as_source=True,
            usable_as_target=True,
            features={"formality": DeepLFeature()},
        ),
        DeepLServedLanguage(lang="en", name="English", usable_as_source=True, usable_as_target=False, features={}),
    ]
)

USAGE = DeepLUsage(character_count=180_118, character_limit=1_000_000_000_000)

DOCUMENT = DeepLDocument(
    document_id="04DE5AD98A02647D83285A36021911C6", document_key="0CB0054F1C132C1625B392EADDA41CB7" * 2
)

DOCUMENT_STATUS = DeepLDocumentStatus(document_id=DOCUMENT.document_id, status="translating", seconds_remaining=20)

PAIRS = DeepLPairs(supported_languages=[DeepLPair(source_lang="en", target_lang="de")])

GLOSSARY_ID = "1f4b4a3e-6a0b-4d3c-8f44-0f4b1c6d2a77"

CREATED = "2026-01-31T08:15:00.123Z"
"""The time of creation in examples."""

GLOSSARY = DeepLGlossary(
    glossary_id=GLOSSARY_ID,
    name="Buildings",
    ready=True,
    source_lang="en",
    target_lang="de",
    creation_time=CREATED,
    entry_count=2,
)

GLOSSARIES = DeepLGlossaries(glossaries=[GLOSSARY])

DICTIONARY = DeepLDictionary(source_lang="en", target_lang="de", entry_count=2)

MULTILINGUAL = DeepLMultilingual(
    glossary_id=GLOSSARY_ID,
    name="Buildings",
    dictionaries=[DICTIONARY, DeepLDictionary(source_lang="de", target_lang="en", entry_count=1)],
    creation_time=CREATED,
)

MULTILINGUALS = DeepLMultilinguals(glossaries=[MULTILINGUAL])

TSV = "house\tGebäude\ncat\tKater"

DICTIONARIES = DeepLDictionaries(
    dictionaries=[DeepLEntries(source_lang="en", target_lang="de", entries=TSV, entries_format="tsv")]
)
