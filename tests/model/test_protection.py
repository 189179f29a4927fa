"""Protected spans: what is found, what is not, and that finding takes linear time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidPattern
from model.text.protection import (
    MAX_MATCHES,
    MAX_PATTERN_CHARACTERS,
    MAX_PATTERNS,
    Protect,
    find_spans,
    spans_with_roles,
    unknown_spans,
)
from model.text.spans import KINDS, LINE_BREAKS, Kind, possible_kinds
from model.text.symbols import Span
from scripts.protected_kinds import PAGE, page


def found(text: str, *patterns: str) -> list[str]:
    return [text[start:end] for start, end in find_spans(text, list(patterns) or "auto")]


EXAMPLES = [pytest.param(kind, example, id=f"{kind.name}: {example}") for kind in KINDS for example in kind.examples]
SPANS = [
    example
    for kind in KINDS
    for example in kind.examples
    if kind.role != "boundary" and not {"⟦", "\n"} & set(example) and not kind.pattern.startswith(r"\A")
]


def without_marks(example: str) -> tuple[str, list[str]]:
    """The text of an example, and its spans."""
    return re.sub("[⟦⟧]", "", example), re.findall("⟦([^⟧]*)⟧", example) or [example]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_a_kind_has_the_spans_of_its_examples(kind: Kind, example: str) -> None:
    text, spans = without_marks(example)
    assert found(text) == spans
    assert kind in possible_kinds(text)
    own = [text[slice(*span)] for span in kind.find(text)]
    assert set(own) & set(spans), "another kind has these spans"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_has_examples_and_leaves_what_looks_like_one(kind: Kind) -> None:
    assert kind.examples and kind.others
    for text in kind.others:
        assert kind not in possible_kinds(text) or not list(kind.find(text)), text


def test_names_of_kinds_are_unique() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS)


def test_the_documented_table_is_current() -> None:
    text = PAGE.read_text()
    assert page(text) == text, "run: python -m scripts.protected_kinds"


@pytest.mark.parametrize("span", SPANS)
def test_a_span_is_found_in_a_sentence_and_on_a_line_of_its_own(span: str) -> None:
    assert found(f"Bitte {span} lesen") == [span]
    assert found(f"one\n{span}\r\ntwo") == [span]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        *[(text, True) for text in ("menu.file.open", "firstName", "en-GB", "text/html", "EG", "%s", "😀", " a@b.de ")],
        *[(text, False) for text in ("Save", "Red house", "", "YES", "{a} {b}", "...", "See a@b.de", "e-mail")],
    ],
)
def test_a_value_without_language_is_code(text: str, code: bool) -> None:
    value = text.strip()
    assert ((0, len(value)) in spans_with_roles(value)) is code


@pytest.mark.parametrize(
    "text",
    [
        "a note:(one) or (two;)",
        "and/or, he/she, 24/7, km/h, I/O, TCP/IP, w/o, s/he, input/output",
        "5 €/Monat, 20 m²/s, 1/2, 12/10/2024, 3:2, 12:30:45 and 9:5:1",
        "100 % sure, 50% discount, 100 %ige Lösung, 5%, 10 % der Kosten, 50 %ig",
        "a <b and c> d, x << 2, 1 <2",
        "1.5, 2.000,50, 1.234.567, 1.234.567,89, 3.14, 24.12.2024, 01.02.24, 2024.02.01, 24.12.23",
        "e.g. this, i.e. that, U.S. law, z.B. hier, d.h. so, J.R.R. Tolkien, Ph.D. thesis, a.m. and p.m.",
        "#1, No. #42, AT&T, R&D, 5 @ 3 Euro",
        "well-known, state-of-the-art, E-Mail-Adresse, Müller-Lüdenscheidt",
        "Note: this; that: the other. It's 'quoted' and \"quoted\".",
        "{see the note below} and [two brackets] (parentheses)",
        "either\\or, a \\ b",
        "10–12 Uhr, § 5 Abs. 2, 30 °C, £5.99, $100, US$ 5",
        "Stop... ?! No -- really…",
        "Kund/innen, Kolleg:innen, Lehrer(in), // comment, /",
        "ratio 16:9, verse 3:16, a:b:c, ::before",
        "*important* snake_case ~ 5, file(s), iOS, LehrerInnen, Haupt- und Nebensatz",
        "Das ist so.Dann kam er.",
    ],
)
def test_ordinary_text_has_no_spans(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://example.com/a, or https://example.com/b.", ["https://example.com/a", "https://example.com/b"]),
        ("(https://example.com/a_(b))!", ["https://example.com/a_(b)"]),
        ("[text](https://example.com/x).", ["](https://example.com/x)"]),
        ("**Start it** (now), **stop:** * a ** b *** c", ["**", "**", "**", "**"]),
        ("![a](b.png) [c](#d-e) [f](g.md#h) [i](j 'k') [l] (m) n](o p)", ["](b.png)", "](#d-e)", "](g.md#h)"]),
        ("Liegt es in /usr/bin? Oder in src/main.py!", ["/usr/bin", "src/main.py"]),
        ("Write to me@example.com.", ["me@example.com"]),
        ("Hallo @user, #thema.", ["@user", "#thema"]),
        ("„https://example.com“ heißt sie", ["https://example.com"]),
        ("访问https://example.com。谢谢", ["https://example.com"]),
        ("https://example.com/@user#tag", ["https://example.com/@user#tag"]),
        ('<a href="https://example.com">', ['<a href="https://example.com">']),
        ("`see {name} at /usr/bin`", ["`see {name} at /usr/bin`"]),
        ("%s%d{a}{b}", ["%s", "%d", "{a}", "{b}"]),
        ("{min}-{max} or %s:%d, {a} - {b}", ["{min}-{max}", "%s:%d", "{a}", "{b}"]),
        ("%dx%d pixels, %sth", ["%d", "%d", "%s"]),
        ("Version 2 %s of 3 %d, v1.2.3 %s", ["%s", "%d", "v1.2.3", "%s"]),
        (r"Line one\nLine two", [r"\n"]),
        ("😀😀🇩🇪🇫🇷", ["😀", "😀", "🇩🇪", "🇫🇷"]),
        ('Wählen Sie <x id="12"></x>.', ['<x id="12">', "</x>"]),
        ("v1.2.3.", ["v1.2.3"]),
        ("``` not closed `a`", ["`a`"]),
        ("text\n\n```python\nx = 1\n\n  y = `2`\n```\nend", ["```python", "x = 1", "y = `2`", "```"]),
        ("```\n  \nx = 1\n```\nend", ["```", "x = 1", "```"]),
        ("a `b\nc` d", []),
        ("wait {name\n}", []),
    ],
)
def test_spans_end_where_they_should(text: str, spans: list[str]) -> None:
    assert found(text) == spans


def test_none_protects_nothing_and_a_list_replaces_the_default_unless_it_holds_auto() -> None:
    text = "Order AB-123 at https://example.com"
    assert find_spans(text, "none") == []
    assert found(text, r"[A-Z]{2}-\d+") == ["AB-123"]
    assert found(text, r"[A-Z]{2}-\d+", "auto") == ["AB-123", "https://example.com"]
    assert find_spans(text, []) == []


def test_the_leftmost_span_wins_and_then_the_longest() -> None:
    assert found("abcde", "bc", "bcd", "cde", "e") == ["bcd", "e"]


def test_offsets_of_patterns_are_characters() -> None:
    assert find_spans("Ärger 😀 für \ud800 AB-1 und ß AB-2", [r"AB-\d"]) == [(14, 18), (25, 29)]


def test_a_match_of_a_pattern_ends_with_its_line() -> None:
    assert found("<<a\nb>> <<c>>", "(?s)<<.*?>>") == ["<<c>>"]
    assert found("x = 1\ny = 2", "(?m)^.+$") == ["x = 1", "y = 2"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (["("], "missing"),
        (["(?=x)"], "invalid perl operator"),
        ([r"(a)\1"], "invalid escape sequence"),
        (["x*"], "empty text"),
        ([r"\b"], "empty text"),
        ([r"\pL{900}"], "too large"),
        (["\ud800"], "surrogate"),
        (["a" * (MAX_PATTERN_CHARACTERS + 1)], f"{MAX_PATTERN_CHARACTERS + 1} characters and {MAX_PATTERN_CHARACTERS}"),
        ([f"a{number}" for number in range(MAX_PATTERNS + 1)], f"{MAX_PATTERNS + 1} patterns and {MAX_PATTERNS}"),
    ],
)
def test_a_wrong_pattern_is_refused_with_its_text_and_the_reason(patterns: list[str], message: str) -> None:
    with pytest.raises(InvalidPattern, match=re.escape(message)) as error:
        find_spans("text", patterns)
    assert repr(patterns[-1][:100]) in str(error.value)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Das Wort «Привет, мир!» ist russisch.", ["Привет, мир"]),
        ("Он сказал: «Да» 2 раза", ["Он сказал: «Да» 2 раза"]),
        ("你好，世界。 heißt hallo", ["你好，世界。"]),
        ("Berlin (Москва) Paris, Минск; Rom", ["Москва", "Минск"]),
        ("d'Артаньян, IT-отдел", ["d'Артаньян, IT-отдел"]),
        ("eins/два/drei", ["два"]),
        ("Привет\nмир", ["Привет", "мир"]),
        ("plain text", []),
        ("", []),
    ],
)
def test_words_that_cannot_be_written_are_spans_with_what_is_between_them(text: str, spans: list[str]) -> None:
    unknown = unknown_spans(text, lambda character: ord(character) < 0x250 or character in "«»“„’")
    assert [text[start:end] for start, end in unknown] == spans


PIECES = [
    *SPANS, *"{}<>`%@#/\\:.\"'()[]&=-_ \n\t\r\u2028\u200d\ufe0f\ud800", "\n```\n", "Wort", "и", "x1", "12", "ä", "http://"
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=()))).map("".join)
PATTERNS = ["[0-9]+", "W.r", "(?s)x.*", r"\S+t", "auto"]


def check(text: str, spans: list[Span]) -> None:
    position = 0
    for start, end in spans:
        assert position <= start < end <= len(text)
        assert not re.search(f"[{LINE_BREAKS}]", text[start:end])
        assert text[start:end] == text[start:end].strip()
        position = end


@given(TEXTS)
def test_default_spans_are_in_order_disjoint_and_within_a_line(text: str) -> None:
    check(text, find_spans(text))


@given(TEXTS, st.lists(st.sampled_from(PATTERNS)))
def test_spans_of_patterns_are_in_order_and_disjoint(text: str, patterns: list[str]) -> None:
    position = 0
    for start, end in find_spans(text, patterns):
        assert position <= start < end <= len(text)
        position = end


@given(TEXTS)
def test_no_character_outside_of_the_unknown_spans_is_unknown(text: str) -> None:
    spans = unknown_spans(text, str.isascii)
    check(text, spans)
    outside = list(text)
    for start, end in reversed(spans):
        del outside[start:end]
    assert all(character.isascii() or character.isspace() for character in outside)


@given(st.lists(st.sampled_from(SPANS), min_size=1, max_size=6))
def test_spans_between_words_are_all_found(spans: list[str]) -> None:
    assert found(f"wir {' und '.join(spans)} sehen") == spans


PATHOLOGICAL: dict[str, Callable[[int], str]] = {
    "letters": lambda size: "a" * size,
    "dots": lambda size: "a." * (size // 2),
    "braces": lambda size: "{" * size,
    "open braces": lambda size: "{a " * (size // 3),
    "messages": lambda size: "{a, plural, " + "{x{y}" * (size // 5),
    "branches": lambda size: "{a,plural,b{" * (size // 12),
    "messages in braces": lambda size: "{a,plural,b{{" * (size // 13),
    "closed tags": lambda size: "<a b>" * (size // 5) + "</a>",
    "sections": lambda size: "section 1." * (size // 10),
    "exponents": lambda size: "1e" * (size // 2),
    "fields of Python": lambda size: ":param a " * (size // 9),
    "check marks": lambda size: "\u2705" * size,
    "percent signs": lambda size: "%(" * (size // 2),
    "tags": lambda size: "<a x='" * (size // 6),
    "attributes": lambda size: "<a" + " x=1" * (size // 4),
    "backticks": lambda size: "".join("`" * (1 + index % 40) + "x" for index in range(size // 21)),
    "backslashes": lambda size: "\\" * size,
    "paths": lambda size: "/a" * (size // 2),
    "rooted paths": lambda size: " /" * (size // 2),
    "addresses": lambda size: "a@" * (size // 2),
    "long address": lambda size: "a" * size + "@",
    "schemes": lambda size: "a+" * (size // 2) + "://",
    "brackets": lambda size: "http://" + ")" * size,
    "hashes": lambda size: "#" * size,
    "digits": lambda size: "1." * (size // 2),
    "colons": lambda size: ":a" * (size // 2),
    "emoji": lambda size: "\U0001f469\u200d" * (size // 2),
    "flags": lambda size: "\U0001f1e9" * size,
    "comments": lambda size: "<!-- " * (size // 5),
    "brackets of names": lambda size: "[a" * (size // 2),
    "links of wikis": lambda size: "[[a|" * (size // 4),
    "attributes of tags": lambda size: "[a" + " b=c" * (size // 4),
    "statements": lambda size: "{{#" * (size // 3),
    "expressions": lambda size: "<% " * (size // 3),
    "dollars": lambda size: "$a " * (size // 3),
    "names of variables": lambda size: "$a." * (size // 3),
    "commands": lambda size: "git add -a " * (size // 11),
    "arguments": lambda size: "git add " + "a" * size,
    "calls": lambda size: "a.b(" * (size // 4),
    "capitals inside": lambda size: "aB" * (size // 2),
    "assignments": lambda size: "a=" * (size // 2),
    "signs between": lambda size: "a > » " * (size // 6),
    "rules": lambda size: "-" * size,
    "spaced dots": lambda size: ". " * (size // 2),
    "ellipses": lambda size: "... " * (size // 4),
    "underscores": lambda size: "_a " * (size // 3),
    "apostrophes": lambda size: "'' " * (size // 3),
    "codes": lambda size: "A-1" * (size // 3),
    "equations": lambda size: "a + " * (size // 4),
    "hexadecimal": lambda size: "a1" * (size // 2),
    "date patterns": lambda size: "dd." * (size // 3),
    "formulas": lambda size: "$a=" * (size // 3),
    "commands of LaTeX": lambda size: r"\a{" * (size // 3),
    "titles of sections": lambda size: "== a\n" * (size // 5),
    "directives": lambda size: ".. a::\n" * (size // 7),
    "JSON": lambda size: '{"a":' * (size // 5),
    "SQL": lambda size: "SELECT a " * (size // 9),
    "keys": lambda size: "a." * (size // 2),
    "words of classes": lambda size: "ab ab-" * (size // 6),
    "labels": lambda size: "AB: " * (size // 4),
    "references": lambda size: "&a" * (size // 2),
    "literal blocks": lambda size: "a::\n  b\n" * (size // 8),
    "fences": lambda size: "```\n````\n" * (size // 9),
    "front matter": lambda size: "---\n" + "a: b\n - c\n\n" * (size // 11),
    "front matter in TOML": lambda size: "+++\n" + "a = b\n" * (size // 6),
}


def assert_linear(protect: Protect | list[str], text: str, longer: str, bound: float) -> None:
    """Check that a longer text takes at most so many times as long.

    Before it fails, both are measured again, and the least of each is compared: others use the machine. Below a
    millisecond there is nothing to compare.
    """
    find_spans(text, protect)  # compiles patterns
    least_s = {text: float("inf"), longer: float("inf")}
    for _ in range(5):
        for content in least_s:
            start = time.process_time()
            find_spans(content, protect)
            least_s[content] = min(least_s[content], time.process_time() - start)
        if least_s[longer] < bound * max(0.001, least_s[text]):
            return
    raise AssertionError(f"{least_s[text]} s, and {least_s[longer]} s for a longer text")


@pytest.mark.parametrize("make", PATHOLOGICAL.values(), ids=PATHOLOGICAL.keys())
def test_time_grows_no_faster_than_the_text(make: Callable[[int], str]) -> None:
    # Ten times the text takes ten times as long, and a hundred times as long if the time is quadratic.
    assert_linear("auto", make(4_000), make(40_000), bound=25)


@pytest.mark.parametrize("pattern", ["x.*y|x", "(x+x+)+y", r"(?s)x(.*)z|x", r"(\\w|\\s)*x{40}y|x"])
def test_patterns_that_look_far_ahead_are_bounded(pattern: str) -> None:
    text = "x" * (MAX_MATCHES // 4)
    assert_linear([pattern], text, text + "a" * 100_000, bound=150)


def test_more_matches_than_the_bound_are_refused() -> None:
    assert len(find_spans("x" * MAX_MATCHES, ["x"])) == MAX_MATCHES
    with pytest.raises(InvalidPattern, match=f"'y'.*{MAX_MATCHES} matches"):
        find_spans("x" * MAX_MATCHES + "y", ["x", "y"])


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("was (destroyed?) today", ["(", ")"]),
        ("39% of them", ["39%"]),
        ("about $20 a day", ["$20"]),
        ("costs $2.3 billion", ["$2.3"]),
        ("AT&T and R&D", ["AT&T", "R&D"]),
        ("35°W", ["35°W"]),
        ("São Paulo", ["São"]),
        ("named “lockdown” there", ["“", "”"]),
        ("(0230 UTC)", ["(0230", ")"]),
        ("(猫)", ["(猫)"]),
        ("a & b", ["&"]),
        ("(12)", ["(12)"]),
    ],
)
def test_signs_that_are_unknown_take_no_words_with_them(text: str, spans: list[str]) -> None:
    def is_known(character: str) -> bool:
        return character.isascii() and (character.isalnum() or character in " .,?")

    assert [text[slice(*span)] for span in unknown_spans(text, is_known)] == spans
