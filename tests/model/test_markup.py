"""HTML and XML: texts are taken out and put back, and everything else stays byte for byte."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable

import pytest
import turbohtml
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidMarkup, MarkupNotKept
from model.text.markup import MarkedText, MarkedUp, MarkKind, MarkupFormat, PlacedText, place_marks, unchanged
from model.text.markup.word_links import words
from model.text.tokenizer import Span

HTML = {
    "page": '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset=utf-8><title>A &amp; B</title>\n'
    "<style>p > a { color: red }</style><script>if (a < b) document.write('<b>x</b>')</script></head>\n"
    "<body class='x  y'>\n  <h1>Title</h1>\n  <p>Some <b>bold</b> text\n    that is wrapped.</p>\n</body></html>\n",
    "unclosed": "<p>One<p>Two <b>bold<ul><li>first<li>second <i>x</ul>tail",
    "unquoted attributes": "<A HREF=/x?a=1&b=2 title=Hello TARGET='_blank'>Link</A>, <IMG SRC=x.png ALT=Picture>.",
    "void": "one<br>two<br/>three<BR />four <img src=a> five<hr>six<wbr>seven <input placeholder='Your name'> eight",
    "script with tags": '<p>a</p><script>var s = "</b><p>";</script><p>b</p>',
    "script with comment": "<script><!-- <script></script> --></script><p>text</p>",
    "conditional comment": "<!--[if IE]><p>old</p><![endif]--><p>new</p><!--[if !IE]> --><p>x</p><!-- <![endif]-->",
    "references": "Tom &amp; Jerry &lt;b&gt; &nbsp;&copy;&#8364;&#x20ac; &notit; &unknown; & &; AT&T a < b > c &amp",
    "control characters": "a\x00b <b>c\x01d</b> \x7f &#0; &#x80; \ud800 e",
    "lone brackets": "a < b, <3, <>, </>, x</>y, </ b>, <!x>, <?php echo 1 ?>, ]]>, >",
    "overlapping": "x <b>bold <i>both</b> italic</i> <a>y<u></a>z</u> w",
    "unfinished tag": "text <a href='x",
    "unfinished comment": "text <!-- comment",
    "windows line ends": "<p>one\r\n  two\r\n</p>\r\n<p>\rthree\r</p>",
    "svg": "an <svg><path d='M0'/><title>x</title><![CDATA[ a > b ]]></svg> icon and <math><mi>x</mi></math>",
    "not translated": '<p translate="no">A<p>B <span class="a notranslate">C <b>D</b></span> e <code>f()</code> <pre>g</pre>',
    "menu": "<nav><a href=1>Home</a><a href=2>About us</a> | <a href=3>Contact</a>\n<a>x</a></nav>",
    "nested blocks": "<a href=x><div>one <b>two<p>three</p>four</b></div>five</a>",
    "table": "<table><tr><td>a<td>b<tr><th>c</table>text<table>foster <b>x</b><tr><td>y</table>",
    "title and textarea": "<title>a &lt; <b> b</title><textarea>\n<p>x</textarea>y",
    "empty": "",
    "blank": " \n\t",
    "only tags": "<p></p><br><b></b>",
    "emoji": "😀 <b>ä😀</b> \u2028 x",
}
XML = {
    "document": '<?xml version="1.0" encoding="latin-1"?>\n<!DOCTYPE d SYSTEM "d.dtd">\n<d a="b &amp; c">\n'
    "  <t>Hello\n  world</t><!-- comment --><?pi x?>\n</d>\n",
    "namespaces": '<x:d xmlns:x="urn:x"><x:p>one <x:b x:a="1">two</x:b> three</x:p></x:d>',
    "cdata": "<a>one <![CDATA[ <raw> & ]]> two</a>",
    "fragment": 'Press <x id="1"/> the <b>red</b> &amp; big &#8364; button',
    "space": '<a xml:space="preserve"> one\n two </a>',
    "not translated": '<a>one <b translate="no">two</b> three</a><a translate="no"><b>x</b></a>',
    "mixed": "<d><p>one <l><i>two</i><i>three</i></l> four <e/></p>\r\n<p/>\n\n<p></p></d>",
    "blank lines": "<a>one\n\n two\n three</a>",
    "byte order mark": "\ufeff<a>text</a>",
    "unicode": "<ä>süß 😀 <b>x</b></ä>",
}
DOCUMENTS: list[tuple[str, MarkupFormat]] = [
    *((document, "html") for document in HTML.values()),
    *((document, "xml") for document in XML.values()),
]
IDS = [*(f"html {name}" for name in HTML), *(f"xml {name}" for name in XML)]


def texts(document: str, format: MarkupFormat = "html", *ignore_tags: str) -> list[str]:
    return [marked.text for marked in MarkedUp(document, format, ignore_tags).texts]


def same(document: MarkedUp) -> list[PlacedText]:
    return [unchanged(marked) for marked in document.texts]


def kept_sources(document: str, format: MarkupFormat) -> Counter[str]:
    """Tags, comments and the like by their source."""
    if format == "xml":
        return Counter(re.findall(r"<!\[CDATA\[.*?]]>|<!--.*?-->|<[^>]*>", document, re.DOTALL))
    return Counter(token.source for token in turbohtml.tokenize(document, capture_source=True) if token.source)


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
    num_attributes = sum(not marked.marks and f"Ä&<b> {marked.text}" not in rendered for marked in marked_up.texts)
    if "title=" not in document and "ALT=" not in document and "placeholder" not in document:
        assert kept_sources(rendered, format) == kept_sources(document, format), num_attributes
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
        ("Press <x/> now", ["Press now"]),
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


def test_a_kept_text_that_was_altered_is_refused() -> None:
    marked_up = MarkedUp("call <code>f()</code> now", "html")
    with pytest.raises(MarkupNotKept, match=r"f\(\)"):
        marked_up.render([PlacedText("rufe g() auf", ((5, 8),))])
    assert marked_up.render([PlacedText("rufe f() auf", ((5, 8),))]) == "rufe <code>f()</code> auf"
    assert marked_up.render([PlacedText("rufe auf", ((5, 5),))]) == "rufe <code>f()</code>auf"


# Placement.


def aligned(marked: MarkedText, translation: str, pairs: str) -> list[tuple[Span, Span]]:
    """Links between words, given as "0-0 1-2"; each punctuation mark is a word."""
    source, target = words(marked.text, marked.protected), words(translation)
    numbers = (pair.split("-") for pair in pairs.split())
    return [(source[int(first)], target[int(second)]) for first, second in numbers]


@pytest.mark.parametrize(
    ("document", "translation", "pairs", "expected"),
    [
        ("Please click <b>here</b>", "Bitte klicken Sie hier", "0-0 1-1 1-2 2-3", "Bitte klicken Sie <b>hier</b>"),
        ("<b>Please click</b> here", "Bitte klicken Sie hier", "0-0 1-1 2-3", "<b>Bitte klicken</b> Sie hier"),
        (
            "Press <i>Continue</i> to advance to the next page.",
            "Drücken Sie Weiter, um zur nächsten Seite zu gelangen.",
            "0-0 0-1 1-2 2-4 3-9 4-5 5-5 6-6 7-7 3-8 8-10",
            "Drücken Sie <i>Weiter</i>, um zur nächsten Seite zu gelangen.",
        ),
        (
            "The <a><b>big</b> house</a> burns",
            "Es brennt das große Haus",
            "0-2 1-3 2-4 3-1",
            "Es brennt das <a><b>große</b> Haus</a>",
        ),
        ("a <i>b</i> <b>c</b>", "C B A", "0-2 1-1 2-0", "<b>C</b> <i>B</i> A"),
        ("<b>a b c</b> d", "A X C D", "0-0 2-2 3-3", "<b>A X C</b> D"),
        ("<b>a b c</b> d e", "A D E C", "0-0 2-3 3-1 4-2", "<b>A</b> D E C"),
        ("<b>a d</b> e f", "A E D F", "0-0 1-2 2-1 3-3", "<b>A E D</b> F"),
        ("<p><b>whole text</b></p>", "ganzer Text", "", "<p><b>ganzer Text</b></p>"),
        ("see <b>it</b> now", "sieh jetzt", "0-0 2-1", "sieh<b></b> jetzt"),
        ("see <b>it</b> now", "sieh es jetzt", "0-0 2-2", "sieh <b>es</b> jetzt"),
        ("<i>T</i>he house", "Das Haus", "0-0 1-1", "<i>D</i>as Haus"),
        ("Haus<b>tür</b> auf", "Haustür offen", "0-0 1-1", "Haus<b>tür</b> offen"),
        ("one <img> two", "zwei eins", "0-1 1-0", "<img> zwei eins"),
        ("one<img> two", "zwei eins", "0-1 1-0", "zwei eins<img>"),
        ("one<br>two three", "eins drei zwei", "0-0 1-2 2-1", "eins<br>drei zwei"),
        ("one<br>\n two", "eins zwei", "0-0 1-1", "eins<br>\n zwei"),
        ("one<br><br>two", "eins\nzwei", "0-0 1-1", "eins<br><br>zwei"),
        ("one<sup>2</sup>.", "eins2.", "0-0 1-1", "eins<sup>2</sup>."),
        ("call <code>f()</code> first", "zuerst f() aufrufen", "0-4 1-1 2-0", "zuerst <code>f()</code> aufrufen"),
        ("use <code>x</code> in the text", "im Text x nutzen", "0-3 2-0 3-0 4-1", "im Text <code>x</code> nutzen"),
        ("x <a><code>f</code></a> y", "f ist da", "0-1 2-2", "<a><code>f</code></a> ist da"),
        ("<b>a <i>b</b> c</i> d", "A B C D", "0-0 1-1 2-2 3-3", "<b>A <i>B</b> C</i> D"),
        (
            "<b>新年快乐</b>，朋友",
            "Frohes neues Jahr, Freund",
            "0-1 1-2 2-0 3-0 4-3 5-4 6-4",
            "<b>Frohes neues Jahr</b>, Freund",
        ),
        ("Happy <b>new year</b>", "新年快乐", "1-0 2-1 0-2 0-3", "<b>新年</b>快乐"),
        ("<b>one</b>", "", "", "<b></b>"),
        ("a <b>one</b> <i>two</i>", "", "", "<b></b><i></i>"),
    ],
)
def test_marks_go_where_their_words_go(document: str, translation: str, pairs: str, expected: str) -> None:
    marked_up = MarkedUp(document, "html")
    marked = marked_up.texts[0]
    rendered = marked_up.render([place_marks(marked, translation, aligned(marked, translation, pairs))])
    assert rendered == expected


@pytest.mark.parametrize(
    ("source", "translation", "pairs", "expected"),
    [
        # Published examples of DeepL's documentation of tag handling.
        (
            "Press <i>Continue</i> to advance to the next page.",
            "Drücken Sie Weiter, um zur nächsten Seite zu gelangen.",
            "0-0 1-2 2-4 3-9 4-5 5-5 6-6 7-7 8-10",
            "Drücken Sie <i>Weiter</i>, um zur nächsten Seite zu gelangen.",
        ),
        (
            "Press <b>Continue</b> to advance.",
            "Drücken Sie \u201eWeiter\u201c, um fortzufahren.",
            "0-0 0-1 1-3 2-6 3-7 4-8",
            "Drücken Sie \u201e<b>Weiter</b>\u201c, um fortzufahren.",
        ),
        (
            "This is a <strong>premium</strong> feature.",
            "Dies ist eine Premium-Funktion.",
            "0-0 1-1 2-2 3-3 4-5 5-6",
            "Dies ist eine <strong>Premium</strong>-Funktion.",
        ),
    ],
)
def test_published_examples_of_deepl(source: str, translation: str, pairs: str, expected: str) -> None:
    for format in ("html", "xml"):
        marked_up = MarkedUp(source, format)
        marked = marked_up.texts[0]
        placed = place_marks(marked, translation, aligned(marked, translation, pairs))
        assert marked_up.render([placed]) == expected


# Generated documents.

INLINE = ["b", "i", "em", "a href=x", 'span class="x y"', "U", "x-y", "font color=red"]
BLOCK = ["p", "div", "li", "h1", "td"]
LEAVES = [
    "<br>", "<br/>", "<img src=x>", "<img alt='A cat'>", "<!-- c -->", "<code>f(x)</code>", "&amp;", "&nbsp;", "<wbr>",
    "<script>'</b>'</script>", "<span translate=no>Kept <b>x</b></span>", '<x id="1"></x>', "<i></i>",
]  # fmt: skip
BROKEN = [
    "</b>",
    "<b>",
    "</p>",
    "<i",
    "</>",
    "<",
    ">",
    "&",
    "<p>",
    "</a>",
    "<a>",
    "<!--",
    "\x00",
    "<?x?>",
    "</br>",
    "<svg>",
]
WORDS = st.sampled_from(["eins", "two", "drei", "ä", "x1", ",", ".", "it's", "新年", "😀", "word-word"])
SPACES = st.sampled_from([" ", "", "\n  ", " ", "\xa0", "\r\n"])
PLAIN = st.lists(st.tuples(WORDS, SPACES), max_size=4).map(lambda parts: "".join(map("".join, parts)))


def element(name: str, inside: str) -> str:
    return f"<{name}>{inside}</{name.split()[0]}>"


def nested(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    inside = st.lists(children, max_size=4).map("".join)
    return st.builds(element, st.sampled_from(INLINE), inside)


INLINE_CONTENT = st.recursive(st.one_of(PLAIN, st.sampled_from(LEAVES)), nested, max_leaves=10)
PARAGRAPH = st.lists(INLINE_CONTENT, max_size=6).map("".join)
# Without links, which must not be nested, and without kept texts, which may be moved into other elements.
REGULAR = st.recursive(
    st.one_of(PLAIN, st.sampled_from([leaf for leaf in LEAVES if "code" not in leaf and "span" not in leaf])),
    lambda children: st.builds(
        element, st.sampled_from(INLINE[1:3] + INLINE[4:]), st.lists(children, max_size=4).map("".join)
    ),
    max_leaves=10,
)
WELL_FORMED = st.lists(
    st.builds(element, st.sampled_from(["p", "div", "h1"]), st.lists(REGULAR, max_size=6).map("".join)), max_size=3
).map("".join)
ANYTHING = st.lists(
    st.one_of(
        INLINE_CONTENT, st.sampled_from(BROKEN), st.builds(element, st.sampled_from(BLOCK), PARAGRAPH), st.text()
    ),
    max_size=10,
).map("".join)


@given(ANYTHING)
def test_any_untranslated_html_comes_back_byte_for_byte(document: str) -> None:
    marked_up = MarkedUp(document, "html")
    assert marked_up.render(same(marked_up)) == document
    assert marked_up.source == document


def translated(marked: MarkedText, rng: random.Random) -> PlacedText:
    """A translation with the words of the text in any order, some missing, and with any links."""
    found = words(marked.text, marked.protected)
    rng.shuffle(found)
    text = ""
    links: list[tuple[Span, Span]] = []
    for source in found:
        is_protected = source in marked.protected
        if is_protected or rng.random() < 0.8:
            start = len(text)
            text += marked.text[source[0] : source[1]]
            if is_protected or rng.random() < 0.7:
                links.append((source, (start, len(text))))
            text += rng.choice([" ", " ", "", " extra ", "\n"])
    for _ in range(rng.randrange(4)):
        numbers = [rng.randrange(-1, len(text) + 3) for _ in range(4)]
        links.append(((numbers[0], numbers[1]), (numbers[2], numbers[3])))
    return place_marks(marked, text, links)


@given(ANYTHING, st.randoms(use_true_random=False))
def test_any_html_has_every_tag_once_under_any_alignment(document: str, rng: random.Random) -> None:
    marked_up = MarkedUp(document, "html")
    rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
    if "alt=" not in document:
        assert kept_sources(rendered, "html") == kept_sources(document, "html")


@given(WELL_FORMED, st.randoms(use_true_random=False))
def test_well_formed_html_has_the_same_elements_in_the_same_elements(document: str, rng: random.Random) -> None:
    marked_up = MarkedUp(document, "html")
    rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
    assert parents(rendered) == parents(document)


@given(WELL_FORMED, st.randoms(use_true_random=False))
def test_well_formed_xml_has_every_tag_once_and_stays_well_formed(document: str, rng: random.Random) -> None:
    document = re.sub(r"<(br|img [^>]*|wbr)>", r"<\1/>", document).replace("'</b>'", "b")
    document = re.sub(r"=([^'\">/\s]+)", r'="\1"', document).replace("&nbsp;", "&#160;")
    marked_up = MarkedUp(document, "xml")
    rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
    MarkedUp(rendered, "xml")
    assert kept_sources(rendered, "xml") == kept_sources(document, "xml")


def parents(document: str) -> Counter[tuple[str, str]]:
    """How often which element is directly in which other one, as a browser sees it."""
    elements = (node for node in turbohtml.parse(document).descendants if isinstance(node, turbohtml.Element))
    return Counter(
        (node.tag, node.parent.tag if isinstance(node.parent, turbohtml.Element) else "") for node in elements
    )


# Size.


LARGE: dict[str, tuple[MarkupFormat, Callable[[int], str]]] = {
    "paragraphs": ("html", lambda size: "<p>Some <b>bold</b> text &amp; <a href=x>link</a>.</p>\n" * (size // 50)),
    "one paragraph": ("html", lambda size: "Some <b>bold</b> text, <a href=x>link</a>. " * (size // 43)),
    "nested blocks": ("html", lambda size: "<div>" * (size // 5) + "x"),
    "nested inline": ("html", lambda size: "<b>x" * (size // 4) + "</b>" * 10),
    "nested elements": ("html", lambda size: "<i>x" * (size // 8) + "</i>" * (size // 8)),
    "empty elements": ("html", lambda size: "x" + "<i></i>" * (size // 7) + "x"),
    "overlapping": ("html", lambda size: "<b>x<i>y</b>z</i>" * (size // 17)),
    "deeply overlapping": (
        "html",
        lambda size: "<b>x<i>" * (size // 15) + "</b>" * (size // 15) + "</i>" * (size // 15),
    ),
    "stray end tags": ("html", lambda size: "<div>" * (size // 10) + "</x>" * (size // 10)),
    "kept elements": ("html", lambda size: "<p translate=no>x" * (size // 17)),
    "code": ("html", lambda size: "a <code>x</code> " * (size // 17)),
    "breaks": ("html", lambda size: "a<br>" * (size // 5)),
    "white space": ("html", lambda size: "a" + " " * size + "\nb"),
    "attributes": ("html", lambda size: "<p " + "title=x " * (size // 8) + ">"),
    "unfinished": ("html", lambda size: "<p>a" + "<" * size),
    "dropped": ("html", lambda size: "a</>" * (size // 4)),
    "comments": ("html", lambda size: "a<!-- x -->" * (size // 11)),
    "links": ("html", lambda size: "<a>a</a>" * (size // 8)),
    "elements": ("xml", lambda size: "<d>" + "<p>Some <b>bold</b> text</p>\n" * (size // 30) + "</d>"),
    "nested xml": ("xml", lambda size: "<d>x" * (size // 8) + "</d>" * (size // 8)),
    "references": ("xml", lambda size: "<d>" + "a&amp;" * (size // 6) + "</d>"),
    "prolog": ("xml", lambda size: "<!--a-->" * (size // 8) + "<d>x</d>"),
}


def cpu_time_s(format: MarkupFormat, document: str) -> float:
    """Processor time from parsing to rendering, and at least 5 ms, below which there is nothing to compare."""
    start = time.process_time()
    marked_up = MarkedUp(document, format)
    rng = random.Random(1)
    placed = []
    for marked in marked_up.texts:
        found = words(marked.text, marked.protected)
        links = list(zip(found, [*found[1:], *found[:1]], strict=True))
        rng.shuffle(links)
        placed.append(place_marks(marked, marked.text + " x", links))
    marked_up.render(placed)
    return max(0.005, time.process_time() - start)


@pytest.mark.parametrize(("format", "make"), LARGE.values(), ids=LARGE.keys())
def test_time_grows_no_faster_than_the_document(format: MarkupFormat, make: Callable[[int], str]) -> None:
    # 20 times the document takes 20 times as long, and 400 times as long if the time is quadratic.
    assert cpu_time_s(format, make(80_000)) < 100 * cpu_time_s(format, make(4_000))


@pytest.mark.parametrize("format", ["html", "xml"])
def test_ten_thousand_levels_and_a_megabyte_of_tags_are_read(format: MarkupFormat) -> None:
    for document in ("<i>" * 10_000 + "x" + "</i>" * 10_000, "<b><i></i>x</b>" * 70_000):
        marked_up = MarkedUp(document, format)
        rendered = marked_up.render(
            [PlacedText(f"{marked.text}y", unchanged(marked).spans) for marked in marked_up.texts]
        )
        assert rendered.count("</i>") == document.count("</i>")
