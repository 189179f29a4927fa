"""Examples of the OpenAPI document. Tests send every request, and compare every error with the one that is sent."""

from __future__ import annotations

from typing import Any

from app.errors import (
    BodyTooLarge,
    DeadlineExceeded,
    DocumentNotDone,
    DocumentNotFound,
    GlossaryNotFound,
    GlossaryStoreFull,
    InferenceFailed,
    InvalidGlossary,
    InvalidParameter,
    KeyMissing,
)
from app.http.compat.deepl.answers import (
    DeepLDictionaries,
    DeepLDictionary,
    DeepLDocument,
    DeepLDocumentStatus,
    DeepLEntries,
    DeepLGlossaries,
    DeepLGlossary,
    DeepLLanguage,
    DeepLLanguages,
    DeepLMultilingual,
    DeepLMultilinguals,
    DeepLPair,
    DeepLPairs,
    DeepLTranslation,
    DeepLTranslations,
    DeepLUsage,
)

Bodies = dict[str, dict[str, Any]]

TRANSLATE: Bodies = {
    "a list of texts": {
        "text": ["The cat sleeps.", "It is raining."],
        "target_lang": "DE",
        "show_billed_characters": True,
    },
    "XML, with an element that is kept": {
        "text": ['Hello <x id="1"></x>, how are you?'],
        "source_lang": "EN",
        "target_lang": "DE",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
    },
}

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

USAGE = DeepLUsage(character_count=180_118, character_limit=1_000_000_000_000)

DOCUMENT = DeepLDocument(
    document_id="04DE5AD98A02647D83285A36021911C6", document_key="0CB0054F1C132C1625B392EADDA41CB7" * 2
)

DOCUMENT_KEY: Bodies = {"the key of the upload": {"document_key": DOCUMENT.document_key}}

DOCUMENT_STATUS = DeepLDocumentStatus(document_id=DOCUMENT.document_id, status="translating", seconds_remaining=20)

PAIRS = DeepLPairs(supported_languages=[DeepLPair(source_lang="en", target_lang="de")])

TSV = "house\tGebäude\ncat\tKater"

CREATE_GLOSSARY: Bodies = {
    "terms with tabs": {
        "name": "Buildings",
        "source_lang": "en",
        "target_lang": "de",
        "entries": TSV,
        "entries_format": "tsv",
    },
    "terms with commas": {
        "name": "Buildings",
        "source_lang": "en",
        "target_lang": "de",
        "entries": "house,Gebäude\ncat,Kater",
        "entries_format": "csv",
    },
}

_ID = "1f4b4a3e-6a0b-4d3c-8f44-0f4b1c6d2a77"
_CREATED = "2026-01-31T08:15:00.123Z"

GLOSSARY = DeepLGlossary(
    glossary_id=_ID,
    name="Buildings",
    ready=True,
    source_lang="en",
    target_lang="de",
    creation_time=_CREATED,
    entry_count=2,
)

GLOSSARIES = DeepLGlossaries(glossaries=[GLOSSARY])

REPLACE_DICTIONARY: Bodies = {
    "terms with tabs": {"source_lang": "en", "target_lang": "de", "entries": TSV, "entries_format": "tsv"}
}

CREATE_MULTILINGUAL: Bodies = {
    "two language pairs": {
        "name": "Buildings",
        "dictionaries": [
            {"source_lang": "en", "target_lang": "de", "entries": TSV, "entries_format": "tsv"},
            {"source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding", "entries_format": "tsv"},
        ],
    }
}

CHANGE_MULTILINGUAL: Bodies = {
    "a new name": {"name": "Houses"},
    "more terms": {
        "dictionaries": [
            {"source_lang": "en", "target_lang": "de", "entries": "door\tPforte", "entries_format": "tsv"},
        ]
    },
}

DICTIONARY = DeepLDictionary(source_lang="en", target_lang="de", entry_count=2)

MULTILINGUAL = DeepLMultilingual(
    glossary_id=_ID,
    name="Buildings",
    dictionaries=[DICTIONARY, DeepLDictionary(source_lang="de", target_lang="en", entry_count=1)],
    creation_time=_CREATED,
)

MULTILINGUALS = DeepLMultilinguals(glossaries=[MULTILINGUAL])

DICTIONARIES = DeepLDictionaries(
    dictionaries=[DeepLEntries(source_lang="en", target_lang="de", entries=TSV, entries_format="tsv")]
)

ERRORS: dict[str, Exception] = {
    "unsupported value": InvalidParameter("Value for 'target_lang' not supported."),
    "wrong terms": InvalidGlossary("Line 2 of the entries must have a source and a target."),
    "no key": KeyMissing(),
    "no glossary": GlossaryNotFound(_ID),
    "no document": DocumentNotFound(DOCUMENT.document_id),
    "not done": DocumentNotDone("running"),
    "too large": BodyTooLarge(2_000_000),
    "full": GlossaryStoreFull("there may be 1000 glossaries"),
    "failed": InferenceFailed(),
    "too slow": DeadlineExceeded(30.0),
}
"""An error of each kind that a route documents."""
