"""The structures of each format are translated, kept or refused as ``docs/documents.md`` says."""

from __future__ import annotations

import pytest

from app.documents.formats.table import FORMATS
from app.errors import DocumentRefused
from scripts.document_structures import PAGE, page
from tests.app.documents.structures.files import FILES, TRANSLATIONS
from tests.app.documents.structures.office import ARCHIVES
from tests.app.documents.structures.structures import Structures
from tests.app.documents.structures.table import STRUCTURES
from tests.app.documents.translated import read, texts_of, translated, unchanged

MIXED = {".txt", ".csv", ".strings"}  # files with line ends of several kinds
EXAMPLES = [
    pytest.param(structures, example, id=f"{structures.label} {name}")
    for structures in STRUCTURES
    for name, example in (structures.translated | structures.kept).items()
]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(("structures", "example"), EXAMPLES)
def test_a_structure_is_translated_or_kept(structures: Structures, example: str, line_end: str) -> None:
    source, expected = structures.source_and_translation(example.replace("\r\n", "\n").replace("\n", line_end))
    make, content_of = ARCHIVES.get(structures.part or structures.suffix, (str.encode, bytes.decode))
    assert content_of(translated(structures.suffix, make(source))) == expected


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("suffix", sorted(FILES.keys() - MIXED))
def test_a_file_is_translated_and_keeps_everything_else(suffix: str, line_end: str) -> None:
    source, expected = (texts[suffix].replace("\n", line_end) for texts in (FILES, TRANSLATIONS))
    assert translated(suffix, source).decode() == expected


@pytest.mark.parametrize("suffix", sorted(MIXED))
def test_a_file_with_line_ends_of_several_kinds_keeps_them(suffix: str) -> None:
    assert translated(suffix, FILES[suffix]).decode() == TRANSLATIONS[suffix]


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_without_translations_is_the_same_bytes(suffix: str) -> None:
    file = read(suffix, FILES[suffix])
    assert file.write([None] * len(file.units), "de") == FILES[suffix].encode()


@pytest.mark.parametrize("suffix", [suffix for suffix in FILES if not FORMATS[suffix].is_bilingual])
def test_a_file_translated_into_itself_is_the_same_bytes(suffix: str) -> None:
    assert unchanged(suffix, FILES[suffix]) == FILES[suffix].encode()


@pytest.mark.parametrize("suffix", [".po", ".xliff", ".xlf", ".ts"])
def test_a_catalogue_that_is_translated_has_no_units(suffix: str) -> None:
    assert texts_of(suffix, TRANSLATIONS[suffix]) == []


@pytest.mark.parametrize("structures", STRUCTURES, ids=lambda structures: structures.label)
def test_examples_show_what_they_are_for(structures: Structures) -> None:
    for example in structures.translated.values():
        source, expected = structures.source_and_translation(example)
        assert source != expected


@pytest.mark.parametrize(
    ("suffix", "content"),
    [(structures.suffix, content) for structures in STRUCTURES for content in structures.refused.values()],
)
def test_what_is_refused(suffix: str, content: str) -> None:
    with pytest.raises(DocumentRefused):
        read(suffix, content)


def test_the_documented_table_is_current() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run: python -m scripts.document_structures"
