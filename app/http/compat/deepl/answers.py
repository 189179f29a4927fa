"""Bodies of answers, and examples. Fields that are None are left out."""

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
    """The given or detected language of the text."""

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


class DeepLFeature(_Answer):
    """What can be requested for a language."""

    status: Literal["stable"] = "stable"
    """Always `stable`."""


class DeepLServedLanguage(_Answer):
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


class DeepLUsage(_Answer):
    """The translated characters, and their limit."""

    character_count: int
    """With keys: characters translated with this key this month. Without: by this process."""

    character_limit: int
    """The limit of the key; a very large number means no limit."""


class DeepLDocument(_Answer):
    """The id and the key of a document."""

    document_id: str
    """Its id."""

    document_key: str
    """Its key."""


class DeepLDocumentStatus(_Answer):
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
    """The glossaries, the oldest first."""


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
    """The glossaries, the oldest first."""


class DeepLEntries(DeepLPair):
    """The terms of one language pair."""

    entries: str
    """A line for each term: source, tab, target."""

    entries_format: str
    """Always `tsv`."""


class DeepLDictionaries(_Answer):
    """Dictionaries of a glossary."""

    dictionaries: list[DeepLEntries]
    """The requested dictionary."""


class DeepLMemory(_Answer):
    """A translation memory."""

    translation_memory_id: str
    """Its id."""

    name: str
    """Its name."""

    source_language: str
    """The language of its source texts."""

    target_languages: list[str]
    """The languages of its translations."""

    segment_count: int
    """Number of its translations."""

    creation_time: str
    """When it was created."""

    updated_time: str
    """When it was last changed."""


class DeepLMemories(_Answer):
    """Translation memories."""

    translation_memories: list[DeepLMemory]
    """A page of them, the oldest first."""

    total_count: int
    """Number of all."""


class DeepLMemoryTarget(_Answer):
    """The translation of a segment."""

    target_segment_id: str
    """Its id."""

    target_language: str
    """Its language."""

    target_text: str
    """The translation."""

    creation_time: str
    """When it was added."""

    updated_time: str
    """When it was last changed."""

    last_used_time: str | None = None
    """When it last answered a request."""


class DeepLMemorySegment(_Answer):
    """A text and its translation."""

    source_segment_id: str
    """Its id."""

    source_text: str
    """The text."""

    targets: list[DeepLMemoryTarget]
    """Its translation."""

    creation_time: str
    """When it was added."""

    updated_time: str
    """When it was last changed."""

    last_used_time: str | None = None
    """When it last answered a request."""


class DeepLMemorySegments(_Answer):
    """A page of segments."""

    segments: list[DeepLMemorySegment]
    """The segments."""

    segment_count: int
    """Number of all translations of the memory."""

    next_page_cursor: str | None = None
    """The `page_cursor` of the next page, if there may be more."""


class DeepLMemoryImport(_Answer):
    """A job that imports a file."""

    job_id: str
    """Its id."""

    upload_url: str
    """The URL to send the file to, without a key."""

    expires_at: str
    """When the URL expires."""


class DeepLMemoryParameters(_Answer):
    """The parameters of a job."""

    translation_memory_id: str | None = None
    """The memory that is exported."""

    display_name: str | None = None
    """The name of the memory that is created."""


class DeepLMemoryExport(_Answer):
    """A job that exports a memory."""

    job_id: str
    """Its id."""

    operation: str
    """Always `export`."""

    parameters: DeepLMemoryParameters
    """The memory."""


class DeepLSourceFile(_Answer):
    """The file of an import."""

    content_type: str | None = None
    """Its declared media type."""

    content_length: int | None = None
    """Its declared size."""


