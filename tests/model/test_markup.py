"""HTML and XML: texts are taken out and put back, and everything else stays byte for byte."""

from __future__ import annotations

import re

import pytest

from model.errors import InvalidMarkup, MarkupNotKept
from model.text.markup import MarkedUp, MarkupFormat, PlacedText, unchanged
from model.text.markup.items import items_of
from model.text.markup.verification import verify
from model.text.symbols import Span
from tests.model.markup_documents import HTML, XML, kept_sources, same

DOCUMENTS: list[tuple[str, MarkupFormat]] = [
    *((document, "html") for document in HTML.values()),
    *((document, "xml") for document in XML.values()),
]
IDS = [*(f"html {name}" for name in HTML), *(f"xml {name}" for name in XML)]


def texts(document: str, format: MarkupFormat = "html", *ignore_tags: str) -> list[str]:
    return [marked.text for marked in MarkedUp(document, format, ignore_tags).texts]


@pytest.mark.parametrize(("document", "format"), DOCUMENTS, ids=IDS)
def test_untranslated_texts_give_the_document_back_byte_for_byte(document: str, format: MarkupFormat) -> None:
    marked_up = MarkedUp(document, format)
    assert marked_up.render(same(marked_up)) == document


@pytest.mark.parametrize(("document", "format"), DOCUMENTS, ids=IDS)
def test_changed_texts_keep_every_tag_once(document: str, format: MarkupFormat) -> None:
    marked_up = MarkedUp(document, format)
    changed = [
        PlacedText(f"Ä&<b> {marked.text}", tuple((start + 6, end + 6) for start, end in unchanged(marked).spans))
        for marked in marked_up.texts
    ]
    rendered = marked_up.render(changed)
    if not re.search("title|placeholder|alt", document, re.IGNORECASE):  # those of these attributes are translated
        assert kept_sources(rendered, format) == kept_sources(document, format)
    again = MarkedUp(rendered, format)
    assert [marked.text for marked in again.texts] == [placed.text for placed in changed]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<p>one</p><p>two <b>bold</b> three</p>", ["one", "two bold three"]),
        ("<ul><li>one<li>two</ul>", ["one", "two"]),
        ("one<div>two</div>three", ["one", "two", "three"]),
        ("<b><i> all </i></b>", ["all"]),
        ("one <custom-element>two</custom-element> three", ["one two three"]),
        ("a\n   wrapped\n\n line", ["a wrapped line"]),
        ("one<br>two<br/>three", ["one two three"]),
        ("one<br>\n<br>two", ["one\ntwo"]),
        ("one <img src=x> two", ["one two"]),
        ("one <x id='1'></x> two", ["one two"]),
        ("Tom &amp; Jerry&nbsp;&#8211;&lt;3", ["Tom & Jerry\xa0–<3"]),
        ("<a href=1>Home</a><a href=2>About</a>\n<a href=3>Us</a>", ["Home\nAbout\nUs"]),
        ("see <a>this</a> and <a>that</a>", ["see this and that"]),
        ("<script>x</script><style>y</style><pre>z</pre><textarea>a</textarea><!-- b --><svg><text>c</text></svg>", []),
        ("call <code>f(x)</code> now", ["call f(x) now"]),
        ("<code translate=yes>text</code>", ["text"]),
        ("<p translate=no>one<p>two", ["two"]),
        ("<ul><li translate=no>one</ul>two", ["two"]),
        ("<div class='a NoTranslate'>one <div>two</div></div>three", ["three"]),
        ("<p>123 – 456</p><p>| &middot; |</p>", []),
        ("<title>Page</title>", ["Page"]),
        ("<img alt='A cat'><a title=\"One 'word'\">x</a><input placeholder=Name><b aria-label=L data-alt=no>", [
            "A cat", "One 'word'", "x", "Name", "L",
        ]),
        ("<img alt='12'><img alt=''><img alt><img ALT = 'a &quot;b&quot;' alt=second>", ['a "b"']),
        ("<p translate=no title=Title>x</p>", []),
    ],
)  # fmt: skip
def test_texts_of_html(document: str, expected: list[str]) -> None:
    assert texts(document) == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ("<d><t>one</t><t>two <b>three</b></t></d>", ["one", "two three"]),
        ("<d>\n  <t>one</t>\n  <t>two</t>\n</d>", ["one", "two"]),
        ("<p>press <b><i>OK</i></b> now</p>", ["press OK now"]),
        ("<p>list: <l><i>one</i><i>two</i></l></p>", ["list: ", "one", "two"]),
        ("Press <x/> now", ["Press \ufffc now"]),
        ("<x id='1'></x><e/> was deleted", ["\ufffc was deleted"]),
        ("<a>one\n  two\n\nthree</a>", ["one two\n\nthree"]),
        ('<a xml:space="preserve">one\n two<b xml:space="default">\n three</b></a>', ["one\n two three"]),
        ('<a translate="no">one</a><a alt="two">three</a>', ["three"]),
        ("<a>one <![CDATA[two]]> three</a>", ["one two three"]),
        ("<a>&lt;b&gt; &amp; &#8364;</a>", ["<b> & €"]),
    ],
)
def test_texts_of_xml(document: str, expected: list[str]) -> None:
    assert [text.strip() for text in texts(document, "xml")] == [text.strip() for text in expected]


