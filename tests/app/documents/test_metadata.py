"""Metadata that readers see is translated, and files name the target language as their own."""

from __future__ import annotations

import io
import tomllib
from typing import Any

import docx
import odfdo
import openpyxl
import pptx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.documents.formats.document_file import Unit
from app.documents.formats.languages import locale_of, names_language, written_like
from app.documents.skeleton import differences
from tests.app.documents.test_office_formats import part, presentation, saved, word_document, zipped
from tests.app.documents.test_office_structures import ITEM, XHTML, book, parts_of
from tests.app.documents.translated import in_capitals, read, texts_of, translated, translated_text, unchanged


@pytest.mark.parametrize(
    ("name", "target", "written"),
    [
        ("en", "de", "de"),
        ("en-US", "de", "de-DE"),
        ("en_US", "de", "de_DE"),
        ("EN-us", "pt-BR", "pt-BR"),
        ("en", "pt-BR", "pt-BR"),
        ("en_US", "zh-Hant", "zh_TW"),
        ("en-US", "eng_Latn", "en-US"),
        ("de-AT", "de", "de-AT"),
        ("zh-CN", "zh-Hant", "zh-TW"),
        ("und", "de", "de"),
        ("en-US", "no language", "no language"),
    ],
)
def test_a_language_is_written_as_the_one_before_it(name: str, target: str, written: str) -> None:
    assert written_like(name, target) == written


def test_a_language_has_the_region_of_most_of_its_texts() -> None:
    assert [locale_of(code) for code in ("de", "en", "ja", "pt", "zh")] == ["de-DE", "en-US", "ja-JP", "pt-BR", "zh-CN"]


@pytest.mark.parametrize("text", ["", "none", "zxx", "mul", "x-none", "{{ lang }}", "auto", "en US", "e", "en-" * 20])
def test_what_names_no_language_is_none(text: str) -> None:
    assert not names_language(text)


PAGE = (
    '<html lang="en-US"{}><body{}><p lang="en">One <i lang="fr">mot</i></p><p translate="no" lang="en">Two</p></body>'
)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (PAGE.format("", ""), "ar", ' dir="rtl" lang="ar-EG"'),
        (PAGE.format(' dir="ltr"', ""), "he", ' lang="he-IL" dir="rtl"'),
        (PAGE.format("", " dir=ltr"), "fa", "<body dir=rtl>"),
        (PAGE.format(' dir="auto"', ""), "ar", ' lang="ar-EG" dir="auto"'),
        (PAGE.format(' dir="rtl"', ""), "de", ' lang="de-DE" dir="ltr"'),
        (PAGE.format("", ""), "de", "<html lang"),
    ],
)
def test_a_page_has_the_direction_of_its_language(source: str, target: str, expected: str) -> None:
    result = translated_text(".html", source, target)
    assert expected in result
    assert '<i lang="fr">mot</i>' in result and '<p translate="no" lang="en">Two</p>' in result


def test_a_paragraph_in_another_language_keeps_its_mark() -> None:
    text = '<html lang="en"><p><i lang="fr">la maison</i></p><p>One</p>'
    assert '<i lang="fr">' in translated_text(".html", text)


def test_numbers_and_the_like_keep_their_direction_in_a_language_from_right_to_left() -> None:
    assert '<p dir="ltr">' in translated_text(".html", '<html><p dir="ltr">One</p>', "ar")


@pytest.mark.parametrize("text", ['<html lang="en"><p>12</p>', '<html lang="en"><p translate="no">Verso</p>'])
def test_a_page_without_translations_names_the_language_that_it_had(text: str) -> None:
    assert translated_text(".html", text) == text


def test_a_check_takes_the_target_language_from_the_result() -> None:
    source = b'<html lang="en-US"><meta property="og:locale" content="en_US"><p lang="en">One two</p></html>'
    for target in ("de", "ar"):
        assert differences("a.html", source, translated(".html", source, target)) == []
    changed = translated(".html", source).replace(b'lang="de"', b'lang="de" id="a"')
    assert differences("a.html", source, changed) != []


VALUES = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp")), min_size=1).map(str.strip)


