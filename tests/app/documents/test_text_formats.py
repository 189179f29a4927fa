"""Text files there and back: only their text changes."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.app.documents.structures.files import FILES
from tests.app.documents.translated import read, texts_of, translated, translated_text, unchanged


@pytest.mark.parametrize("name", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("suffix", [".txt", ".srt", ".csv", ".json"])
def test_the_encoding_is_kept(suffix: str, name: str) -> None:
    data = FILES[suffix].encode(name)
    assert unchanged(suffix, data) == data
    assert translated(suffix, data).decode(name) == translated_text(suffix, FILES[suffix])


@pytest.mark.parametrize("line", ["A line of a poem,<br>", "A sentence of <b>a</b> page. ", "One more “sentence.” "])
def test_long_paragraphs_of_a_page_are_divided_at_lines_and_sentences(line: str) -> None:
    texts = texts_of(".html", f"<p>{line * 2_000}</p>")
    assert "".join(texts) == line * 2_000
    assert all(text.endswith(line) and len(text) < 11_000 for text in texts)


def test_long_paragraphs_are_not_divided_within_sentences() -> None:
    assert len(texts_of(".html", "<p>" + "<i>word</i> " * 2_000)) == 1


@pytest.mark.parametrize("suffix", [".txt", ".html", ".srt", ".vtt", ".json", ".csv", ".md"])
def test_an_empty_part_changes_nothing(suffix: str) -> None:
    minimal = {
        ".srt": "1\n00:00:01,000 --> 00:00:02,000\n",
        ".vtt": "WEBVTT\n\n00:01.000 --> 00:02.000\n",
        ".json": "{}",
    }
    data = minimal.get(suffix, "").encode()
    assert texts_of(suffix, data) == []
    assert translated(suffix, data) == data


def test_long_texts_are_divided_at_lines() -> None:
    assert [text.count("\n") + 1 for text in texts_of(".txt", "one line\n" * 45)] == [20, 20, 5]


def test_a_sentence_over_several_cues_is_one_unit() -> None:
    assert 'friend <img id="1">who went away.' in texts_of(".srt", FILES[".srt"])[0]


def cue(*lines: str) -> str:
    return "1\n00:00:01,000 --> 00:00:02,000\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("lines", "translation", "shown"),
    [
        (["Short one."], "Kurz.", ["Kurz."]),
        (["A line of", "two parts."], "Eine Zeile aus zwei Teilen.", ["Eine Zeile aus", "zwei Teilen."]),
        (["Short."], "Das ist nun aber eine viel zu lange Zeile.", ["Das ist nun aber eine viel zu lange Zeile."]),
        (
            ["Short."],
            "Das ist nun aber eine noch viel zu lange Zeile.",
            ["Das ist nun aber eine", "noch viel zu lange Zeile."],
        ),
        (["Two", "words"], "Wort", ["Wort"]),
    ],
)
def test_translations_of_cues_are_wrapped_like_their_sources(
    lines: list[str], translation: str, shown: list[str]
) -> None:
    assert read(".srt", cue(*lines)).write([translation], "de").decode() == cue(*shown)


def test_a_cue_that_would_be_empty_gets_its_share_of_the_words() -> None:
    cues = cue("one two three four") + "\n" + cue("five six").replace("1\n", "2\n", 1)
    file = read(".srt", cues)
    assert len(file.units) == 1
    written = file.write(["eins zwei drei vier fünf sechs"], "de").decode()
    assert written == cues.replace("one two three four", "eins zwei drei vier").replace("five six", "fünf sechs")


VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
def test_any_json_keeps_its_structure(value: Any, ensure_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        return
    file = read(".json", data)
    written = file.write([f"<{unit.text}>" for unit in file.units], "de")
    count = 0

    def compare(before: Any, after: Any) -> None:
        nonlocal count
        if isinstance(before, dict):
            assert list(before) == list(after)
            for key in before:
                compare(before[key], after[key])
        elif isinstance(before, list):
            assert len(before) == len(after)
            for first, other in zip(before, after, strict=True):
                compare(first, other)
        elif before != after:
            assert after == f"<{before}>"
            count += 1

    compare(json.loads(data), json.loads(written))
    assert count == len(file.units)


@pytest.mark.parametrize(
    ("translation", "cell"),
    [
        ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
        ("+1 a", '"\'+1 a"'),
        (" @SUM(A1)", '"\' @SUM(A1)"'),
        ("\tx", '"\'\tx"'),
        ("＝x", '"\'＝x"'),
        ('-"x"', '"\'-""x"""'),
        ("a = b", "a = b"),
    ],
)
def test_a_cell_of_csv_that_becomes_a_formula_is_written_as_a_text(translation: str, cell: str) -> None:
    assert read(".csv", "word,b").write([translation, None], "de").decode() == f"{cell},b"


