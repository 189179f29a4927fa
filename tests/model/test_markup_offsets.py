"""Where the characters of texts and translations stand in documents, and what answers say about them."""

from __future__ import annotations

import dataclasses
import html
import math
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from model.artifacts.bundle import load_bundle
from model.decoding.options import Hypothesis
from model.text.glossary import GlossaryTerm
from model.text.markup import MarkedUp, MarkupFormat, OffsetMap, PlacedText, place_marks
from model.text.markup.offsets import Part, unescaped_parts
from model.translation.confidence import NOTHING_TRANSLATED, Evidence
from model.translation.options import TranslationOptions
from model.translation.results import Translation
from model.translator import Translator
from tests.model.markup_documents import HTML, XML, same, translated
from tests.model.test_generated_markup import ANYTHING, WELL_FORMED
from tests.model.translation.test_pipeline import pipeline
from tests.toy import WORDS

DOCUMENTS: list[tuple[str, MarkupFormat]] = [
    *((document, "html") for document in HTML.values()),
    *((document, "xml") for document in XML.values()),
]
REFERENCES = [
    "&amp;",
    "&lt;",
    "&nbsp;",
    "&#8364;",
    "&#x20ac",
    "&NotEqualTilde;",
    "&copy",
    "&unknown;",
    "&",
    "&amp;amp;",
]
VALUES = st.lists(st.sampled_from([*REFERENCES, "a", "=", " ", "ä😀", "amp;", "\r\n"]), max_size=8).map("".join)


def all_spans(offsets: OffsetMap, text: str) -> list[tuple[int, int]]:
    return [offsets.span((index, index + 1)) for index in range(len(text))]


def assert_written(document: str, offsets: OffsetMap, text: str) -> None:
    """Each character of a text is at its range of the document, in some spelling, and the ranges are in order."""
    previous = (0, 0)
    for character, (start, end) in zip(text, all_spans(offsets, text), strict=True):
        written = document[start:end]
        assert start >= previous[1] or (start, end) == previous
        previous = start, end
        if written != character and not character.isspace():
            # A character reference, perhaps of two characters, or a kept element with its text.
            assert character in html.unescape(written) or written.startswith("<"), (character, written)


@pytest.mark.parametrize(("document", "format"), DOCUMENTS)
def test_characters_of_texts_are_found_in_the_document(document: str, format: MarkupFormat) -> None:
    marked_up = MarkedUp(document, format)
    for marked, offsets in zip(marked_up.texts, marked_up.offsets(), strict=True):
        assert_written(document, offsets, marked.text)


@pytest.mark.parametrize(("document", "format"), DOCUMENTS)
def test_characters_of_untranslated_texts_stay_where_they_are(document: str, format: MarkupFormat) -> None:
    marked_up = MarkedUp(document, format)
    _, result = marked_up.render_with_offsets(same(marked_up))
    for marked, before, after in zip(marked_up.texts, marked_up.offsets(), result, strict=True):
        assert all_spans(after, marked.text) == all_spans(before, marked.text)


@given(ANYTHING)
def test_characters_of_any_untranslated_html_stay_where_they_are(document: str) -> None:
    marked_up = MarkedUp(document, "html")
    _, result = marked_up.render_with_offsets(same(marked_up))
    for marked, before, after in zip(marked_up.texts, marked_up.offsets(), result, strict=True):
        assert_written(document, before, marked.text)
        assert all_spans(after, marked.text) == all_spans(before, marked.text)


@given(WELL_FORMED, st.randoms(use_true_random=False))
def test_characters_of_any_translation_are_found_in_the_translated_document(document: str, rng: random.Random) -> None:
    marked_up = MarkedUp(document, "html")
    placed = [translated(marked, rng) for marked in marked_up.texts]
    rendered, result = marked_up.render_with_offsets(placed)
    for item, offsets in zip(placed, result, strict=True):
        assert_written(rendered, offsets, item.text)


@given(VALUES)
def test_characters_of_attributes_are_found_between_their_quotation_marks(value: str) -> None:
    document = f"<img src=x alt='x{value}'>"
    (marked,) = MarkedUp(document, "html").texts
    (offsets,) = MarkedUp(document, "html").offsets()
    assert_written(document, offsets, marked.text)
    assert offsets.span((0, len(marked.text))) == (16, 17 + len(value))


def test_a_value_that_cannot_be_followed_is_one_part() -> None:
    assert list(unescaped_parts("&amp;&copy;", "something else")) == [Part(14, 0, 11)]


