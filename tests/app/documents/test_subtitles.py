"""Subtitles: who says what, sounds, songs, captions that roll, and sentences over several cues."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.documents.formats.cue_division import CUT, divide
from tests.app.documents.translated import read, texts_of, translated_text, unchanged

TIMES = "00:00:{:02},000 --> 00:00:{:02},000".format


def srt(*cues: str) -> str:
    """Subtitles of some texts."""
    return "\n".join(f"{n}\n{TIMES(n, n + 1)}\n{text}\n" for n, text in enumerate(cues, 1))


RED, BLUE, END = '<font color="red">', '<font color="blue">', "</font>"


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("[door opens]\nANNA: Good evening.", ["door opens", "Good evening."]),
        ("(phone rings)\nI am\nhere.", ["phone rings", "I am here."]),
        ("[the door\nopens]\nHello.", ["the door opens", "Hello."]),
        ("MAN #2: Come in,\nmy friend.", ["Come in, my friend."]),
        ("DR. SMITH:\nCome in.", ["Come in."]),
        ("ANNA (on phone): Come in.", ["Come in."]),
        ("{\\k20}One {\\k30}two", ["One two"]),
        ("He said: come in.", ["He said: come in."]),
        ("12:30 is late.", ["12:30 is late."]),
        ("Tom: Who is it?\nAnna: It's me.", ["Tom: Who is it?", "Anna: It's me."]),
        ("- I went to\nthe house.\n- Why?", ["I went to the house.", "Why?"]),
        ("-Yes!\n–No!", ["Yes!", "No!"]),
        (">> Good evening.\n>>> In other news", ["Good evening.", "In other news"]),
        (">> ANNA: Good evening.", ["Good evening."]),
        ("♪ I see the moon ♪\n♪ It sees me ♪", ["I see the moon", "It sees me"]),
        ("♪ I see the moon\nin the sky ♪", ["I see the moon in the sky"]),
        ("# La la, my love #", ["La la, my love"]),
        ("#1 is the best", ["#1 is the best"]),
        ("♪", []),
        ("\u200e- Who?\n\u200e- Me.", ["Who?", "Me."]),
        ("Wait--\n--what?", ["Wait--", "what?"]),
        ("¶ la la ¶", ["la la"]),
        ("♪ la <i>la ♪</i>♪", ['la <i id="0">la ♪</i>♪']),
        ("<i>[door opens]</i>", ["door opens"]),
        ("{\\an8}- <i>Yes!</i>\n- No.", ["Yes!", "No."]),
        ("<i>- Who?\n- Me.</i>", ["Who?", "Me."]),
        ("{\\i1}Hello{\\i0} my {\\b1}old{\\b0} friend", ['<i id="0">Hello</i> my <i id="1">old</i> friend']),
        ("{i}Hello{/i} friend", ['<i id="0">Hello</i> friend']),
        ("One line.\\NTwo lines.", ["One line. Two lines."]),
        (f"{RED}And your brother?{END}\n{BLUE}He is at work.{END}", ["And your brother?", "He is at work."]),
        (f"{RED}Come in,{END}\n{BLUE}my friend.{END}", ["Come in,", "my friend."]),
        ("<i>The first line</i>\n<i>is one sentence.</i>", ['The first line <img id="0">is one sentence.']),
        ("<i>Titanic</i>\nis a film.", ['Titanic <img id="0">is a film.']),
        ("<i>Nicht</i> wahr.", ['<i id="0">Nicht</i> wahr.']),
        ("[Anna] Come in.", ["[Anna] Come in."]),
        ("Come in (please).", ["Come in (please)."]),
    ],
)
def test_each_speaker_sound_and_song_is_a_unit(text: str, units: list[str]) -> None:
    data = srt(text)
    assert texts_of(".srt", data) == units
    assert translated_text(".srt", data).split("\n")[:2] == data.split("\n")[:2]
    pattern = r"<[^<>]*>|\{[^{}]*\}|\\N|[^\w\s]"
    assert re.findall(pattern, translated_text(".srt", data).lower()) == re.findall(pattern, data.lower())
    assert unchanged(".srt", data) == data.encode()


def test_lines_and_signs_are_written_as_they_were() -> None:
    data = srt(
        "[door opens]\nANNA: Good evening.",
        f"{RED}And you?{END}\n{BLUE}He is{END}",
        f"{BLUE}at work.{END}",
        "a b\\Nc d",
    )
    assert translated_text(".srt", data) == srt(
        "[DOOR OPENS]\nANNA: GOOD EVENING.",
        f"{RED}AND YOU?{END}\n{BLUE}HE IS{END}",
        f"{BLUE}AT WORK.{END}",
        "A B\\NC D",
    )


@pytest.mark.parametrize(
    ("cues", "units"),
    [
        (("I think that", "you are right."), ['I think that <img id="0">you are right.']),
        (("I think that", "- you are right."), ["I think that", "you are right."]),
        (("I think that", "ANNA: you are right."), ["I think that", "you are right."]),
        (("- Who?\n- I think that", "you are right."), ["Who?", 'I think that <img id="0">you are right.']),
        (("[door opens]", "and closes."), ["door opens", "and closes."]),
        (("♪ I see the moon ♪", "♪ and it sees me ♪"), ['I see the moon <img id="0">and it sees me']),
        (("♪ I see the moon ♪", "and it sees me"), ["I see the moon", "and it sees me"]),
        ((f"{RED}I think{END}", f"{BLUE}you are{END}"), ["I think", "you are"]),
    ],
)
def test_a_sentence_goes_on_in_the_words_of_the_same_speaker(cues: tuple[str, ...], units: list[str]) -> None:
    assert texts_of(".srt", srt(*cues)) == units


@pytest.mark.parametrize(
    ("translation", "lengths", "parts"),
    [
        (  # the alignment has most of the sentence in the second cue
            "Wir haben einen Plan, |der unseren Lehrern hilft, in kurzer Zeit alle ihre Lektionen |vorzubereiten.",
            [14, 23, 47],
            [
                "Wir haben einen Plan,",
                "der unseren Lehrern hilft,",
                "in kurzer Zeit alle ihre Lektionen vorzubereiten.",
            ],
        ),
        ("Ein Satz |in zwei Teilen", [9, 14], ["Ein Satz", "in zwei Teilen"]),
        ("eins zwei drei", [5, 5, 5], ["eins", "zwei", "drei"]),
        ("|eins zwei drei vier", [1, 1, 100], ["eins", "zwei", "drei vier"]),
        ("eins zwei drei vier|", [100, 1, 1], ["eins zwei", "drei", "vier"]),
        ("eins", [5, 5], ["eins", ""]),
    ],
)
def test_a_sentence_is_divided_by_the_lengths_of_its_cues(
    translation: str, lengths: list[int], parts: list[str]
) -> None:
    first, *rest = translation.split("|")
    nodes = [first, *(node for text in rest for node in (CUT, text))]
    assert ["".join(map(str, part)) for part in divide(nodes, lengths)] == parts


def test_a_tag_around_a_border_is_around_both_parts() -> None:
    file = read(".srt", srt("I see <i>the big", "blue</i> sea."))
    assert len(file.units) == 1
    data = srt("We see the <i>very big</i> and", "so very <i>blue</i> sea here.")
    written = (
        read(".srt", data)
        .write(['Wir <i id="0">sehen das sehr große und so</i> blaue <img id="1">Meer.'], "de")
        .decode()
    )
    assert written.count("<i>") == written.count("</i>")


ROLLING = """\
WEBVTT
Kind: captions
Language: en