def test_a_cell_of_csv_that_began_like_a_formula_keeps_its_beginning() -> None:
    assert read(".csv", "- one,=A1+B").write(["- eins"], "de") == b"- eins,=A1+B"


def test_a_cell_of_csv_does_not_begin_with_the_sign_of_another_formula_than_before() -> None:
    assert read(".csv", "- one,b").write(["=cmd", None], "de") == b'"\'=cmd",b'


def test_a_cell_that_needs_quotation_marks_gets_them() -> None:
    file = read(".csv", "a,b\nyes,no\n")
    assert file.write(["a", "b", 'say "ja", Tom', "nein"], "de") == b'a,b\n"say ""ja"", Tom",nein\n'


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=4), min_size=1, max_size=4),
    st.sampled_from(",;\t|"),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_any_table_keeps_its_cells(rows: list[list[str]], separator: str, quoting: Any) -> None:
    width = len(rows[0])
    rows = [["alpha"] * width, *([*row, *["x"] * width][:width] for row in rows)]
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=quoting, lineterminator="\n").writerows(rows)
    data = written.getvalue().encode()
    assert unchanged(".csv", data) == data


def test_markdown_that_a_translation_could_make_is_escaped() -> None:
    for translation in ("# no *heading* `code`", "1. no list", "[no](link) <b>", "- no_list _no_", "a ~~b~~ &amp;"):
        written = read(".md", "Some text\n").write([translation], "de").decode()
        tokens = MarkdownIt("commonmark").parse(written)
        assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
        assert "".join(child.content for child in tokens[1].children or []) == translation
        assert {child.type for child in tokens[1].children or []} <= {"text", "text_special"}


def test_links_of_markdown_keep_their_definitions() -> None:
    text = "See [`http.Agent`][], [*the* page] and [this][`http.Agent`], [not one], [nor][this].\n\n"
    definitions = "[`http.Agent`]: #agent\n[*the* page]: http://x.y\n"
    assert translated_text(".md", text + definitions) == (
        "SEE [`http.Agent`][], [*THE* PAGE][*the* page] AND [THIS][`http.Agent`], [NOT ONE], "
        f"[NOR][THIS].\n\n{definitions}"
    )


def test_bars_in_cells_of_markdown_stay_in_their_cells() -> None:
    table = "| a | b |\n|---|---|\n| one \\| two | `x\\|y` and z |\n"
    assert translated_text(".md", table) == "| A | B |\n|---|---|\n| ONE \\| TWO | `x\\|y` AND Z |\n"
    assert read(".md", table).write(["a|b", None, None, None], "de").decode() == table.replace("| a |", "| a\\|b |")


MARKS = [
    "*",
    "**",
    "_",
    "`",
    "``",
    "[",
    "]",
    "](x)",
    "![",
    "\\",
    "<b>",
    "&amp;",
    "~~",
    "\n",
    "  \n",
    " ",
    "a",
    "B c",
    "- ",
    "> ",
    "|",
]


@given(st.lists(st.sampled_from(MARKS), max_size=25).map("".join))
def test_any_markdown_translated_into_itself_is_the_same(text: str) -> None:
    assert unchanged(".md", text) == text.encode()


@given(st.lists(st.sampled_from(["a", "*", "**", "_", " ", "[", "](x)", "`", "b", "\\*"]), max_size=15).map("".join))
def test_markdown_keeps_its_inline_elements(text: str) -> None:
    text = f"x {text} y\n"

    def elements(source: str) -> list[str]:
        tokens = MarkdownIt("commonmark").parse(source)
        children = [child for token in tokens for child in token.children or []]
        return sorted(child.type for child in children if child.type.startswith(("link", "code_inline")))

    assert elements(translated_text(".md", text)) == elements(text)
