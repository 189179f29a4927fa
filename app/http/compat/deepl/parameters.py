"""Parameters of requests, from JSON and from forms."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from app.http.compat.deepl.answers import TSV
from app.http.schemas.fields import TagName, Text, measured, measured_texts
from model.translation.options import MAX_TAGS

_MAX_NAME_CHARACTERS = 1_000
_MAX_GLOSSARIES_AT_ONCE = 5
_MAX_DICTIONARIES = 1_000


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _parts(value: Any) -> Any:
    """Split a list that forms send as one string with commas, and some clients as several strings."""
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        value = ",".join(value)
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _as_digit(value: Any) -> Any:
    """Convert ``split_sentences`` from a number or a boolean to a string."""
    return str(int(value)) if isinstance(value, int) else value


def _named(value: str) -> str:
    if not value.strip() or any(category(character) == "Cc" for character in value):
        raise PydanticCustomError("name", "must be a name, without control characters")
    return value


def _without_effect(value: Any) -> None:
    """Refuse a parameter that would change the translations and is not supported."""
    if value not in (None, [], {}):
        raise PydanticCustomError("without_effect", "has no effect on this server; leave it out")


WithoutEffect = Annotated[None, BeforeValidator(_without_effect)]
"""A parameter that would change the translations and is not supported."""

Code = Annotated[str, Field(min_length=1, max_length=35)]
"""A language code; the loaded models decide which ones are served."""

Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME_CHARACTERS), AfterValidator(_named)]
"""The name of a glossary."""

# The length is checked twice: as sent, and again after strings with commas are split.
Names = Annotated[
    list[TagName], Field(max_length=MAX_TAGS), measured(MAX_TAGS), BeforeValidator(_parts), measured(MAX_TAGS)
]
"""Names of elements: a list, or one string with commas."""


class _Parameters(BaseModel):
    """Unknown parameters are ignored, because clients send those of later versions."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class NoParameters(_Parameters):
    """No parameters but the key."""