@pytest.mark.parametrize(
    ("document", "format", "span", "expected"),
    [
        ("<p>Tom &amp; <b>Jerry</b></p>", "html", "Tom & Jerry", "Tom &amp; <b>Jerry"),
        ("<p>Tom &amp; <b>Jerry</b></p>", "html", "&", "&amp;"),
        ("<p><i>T</i>he end</p>", "html", "The", "T</i>he"),
        ("<p>one\n   two</p>", "html", "one two", "one\n   two"),
        ("<p>one\n   two</p>", "html", " ", "\n   "),
        ("one <br>\n two", "html", "\n", " <br>\n "),
        ("call <code>f(x)</code> now", "html", "f(x)", "<code>f(x)</code>"),
        ("a <img alt=\"x &lt;3 y\"> b", "html", "<3", "&lt;3"),
        ("<a>one\r\n\r\ntwo</a>", "xml", "two", "two"),
        ("<a>one <![CDATA[ raw ]]> two</a>", "xml", "raw", "<![CDATA[ raw ]]>"),
        ("\ufeff<a>süß 😀 <b>x</b> &#8364;</a>", "xml", "x €", "x</b> &#8364;"),
    ],
)  # fmt: skip
def test_a_span_of_a_text_is_one_of_the_document(document: str, format: MarkupFormat, span: str, expected: str) -> None:
    marked_up = MarkedUp(document, format)
    texts = zip(marked_up.texts, marked_up.offsets(), strict=True)
    marked, offsets = next(text for text in texts if span in text[0].text)
    start = marked.text.index(span)
    assert document[slice(*offsets.span((start, start + len(span))))] == expected


def test_escaped_characters_and_moved_tags_are_found_in_the_translation() -> None:
    marked_up = MarkedUp('<p>one <b>two</b> <img alt="x y"> three</p>', "html")
    text, alternative = marked_up.texts
    rendered, (offsets, of_alternative) = marked_up.render_with_offsets(
        [
            place_marks(text, "<drei> zwei & eins", [((0, 3), (14, 18)), ((4, 7), (7, 11)), ((8, 13), (1, 5))]),
            PlacedText('"x" & y'),
        ]
    )
    spans = [(0, 1), (1, 5), (5, 11), (12, 13), (14, 18)]
    assert [rendered[slice(*offsets.span(span))] for span in spans] == ["&lt;", "drei", "&gt; <b>zwei", "&amp;", "eins"]
    assert rendered[slice(*of_alternative.span((0, 7)))] == "&quot;x&quot; &amp; y"
    assert alternative.text == "x y"


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    return Translator(load_bundle(toy_bundle, "cpu"))


def translate(translator: Translator, document: str, format: MarkupFormat = "html", **options: Any) -> Translation:
    (translation,) = translator.translate(
        [document], TranslationOptions(decoding="greedy", format=format, **options), "en", "de"
    )
    return translation


def plain(written: str) -> str:
    """A part of a document as text: without tags and comments, with references decoded."""
    return " ".join(html.unescape(re.sub("<[^>]*>", "", written)).split())


def linked(source: str, result: Translation) -> list[tuple[str, str]]:
    assert result.alignment is not None
    assert list(result.alignment) == sorted(result.alignment, key=lambda link: link.target)
    return [(plain(source[slice(*link.source)]), plain(result.text[slice(*link.target)])) for link in result.alignment]


SPELLINGS = ["{0}", "{0}", "<b>{0}</b>", "{1}<i>{2}</i>", "<i>{1}</i>{2}", "&#{3};{2}", '<a href="?x&amp;y">{0}</a>']
GAPS = [" ", " ", "\n   ", "<br>", " <!-- old cat --> ", "&#32;", ' <img src="cat.png"> ']
SENTENCE = st.lists(
    st.tuples(st.sampled_from(sorted(WORDS)), st.sampled_from(SPELLINGS), st.sampled_from(GAPS)), min_size=1, max_size=5
)


@given(SENTENCE)
def test_links_of_a_document_are_those_of_its_text(translator: Translator, words: list[tuple[str, str, str]]) -> None:
    document = "".join(spelling.format(word, word[:1], word[1:], ord(word[0])) + gap for word, spelling, gap in words)
    document = f"<h1 class='old'>{document}</h1>"
    (marked,) = MarkedUp(document, "html").texts
    (of_text,) = translator.translate(
        [marked.text], TranslationOptions(decoding="greedy"), "en", "de", return_alignment=True
    )
    translations = translate(translator, document, return_alignment=True)
    assert linked(document, translations) == linked(marked.text, of_text)


