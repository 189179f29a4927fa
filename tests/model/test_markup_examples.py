"""Structures of DeepL's published examples of tag handling, and of strings of translation tools, in the toy language.

https://developers.deepl.com/docs/xml-and-html-handling: structured content, ignored tags, tags in a sentence,
``translate="no"`` and ``class="notranslate"``. Weblate sends placeholders as ``<x id="12"></x>``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from model.artifacts.bundle import load_bundle
from model.text.markup import MarkupFormat
from model.translation.options import TranslationOptions
from model.translator import Translator


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    return Translator(load_bundle(toy_bundle, "cpu"))


def translate(translator: Translator, document: str, format: MarkupFormat, *ignore_tags: str) -> str:
    options = TranslationOptions(decoding="greedy", format=format, ignore_tags=ignore_tags)
    return translator.translate([document], options, "en", "de")[0].text


STRUCTURED = """\
<document>
  <meta>
    <title>old house.</title>
  </meta>
  <content>
    <par>red cat sees dog. old dog likes tree.</par>
    <par>cat likes red house.</par>
  </content>
</document>
"""

PAGE = """\
<!DOCTYPE html>
<html>
<body>

<h1>red house.</h1>
<p{0}>old cat sees dog.</p>

</body>
</html>
"""


def test_structured_content_is_translated_element_by_element(translator: Translator) -> None:
    expected = STRUCTURED
    for source, target in (
        ("old house.", "alt Haus."),
        ("red cat sees dog. old dog likes tree.", "rot Katze sieht Hund. alt Hund mag Baum."),
        ("cat likes red house.", "Katze mag rot Haus."),
    ):
        expected = expected.replace(source, target)
    assert translate(translator, STRUCTURED, "xml") == expected


def test_a_tag_in_a_sentence_goes_around_the_same_words(translator: Translator) -> None:
    document = "<par>red cat sees <i>old</i> dog.</par>"
    for format in ("xml", "html"):
        assert translate(translator, document, format) == "<par>rot Katze sieht <i>alt</i> Hund.</par>"


def test_the_content_of_ignored_tags_is_not_translated(translator: Translator) -> None:
    document = "red cat sees <x>old</x> dog."
    for format in ("xml", "html"):
        translations = translate(translator, document, format, "x")
        assert "<x>old</x>" in translations
        assert translations.startswith("rot ") and " Hund" in translations


def test_a_page_keeps_everything_but_its_texts(translator: Translator) -> None:
    expected = PAGE.format("").replace("red house.", "rot Haus.").replace("old cat sees dog.", "alt Katze sieht Hund.")
    assert translate(translator, PAGE.format(""), "html") == expected


@pytest.mark.parametrize("attribute", [' translate="no"', ' class="notranslate"', ' class="a notranslate b"'])
def test_an_element_that_is_not_to_be_translated_stays(translator: Translator, attribute: str) -> None:
    document = PAGE.format(attribute)
    assert translate(translator, document, "html") == document.replace("red house.", "rot Haus.")


@pytest.mark.parametrize("placeholder", ['<x id="12"></x>', '<x id="12"/>'])
def test_placeholders_of_translation_tools_stay_at_their_words(translator: Translator, placeholder: str) -> None:
    document = f"red cat {placeholder}, old dog."
    assert translate(translator, document, "xml", "x") == f"rot Katze {placeholder}, alt Hund."
    assert translate(translator, document, "xml") == f"rot Katze {placeholder}, alt Hund."
