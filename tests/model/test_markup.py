"""HTML and XML: texts are taken out and put back, and everything else stays byte for byte."""

from __future__ import annotations

import re

import pytest

from model.errors import InvalidMarkup, MarkupNotKept
from model.text.markup import ElementRules, MarkedUp, MarkupFormat, PlacedText, unchanged
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
    return [marked.text for marked in MarkedUp(document, format, ElementRules(ignore_tags)).texts]


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
        ("one<br>two<br/>three", ["one\ntwo\nthree"]),
        ("one<br>\n<br>two", ["one\ntwo"]),
        ("a sentence that runs over<br>its line and a<br>Second", ["a sentence that runs over its line and a\nSecond"]),
        ("a sentence that ends here.<br>another one", ["a sentence that ends here.\nanother one"]),
        ("<b>Good morning</b><br><i>dear</i> friend", ["Good morning\ndear friend"]),
        ("old<sup>[1]</sup>, <b>5</b> cats<a href=x><sup>2</sup></a>", ["old[1], 5 cats2"]),
        ("Press <kbd>Ctrl</kbd>+<kbd>V</kbd> or <samp>x</samp>", ["Press Ctrl+V or x"]),
        ("Donau&shy;dampf&#xad;schiff A\u200bB", ["Donaudampfschiff AB"]),
        ("<noscript><p>one</p><p>two</p></noscript>", ["one", "two"]),
        ("a<noscript><img src=x></noscript>b <video src=x></video> c", ["ab c"]),
        ("<video><track label='red cat' src=x></video>a", ["red cat", "a"]),
        ("<audio>one <b>two</b></audio><canvas>x</canvas><object data=y><p>z</p></object>", ["one two", "x", "z"]),
        ("<textarea>one\n  two</textarea>", ["one\ntwo"]),
        ("go <svg aria-label=A><title>B &amp; c</title><style>d{}</style><text>e</text></svg> on", [
            "go on", "A", "B & c", "e",
        ]),
        ("<% if x > 1 %>one<% else %>two<% end %>", ["one", "two"]),
        ("<p>a <%= b > c %> d, <?php echo $n->x ?>.</p>", ["a <%= b > c %> d, <?php echo $n->x ?>."]),
        ("{% if a < b %}one{% endif %} {{ a }} {{{b}}} [% c %]two", ["one", "{{ a }} {{{b}}} [% c %]two"]),
        ("<a title='Hi {{ a && b }}' href=\"{{ url('x', \"y\") }}\">x {{", ["Hi {{ a && b }}", "x {{"]),
        ("<a title='Hi <% a %>'>x</a><a title=\"Hi {{ b(\"c\") }}\">y</a>", ["x\ny"]),
        ("<#if user??>one</#if> two <a title='<%= x %>'>3</a>", ["one", "two 3"]),
        ("5 <% 3, a <%b", ["5 <% 3, a <%b"]),
        ("one {{- /* " + "a }} b " * 200 + "*/ -}} two {{!-- c }} --}} three", ["one two three"]),
        ("{{#if a}}one{{else}}two{{/if}} {{ range .b }}{{ . }} 3{{ end }}{{ $c := 1 }}", ["one", "two"]),
        ("@if (a(b()) > 1) {one} @else {<b>two</b>} @endsection\n@include('x') a@if.b", ["one", "two", "a@if.b"]),
        ("<p data-no-translation>one</p><p class='x no-translate'>two</p>", []),
        ("one <img src=x> two", ["one two"]),
        ("one <x id='1'></x> two", ["one two"]),
        ("Tom &amp; Jerry&nbsp;&#8211;&lt;3", ["Tom & Jerry\xa0–<3"]),
        ("<a href=1>Home</a><a href=2>About</a>\n<a href=3>Us</a>", ["Home\nAbout\nUs"]),
        ("see <a>this</a> and <a>that</a>", ["see this and that"]),
        ("<script>x</script><style>y</style><pre>z</pre><!-- b --><svg><path d=c></path></svg>", []),
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
        ("<input type=submit value=Go><input value=x><input type=RESET value=Clear>", ["Go", "Clear"]),
        ("<meta name=description content='A page'><meta name=x content=y><meta property=og:title content=B>", [
            "A page", "B",
        ]),
        ("<optgroup label=Wine><option label=Red></optgroup><track label=Deutsch><th abbr=No aria-description=Nr>", [
            "Wine", "Red", "Deutsch", "No", "Nr",
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
        ("<a>One\n  two\n\nthree</a>", ["One\ntwo\nthree"]),
        ("<a>a sentence that runs over\r\n  its line</a>", ["a sentence that runs over its line"]),
        ("<a>one <b>two</b>\n<i>three</i></a>", ["one two\nthree"]),
        ("<c>A rack: <p>a red pan;</p><p>a lid<x>2</x>.</p></c>", ["A rack: ", "a red pan;", "a lid2."]),
        ("<c>A <b>red pan.</b> And <b>one</b> <i>lid.</i></c>", ["A red pan. And one lid."]),
        ('<a translate="no">one</a><a alt="two">three</a>', ["three"]),
        ("<a>one <![CDATA[two]]> three</a>", ["one two three"]),
        ("<a>&lt;b&gt; &amp; &#8364;</a>", ["<b> & €"]),
    ],
)
def test_texts_of_xml(document: str, expected: list[str]) -> None:
    assert [text.strip() for text in texts(document, "xml")] == [text.strip() for text in expected]