class DeepLMemoryResult(_Answer):
    """The result of a job."""

    status: Literal["awaiting_input", "processing", "completed", "failed"]
    """Its status."""

    download_url: str | None = None
    """The URL of an exported file."""

    expires_at: str | None = None
    """When that URL expires."""

    error: dict[str, str] | None = None
    """Why it failed, as `message`."""

    translation_memory_id: str | None = None
    """The memory that an import has created."""

    skipped_segment_count: int | None = None
    """Units of an imported file that could not be used."""

    status_metadata: dict[str, str] | None = None
    """What the client has to do, as `required_action`."""


class DeepLMemoryJob(_Answer):
    """A job."""

    job_id: str
    """Its id."""

    product: str
    """Always `translation_memory`."""

    operation: Literal["import", "export"]
    """What it does."""

    creation_time: str
    """When it was created."""

    parameters: DeepLMemoryParameters
    """Its parameters."""

    source_file: DeepLSourceFile | None = None
    """The file of an import."""

    results: list[DeepLMemoryResult]
    """Its result."""


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

_CREATED = "2026-01-31T08:15:00.123Z"

GLOSSARY = DeepLGlossary(
    glossary_id=GLOSSARY_ID,
    name="Buildings",
    ready=True,
    source_lang="en",
    target_lang="de",
    creation_time=_CREATED,
    entry_count=2,
)

GLOSSARIES = DeepLGlossaries(glossaries=[GLOSSARY])

DICTIONARY = DeepLDictionary(source_lang="en", target_lang="de", entry_count=2)

MULTILINGUAL = DeepLMultilingual(
    glossary_id=GLOSSARY_ID,
    name="Buildings",
    dictionaries=[DICTIONARY, DeepLDictionary(source_lang="de", target_lang="en", entry_count=1)],
    creation_time=_CREATED,
)

MULTILINGUALS = DeepLMultilinguals(glossaries=[MULTILINGUAL])

TSV = "house\tGebäude\ncat\tKater"

DICTIONARIES = DeepLDictionaries(
    dictionaries=[DeepLEntries(source_lang="en", target_lang="de", entries=TSV, entries_format="tsv")]
)

MEMORY_ID = "8c6f1c0e-30d5-4a0e-8a48-4f0a4c1f7b11"

_JOB_ID = "5a3d0f0c-6f6d-4f57-a1a5-3b1d6f1f3a60"

_JOB_EXPIRES = "2026-01-31T09:15:00.123Z"

_JOB_URL = "http://localhost:8000/v3/translation_memories"

MEMORY = DeepLMemory(
    translation_memory_id=MEMORY_ID,
    name="Manuals",
    source_language="en",
    target_languages=["de"],
    segment_count=1,
    creation_time=_CREATED,
    updated_time=_CREATED,
)

MEMORIES = DeepLMemories(translation_memories=[MEMORY], total_count=1)

MEMORY_SEGMENTS = DeepLMemorySegments(
    segments=[
        DeepLMemorySegment(
            source_segment_id="17",
            source_text="Close the valve.",
            targets=[
                DeepLMemoryTarget(
                    target_segment_id="17",
                    target_language="de",
                    target_text="Schließen Sie das Ventil.",
                    creation_time=_CREATED,
                    updated_time=_CREATED,
                )
            ],
            creation_time=_CREATED,
            updated_time=_CREATED,
        )
    ],
    segment_count=1,
)

MEMORY_IMPORT = DeepLMemoryImport(job_id=_JOB_ID, upload_url=f"{_JOB_URL}/uploads/SECRET", expires_at=_JOB_EXPIRES)

MEMORY_EXPORT = DeepLMemoryExport(
    job_id=_JOB_ID, operation="export", parameters=DeepLMemoryParameters(translation_memory_id=MEMORY_ID)
)

MEMORY_JOB = DeepLMemoryJob(
    job_id=_JOB_ID,
    product="translation_memory",
    operation="export",
    creation_time=_CREATED,
    parameters=DeepLMemoryParameters(translation_memory_id=MEMORY_ID),
    results=[
        DeepLMemoryResult(status="completed", download_url=f"{_JOB_URL}/downloads/SECRET", expires_at=_JOB_EXPIRES)
    ],
)
