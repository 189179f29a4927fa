"""Markup that is generated, large, deep or found in installed packages, with words in any order."""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import turbohtml
from hypothesis import given
from hypothesis import strategies as st

from model.text.markup import MarkedUp, MarkupFormat, PlacedText, place_marks, unchanged
from model.text.markup.word_links import words
from tests.model.markup_documents import kept_sources, same, translated

INLINE = ["b", "i", "em", "a href=x", 'span class="x y"', "U", "x-y", "font color=red"]
BLOCK = ["p", "div", "li", "h1", "td"]
LEAVES = [
    "<br>", "<br/>", "<img src=x>", "<img alt='A cat'>", "<!-- c -->", "<code>f(x)</code>", "&amp;", "&nbsp;", "<wbr>",
    "<sup>[1]</sup>", "<b>5</b>", "<a href=x><kbd>Ctrl</kbd></a>", "+", "Donau&shy;schiff", "<% a > b %>", "R&D",
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
    "<noscript>one <b>two</noscript>",
    "<svg><title>A red</title><text>cat &amp; dog</text></svg>",
    "<textarea>one\ntwo</textarea>",
    "<p lang=fr>",
    "<?php if ($a->b) ?>",
    "{% if a < b %}",
    "<%",
    "<input type=submit value='Send it'>",
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
    st.one_of(PLAIN, st.sampled_from([leaf for leaf in LEAVES if not re.search("code|span|kbd|<%|<sup|<b>5", leaf)])),
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


@given(ANYTHING, st.randoms(use_true_random=False))
def test_any_html_has_every_tag_once_under_any_alignment(document: str, rng: random.Random) -> None:
    marked_up = MarkedUp(document, "html")
    rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
    if not re.search("alt=|value=|<svg|<noscript", document):  # these have texts of their own
        assert kept_sources(rendered, "html") == kept_sources(document, "html")


@given(WELL_FORMED, st.randoms(use_true_random=False))
def test_well_formed_html_has_the_same_elements_in_the_same_elements(document: str, rng: random.Random) -> None:
    marked_up = MarkedUp(document, "html")
    rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
    if any(marked.protected for marked in marked_up.texts):
        return  # an element without letters may move into another one
    # Line breaks belong to lines, and lines move: an element that holds nothing else may lose them.
    assert _without_breaks(parents(rendered)) == _without_breaks(parents(document))


def _without_breaks(result: Counter[tuple[str, str]]) -> dict[tuple[str, str], int]:
    return {(child, parent): number for (child, parent), number in result.items() if child != "br"}


@given(WELL_FORMED, st.randoms(use_true_random=False))
def test_well_formed_xml_has_every_tag_once_and_stays_well_formed(document: str, rng: random.Random) -> None:
    document = re.sub(r"<(br|img [^>]*|wbr)>", r"<\1/>", document).replace("'</b>'", "b")
    document = re.sub(r"=([^'\">/\s]+)", r'="\1"', document).replace("&nbsp;", "&#160;")
    document = document.replace("&shy;", "&#173;").replace("R&D", "R&amp;D")
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


def installed_pages() -> list[Path]:
    """Pages of documentation that installed packages ship."""
    files = (file for package in sys.path for file in Path(package).glob("**/*.html") if Path(package).is_dir())
    return sorted({file for file in files if file.stat().st_size < 300_000})[:36:3]  # more take long


@pytest.mark.thorough
def test_pages_of_installed_packages_come_back() -> None:
    rng = random.Random(1)
    for page in installed_pages():
        document = page.read_text(encoding="utf-8", errors="replace")
        marked_up = MarkedUp(document, "html")
        assert marked_up.render(same(marked_up)) == document, page
        rendered = marked_up.render([translated(marked, rng) for marked in marked_up.texts])
        assert kept_sources(rendered, "html").total() == kept_sources(document, "html").total(), page


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
    "whitespace": ("html", lambda size: "a" + " " * size + "\nb"),
    "attributes": ("html", lambda size: "<p " + "title=x " * (size // 8) + ">"),
    "unfinished": ("html", lambda size: "<p>a" + "<" * size),
    "dropped": ("html", lambda size: "a</>" * (size // 4)),
    "comments": ("html", lambda size: "a<!-- x -->" * (size // 11)),
    "links": ("html", lambda size: "<a>a</a>" * (size // 8)),
    "long lines": ("html", lambda size: "a line without a sign at its end<br>" * (size // 36)),
    "units": (
        "html",
        lambda size: "<b>" * (size // 14) + "1" + "</b>" * (size // 14) + "<i>2</i>+" * (size // 14) + "a",
    ),
    "signs": ("html", lambda size: "<b>" * (size // 7) + ",a" + "</b>" * (size // 7)),
    "template openings": ("html", lambda size: "a <% {{ {% <? " * (size // 15)),
    "template code": ("html", lambda size: "a <%= b > c %> " * (size // 15)),
    "soft hyphens": ("html", lambda size: "a&shy;b " * (size // 8)),
    "other languages": ("html", lambda size: "<i lang=fr>x " * (size // 13) + "a"),
    "fallbacks": ("html", lambda size: "<canvas>" * (size // 8) + "a"),
    "drawings": ("html", lambda size: "<svg><text>a&amp;b</text></svg>" * (size // 31)),
    "ampersands": ("html", lambda size: "a & b > c < d " * (size // 14)),
    "lines of xml": ("xml", lambda size: "<d>" + "a line without a sign\n" * (size // 22) + "</d>"),
    "clauses": ("xml", lambda size: "<d>a b: " + "<p>c d;</p>" * (size // 11) + "</d>"),
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
        result = words(marked.text, marked.protected)
        links = list(zip(result, [*result[1:], *result[:1]], strict=True))
        rng.shuffle(links)
        placed.append(place_marks(marked, marked.text + " x", links))
    marked_up.render(placed)
    return max(0.005, time.process_time() - start)


@pytest.mark.sampled(4)
@pytest.mark.thorough
@pytest.mark.parametrize(("format", "make"), LARGE.values(), ids=LARGE.keys())
def test_time_grows_no_faster_than_the_document(format: MarkupFormat, make: Callable[[int], str]) -> None:
    # 20 times the document takes 20 times as long, and 400 times as long if the time is quadratic.
    assert cpu_time_s(format, make(40_000)) < 200 * cpu_time_s(format, make(2_000))


@pytest.mark.thorough
@pytest.mark.parametrize("format", ["html", "xml"])
@pytest.mark.parametrize("document", ["<i>" * 10_000 + "x" + "</i>" * 10_000, "<b><i></i>x</b>" * 5_000])
def test_many_levels_and_many_tags_are_read(format: MarkupFormat, document: str) -> None:
    marked_up = MarkedUp(document, format)
    rendered = marked_up.render([PlacedText(f"{marked.text}y", unchanged(marked).spans) for marked in marked_up.texts])
    assert rendered.count("</i>") == document.count("</i>")
    assert rendered.count("y") == len(marked_up.texts)