@given(
    VALUES, st.sampled_from(["My house", "'My house'", "'It''s so'", '"My \\"house\\""', ">-\n  My house\n  is red"])
)
def test_front_matter_stays_valid_whatever_its_translation_is(translation: str, value: str) -> None:
    text = f"---\nlayout: page\ntitle: {value}\ntags: [a, b]\nlang: en\n---\n"
    units = texts_of(".md", text)
    if not translation or (translation == units[0] and units == [translation]):
        return
    block = value.startswith(">")
    written = read(".md", text).write([translation], "de").decode()
    if block and yaml.safe_load(value.partition("\n")[0] + "\n  " + translation) != translation:
        return  # signs at the beginning of a folded text may be read in another way
    front: dict[str, Any] = yaml.safe_load(written.split("---\n")[1]) if "---" not in translation else {}
    assert front in ({}, {"layout": "page", "title": translation, "tags": ["a", "b"], "lang": "de"})


@pytest.mark.parametrize("value", ["true", "~", "3", "a.b.c", "{{ x }}", "*anchor", '"\\x41 b"'])
def test_values_that_are_no_texts_stay(value: str) -> None:
    assert texts_of(".md", f"---\ntitle: {value}\n---\n") == []


def test_escapes_of_front_matter_are_read() -> None:
    assert texts_of(".md", '---\ntitle: "Caf\\u00e9 \\"one\\""\n---\n') == ['Café "one"']
    assert texts_of(".md", "---\ntitle: 'It''s'\n---\n") == ["It's"]


def test_front_matter_of_a_text_without_a_format_is_kept() -> None:
    text = "---\ntitle: My house\ntags: [a, b]\nhero:\n  text: It is red\n---\n# The house\n\nIt is old."
    assert in_capitals(Unit(text)) == text.replace("# The house", "# THE HOUSE").replace("It is old", "IT IS OLD")


def test_front_matter_in_toml_stays_valid() -> None:
    text = "+++\ntitle = 'My house'\ndescription = \"so\"\nlanguage = 'en'\ntags = ['a']\n+++\nText\n"
    written = read(".md", text).write(["Peter's Haus", 'so "neu"', "Text"], "de").decode()
    assert tomllib.loads(written.split("+++\n")[1]) == {
        "title": "Peter's Haus",
        "description": 'so "neu"',
        "language": "de",
        "tags": ["a"],
    }


def test_titles_and_languages_of_office_documents_are_read_by_other_libraries() -> None:
    document = docx.Document(io.BytesIO(word_document()))
    document.core_properties.title, document.core_properties.author = "The house", "Tom King"
    document.core_properties.language = "en-US"
    properties = docx.Document(io.BytesIO(translated(".docx", saved(document)))).core_properties
    assert (properties.title, properties.author, properties.language) == ("THE HOUSE", "Tom King", "de-DE")

    slides = pptx.Presentation(io.BytesIO(presentation()))
    slides.core_properties.title, slides.core_properties.keywords = "The house", "red, old"
    loaded = pptx.Presentation(io.BytesIO(translated(".pptx", saved(slides)))).core_properties
    assert (loaded.title, loaded.keywords) == ("THE HOUSE", "RED, OLD")

    book = openpyxl.Workbook()
    book.properties.title = "The house"
    result = openpyxl.load_workbook(io.BytesIO(translated(".xlsx", saved(book))))
    assert (result.properties.title, result.properties.creator) == ("THE HOUSE", "openpyxl")

    text = odfdo.Document("text")
    text.meta.title, text.meta.creator, text.meta.keyword = "The house", "Tom King", "red"
    meta = odfdo.Document(io.BytesIO(translated(".odt", saved(text)))).meta
    assert (meta.title, meta.creator, meta.keyword) == ("THE HOUSE", "Tom King", "RED")


@pytest.mark.parametrize(
    ("target", "language"),
    [
        ("de", '<w:lang w:val="de-DE" w:eastAsia="en-US" w:bidi="ar-SA"/>'),
        ("ja", '<w:lang w:val="en-US" w:eastAsia="ja-JP" w:bidi="ar-SA"/>'),
        ("he", '<w:lang w:val="en-US" w:eastAsia="en-US" w:bidi="he-IL"/>'),
    ],
)
def test_word_checks_the_spelling_of_the_target_language(target: str, language: str) -> None:
    result = translated(".docx", word_document(), target)
    assert language in part(result, "word/styles.xml")