@pytest.mark.parametrize(
    ("document", "format", "expected"),
    [
        ("<p>we say <i lang=fr>bonjour</i> and <i lang=en-GB>hello</i></p>", "html", ["we say bonjour and hello"]),
        ("<p lang=fr>un</p><p lang=EN>two</p>", "html", ["two"]),
        ("<html lang=fr><body lang=fr><p>one</p></body></html>", "html", ["one"]),
        (" <div lang=fr><p lang=fr>one</p></div> ", "html", ["one"]),
        ('<d><p xml:lang="de">ein</p><p xml:lang="en-US">two</p><p class="notranslate">x</p></d>', "xml", ["two"]),
        ('<d xml:lang="de"><p>one</p></d>', "xml", ["one"]),
    ],
)
def test_text_in_another_language_stays(document: str, format: MarkupFormat, expected: list[str]) -> None:
    document_texts = MarkedUp(document, format, ElementRules(language="en")).texts
    assert [text.text for text in document_texts] == expected
    assert [len(text.protected) for text in document_texts] == [int("bonjour" in expected[0])]


@pytest.mark.parametrize(
    ("document", "rules", "expected"),
    [
        ("<d><a>one</a> two <b>three</b></d>", ElementRules(splitting=("b",)), ["one two ", "three"]),
        ("<d><a>one</a><b>two</b></d>", ElementRules(inline=("a", "b")), ["onetwo"]),
        ("<d><a>one</a><b>two</b></d>", ElementRules(outline=False), ["onetwo"]),
        ("<d><a>one</a><b>two</b></d>", ElementRules(outline=False, splitting=("b",)), ["one", "two"]),
    ],
)
def test_rules_say_which_elements_separate_texts(document: str, rules: ElementRules, expected: list[str]) -> None:
    assert [text.text.strip() for text in MarkedUp(document, "xml", rules).texts] == [text.strip() for text in expected]


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ('Tom & Jerry <x id="1"/> go', "Tom & Jerry \ufffc go"),
        ("Need help<br>with R&D?", "Need help\nwith R&D?"),
        ("start '<x id=1>Basic</x>' plan", "start 'Basic' plan"),
        ("<p>10&nbsp;kg</p>", "10\xa0kg"),
        ("<a><b>one</a> two", "one two"),
        ("a < b <code>x</code>", "a < b x"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><a>&x; one</a>', "]>&x; one"),
    ],
)
def test_lenient_rules_read_xml_that_is_not_well_formed(document: str, expected: str) -> None:
    marked_up = MarkedUp(document, "xml", ElementRules(is_lenient=True))
    assert [marked.text for marked in marked_up.texts] == [expected]
    assert marked_up.render(same(marked_up)) == document
    (marked,) = marked_up.texts
    spans = tuple((start + 2, end + 2) for start, end in unchanged(marked).spans)
    assert kept_sources(marked_up.render([PlacedText(f"Ä {marked.text}", spans)]), "xml") == kept_sources(
        document, "xml"
    )


def test_ignored_tags_are_not_translated_but_belong_to_the_sentence() -> None:
    marked = MarkedUp("Please open the page <x>Settings</x> to configure", "xml", ElementRules(("x",))).texts[0]
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
        ("R&D > A & B", "A & B > R&D & <b> R&amp", "A & B > R&D & &lt;b> R&amp;amp"),
        ("a < b", "b < a <b", "b < a &lt;b"),
        ("x Donau&shy;schiff A&amp;B", "Donauschiff, A&B", "Donau&shy;schiff, A&amp;B"),
        ("<svg><title>'a > b'</title></svg>", "'c' > <d>", "<svg><title>'c' > &lt;d></title></svg>"),
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
    items = items_of(source, "html")
    with pytest.raises(MarkupNotKept):
        verify(items, source, translated, "html", ElementRules())