class GlossaryChoice(_Parameters):
    """Languages, the form of address, and stored glossaries. An optional parameter that is empty counts as absent."""

    target_lang: Code
    """The target language, with or without a region: `DE`, `EN-US`."""

    source_lang: Code | None = None
    """The language of the texts; detected for each text unless given."""

    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    """The form of address. `more` and `less` are refused for languages without `supports_formality`."""

    glossary_id: str | None = None
    """The id of a stored glossary; needs `source_lang`."""

    glossary_ids: Annotated[
        list[str],
        Field(max_length=_MAX_GLOSSARIES_AT_ONCE),
        measured(_MAX_GLOSSARIES_AT_ONCE),
        BeforeValidator(_parts),
    ] = []
    """Ids of several glossaries. If they translate the same term, the first one counts."""

    style_id: WithoutEffect = None
    """Refused: styles are not supported."""

    custom_instructions: WithoutEffect = None
    """Refused: instructions are not supported."""

    translation_memory_id: str | None = None
    """The id of a translation memory: a sentence that it has comes back as it is stored there."""

    translation_memory_threshold: Annotated[int | None, Field(ge=0, le=100)] = None
    """The similarity in percent from which on the stored translation of a similar sentence is used; less than 50 counts
    as 50. Without it, only equal sentences are."""

    @model_validator(mode="before")
    @classmethod
    def _without_empty(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Leave out empty optional parameters: Weblate sends ``formality`` without a value if none was chosen."""
        required = {name for name, field in cls.model_fields.items() if field.is_required()}
        return {name: value for name, value in values.items() if value != "" or name in required}

    @property
    def all_glossary_ids(self) -> list[str]:
        """The ids of all requested glossaries, in order."""
        return [*([] if self.glossary_id is None else [self.glossary_id]), *self.glossary_ids]


class TranslateParameters(GlossaryChoice):
    """Texts to translate, and how."""

    text: Annotated[list[Text], Field(min_length=1), BeforeValidator(measured_texts), BeforeValidator(_as_list)]
    """The texts: a list or one string in JSON, repeated in a form."""

    tag_handling: Literal["xml", "html"] | None = None
    """The format of the texts, unless they are plain text."""

    tag_handling_version: Literal["v1", "v2"] | None = None
    """Accepted, and repeated in the answer."""

    ignore_tags: Names = []
    """Names of elements whose content is not translated."""

    splitting_tags: Names = []
    """Names of elements that separate texts."""

    non_splitting_tags: Names = []
    """Names of elements that never separate texts."""

    outline_detection: bool = True
    """Whether elements of XML separate texts by their position; otherwise only those of `splitting_tags` do."""

    split_sentences: Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(_as_digit)] = "1"
    """Accepted; texts are always split into sentences, and line breaks come back."""

    preserve_formatting: bool = False
    """Accepted; spacing, punctuation and line breaks always come back."""

    context: str | None = None
    """Accepted; each sentence is translated without context."""

    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None = None
    """Accepted, and repeated in the answer."""

    show_billed_characters: bool = False
    """Whether each translation has the number of characters of its source."""


class DocumentParameters(GlossaryChoice):
    """How to translate a file."""

    filename: str | None = None
    """The name of the file, if it is sent without one; the ending of the name decides its format."""

    output_format: str | None = None
    """The ending of the translated file; it must be the ending of the file."""


class DocumentKey(_Parameters):
    """The key of a document, which is required beside its id."""

    document_key: str
    """The key from the answer to the upload."""


class LanguagesParameters(_Parameters):
    """The languages to list."""

    type: Literal["source", "target"] = "source"
    """`source` lists the languages to translate from, `target` those to translate to."""


class ResourceParameters(_Parameters):
    """What the languages are for."""

    resource: Literal["translate_text", "translate_document", "glossary", "style_rules", "voice", "write"] = (
        "translate_text"
    )
    """The part of the protocol that the languages can be used with; none can be used with the last three."""

    @property
    def is_offered(self) -> bool:
        """Whether this service has that part."""
        return self.resource in ("translate_text", "translate_document", "glossary")


class MemoriesParameters(_Parameters):
    """A page of translation memories."""

    page: int = Field(0, ge=0, le=10_000)
    """Its number, from 0."""

    page_size: int = Field(10, ge=1, le=25)
    """Most memories of a page."""


class SegmentsParameters(_Parameters):
    """A page of the segments of a translation memory."""

    page_size: int = Field(50, ge=1, le=100)
    """Most segments of a page."""

    page_cursor: Annotated[str | None, Field(pattern="^[0-9]{1,18}$")] = None
    """The `next_page_cursor` of the page before."""

    filter_text: Annotated[str | None, Field(min_length=2, max_length=1_000)] = None
    """Only segments with this text in the source or the translation."""

    filter_case_sensitive: bool = False
    """Whether the case of `filter_text` matters."""

    @property
    def after(self) -> int:
        """The id of the last segment of the page before."""
        return int(self.page_cursor or 0)

    def matches(self, *texts: str) -> bool:
        """Whether one of some texts has the text of the filter."""
        wanted = self.filter_text or ""
        if self.filter_case_sensitive:
            return any(wanted in text for text in texts)
        return any(wanted.casefold() in text.casefold() for text in texts)


class SourceFile(_Parameters):
    """A file to import."""

    file_name: Name
    """Its name."""

    content_length: int = Field(ge=1, le=10**15)
    """Its size in bytes."""

    content_type: Annotated[str | None, Field(max_length=200)] = None
    """Its media type."""


class NewMemory(_Parameters):
    """The translation memory that an import creates."""

    display_name: Name | None = None
    """Its name; that of the file unless given."""


class ImportParameters(_Parameters):
    """The import of a TMX file."""

    source_file: SourceFile
    """The file, which is sent later."""

    parameters: NewMemory | None = None
    """The translation memory."""


class DictionaryParameters(_Parameters):
    """The terms of one language pair."""

    source_lang: Code
    """The source language; a region is ignored."""

    target_lang: Code
    """The target language; a region is ignored."""

    entries: str
    """The terms: a line with source and target for each."""

    entries_format: Literal["tsv", "csv"] = "tsv"
    """`tsv` separates source and target with a tab, `csv` with a comma."""


class GlossaryParameters(DictionaryParameters):
    """A glossary of one language pair."""

    name: Name
    """Its name."""


class MultilingualParameters(_Parameters):
    """A glossary of several language pairs."""

    name: Name
    """Its name."""

    dictionaries: Annotated[
        list[DictionaryParameters], Field(min_length=1, max_length=_MAX_DICTIONARIES), measured(_MAX_DICTIONARIES)
    ]
    """Its terms, for each language pair."""


class MultilingualChanges(_Parameters):
    """The changes of a glossary."""

    name: Name | None = None
    """The new name."""

    dictionaries: Annotated[
        list[DictionaryParameters], Field(max_length=_MAX_DICTIONARIES), measured(_MAX_DICTIONARIES)
    ] = []
    """Terms to add; a term with the same source is replaced."""


class PairParameters(_Parameters):
    """A language pair of a glossary."""

    source_lang: Code
    """The source language."""

    target_lang: Code
    """The target language."""


Bodies = dict[str, dict[str, Any]]

TRANSLATE_EXAMPLES: Bodies = {
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

IMPORT_EXAMPLES: Bodies = {
    "a file": {
        "source_file": {"file_name": "manuals.tmx", "content_length": 52_013},
        "parameters": {"display_name": "Manuals"},
    }
}

GLOSSARY_EXAMPLES: Bodies = {
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

DICTIONARY_EXAMPLES: Bodies = {
    "terms with tabs": {"source_lang": "en", "target_lang": "de", "entries": TSV, "entries_format": "tsv"}
}

MULTILINGUAL_EXAMPLES: Bodies = {
    "two language pairs": {
        "name": "Buildings",
        "dictionaries": [
            {"source_lang": "en", "target_lang": "de", "entries": TSV, "entries_format": "tsv"},
            {"source_lang": "de", "target_lang": "en", "entries": "Haus\tbuilding", "entries_format": "tsv"},
        ],
    }
}

CHANGES_EXAMPLES: Bodies = {
    "a new name": {"name": "Houses"},
    "more terms": {
        "dictionaries": [
            {"source_lang": "en", "target_lang": "de", "entries": "door\tPforte", "entries_format": "tsv"},
        ]
    },
}