00:00:01.000 --> 00:00:02.000 align:start position:0%
·
hello<00:00:01.200><c> and</c><00:00:01.400><c> welcome</c>

00:00:02.000 --> 00:00:02.010 align:start position:0%
hello and welcome
·

00:00:02.010 --> 00:00:03.000 align:start position:0%
hello and welcome
to<00:00:02.200><c> the</c><00:00:02.400><c> house</c>

00:00:03.000 --> 00:00:03.010 align:start position:0%
to the house
·

00:00:03.010 --> 00:00:04.000 align:start position:0%
to the house
[Music]
""".replace("·", " ")


def test_captions_that_roll_are_translated_once() -> None:
    assert texts_of(".vtt", ROLLING) == ['hello and welcome <img id="0">to the house', "Music"]
    expected = re.sub(
        r"^(?:\[|[ht]).*",
        lambda match: re.sub(r"(?<![<\w/])\w+|(?<=>)\w+", lambda word: word[0].upper(), match[0]),
        ROLLING,
        flags=re.MULTILINE,
    )
    expected = expected.replace("<C>", "<c>").replace("Language: en", "Language: de")
    assert translated_text(".vtt", ROLLING) == expected


def test_times_of_words_stay_in_order() -> None:
    data = "WEBVTT\n\n00:01.000 --> 00:02.000\n<00:01.100>one <00:01.200>two <00:01.300>three <00:01.400>four\n"
    written = read(".vtt", data).write(["das Haus"], "de").decode()
    assert re.findall("<[^>]*>", written) == re.findall("<[^>]*>", data)
    assert re.sub("<[^>]*>", "", written).endswith("\ndas Haus\n")


def test_subtitles_may_lack_blank_lines() -> None:
    data = srt("Good morning.", "How are you?\nFine?", "42", "The end.").replace("\n\n", "\n")
    assert texts_of(".srt", data) == ["Good morning.", "How are you? Fine?", "The end."]
    without_numbers = (
        "00:00:01,000 --> 00:00:02,000\nOne\n\n00:00:02,000 --> 00:00:03,000\n42\n\n00:00:03,000 --> 00:00:04,000\nx"
    )
    assert translated_text(".srt", without_numbers) == without_numbers.replace("One", "ONE").replace("\nx", "\nX")


def test_a_blank_line_within_a_cue_divides_it() -> None:
    assert texts_of(".srt", srt("One line.\n\nAnother line.", "Two.")) == ["One line.", "Another line.", "Two."]


WORDS = st.sampled_from(["Good evening.", "and then", "we go", "Yes!", "ANNA:", "42", "the sea", "Who?"])
SIGNS = (
    "{}",
    "{}",
    "- {}",
    ">> {}",
    "[{}]",
    "♪ {} ♪",
    "<i>{}</i>",
    "<i>{}",
    "{}</i>",
    "{{\\an8}}{}",
    RED + "{}" + END,
    "{{\\i1}}{}{{\\i0}}",
)
CUE_LINES = st.builds(
    lambda sign, words: sign.format(" ".join(words)), st.sampled_from(SIGNS), st.lists(WORDS, min_size=1, max_size=3)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(CUE_LINES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_every_sign_and_word_of_subtitles_is_there_once_and_in_its_order(cues: list[list[str]]) -> None:
    data = srt(*("\n".join(lines) for lines in cues))
    result = translated_text(".srt", data)
    assert result.lower().split() == data.lower().split()
    assert [line for line in result.split("\n") if "-->" in line] == [
        line for line in data.split("\n") if "-->" in line
    ]