def test_links_are_between_the_words_of_document_and_translation(translator: Translator) -> None:
    document = (
        '<h1>red <b>c<i>at</i></b> sees\n  &#111;ld dog.</h1><p>tree <code>f(1)</code> likes <a href="?dog">house</a>.'
    )
    translations = translate(translator, document, return_alignment=True)
    links = linked(document, translations)
    assert [pair for pair in links if pair[1] in WORDS.values()] == [
        ("red", "rot"), ("cat", "Katze"), ("sees", "sieht"), ("old", "alt"), ("dog", "Hund"),
        ("tree", "Baum"), ("likes", "mag"), ("house", "Haus"),
    ]  # fmt: skip


def test_a_document_without_requests_has_no_details(translator: Translator) -> None:
    translations = translate(translator, "<p>red <b>cat</b>.</p>")
    assert (translations.alignment, translations.confidence, translations.integrity, translations.glossary) == (
        None,
        None,
        None,
        None,
    )


def test_confidence_is_that_of_a_text_of_several_sentences(translator: Translator) -> None:
    document = "<h1>red <b>c</b>at.</h1>\n<p>old &#100;og sees tree.</p>"
    (of_text,) = translator.translate(
        ["red cat.\nold dog sees tree."], TranslationOptions(decoding="greedy"), "en", "de", return_confidence=True
    )
    translations = translate(translator, document, return_confidence=True)
    assert translations.confidence is not None and of_text.confidence is not None
    assert translations.confidence.score == of_text.confidence.score
    assert [
        (plain(translations.text[slice(*word.target)]), word.probability) for word in translations.confidence.words
    ] == [(of_text.text[slice(*word.target)], word.probability) for word in of_text.confidence.words]
    assert len(translations.confidence.words) == 6


def test_uncovered_words_are_those_of_the_document() -> None:
    document = "<p>One &amp; <b>two</b>.</p><p title='Four'>Three.</p>"
    plan = pipeline().prepare(document, "en", "de", TranslationOptions(format="html", return_confidence=True))
    plan.settle([Hypothesis([ord("x")] * 3, None, "stop") for _ in plan.pending])
    texts = ["Four", "One & two.", "Three."]
    evidence = [
        # One token a character, between two markers; the translation makes that of "w" and of "u" less probable.
        Evidence(
            torch.full((4,), -0.5),
            torch.tensor([math.inf, *(-9.0 if character in "wu" else 1.0 for character in text), math.inf]),
            len(text),
            3,
            (-1.5,),
        )
        for text in (document_text.text for document_text in MarkedUp(document, "html").texts)
    ]
    assert sorted(texts) == sorted(marked.text for marked in MarkedUp(document, "html").texts)
    result = plan.complete(evidence=evidence).confidence
    assert result is not None and result.uncovered is not None
    assert [document[slice(*span)] for span in result.uncovered] == ["two</b>.", "Four"]
    without = [dataclasses.replace(evidence[0], gains=None), *evidence[1:]]
    again = plan.complete(evidence=without).confidence
    assert again is not None and again.uncovered is None


def test_a_document_without_text_has_full_confidence_and_no_links(translator: Translator) -> None:
    translations = translate(translator, "<p><img></p>", return_alignment=True, return_confidence=True)
    assert (translations.alignment, translations.confidence) == ((), NOTHING_TRANSLATED)


def test_integrity_names_protected_spans_and_kept_elements(translator: Translator) -> None:
    document = '<p>red {x} cat <code>f(x)</code> sees <img alt="old @me dog."> tree <b>%s</b></p><p>{y}</p>'
    translations = translate(translator, document)
    assert translations.integrity is not None
    spans = [document[slice(*use.source)] for use in translations.integrity]
    assert spans == [translations.text[slice(*use.target)] for use in translations.integrity]
    assert spans == ["{x}", "<code>f(x)</code>", "@me", "%s", "{y}"]
    assert translate(translator, "<p>red cat.</p>").integrity is None


def test_terms_are_found_in_the_document_and_its_translation(translator: Translator) -> None:
    terms = (GlossaryTerm("dog", "A & B"), GlossaryTerm("tree", "Baum"), GlossaryTerm("house", "Hütte"))
    document = '<p>tree sees <b>d</b>og. <i>old cat.</i></p><p title="red dog.">red cat.'
    translations = translate(translator, document, glossary=terms)
    assert translations.glossary is not None
    assert [(document[slice(*use.source)], use.status) for use in translations.glossary] == [
        ("tree", "used"), ("d</b>og", "replaced"), ("dog", "replaced"),
    ]  # fmt: skip
    targets = [translations.text[slice(*use.target)] for use in translations.glossary if use.target is not None]
    assert [plain(target) for target in targets] == ["Baum", "A & B", "A & B"]
    assert translate(translator, "<p>red cat.</p>", glossary=terms).glossary == ()
