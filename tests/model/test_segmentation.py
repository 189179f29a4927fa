"""Splitting any text into sentences, and joining them again."""

from __future__ import annotations

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from model.text.segmentation import Segment, join_text, split_text


def always(start: int, end: int) -> bool:
    return True


def parts(text: str, segments: list[Segment]) -> list[str]:
    return [text[segment.start : segment.end] for segment in segments]


AWKWARD = [
    *" \n\t\r.!?,;:^`\"'()ab\u00e4\u00df\u2028\u0301\u200d\u200b\ufeff",
    "\r\n",
    "\U0001f600",
    "\U0001f44d\U0001f3fd",
    "\U0001f1e9\U0001f1ea",
    "\ud800",
    "\udfff",
]
"""Parts of the texts of the property test, besides arbitrary characters."""


@given(
    text=st.lists(st.one_of(st.sampled_from(AWKWARD), st.characters(exclude_categories=()))).map("".join),
    language=st.sampled_from(["en", "de", "xx"]),
    longest=st.integers(1, 12),
)
def test_joining_untranslated_segments_gives_the_original_text(text: str, language: str, longest: int) -> None:
    segments = split_text(text, language, lambda start, end: end - start <= longest)
    assert join_text(text, segments, parts(text, segments)) == text
    position = 0
    for segment in segments:
        assert position <= segment.start < segment.end <= len(text)
        assert not text[position : segment.start].strip()
        assert text[segment.start : segment.end].strip() == text[segment.start : segment.end]
        assert segment.end - segment.start <= longest
        position = segment.end
    assert not text[position:].strip()


def test_sentences_end_at_final_punctuation() -> None:
    text = 'Mr. Smith paid 3.50 dollars.  "Really?" he asked. Yes!\nNew line'
    assert parts(text, split_text(text, "en", always)) == [
        "Mr. Smith paid 3.50 dollars.",
        '"Really?" he asked.',
        "Yes!",
        "New line",
    ]
    german = "Das gilt z. B. für Dr. Müller. Ende."
    assert parts(german, split_text(german, "de", always))[-1] == "Ende."


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\n\n", "\u2028", "\t\n  "])
def test_lines_are_separate_sentences(between: str) -> None:
    text = f"one{between}two"
    assert parts(text, split_text(text, "en", always)) == ["one", "two"]


def test_a_long_sentence_is_split_at_punctuation_first() -> None:
    text = "first part of it, second part; third part of it"
    assert parts(text, split_text(text, "en", lambda start, end: end - start <= 20)) == [
        "first part of it,",
        "second part;",
        "third part of it",
    ]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "Dr. Jones met Mrs. Lee at 5 p.m. sharp.", 1),
        ("en", "It costs 3.14 dollars, i.e. little. See e.g. page 2.", 2),
        ("de", "Das gilt z.B. f\u00fcr Dr. M\u00fcller usw. und mehr.", 1),
        ("de", "Am 3. Oktober ist frei. Am 4. nicht.", 2),
        ("en", "What?! No... Yes.", 3),
        ("xx", "Unknown language. Still split.", 2),
    ],
)
def test_abbreviations_and_numbers_end_no_sentence(language: str, text: str, expected: int) -> None:
    assert len(split_text(text, language, always)) == expected


@pytest.mark.parametrize("text", ["", " ", "\n\r\n \t\u2028\u00a0"])
def test_a_text_without_visible_characters_has_no_segment(text: str) -> None:
    assert split_text(text, "en", always) == []
    assert join_text(text, [], []) == text


def test_text_between_sentences_is_unchanged() -> None:
    text = "  One.  Two.\r\n\r\n\tThree.\u2028Four. "
    segments = split_text(text, "en", always)
    merged = join_text(text, segments, ["1", "2", "3", "4"])
    assert merged == "  1  2\r\n\r\n\t3\u20284 "


def test_too_few_translations_are_refused() -> None:
    segments = split_text("One. Two.", "en", always)
    with pytest.raises(ValueError, match="shorter"):
        join_text("One. Two.", segments, ["1"])


def test_a_long_part_is_split_at_spaces_then_between_characters() -> None:
    assert parts("aa bb cc", split_text("aa bb cc", "en", lambda start, end: end - start <= 5)) == ["aa bb", "cc"]
    assert parts("aaaaaaa", split_text("aaaaaaa", "en", lambda start, end: end - start <= 3)) == ["aaa", "aaa", "a"]


