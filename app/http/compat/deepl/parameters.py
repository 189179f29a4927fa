"""Parameters of requests, from JSON and from forms."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from app.http.schemas.requests import TagName, Text, measured, measured_texts
from model.translation.options import MAX_TAGS

_MAX_NAME_CHARACTERS = 1_000
_MAX_GLOSSARIES_AT_ONCE = 5
_MAX_DICTIONARIES = 1_000


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _parts(value: Any) -> Any:
    """The values of a parameter that a form writes as one string, and some clients as several."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        value = ",".join(value)
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _none_for_empty(value: Any) -> Any:
    return None if value == "" else value


def _as_digit(value: Any) -> Any:
    """``split_sentences`` as a number or a boolean."""
    return str(int(value)) if isinstance(value, int) else value


def _named(value: str) -> str:
    if not value.strip() or any(category(character) == "Cc" for character in value):
        raise PydanticCustomError("name", "must be a name, without control characters")
    return value


Code = Annotated[str, Field(min_length=1, max_length=35)]
"""A language code; the loaded models decide which ones are served."""

Name = Annotated[str, Field(min_length=1, max_length=_MAX_NAME_CHARACTERS), AfterValidator(_named)]
"""The name of a glossary."""

# Measured as it was sent, and again when strings with commas are divided.
Names = Annotated[
    list[TagName], Field(max_length=MAX_TAGS), measured(MAX_TAGS), BeforeValidator(_parts), measured(MAX_TAGS)
]
"""Names of elements: a list, or one string with commas."""


class _Parameters(BaseModel):
    """Unknown parameters are ignored: clients send those of later versions."""

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class NoParameters(_Parameters):
    """No parameters but the key."""


class GlossaryChoice(_Parameters):
    """Languages, the form of address, and stored glossaries."""

    target_lang: Code
    """The target language, with or without a region: `DE`, `EN-US`."""

    source_lang: Annotated[Code | None, BeforeValidator(_none_for_empty)] = None
    """The language of the texts; detected for each text unless given."""

    formality: Literal["default", "more", "less", "prefer_more", "prefer_less"] = "default"
    """The form of address. `more` and `less` are refused for languages without (`supports_formality`)."""

    glossary_id: Annotated[str | None, BeforeValidator(_none_for_empty)] = None
    """The id of a stored glossary; needs `source_lang`."""

    glossary_ids: Annotated[
        list[str],
        Field(max_length=_MAX_GLOSSARIES_AT_ONCE),
        measured(_MAX_GLOSSARIES_AT_ONCE),
        BeforeValidator(_parts),
    ] = []
    """Ids of several; of equal terms that of the first counts."""

    @property
    def all_glossary_ids(self) -> list[str]:
        """The ids of all glossaries asked for, in order."""
        return [*([] if self.glossary_id is None else [self.glossary_id]), *self.glossary_ids]


class TranslateParameters(GlossaryChoice):
    """Texts to translate, and how."""

    text: Annotated[list[Text], Field(min_length=1), BeforeValidator(measured_texts), BeforeValidator(_as_list)]
    """The texts: a list or one string in JSON, repeated in a form."""

    tag_handling: Annotated[Literal["xml", "html"] | None, BeforeValidator(_none_for_empty)] = None
    """What the texts are written in, if they are not plain."""

    tag_handling_version: Literal["v1", "v2"] | None = None
    """Accepted, and repeated in the answer."""

    ignore_tags: Names = []
    """Names of elements whose content is not translated."""

    splitting_tags: Names = []
    """Accepted; elements split sentences as they do in `POST /translate`."""

    non_splitting_tags: Names = []
    """Accepted, likewise."""

    outline_detection: bool = True
    """Accepted, likewise."""

    split_sentences: Annotated[Literal["0", "1", "nonewlines"], BeforeValidator(_as_digit)] = "1"
    """Accepted; texts are always split into sentences, and line breaks come back."""

    preserve_formatting: bool = False
    """Accepted; spacing, punctuation and line breaks always come back."""

    context: str | None = None
    """Accepted; each sentence is translated by itself."""

    model_type: Literal["quality_optimized", "latency_optimized", "prefer_quality_optimized"] | None = None
    """Accepted, and repeated in the answer."""

    show_billed_characters: bool = False
    """Whether translations carry the number of characters of their source."""


class DocumentParameters(GlossaryChoice):
    """How to translate a file."""

    filename: Annotated[str | None, BeforeValidator(_none_for_empty)] = None
    """Its name, if the file is sent without one; its ending says what it is."""

    output_format: Annotated[str | None, BeforeValidator(_none_for_empty)] = None
    """The ending of the translated file, which must be that of the file sent."""


class DocumentKey(_Parameters):
    """The second half of what identifies a document."""

    document_key: str
    """The key from the answer to the upload."""


class LanguagesParameters(_Parameters):
    """Which languages to list."""

    type: Literal["source", "target"] = "source"
    """Those that can be translated from, or to."""


class DictionaryParameters(_Parameters):
    """The terms of one language pair."""

    source_lang: Code
    """The source language; a region is ignored."""

    target_lang: Code
    """The target language; a region is ignored."""

    entries: str
    """The terms: lines with source and target."""

    entries_format: Literal["tsv", "csv"] = "tsv"
    """Whether a tab or a comma is between them."""


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
    """What to change about a glossary."""

    name: Name | None = None
    """The new name."""

    dictionaries: Annotated[
        list[DictionaryParameters], Field(max_length=_MAX_DICTIONARIES), measured(_MAX_DICTIONARIES)
    ] = []
    """Terms to add; those with the same source are replaced."""


class PairParameters(_Parameters):
    """A language pair of a glossary."""

    source_lang: Code
    """The source language."""

    target_lang: Code
    """The target language."""
