"""Protected spans: taken out of a sentence and put back into its translation."""

from __future__ import annotations

import pytest

from model.text.placeholders import TargetSentence, hold, masked, outside, put_back
from model.text.symbols import Span, Symbol, placeholder
from model.text.tokenizer import TargetText


def spans_of(text: str, *protected: str) -> list[Span]:
    return sorted((text.index(part), text.index(part) + len(part)) for part in protected)


def translated(source: str, protected: list[str], *answer: str | int) -> str:
    """A translation of texts and placeholder numbers; a text that begins with a space begins with a word."""
    parts: list[Symbol | TargetText] = []
    for number, part in enumerate(answer):
        if isinstance(part, int):
            parts.append(Symbol(placeholder(part)))
        else:
            text = part.lstrip(" ")
            parts.append(TargetText(text, ((0, len(text)),), part != text or number == 0))
    result = put_back(parts, hold(source, spans_of(source, *protected)), lambda run: run)
    for (start, end), expected in zip(result.spans, sorted(protected, key=source.index), strict=True):
        assert result.text[start:end] == expected
    return result.text


@pytest.mark.parametrize(
    ("source", "protected", "answer", "expected"),
    [
        ("Hello {name}, welcome!", ["{name}"], ["Hallo", 0, ",", " willkommen!"], "Hallo {name}, willkommen!"),
        ("Click <b>here</b>.", ["<b>", "</b>"], ["Klicken Sie", 0, " hier", 1, "."], "Klicken Sie <b>hier</b>."),
        ("<b>Here</b> is it", ["<b>", "</b>"], [0, " Hier", 1, " ist es"], "<b>Hier</b> ist es"),
        ("I saw {x}", ["{x}"], [0, " habe ich gesehen"], "{x} habe ich gesehen"),
        ("The ({x}) thing", ["{x}"], ["Das Ding", " (", 0, ")"], "Das Ding ({x})"),
        ("{a}{b} and {c}", ["{a}", "{b}", "{c}"], [2, " und", 0, 1], "{c} und {a}{b}"),
        ("{a}/{b}", ["{a}", "{b}"], [0, "/", 1], "{a}/{b}"),
        ("{a} / {b}", ["{a}", "{b}"], [0, " /", 1], "{a} / {b}"),
        ("pre{x}fix", ["{x}"], ["Vor", 0, " silbe"], "Vor{x}silbe"),
        ('He said "{x}".', ["{x}"], ["Er sagte", " „", 0, "“."], "Er sagte „{x}“."),
        ("price:{x}", ["{x}"], ["Preis:", 0], "Preis:{x}"),
        ("I 😀 you", ["😀"], ["Ich", 0, " dich"], "Ich 😀 dich"),
    ],
)
def test_spans_are_put_back_with_the_spaces_of_the_source(
    source: str, protected: list[str], answer: list[str | int], expected: str
) -> None:
    assert translated(source, protected, *answer) == expected


def test_tokens_of_a_translation_cover_their_characters_and_those_of_the_spans() -> None:
    parts = [TargetText("Ich mag", ((0, 3), (4, 7)), True), Symbol("<ph0>"), TargetText("sehr", ((0, 4),), True)]
    found = put_back(parts, hold("I like 😀😀 a lot", [(7, 9)]), lambda run: run)
    assert found == TargetSentence("Ich mag 😀😀 sehr", ((0, 3), (4, 7), (8, 10), (11, 15)), ((8, 10),))


def test_only_text_between_spans_is_converted() -> None:
    def loud(run: TargetText) -> TargetText:
        return TargetText(run.text.upper(), run.tokens, run.begins_word)

    parts = [TargetText("see", ((0, 3),), True), Symbol("<ph0>")]
    assert put_back(parts, hold("SIEHE {x}", [(6, 9)]), loud).text == "SEE {x}"


def test_replaced_characters_move_what_is_behind_them() -> None:
    sentence = TargetSentence("das alte Haus {x}", ((0, 3), (4, 8), (9, 13), (14, 17)), ((14, 17),))
    found = sentence.with_replaced(9, 13, "Gebäude")
    assert found == TargetSentence("das alte Gebäude {x}", ((0, 3), (4, 8), (9, 16), (17, 20)), ((17, 20),))


def test_a_masked_text_has_its_length_and_a_word_in_place_of_each_span() -> None:
    text = "See http://a.b/c?d. Then 😀!"
    spans = [(4, 18), (25, 26)]
    assert masked(text, spans) == "See Xxxxxxxxxxxxxx. Then X!"
    assert outside(text, spans) == "See . Then !"
    assert (masked(text, []), outside(text, [])) == (text, text)
