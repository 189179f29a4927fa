"""Catalogues of programs there and back: only the translations change, and everything else keeps its bytes."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import polib
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.documents.formats.catalogues.message_parts import message_parts
from app.documents.formats.codes import is_code
from app.documents.formats.table import format_of
from app.errors import UnsupportedDocument
from tests.app.documents.structures.files import FILES, TRANSLATIONS
from tests.app.documents.translated import read, texts_of, translated, translated_text


@pytest.mark.parametrize(
    ("message", "texts", "written"),
    [
        (
            "{n, plural, =1 {one book} other {# books}}",
            ["one book", "{#} books"],
            "{n, plural, =1 {ONE BOOK} other {# BOOKS}}",
        ),
        (
            "{g, select, male {his} other {their}} dog",
            ["his", "their", " dog"],
            "{g, select, male {HIS} other {THEIR}} DOG",
        ),
        (
            "{n, plural, offset:1 one{{{n}} it''s {g, select, a {x} other {y z}}} other {'{a}' b}}",
            ["{{n}} it's ", "x", "y z", "'{a}' b"],
            "{n, plural, offset:1 one{{{N}} IT''S {g, select, a {X} other {Y Z}}} other {'{A}' B}}",
        ),
        ("{n, plural, one {a}", [], "{n, plural, one {a}"),
        ("{n, plural, one a}", [], "{n, plural, one a}"),
        ("{0,choice,0#none|1#one}", [], "{0,choice,0#none|1#one}"),
        ("It''s {0}", ["It's {0}"], "IT''S {0}"),
        ("It''s", ["It''s"], "IT''S"),
        ("One book|{n} books", ["One book", "{n} books"], "ONE BOOK|{N} BOOKS"),
        ("{0} None|[1,19] Some|[20,*] Many", ["None", "Some", "Many"], "{0} NONE|[1,19] SOME|[20,*] MANY"),
        ("a || b", ["a || b"], "A || B"),
        ("{x | date} now", ["{x | date} now"], "{X | DATE} NOW"),
        ("first_name", [], "first_name"),
    ],
)
def test_parts_of_a_message(message: str, texts: list[str], written: str) -> None:
    parts = message_parts(message, has_choices=True)
    assert [part.text for part in parts if part.text] == texts
    assert "".join(part.source for part in parts) == message
    assert "".join(part.written(part.text.upper()) if part.text else part.source for part in parts) == written


@given(
    st.lists(
        st.sampled_from(["{", "}", "n, plural,", "{n, plural, one {", "a b", "'", "''", "|", "#", " ", "=1 {"])
    ).map("".join)
)
def test_any_message_is_the_sum_of_its_parts(message: str) -> None:
    parts = message_parts(message, has_choices=True)
    assert "".join(part.written(part.text) if part.text else part.source for part in parts) == message


CODES = (
    "menu.file.open|firstName|en-GB|zh-Hant-TW|fa-home|dark-mode|text/html|application/json|btn btn-primary|first_name|"
    "MAX_SIZE|@string/title|#ff00aa|--primary-color|[%key:ui::card%]|@:a.b @:c.d|@.lower:a|"
    "nplurals=2; plural=(n != 1);|"
    "activerecord::errors|%#@files@"
)
TEXTS = "Save|Kolleg:innen|AT&T|and/or|_Open|E_xit|e-mail|x-ray|Well-known|Loading...|a|See menu.file"


@pytest.mark.parametrize(("values", "are_codes"), [(CODES, True), (TEXTS, False)])
def test_values_for_programs_are_codes(values: str, are_codes: bool) -> None:
    assert [value for value in values.split("|") if is_code(value) != are_codes] == []


HEADER = 'msgid ""\nmsgstr "X: y\\nContent-Type: text/plain; charset={}\\n"\n\n'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('msgid "Good"\nmsgstr ""', 'msgid "Good"\nmsgstr "GOOD"'),
        ('#, fuzzy, c-format\r\nmsgid "a"\r\nmsgstr "b"\r\n', '#, c-format\r\nmsgid "a"\r\nmsgstr "A"\r\n'),
        ('#, fuzzy,c-format\nmsgid "a"\nmsgstr "b"\n', '#, c-format\nmsgid "a"\nmsgstr "A"\n'),
        ('#,fuzzy\n#| msgid "x"\nmsgid "a"\nmsgstr "b"\n', 'msgid "a"\nmsgstr "A"\n'),
        (
            'msgid "a"\nmsgid_plural "as"\nmsgstr[0] "x"\nmsgstr[1] ""\n',
            'msgid "a"\nmsgid_plural "as"\nmsgstr[0] "x"\nmsgstr[1] "AS"\n',
        ),
        (
            'msgid "a"\nmsgid_plural "as"\nmsgstr[0] ""\n',
            'msgid "a"\nmsgid_plural "as"\nmsgstr[0] "A"\nmsgstr[1] "AS"\n',
        ),
        ('msgid "a\\n"\nmsgstr ""\n', 'msgid "a\\n"\nmsgstr "A\\n"\n'),
        ('msgid "a\\n"\n"b"\nmsgstr ""\n', 'msgid "a\\n"\n"b"\nmsgstr ""\n"A\\n"\n"B"\n'),
        (f'msgid "{"word " * 20}"\nmsgstr ""\n', f'msgid "{"word " * 20}"\nmsgstr "{"WORD " * 20}"\n'),
        ('#~ msgid "a"\n#~ msgstr "b"\nmsgid "a"\nmsgstr ""\n', '#~ msgid "a"\n#~ msgstr "b"\nmsgid "a"\nmsgstr "A"\n'),
    ],
)
def test_only_new_translations_of_a_gettext_catalogue_change(source: str, expected: str) -> None:
    assert translated_text(".po", source) == expected


def test_long_translations_of_gettext_are_broken_as_gettext_does() -> None:
    file = read(".po", 'msgid "a"\nmsgstr ""\n')
    written = file.write(["wort " * 40], "de").decode()
    assert polib.pofile(written)[0].msgstr == "wort " * 40
    assert max(map(len, written.splitlines())) <= 79


@pytest.mark.parametrize(("charset", "character"), [("ISO-8859-1", "ü"), ("UTF-8", "ü"), ("ISO-8859-1", "ł")])
def test_a_gettext_catalogue_keeps_its_encoding_if_that_has_all_characters(charset: str, character: str) -> None:
    written = read(".po", (HEADER.format(charset) + 'msgid "a"\nmsgstr ""\n').encode(charset)).write([character], "pl")
    name = charset if character == "ü" else "UTF-8"
    assert f"charset={name}" in written.decode(name)
    assert f'msgstr "{character}"' in written.decode(name)


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (".po", 'msgid ""\nmsgstr "Language: {}\\n"\n\nmsgid "Door"\nmsgstr "x"\n\nmsgid "Good"\nmsgstr ""\n'),
        (".ts", '<TS language="{}"><message><source>a</source><translation>x</translation></message></TS>'),
        (".xlf", '<xliff version="2.0" trgLang="{}"><segment><source>a</source><target>b</target></segment></xliff>'),
        (
            ".xlf",
            '<xliff version="1.2"><file target-language="{}"><trans-unit><source>a</source>'
            "<target>b</target></trans-unit>"
            "<trans-unit><source>c</source></trans-unit></file></xliff>",
        ),
    ],
)
def test_the_region_of_a_language_is_kept_and_another_language_is_named(suffix: str, text: str) -> None:
    assert read(suffix, text.format("fr")).target_language == "fr"
    assert "de_AT" in translated_text(suffix, text.format("de_AT"))
    assert (
        read(
            suffix, text.format("fr").replace('msgstr "x"', 'msgstr ""').replace(">x<", "><").replace(">b<", "><")
        ).target_language
        == ""
    )


UNIT = '<xliff version="1.2"><file><body>\r\n <trans-unit id="1">{}</trans-unit></body></file></xliff>\r\n'


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (
            "<source>a <x id='1'/></source>",
            "<source>a <x id='1'/></source><target state=\"translated\">A <x id='1'/></target>",
        ),
        (
            "\r\n  <source>a</source>\r\n  <note>It&apos;s</note>",
            '\r\n  <source>a</source>\r\n  <target state="translated">A</target>\r\n  <note>It&apos;s</note>',
        ),
        ("<source>a</source><target/>", '<source>a</source><target state="translated">A</target>'),
        (
            "<source><![CDATA[&amp; <b>b</b>]]></source><target state='new' state-qualifier=''><![CDATA[]]></target>",
            "<source><![CDATA[&amp; <b>b</b>]]></source><target state='translated'><![CDATA[&amp; <b>B</b>]]></target>",
        ),
        (
            "<source>\r\n  one\r\n  two </source>",
            '<source>\r\n  one\r\n  two </source><target state="translated">\r\n  ONE TWO </target>',
        ),
        (
            "<source>x</source>"
            '<seg-source><g id="g"><mrk mtype="seg" mid="0">a.</mrk></g> <mrk mtype="seg" mid="1">b.</mrk>'
            '</seg-source><target><g id="g"><mrk mtype="seg" mid="0"/></g> <mrk mtype="seg" mid="1">da</mrk></target>',
            "<source>x</source>"
            '<seg-source><g id="g"><mrk mtype="seg" mid="0">a.</mrk></g> <mrk mtype="seg" mid="1">b.</mrk>'
            '</seg-source><target state="translated"><g id="g"><mrk mtype="seg" mid="0">A.</mrk></g> '
            '<mrk mtype="seg" mid="1">da</mrk></target>',
        ),
        (
            "<source>x</source>"
            '<seg-source><mrk mtype="seg" mid="0">a.</mrk> <mrk mtype="seg" mid="1">b.</mrk></seg-source>',
            "<source>x</source>"
            '<seg-source><mrk mtype="seg" mid="0">a.</mrk> <mrk mtype="seg" mid="1">b.</mrk></seg-source>'
            '<target state="translated"><mrk mtype="seg" mid="0">A.</mrk> <mrk mtype="seg" mid="1">B.</mrk></target>',
        ),
        (
            '<source>{N, plural, =1 {one <x id="B"/>cat} other {dog}}</source>',
            '<source>{N, plural, =1 {one <x id="B"/>cat} other {dog}}</source>'
            '<target state="translated">{N, plural, =1 {ONE <x id="B"/>CAT} other {DOG}}</target>',
        ),
        ("<source>{N, plural, =1 {a}</source>", "<source>{N, plural, =1 {a}</source>"),
    ],
)
def test_only_targets_of_xliff_change(unit: str, expected: str) -> None:
    written = translated_text(".xlf", UNIT.format(unit)).replace(' target-language="de"', "")
    assert written == UNIT.format(expected)
    ElementTree.fromstring(written)


def test_a_message_with_a_part_that_is_not_translated_keeps_its_state() -> None:
    text = 'msgid "{n, plural, one {a b} other {c d}}"\nmsgstr ""\n'
    assert read(".po", text).write(["A", None], "de") == text.encode()


def test_a_string_catalog_keeps_translations_of_the_target_language() -> None:
    unit = '{"stringUnit": {"state": "%s", "value": "x"}}'
    entry = '{"sourceLanguage": "en", "strings": {"Hi": {"localizations": {"de": ' + unit + "}}}}"
    assert translated_text(".xcstrings", entry % "translated") == entry % "translated"
    written = json.loads(translated_text(".xcstrings", entry % "new"))
    assert written["strings"]["Hi"]["localizations"] == {"de": {"stringUnit": {"state": "translated", "value": "HI"}}}


SCALARS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="|"), max_size=12
) | st.sampled_from(["yes", "null", "- a", "a: b", "a #b", "x'y", "1.5", " a", "a\nb", "a\n\nb"])


@given(st.dictionaries(st.sampled_from("abcd"), SCALARS, min_size=1), st.sampled_from([None, "'", '"', "|"]), SCALARS)
def test_any_yaml_keeps_its_structure(values: dict[str, str], style: Any, translation: str) -> None:
    text = yaml.dump(values, allow_unicode=True, default_style=style)
    file = read(".yml", text)
    written = yaml.safe_load(file.write([translation] * len(file.units), "de"))
    changed = [value for key, value in written.items() if value != yaml.safe_load(text)[key]]
    assert written.keys() == values.keys()
    assert {" ".join(value.split()) for value in changed} <= {" ".join(translation.split())}


@pytest.mark.parametrize(
    ("name", "content", "suffix"),
    [
        ("messages", b'msgid "a"\nmsgstr ""\n', ".po"),
        ("film.txt.bak", b"1\n00:00:01,000 --> 00:00:02,000\nHi\n", ".srt"),
        ("film.srt", b"WEBVTT\n\n00:01.000 --> 00:02.000\nHi\n", ".vtt"),
        ("de.xml", b'<?xml version="1.0"?>\n<xliff version="1.2"/>', ".xliff"),
        ("de.xml", b"<!DOCTYPE TS><TS/>", ".ts"),
        ("de.xml", b"<root><resheader name='a'/></root>", ".resx"),
        ("strings.xml", b"<!-- a --><resources/>", ".xml"),
        ("Localizable", '"a" = "b";'.encode("utf-16"), ".strings"),
        ("letter.txt", b"PK\x03\x04" + b"0" * 30 + b"word/document.xml", ".docx"),
        ("letter", b"PK\x03\x04" + b"0" * 26 + b"mimetypeapplication/vnd.oasis.opendocument.text", ".odt"),
        ("page.md", b"<html><p>Hi</p></html>", ".md"),
        ("list.json", b'"text"', ".json"),
        ("page", b"<!doctype html><p>Hi", ".html"),
        ("page.html", b"{{ define 'main' }}<p>Hi</p>{{ end }}", ".html"),
    ],
)
def test_the_content_tells_the_format_if_the_ending_does_not(name: str, content: bytes, suffix: str) -> None:
    assert format_of(name, content).suffix == suffix


@pytest.mark.parametrize("content", [b"hello", b"\x7fELF", b"PK\x03\x04visio/document.xml", b""])
def test_a_file_of_which_neither_ending_nor_content_tells_the_format_is_refused(content: bytes) -> None:
    with pytest.raises(UnsupportedDocument):
        format_of("file.bin", content)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("sep=;\r\nName;Text\r\nA b;Good night\r\n", ["Name", "Text", "A b", "Good night"]),
        ("id,country,code,status\n17,Egypt,EG,ACTIVE\n18,Germany,DE,CLOSED\n", ["Egypt", "Germany"]),
        ("keys,en,es\nHELLO_X,Hello,Hola\n", ["Hello", "Hola"]),
        ("dog,cat\nhouse,mouse\n", ["dog", "cat", "house", "mouse"]),
        ("NAME,TOWN\nTOM SMITH,BERLIN\nANN,PARIS\n", ["NAME", "TOWN", "TOM SMITH", "BERLIN", "PARIS"]),
        ("a b\n=SUM(A1:B2)\n@SUM(A1)\n+A1*B2\n+49 call us\n", ["a b", "+49 call us"]),
    ],
)
def test_codes_formulas_and_names_of_columns_are_no_words(text: str, units: list[str]) -> None:
    assert texts_of(".csv", text) == units


def test_a_file_in_utf_16_is_translated_in_utf_16() -> None:
    written = translated(".strings", FILES[".strings"].encode("utf-16"))
    assert written.decode("utf-16") == TRANSLATIONS[".strings"]


def test_quotation_marks_within_a_cell_stay_single() -> None:
    assert translated_text(".tsv", 'a "big" word\tA b\n') == 'A "BIG" WORD\tA B\n'
