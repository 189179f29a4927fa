"""Where tags go in a translation."""

from __future__ import annotations

import pytest

from model.text.markup import MarkedText, MarkedUp, place_marks
from model.text.markup.word_links import words
from model.text.symbols import Span


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
        ("see <b>it</b> now", "sieh jetzt", "0-0 2-1", "sieh <b>jetzt</b>"),
        ("see <b>it</b>, now", "sieh, jetzt", "0-0 1-1 2-1 3-2", "sieh, <b>jetzt</b>"),
        ("<a>one</a> <b>two</b> <i>three</i>", "eins zwei drei", "0-1 1-1 2-1", "<a>eins</a> <b>zwei</b> <i>drei</i>"),
        ("x <a><b>one</b> <i>two</i></a> y", "x eins y", "0-0 1-1 2-1 3-2", "x <a><b>eins</b> <i>y</i></a>"),
        ("#<b>summer</b> now", "jetzt #summer", "0-1 1-2 2-0", "jetzt #<b>summer</b>"),
        (
            "a sentence that is long and<br>goes on here, it does",
            "ein Satz der lang ist und hier weitergeht, ja",
            "1-1 2-2 3-4 4-3 5-5 6-7 7-6 8-6 9-8 11-9",
            "ein Satz der lang ist und<br>hier weitergeht, ja",
        ),
        (
            "Press <kbd>Ctrl</kbd>+<kbd>V</kbd> now",
            "Jetzt Ctrl+V drücken",
            "0-4 2-0",
            ("Jetzt <kbd>Ctrl</kbd>+<kbd>V</kbd> drücken"),
        ),
        ("see <b>it</b> now", "sieh es jetzt", "0-0 2-2", "sieh <b>es</b> jetzt"),
        ("<i>T</i>he house", "Das Haus", "0-0 1-1", "<i>D</i>as Haus"),
        ("Haus<b>tür</b> auf", "Haustür offen", "0-0 1-1", "Haus<b>tür</b> offen"),
        ("one <img> two", "zwei eins", "0-1 1-0", "<img> zwei eins"),
        ("one<img> two", "zwei eins", "0-1 1-0", "zwei eins<img>"),
        ("one<br>two three", "eins\ndrei zwei", "0-0 1-2 2-1", "eins<br>drei zwei"),
        ("one<br>\n two", "eins\nzwei", "0-0 1-1", "eins<br>\n zwei"),
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
        ("a <b>one</b> <i>two</i>", "", "", "a <b>one</b> <i>two</i>"),
        ("<b>ice</b> <i>cream</i>", "Eis", "0-0 1-0", "<b>ice</b> <i>cream</i>"),
    ],
)
def test_marks_go_where_their_words_go(document: str, translation: str, pairs: str, expected: str) -> None:
    marked_up = MarkedUp(document, "html")
    marked = marked_up.texts[0]
    rendered = marked_up.render([place_marks(marked, translation, aligned(marked, translation, pairs))])
    assert rendered == expected


def test_an_empty_element_of_xml_goes_where_its_character_goes_even_inside_of_a_word() -> None:
    marked_up = MarkedUp("one<x/>two <y/> three", "xml")
    (marked,) = marked_up.texts
    for translation, expected in (
        ("eins\ufffczwei \ufffc drei", "eins<x/>zwei <y/> drei"),
        ("drei \ufffc, \ufffc", "drei <x/>, <y/>"),
    ):
        assert marked_up.render([place_marks(marked, translation, [])]) == expected


def test_an_element_whose_words_have_no_link_gets_the_most_probable_word() -> None:
    marked_up = MarkedUp("Click <a>here</a> now", "html")
    (marked,) = marked_up.texts
    translation = "Klicken Sie jetzt hier"
    links = aligned(marked, translation, "0-0 2-1 2-2 0-3")
    placed = place_marks(marked, translation, links, aligned(marked, translation, "1-3"))
    assert marked_up.render([placed]) == "Klicken Sie jetzt <a>hier</a>"


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
