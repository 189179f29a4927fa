"""Text files in the encoding that they declare, or that their bytes look like."""

from __future__ import annotations

import pytest

from app.documents.formats.encodings import HTML, decoded
from tests.app.documents.structures.files import FILES
from tests.app.documents.translated import read, texts_of, translated, translated_text, unchanged

HTML_LATIN_1 = '<meta charset="ISO-8859-1"><p>{}</p>'
CATALOGUE_LATIN_1 = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=ISO-8859-1\\n"\n\nmsgid "{}"\nmsgstr "{}"\n'


@pytest.mark.parametrize(
    ("suffix", "encoding", "text"),
    [
        (".srt", "cp1252", "1\n00:00:01,000 --> 00:00:03,000\nDas Haus ist schön.\n"),
        (
            ".srt",
            "cp1250",
            "1\n00:00:01,000 --> 00:00:03,000\nZażółć gęślą jaźń, mówię ci.\nCzeska rzeka jest długa.\n",
        ),
        (".srt", "cp1251", "1\n00:00:01,000 --> 00:00:03,000\nПривет, как дела?\n\n2\nВсё хорошо, спасибо.\n"),
        (".csv", "cp1252", "Name;Straße\nBäcker;Hauptstraße\n"),
        (".csv", "cp1252", "Ä;Ö;Ü\n5;6;7\n"),
        (".txt", "cp1252", "“It’s me”, 5 €…"),
        (".txt", "cp932", "おはようございます。元気ですか。\n"),
        (".txt", "utf-16-le", "Good morning, café.\n"),
        (".html", "latin-1", HTML_LATIN_1.format("Die Stra\u00dfe")),
        (".html", "latin-1", HTML_LATIN_1.format("only ASCII")),
        (".html", "cp1252", HTML_LATIN_1.format("“It’s me”")),
        (".html", "utf-8", HTML_LATIN_1.format("Die Straße “da”")),
        (".html", "koi8-r", "<meta content='text/html; charset=koi8-r' http-equiv=content-type><p>Привет</p>"),
        (".html", "iso2022_jp", "<meta charset=iso-2022-jp><p>おはよう</p>"),
        (".html", "gb18030", "<meta charset=gb2312><p>联通</p>"),
        (".html", "utf-8", "<meta charset=punycode><p>Grüße</p>"),
        (".html", "cp1251", '<?xml version="1.0" encoding="windows-1251"?><p>Привет</p>'),
    ],
)
def test_the_encoding_is_the_declared_or_the_most_probable_one(suffix: str, encoding: str, text: str) -> None:
    data = text.encode(encoding)
    assert decoded(data, HTML if suffix == ".html" else None)[0] == text
    assert unchanged(suffix, data) == data


def test_characters_that_a_page_cannot_store_become_references() -> None:
    data = HTML_LATIN_1.format("One Straße").encode("latin-1")
    assert read(".html", data).write(["„Eins“ Straße"], "de") == HTML_LATIN_1.format(
        "&#8222;Eins&#8220; Straße"
    ).encode("latin-1")


def test_a_file_that_cannot_store_a_translation_becomes_utf_8() -> None:
    assert read(".csv", "Straße,b".encode("cp1252")).write(["ul. Łąka", None], "pl") == "ul. Łąka,b".encode("utf-8-sig")
    data = CATALOGUE_LATIN_1.format("Door", "") + 'msgid "Tür"\nmsgstr "x"\n'
    written = read(".po", data.encode("latin-1")).write(["Тюр"], "ru").decode()
    assert "charset=UTF-8" in written and 'msgstr "Тюр"' in written and 'msgid "Tür"' in written


@pytest.mark.parametrize("suffix", [".txt", ".srt", ".vtt", ".csv", ".html", ".md", ".json", ".po"])
def test_lines_may_end_in_carriage_returns_alone(suffix: str) -> None:
    text = FILES[suffix].replace("\r\n", "\n")
    data = text.replace("\n", "\r").encode()
    assert texts_of(suffix, data) == texts_of(suffix, text)
    assert translated(suffix, data).decode() == translated_text(suffix, text).replace("\n", "\r")