def test_ignored_tags_are_not_translated_but_belong_to_the_sentence() -> None:
    marked = MarkedUp("Please open the page <x>Settings</x> to configure", "xml", ["x"]).texts[0]
    assert marked.text == "Please open the page Settings to configure"
    assert [marked.text[start:end] for start, end in marked.protected] == ["Settings"]
    assert texts("<d><n:x>one</n:x><y>two</y></d>".replace("<d>", "<d xmlns:n='u'>"), "xml", "x") == ["two"]
    assert texts("<p>one</p><H2>two</H2>", "html", "h2") == ["one"]


@pytest.mark.parametrize(
    ("document", "text", "expected"),
    [
        ("<p>&nbsp;a&nbsp;b &copy; &lt;</p>", "x\xa0y © <b> & \"", "<p>&nbsp;x&nbsp;y &copy; &lt;b&gt; &amp; \"</p>"),
        ("a\xa0&nbsp;b", "x\xa0y", "x\xa0y"),
        ("<a title=\"x &quot;\">", 'say "no" & <b>', '<a title="say &quot;no&quot; &amp; &lt;b&gt;">'),
        ("<a title='x'>", "don't", "<a title='don&#39;t'>"),
        ("<a title=x class=y>", "two words", '<a title="two words" class=y>'),
        ("  text\n", "<script>alert(1)</script>", "  &lt;script&gt;alert(1)&lt;/script&gt;\n"),
        ("<title>x</title>", "</title><b>", "<title>&lt;/title&gt;&lt;b&gt;</title>"),
    ],
)  # fmt: skip
def test_a_translation_can_never_become_markup(document: str, text: str, expected: str) -> None:
    assert MarkedUp(document, "html").render([PlacedText(text)]) == expected


@pytest.mark.parametrize(
    ("document", "reason", "line", "column"),
    [
        ("<a>\n <b></a>", "mismatched tag in the element 'b'", 2, 7),
        ("one <b> two", "mismatched tag in the element 'b'", 1, 14),
        ("a < b", "not well-formed", 1, 4),
        ("<a>&nbsp;</a>", "undefined entity", 1, 4),
        ('<a x="1" x="2"/>', "duplicate attribute", 1, 10),
        ("</a>", "mismatched tag", 1, 3),
        ("</verso-fragment><verso-fragment>", "junk after document element", 1, 18),
        ("<a>\n\ud800</a>", "unpaired surrogate", 2, 1),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "declares the entity 'x'", 1, 25),
        ('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>', "declares the entity 'x'", 1, 52),
        ('<!DOCTYPE a [<!ENTITY % p SYSTEM "http://x/y.dtd"> %p;]><a/>', "declares the entity 'p'", 1, 50),
        ('<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>', "declares the entity 'a'", 1, 25),
        ("<?xml version='1.0'?>", "no element found", 1, 22),
    ],
)
def test_xml_that_cannot_be_read_is_refused_with_its_position(
    document: str, reason: str, line: int, column: int
) -> None:
    with pytest.raises(InvalidMarkup, match=reason) as error:
        MarkedUp(document, "xml")
    assert (error.value.line, error.value.column) == (line, column)


def test_references_to_entities_of_a_doctype_elsewhere_are_kept() -> None:
    document = '<!DOCTYPE html SYSTEM "x.dtd"><p>one&nbsp;two</p>'
    marked_up = MarkedUp(document, "xml")
    assert [mark.opening for mark in marked_up.texts[0].marks] == ["&nbsp;"]
    assert marked_up.render([PlacedText("eins", ((2, 2),))]).endswith("<p>ei&nbsp;ns</p>")


@pytest.mark.parametrize(
    "spans",
    [
        ((0, 3),),
        ((0, 3), (4, 9)),
        ((3, 0), (4, 5)),
        ((0, 4), (3, 6)),
        ((0, 3), (-1, 2)),
    ],
)
def test_spans_that_are_missing_outside_or_overlapping_are_refused(spans: tuple[Span, ...]) -> None:
    marked_up = MarkedUp("<b>one</b> <i>two</i> x", "html")
    with pytest.raises(MarkupNotKept):
        marked_up.render([PlacedText("eins zwe", spans)])


def test_every_text_needs_a_translation() -> None:
    marked_up = MarkedUp("<p>one</p><p>two</p>", "html")
    with pytest.raises(ValueError, match="1 translations and 2 texts"):
        marked_up.render([PlacedText("eins")])


def test_a_kept_text_that_was_altered_is_refused() -> None:
    marked_up = MarkedUp("call <code>f()</code> now", "html")
    with pytest.raises(MarkupNotKept, match=r"f\(\)"):
        marked_up.render([PlacedText("rufe g() auf", ((5, 8),))])
    assert marked_up.render([PlacedText("rufe f() auf", ((5, 8),))]) == "rufe <code>f()</code> auf"
    assert marked_up.render([PlacedText("rufe auf", ((5, 5),))]) == "rufe <code>f()</code>auf"


@pytest.mark.parametrize(
    ("source", "translated"),
    [
        ("<p>a <b>b</b></p>", "<p>a b</p>"),
        ("<p>a <b>b</b></p>", "<p>a <b>b</b><b>c</b></p>"),
        ("<p>a</p><h1>b</h1>", "<h1>a</h1><p>b</p>"),
        ("<p>a <img> b</p>", "<p>a b</p>"),
        ("a<!-- b -->c", "ac"),
        ("<b>a</b> <i>b</i>", "<b>a <i>b</b> c</i>"),
    ],
)
def test_other_markup_than_that_of_the_source_is_refused(source: str, translated: str) -> None:
    items = items_of(source, "html", ())
    with pytest.raises(MarkupNotKept):
        verify(items, source, translated, "html", ())
