from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.segmentation import Segment, join_text, split_text


def always(part: str) -> bool:
    return True


def parts(text: str, segments: list[Segment]) -> list[str]:
    return [text[segment.start : segment.end] for segment in segments]


@given(
    text=st.text(
        alphabet=st.one_of(st.sampled_from(list(" \n\t.!?,;:\"'()ab\u00e4\u00df\U0001f600\u2028\r")), st.characters())
    ),
    language=st.sampled_from(["en", "de", "xx"]),
    longest=st.integers(1, 12),
)
def test_any_text_comes_back_when_nothing_is_translated(text: str, language: str, longest: int) -> None:
    segments = split_text(text, language, lambda part: len(part) <= longest)
    assert join_text(text, segments, parts(text, segments)) == text
    position = 0
    for segment in segments:
        assert position <= segment.start < segment.end <= len(text)
        assert not text[position : segment.start].strip()
        assert text[segment.start : segment.end].strip() == text[segment.start : segment.end]
        position = segment.end
    assert not text[position:].strip()


def test_sentences_end_where_people_end_them() -> None:
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
def test_lines_are_sentences_of_their_own(between: str) -> None:
    text = f"one{between}two"
    assert parts(text, split_text(text, "en", always)) == ["one", "two"]


def test_a_long_sentence_is_split_at_punctuation_first() -> None:
    text = "first part of it, second part; third part of it"
    assert parts(text, split_text(text, "en", lambda part: len(part) <= 20)) == [
        "first part of it,",
        "second part;",
        "third part of it",
    ]


def test_then_at_spaces_then_between_characters() -> None:
    assert parts("aa bb cc", split_text("aa bb cc", "en", lambda part: len(part) <= 5)) == ["aa bb", "cc"]
    assert parts("aaaaaaa", split_text("aaaaaaa", "en", lambda part: len(part) <= 3)) == ["aaa", "aaa", "a"]


def test_accents_and_emoji_sequences_are_not_torn_apart() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    text = ("e\u0301" * 10 + family) * 3
    for part in parts(text, split_text(text, "en", lambda part: len(part) <= 6)):
        assert not unicodedata.combining(part[0])
        assert not part.startswith("\u200d")
        assert not part.endswith("\u200d")


@pytest.mark.parametrize("text", ["a" * 10_000, "ab " * 3_333, "word, " * 1_666])
def test_ten_thousand_characters_ask_a_bounded_number_of_questions(text: str) -> None:
    questions = 0
    longest_question = 0

    def fits(part: str) -> bool:
        nonlocal questions, longest_question
        questions += 1
        if len(part) < len(text) / 2:
            longest_question = max(longest_question, len(part))
        return len(part) <= 400

    segments = split_text(text, "en", fits)
    assert len(segments) <= 40
    assert questions < 1000
    assert sum(len(part) for part in parts(text, segments)) >= len(text.replace(" ", ""))