def test_styles_that_cannot_be_read_stay() -> None:
    parts = {**parts_of(word_document()), "word/styles.xml": "<broken"}
    file = read(".docx", zipped(parts))
    written = file.write([unit.text.upper() for unit in file.units], "de")
    assert part(written, "word/styles.xml") == "<broken"


def test_names_of_files_are_no_descriptions() -> None:
    document = docx.Document()
    document.core_properties.title, document.core_properties.comments = "letter_v3.docx", ""
    assert texts_of(".docx", saved(document)) == []


NCX = (
    '<ncx xml:lang="en"><docTitle><text>The house</text></docTitle><docAuthor>\n<text>Tom King</text></docAuthor>'
    "<navLabel><text>Chapter one</text></navLabel></ncx>"
)


def package(metadata: str, spine: str = "<spine/>", language: str = "en") -> str:
    items = ITEM("a.xhtml", XHTML) + ITEM("t.ncx", "application/x-dtbncx+xml")
    names = f"<dc:language>{language}</dc:language>{metadata}"
    return f"<package><metadata xmlns:dc='d'>{names}</metadata><manifest>{items}</manifest>{spine}</package>"


def a_book(package: str) -> bytes:
    page = '<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><body><p>Some text</p></body></html>'
    return book(("a.xhtml", XHTML, page), ("t.ncx", "application/x-dtbncx+xml", NCX), package=package)


def test_all_parts_of_a_book_name_the_target_language() -> None:
    data = a_book(package("<dc:title>Verso</dc:title>"))
    file = read(".epub", data)
    written = file.write([None if unit.text == "Verso" else unit.text.upper() for unit in file.units], "de")
    assert 'xml:lang="de"' in part(written, "OPS/a.xhtml")
    assert "<dc:language>de</dc:language><dc:title>Verso</dc:title>" in part(written, "OPS/b.opf")
    assert part(written, "OPS/t.ncx") == NCX.replace('"en"', '"de"').replace("The house", "THE HOUSE").replace(
        "Chapter one", "CHAPTER ONE"
    )
    assert unchanged(".epub", data) == data


@pytest.mark.parametrize(
    ("spine", "language", "target", "expected"),
    [
        ("<spine/>", "en", "ar", '<spine page-progression-direction="rtl"/>'),
        ("<spine toc='t' page-progression-direction='ltr'/>", "en", "he", "'rtl'/>"),
        ('<spine page-progression-direction="rtl"/>', "ar", "de", '"ltr"/>'),
        ('<spine page-progression-direction="rtl"/>', "ja", "de", '"rtl"/>'),
        ("<spine/>", "en", "de", "<spine/>"),
    ],
)
def test_the_pages_of_a_book_follow_one_another_as_its_language_is_read(
    spine: str, language: str, target: str, expected: str
) -> None:
    data = a_book(package("", spine, language))
    assert expected in part(translated(".epub", data, target), "OPS/b.opf")


def test_a_description_with_tags_is_read_as_a_page() -> None:
    data = a_book(
        package("<dc:description>&lt;p&gt;It is &lt;b&gt;red&lt;/b&gt; &amp;amp; old.&lt;/p&gt;</dc:description>")
    )
    assert "<p>It is <b>red</b> &amp; old.</p>" in texts_of(".epub", data)
    written = part(translated(".epub", data), "OPS/b.opf")
    assert "&lt;p&gt;IT IS &lt;b&gt;RED&lt;/b&gt; &amp;amp; OLD.&lt;/p&gt;" in written


def test_a_package_document_that_is_no_text_is_kept() -> None:
    data = book(("a.xhtml", XHTML, "<p>Yes</p>"), package=b"\xff\xfe\x00".decode("latin-1") * 3)
    assert part(translated(".epub", data), "OPS/a.xhtml") == "<p>YES</p>"
