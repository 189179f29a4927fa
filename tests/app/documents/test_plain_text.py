"""Plain text: text that is wrapped at a width is translated as sentences, and what is on lines stays on lines."""

from __future__ import annotations

import pytest

from tests.app.documents.translated import read, texts_of, translated_text

WRAPPED = """\
The rabbit fell down a very deep
well. It was not able to stop
before it came to the bottom.
"""


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_wrapped_text_is_translated_as_sentences_and_wrapped_again(line_end: str) -> None:
    text = WRAPPED.replace("\n", line_end)
    assert texts_of(".txt", text) == [joined(WRAPPED)]
    assert translated_text(".txt", text) == text.upper()
    translation = "Das Kaninchen fiel in einen sehr tiefen Brunnen und konnte nicht anhalten."
    lines = ["Das Kaninchen fiel in einen sehr", "tiefen Brunnen und konnte nicht", "anhalten.", ""]
    assert read(".txt", text).write([translation], "de").decode() == line_end.join(lines)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        (
            "  A first line that is indented by\nspaces, and others.\n",
            ["A first line that is indented by spaces, and others."],
        ),
        (
            "- an item that is so long that it\n  goes on here\n- two\n",
            ["an item that is so long that it goes on here", "- two"],
        ),
        ("> A quotation that is long enough\n> to go on here\n", ["A quotation that is long enough to go on here"]),
        ("> > A quotation in another one is\n> > here too\n", ["A quotation in another one is here too"]),
        ("This is a community of all the de-\nvelopers of it.\n", ["This is a community of all the developers of it."]),
        ("A well-known word, and it is a well-\nknown one.\n", ["A well-known word, and it is a well-known one."]),
        ("Das ist die lange Straße der Ein-\nund Ausfahrt\n", ["Das ist die lange Straße der Ein- und Ausfahrt"]),
        (
            "Das ist sehr lang, und die Nord-\nSüd-Achse ist die\nlange\n",
            ["Das ist sehr lang, und die Nord-Süd-Achse ist die lange"],
        ),
        (
            WRAPPED + "\nDas lange Haus in der Straße der\nStadt.\n",
            [joined(WRAPPED), "Das lange Haus in der Straße der Stadt."],
        ),
    ],
)
def test_lines_of_one_text_are_one_unit(text: str, units: list[str]) -> None:
    assert texts_of(".txt", text) == units
    assert joined(translated_text(".txt", text).replace(">", "")).replace("- ", "-") != ""


LINES = [
    "milk\nbread\nbutter\n",
    "Dear Sir,\nI write to you\n\nYours,\nTom\n",
    "open the big red door of the house\nclose the door\nread the manual carefully\n",
    "roses are red in the garden,\nviolets are blue in the sky,\nand so are you.\n",
    "The first step of a long list of it\nThe second one that is also long\nThe third\n",
    "one long column of a wide table   two\nanother long column of the table   two\n",
    "-----Original Message-----\nFrom: Tom\nSent: on a very long day of the week in\nMay\n",
    "Chapter one of it ............ 5\nand others ................... 17\n",
    "a" * 300 + " b\n" + "c" * 300 + " d\n",
]


@pytest.mark.parametrize("text", LINES)
def test_lines_that_are_no_wrapped_text_stay_lines(text: str) -> None:
    assert "".join(texts_of(".txt", text)).count("\n") == text.replace("\n\n", "").count("\n") - 1
    assert translated_text(".txt", text) == text.upper()
    wide = (
        "This text is much wider than all of the others, and its margin is no margin of theirs, as\neveryone can see.\n"
    )
    assert texts_of(".txt", f"{text}\n{wide}")[:-1] == texts_of(".txt", text)


def test_marks_of_direction_stay_at_the_ends_of_their_lines() -> None:
    assert texts_of(".txt", "\u200eOne line\u200f\n\u202bTwo\u202c\n") == ["One line", "Two"]


def test_a_long_wrapped_text_is_divided_behind_sentences() -> None:
    units = texts_of(".txt", WRAPPED * 30)
    assert len(units) > 3
    assert all(unit.endswith("bottom.") for unit in units)


def test_rules_of_titles_are_as_long_as_their_translations() -> None:
    assert read(".rst", "====\nHome\n====\n").write(["Startseite"], "de") == b"==========\nStartseite\n==========\n"
