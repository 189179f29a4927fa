"""Protected spans: taken out of a sentence and put back into its translation."""

from __future__ import annotations

import pytest
import torch

from model.text.placeholders import (
    Place,
    TargetSentence,
    cut_spans,
    describe_spans,
    mask_spans,
    restore_spans,
    with_inserted,
    without_spans,
)
from model.text.symbols import Span, TargetText
from model.translation.alignment import insertion_point


def spans_of(text: str, *protected: str) -> list[Span]:
    return sorted((text.index(part), text.index(part) + len(part)) for part in protected)


def translated(source: str, protected: list[str], *answer: str | int) -> str:
    """A translation of texts and placeholder numbers; a text that begins with a space begins with a word."""
    parts: list[Place | TargetText] = []
    for number, part in enumerate(answer):
        if isinstance(part, int):
            parts.append(Place(part, written=True))
        else:
            text = part.lstrip(" ")
            parts.append(TargetText(text, ((0, len(text)),), part != text or number == 0))
    result = restore_spans(parts, describe_spans(source, spans_of(source, *protected)), len(protected))
    for (start, end), expected in zip(result.spans, sorted(protected, key=source.index), strict=True):
        assert result.text[start:end] == expected
    return result.text


@pytest.mark.parametrize(
    ("source", "protected", "answer", "expected"),
    [
        ("Hello {name}, welcome!", ["{name}"], ["Hallo", 0, ",", " willkommen!"], "Hallo {name}, willkommen!"),
        ("Click <b>here</b>.", ["<b>", "</b>"], ["Klicken Sie", 0, " hier", 1, "."], "Klicken Sie <b>hier</b>."),
        ("<b>Here</b> is it", ["<b>", "</b>"], [0, " Hier", 1, " ist es"], "<b>Hier</b> ist es"),
        ("Stop:</b> now", ["</b>"], ["Halt", 0, "! Jetzt"], "Halt</b>! Jetzt"),
        ("I saw {x}", ["{x}"], [0, " habe ich gesehen"], "{x} habe ich gesehen"),
        ("The ({x}) thing", ["{x}"], ["Das Ding", " (", 0, ")"], "Das Ding ({x})"),
        ("{a}{b} and {c}", ["{a}", "{b}", "{c}"], [2, " und", 0, 1], "{c} und {a}{b}"),
        ("{a}/{b}", ["{a}", "{b}"], [0, "/", 1], "{a}/{b}"),
        ("{a} / {b}", ["{a}", "{b}"], [0, " /", 1], "{a} / {b}"),
        ("pre{x}fix", ["{x}"], ["Vor", 0, " silbe"], "Vor{x}silbe"),
        ('He said "{x}".', ["{x}"], ["Er sagte", " „", 0, "“."], "Er sagte „{x}“."),
        ("price:{x}", ["{x}"], ["Preis:", 0], "Preis:{x}"),
        ("I 😀 you", ["😀"], ["Ich", 0, " dich"], "Ich 😀 dich"),
        ("sehen „{n}“ die", ["{n}"], ["see", ' "', 0, ' "', " the"], 'see "{n}" the'),
        ("so <b>einer…</b> dort", ["<b>", "</b>"], ["such", 0, " one.", 1, " there"], "such <b>one.</b> there"),
        ("see {x} now", ["{x}"], ["siehe", " ", 0, " jetzt"], "siehe {x} jetzt"),
    ],
)
def test_spans_are_put_back_with_the_spaces_of_the_source(
    source: str, protected: list[str], answer: list[str | int], expected: str
) -> None:
    assert translated(source, protected, *answer) == expected


def test_tokens_of_a_translation_cover_their_characters_and_those_of_the_spans() -> None:
    parts: list[Place | TargetText] = [
        TargetText("Ich mag", ((0, 3), (4, 7)), True),
        Place(0, written=True),
        TargetText("sehr", ((0, 4),), True),
    ]
    result = restore_spans(parts, describe_spans("I like 😀😀 a lot", [(7, 9)]), 1)
    assert result == TargetSentence("Ich mag 😀😀 sehr", ((0, 3), (4, 7), (8, 10), (11, 15)), ((8, 10),), (False,))


def test_punctuation_joins_a_span_that_was_put_before_it() -> None:
    parts = with_inserted([TargetText(", hast du", ((0, 1), (2, 6), (7, 9)), True)], [(0, 0)])
    assert restore_spans(parts, describe_spans("{x}, have you", [(0, 3)]), 1).text == "{x}, hast du"


def test_replaced_characters_move_what_is_behind_them() -> None:
    sentence = TargetSentence("das alte Haus {x}", ((0, 3), (4, 8), (9, 13), (14, 17)), ((14, 17),))
    result = sentence.with_replaced(9, 13, "Gebäude")
    assert result == TargetSentence("das alte Gebäude {x}", ((0, 3), (4, 8), (9, 16), (17, 20)), ((17, 20),))


def test_a_masked_text_has_its_length_and_a_word_in_place_of_each_span() -> None:
    text = "See http://a.b/c?d. Then 😀!"
    spans = [(4, 18), (25, 26)]
    assert mask_spans(text, spans) == "See Xxxxxxxxxxxxxx. Then X!"
    assert without_spans(text, spans) == "See . Then !"
    assert (mask_spans(text, []), without_spans(text, [])) == (text, text)


@pytest.mark.parametrize(
    ("text", "span", "remaining"),
    [
        ("Hello {x}, welcome", "{x}", "Hello, welcome"),
        ("Say {x} now", "{x}", "Say now"),
        ("{x} says so", "{x}", "says so"),
        ("I said {x}", "{x}", "I said"),
        ("click <b>here", "<b>", "click here"),
        ("pre{x}fix", "{x}", "prefix"),
        ("({x}) thing", "{x}", "() thing"),
        ("{x}", "{x}", ""),
    ],
)
def test_a_sentence_without_its_spans_has_no_space_too_many(text: str, span: str, remaining: str) -> None:
    result, origins = cut_spans(text, spans_of(text, span))
    assert result == remaining
    assert [text[origin] for origin in origins] == list(remaining)


def test_places_are_inserted_between_tokens_and_the_space_there_is_restored() -> None:
    parts: list[Place | TargetText] = [
        TargetText("Hallo, du", ((0, 5), (5, 6), (7, 9)), True),
        Place(1, written=True),
        TargetText("!", ((0, 1),), False),
    ]
    gate = describe_spans("{a}, {b}", [(0, 3), (5, 8)])
    for token, expected in ((0, "{a} Hallo, du {b}!"), (1, "Hallo {a}, du {b}!"), (2, "Hallo, {a} du {b}!")):
        actual = restore_spans(with_inserted(parts, [(token, 0)]), gate, 2)
        assert actual.text == expected
        assert (len(actual.tokens), actual.restored) == (5, (True, False))
        assert [actual.text[slice(*span)] for span in actual.spans] == ["{a}", "{b}"]
    assert restore_spans(with_inserted(parts, [(5, 0)]), gate, 2).text == "Hallo, du {b}! {a}"


def test_white_space_goes_to_the_right_side_of_a_placeholder() -> None:
    source, target = "you have {n}\u00a0files", "sie haben Dateien"
    rows = torch.eye(4)
    source_spans = [(0, 3), (4, 8), (9, 12), (13, 18)]
    target_spans = [(0, 3), (4, 9), (9, 9), (10, 17)]
    assert insertion_point(rows, source, source_spans, target, target_spans, 12, {2: 9}) == 3
    assert insertion_point(rows, source, source_spans, target, target_spans, 9, {2: 9}) == 2
