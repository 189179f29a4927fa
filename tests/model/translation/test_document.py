"""Documents through whole translations."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from model.artifacts.bundle import load_bundle
from model.decoding.options import Hypothesis
from model.errors import InvalidMarkup
from model.text.glossary import GlossaryTerm
from model.text.markup import MarkedUp, MarkupFormat, PlacedText
from model.translation.options import TranslationOptions
from model.translator import Translator
from tests.model.markup_documents import kept_sources
from tests.model.test_protected_translation import told_model
from tests.model.translation.test_pipeline import answer, letter_by_letter, pipeline

GREEDY = TranslationOptions(decoding="greedy")
HTML = TranslationOptions(decoding="greedy", format="html")


@pytest.fixture(scope="module")
def translator(toy_bundle: Path) -> Translator:
    return Translator(load_bundle(toy_bundle, "cpu"))


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<p>red cat sees old dog.</p>", "<p>rot Katze sieht alt Hund.</p>"),
        ("<p>red cat sees <b>old</b> dog.</p>", "<p>rot Katze sieht <b>alt</b> Hund.</p>"),
        ('<ul>\n <li>red <a href="/x?a&amp;b">cat</a>.\n <li>tree.</ul>', (
            '<ul>\n <li>rot <a href="/x?a&amp;b">Katze</a>.\n <li>Baum.</ul>'
        )),
        ('<img alt="old tree."><script>cat.</script><!-- cat. -->', (
            '<img alt="alt Baum."><script>cat.</script><!-- cat. -->'
        )),
        ("<p>red cat. <i>old dog.</i></p>", "<p>rot Katze. <i>alt Hund.</i></p>"),
        ('<p translate="no">red cat.</p>', '<p translate="no">red cat.</p>'),
        ("red cat {x} sees <code>cat.exe</code> dog.", "rot Katze {x} sieht <code>cat.exe</code> Hund."),
        # The toy cannot write brackets and digits, so all that is in the brackets is one protected span.
        ("red cat (<a>1<code>2</code></a>) sees dog.", "rot Katze (<a>1<code>2</code></a>) sieht Hund."),
        ("red <b>cat</b> www.example.com/<i>a</i>?b sees dog.", (
            "rot <b>Katze</b> www.example.com/<i>a</i>?b sieht Hund."
        )),
        ("", ""),
        ("<p></p>", "<p></p>"),
        ("plain red cat.", None),
    ],
)  # fmt: skip
def test_only_the_text_of_html_is_translated(document: str, expected: str | None, translator: Translator) -> None:
    (translation,) = translator.translate([document], HTML, "en", "de")
    if expected is None:
        assert translation.text == translator.translate([document], GREEDY, "en", "de")[0].text
    else:
        assert translation.text == expected


def test_xml_is_strict(translator: Translator) -> None:
    options = TranslationOptions(decoding="greedy", format="xml")
    document = '<?xml version="1.0"?>\n<doc id="cat"><p>red <x/>cat.</p></doc>'
    (translation,) = translator.translate([document], options, "en", "de")
    assert translation.text == document.replace("red <x/>cat.", "rot <x/>Katze.")
    with pytest.raises(InvalidMarkup, match="line 1, column"):
        translator.translate(["<doc><p>red cat.</doc>"], options, "en", "de")


def test_ignored_tags_are_not_translated(translator: Translator) -> None:
    options = TranslationOptions(decoding="greedy", format="html", ignore_tags=("p",))
    assert translator.translate(["<p>red cat.</p><div>tree.</div>"], options, "en", "de")[0].text == (
        "<p>red cat.</p><div>Baum.</div>"
    )


def test_documents_share_batches_with_texts_and_fail_alone(translator: Translator) -> None:
    plans = [
        translator.prepare("<b>red cat.</b> tree. <p>old dog.", "en", "de", HTML),
        translator.prepare("tree.", "en", "de"),
    ]
    translator.decode(plans)
    assert [request for plan in plans for request in plan.pending] == []
    assert plans[0].failure is None
    assert [len(plan.hypotheses) for plan in plans] == [3, 1]


def test_scores_and_alternatives_are_those_of_the_texts(translator: Translator) -> None:
    options = TranslationOptions(beam_size=3, num_hypotheses=2, return_scores=True, format="html")
    (translation,) = translator.translate(["<p>red <b>cat</b>.</p>"], options, "en", "de")
    (plain,) = translator.translate(
        ["red cat."], TranslationOptions(beam_size=3, num_hypotheses=2, return_scores=True), "en", "de"
    )
    assert translation.score == pytest.approx(plain.score)
    assert len(translation.alternatives) == 1
    assert translation.alternatives[0].text.count("<b>") == translation.alternatives[0].text.count("</b>") == 1
    assert (translation.num_source_tokens, translation.num_target_tokens) == (
        plain.num_source_tokens,
        plain.num_target_tokens,
    )


def test_scores_of_documents_and_of_their_alternatives_are_weighted_as_in_texts(translator: Translator) -> None:
    options = TranslationOptions(beam_size=3, num_hypotheses=2, return_scores=True)
    document = "<p>red cat. the old dog sees a tree.</p><p>a dog.</p>"
    (translation,) = translator.translate([document], replace(options, format="html"), "en", "de")
    (plain,) = translator.translate(["red cat. the old dog sees a tree.\na dog."], options, "en", "de")
    assert translation.num_sentences == plain.num_sentences == 3
    assert translation.score == pytest.approx(plain.score)
    assert [alternative.score for alternative in translation.alternatives] == pytest.approx(
        [item.score for item in plain.alternatives]
    )


def test_a_comma_more_or_less_in_one_sentence_moves_no_mark_of_another() -> None:
    plan = pipeline().prepare("Oh, but. Many<i>,</i> sick, rude.", "en", "de", TranslationOptions(format="html"))
    plan.settle([answer("oh but."), answer("many, sick, rude.")])
    translation = plan.complete({item.key: letter_by_letter(item) for item in plan.attended})
    assert translation.text == "OH BUT. MANY<i>,</i> SICK, RUDE."


def test_a_text_whose_elements_outnumber_the_words_of_its_translation_stays_with_all_details() -> None:
    options = TranslationOptions(format="html", return_alignment=True)
    plan = pipeline().prepare("<p><b>so</b> <i>many</i> {x}</p><p>sick</p>", "en", "de", options)
    plan.settle([answer("many"), answer("sick")])
    translation = plan.complete({item.key: letter_by_letter(item) for item in plan.attended})
    assert translation.text == "<p><b>so</b> <i>many</i> {x}</p><p>SICK</p>"
    assert (translation.num_untranslated, translation.num_sentences) == (1, 2)
    assert translation.integrity is not None
    assert [use.source == use.target for use in translation.integrity] == [True]
    assert {translation.text[slice(*link.target)] for link in translation.alignment or ()} == set("SICK")


def test_texts_with_markup_stay_if_their_marks_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "model.translation.document.place_marks",
        lambda marked, text, *_: PlacedText(text, ((-1, 0),) * len(marked.marks)),
    )
    plan = pipeline().prepare("<p>so <b>many</b></p><p>sick</p>", "en", "de", TranslationOptions(format="html"))
    plan.settle([answer("so many"), answer("sick")])
    assert plan.complete().text == "<p>so <b>many</b></p><p>SICK</p>"


def test_marks_of_alternatives_are_placed_by_the_alignment_of_each() -> None:
    options = TranslationOptions(format="html", num_hypotheses=3)
    plan = pipeline().prepare("<p>plain.</p>so. <b>many</b> sick rude.", "en", "de", options)
    spoken = [Hypothesis.ranked([answer(text)] * 3) for text in ("plain.", "so.")]
    orders = ("many sick rude.", "sick rude many.", "sick many rude.")
    plan.settle([*spoken, Hypothesis.ranked([answer(text) for text in orders])])
    assert sorted(first.key for first in plan.attended) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
    translation = plan.complete({first.key: letter_by_letter(first) for first in plan.attended})
    assert [translation.text, *(other.text for other in translation.alternatives)] == [
        f"<p>PLAIN.</p>SO. {text}"
        for text in ("<b>MANY</b> SICK RUDE.", "SICK RUDE <b>MANY</b>.", "SICK <b>MANY</b> RUDE.")
    ]


def test_alternatives_of_documents_have_their_marks_around_aligned_words(translator: Translator) -> None:
    options = TranslationOptions(beam_size=3, num_hypotheses=3, format="html")
    for marked, place in (("<b>red</b> cat sees dog.", 0), ("red cat <b>sees</b> dog.", 2)):
        (translation,) = translator.translate([f"<p>{marked}</p>"], options, "en", "de")
        assert len(translation.alternatives) == 2
        for other in translation.alternatives:
            assert other.text.removeprefix("<p>").split(" ")[place].startswith("<b>"), other.text


def test_terms_are_used_in_documents(translator: Translator) -> None:
    options = TranslationOptions(decoding="greedy", format="html", glossary=(GlossaryTerm("dog", "Köter"),))
    result = translator.translate(["<p>red cat sees <b>dog</b>.</p>"], options, "en", "de")[0]
    assert result.text == "<p>rot Katze sieht <b>Köter</b>.</p>"


def test_tags_come_back_once_from_a_model_that_heeds_nothing() -> None:
    headers = told_model()
    document = (
        '<h1 title="red cat">the {x} cat</h1><p>sees <b>the <i>old</i></b> dog<br>and <img src="a.png"> house 😀.</p>'
    )
    (translation,) = headers.translate([document], HTML, "en", "de")
    for tag in ("<h1 title=", "</h1>", "<b>", "</b>", "<i>", "</i>", "<br>", '<img src="a.png">', "{x}", "😀"):
        assert translation.text.count(tag) == 1


def attribute_of(document: str) -> str:
    """The value of the title in a document, with its quotation marks."""
    match = re.search('title=("[^"]*")', document)
    assert match is not None
    return match[1]


@pytest.mark.parametrize("format", ["html", "xml"])
@pytest.mark.parametrize(
    "written",
    [
        "<script>alert(1)</script>",
        "</p><p>",
        "&amp; &lt;b&gt; &#60;",
        "<!-- x",
        "]]>",
        '"><img src=x onerror=y>',
        "'\" a=b",
        "<",
    ],
)
def test_what_a_model_writes_is_text_whatever_it_is(written: str, format: MarkupFormat) -> None:
    document = '<p>one <b>two</b>, <i title="three">four</i>.</p><p>five</p>'
    options = TranslationOptions(format=format, num_hypotheses=2, protect="none")
    plan = pipeline(retry_loops=False).prepare(document, "en", "de", options)
    outcome = Hypothesis.ranked([answer(written), answer(written)])
    plan.settle([outcome for _ in plan.pending])
    translation = plan.complete()
    for rendered in (translation.text, translation.alternatives[0].text):
        with_title = document if format == "xml" else document.replace('"three"', attribute_of(rendered))
        assert kept_sources(rendered, format) == kept_sources(with_title, format)
        # The tokenizer of the pipeline writes capitals.
        texts = [marked.text for marked in MarkedUp(rendered, format).texts]
        result = [written.upper().strip()] * len(plan.sentences) if any(map(str.isalpha, written)) else []
        # A text with two elements stays if its translation has no two words for them.
        if len(re.findall(r"\w+", written)) < 2:
            result = ["one two, four.", *result[1:]]
        assert sorted(texts) == sorted(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("format", "document"),
    [
        ("html", "<b>" * 330_000 + "{}"),
        ("html", "<p>{}</p>" + "<p class=x></p>" * 70_000),
        ("html", "<div><i>" * 10_000 + "{}" + "</i></div>" * 10_000),
        ("xml", "<d>" * 10_000 + "{}" + "</d>" * 10_000),
        ("html", "{}" + "&amp;" * 200_000),
    ],
)
def test_large_documents_are_translated(format: MarkupFormat, document: str, translator: Translator) -> None:
    options = TranslationOptions(decoding="greedy", format=format)
    (translation,) = translator.translate([document.format("red cat.")], options, "en", "de")
    assert translation.text == document.format("rot Katze.")


def test_odd_characters_stay_where_they_are(translator: Translator) -> None:
    documents = ["<p>red cat.</p>\x00<p>\ud800</p>", "<p>red <b>cat</b>.\x00</p>\udfff"]
    translations = translator.translate(documents, HTML, "en", "de")
    assert [translation.text for translation in translations] == [
        document.replace("red", "rot").replace("cat", "Katze") for document in documents
    ]


@pytest.mark.parametrize(
    "document",
    [
        "<a><b>red cat.</a>",
        "<a>" * 10_000 + "red cat.",
        '<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>',
        "<a>\x00</a>",
        "<a>\ud800</a>",
    ],
    ids=["mismatched", "levels", "entities", "external", "NUL", "surrogate"],
)
def test_xml_that_cannot_be_read_is_refused(document: str, translator: Translator) -> None:
    with pytest.raises(InvalidMarkup, match="line 1, column"):
        translator.translate([document], TranslationOptions(format="xml"), "en", "de")