@pytest.mark.parametrize(
    "unit",
    [
        "e\u0301",  # accent
        "\u0915\u093f",  # vowel sign
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # family
        "\U0001f44d\U0001f3fd",  # skin tone
        "\U0001f1e9\U0001f1ea",  # flag of two letters
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # flag spelled in tags
        "1\ufe0f\u20e3",  # keycap
    ],
    ids=["accent", "vowel", "family", "skin", "flag", "tags", "keycap"],
)
@pytest.mark.parametrize("longest", [7, 8, 9, 10, 11])
def test_a_grapheme_cluster_is_not_split(unit: str, longest: int) -> None:
    text = unit * 20
    result = parts(text, split_text(text, "en", lambda start, end: end - start <= longest))
    assert [part.replace(unit, "") for part in result] == [""] * len(result)
    assert "".join(result) == text


def test_a_flag_after_a_letter_is_not_split() -> None:
    text = "abc" + "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7"
    assert parts(text, split_text(text, "en", lambda start, end: end - start <= 4)) == ["abc", text[3:]]


@pytest.mark.parametrize("text", ["e" + "\u0301" * 50, "\u200d" * 50, "\U0001f468\u200d\U0001f469\u200d\U0001f467"])
def test_a_grapheme_cluster_over_the_limit_is_split(text: str) -> None:
    result = parts(text, split_text(text, "en", lambda start, end: end - start <= 4))
    assert max(map(len, result)) <= 4
    assert "".join(result) == text


def test_a_limit_that_nothing_fits_still_yields_the_whole_text() -> None:
    text = "ab, c"
    assert parts(text, split_text(text, "en", lambda start, end: False)) == ["a", "b", ",", "c"]


def test_a_line_the_library_would_change_is_kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentencex, "segment", lambda language, line: ["One."])
    assert parts("One. Two.", split_text("One. Two.", "en", always)) == ["One. Two."]


@pytest.mark.parametrize("unit", ["^", "`", "x", "\u00b4"])
def test_every_part_of_a_run_of_one_character_fits(unit: str) -> None:
    text = "a" + unit * 50
    result = parts(text, split_text(text, "en", lambda start, end: end - start <= 6))
    assert max(map(len, result)) <= 6
    assert "".join(result) == text


def test_a_lone_surrogate_does_not_affect_the_sentences_around_it() -> None:
    text = "One \ud83d here. Two."
    assert parts(text, split_text(text, "en", always)) == ["One \ud83d here.", "Two."]


@pytest.mark.parametrize("space", ["\u00a0", " \u2009", "\u202f", "\u3000"])
def test_any_white_space_may_stand_between_a_capital_letter_and_a_full_stop(space: str) -> None:
    text = f"This is plan A{space}. It is good."
    assert parts(text, split_text(text, "en", always)) == [f"This is plan A{space}.", "It is good."]


def test_a_sentence_that_fits_is_measured_once() -> None:
    measured: list[str] = []

    def fits(start: int, end: int) -> bool:
        measured.append(text[start:end])
        return True

    text = "This is one sentence, and it is longer than most, but it fits; so it is measured once, whole."
    split_text(text, "en", fits)
    assert measured == [text]


@pytest.mark.parametrize(
    "unit", ["a", "ab ", "word, ", "!?", "(", "\u201e\u201c", ". ", "e\u0301", "^", "\U0001f600", "a\tb\u200b"]
)
def test_the_measurements_of_splitting_grow_linearly_with_the_text(unit: str) -> None:
    def measured(text: str) -> tuple[int, int]:
        questions = characters = 0

        def fits(start: int, end: int) -> bool:
            nonlocal questions, characters
            questions += 1
            characters += end - start
            return end - start <= 400

        segments = split_text(text, "en", fits)
        assert max(segment.end - segment.start for segment in segments) <= 400
        assert len(segments) <= len(text) / 200
        return questions, characters

    text = unit * (10_000 // len(unit))
    questions, characters = measured(text)
    assert questions < 400
    assert characters < 20 * len(text)
    twice = measured(text * 2)
    assert twice[0] <= 2.2 * questions + 10
    assert twice[1] <= 2.2 * characters + 1000


@pytest.mark.parametrize("longest", [3, 10, 50])
def test_a_kept_span_is_never_split(longest: int) -> None:
    text = "some words, and more" + "x" * 300 + ". words after it " + "y" * 80 + "zz " * 30
    stored = [(20, 320), (337, 417)]
    segments = split_text(text, "en", lambda start, end: _length(start, end, stored) <= longest, stored)
    for start, end in stored:
        assert any(segment.start <= start and end <= segment.end for segment in segments)
    assert "".join(parts(text, segments)).replace(" ", "") == text.replace(" ", "")


def _length(start: int, end: int, kept: list[tuple[int, int]]) -> int:
    """A length in which a whole kept span counts as one character."""
    full = [(first, last) for first, last in kept if start <= first and last <= end]
    return end - start - sum(last - first - 1 for first, last in full)
