"""Text files there and back: only their text changes."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tests.app.documents.translated import read, texts_of, translated, translated_text, unchanged

PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><title>My page</title><style>p { color: red }</style><script>var a = "no";</script></head>
<body class="big">
<h1 id="top">A title</h1>
<p>Please <a href="/start?a=1&amp;b=2">click <b>here</b></a>, Tom &amp; Jerry.<br>Thanks!</p>
<ul><li>One<li title="A tip">Two <code>x = 1</code></ul>
<pre>kept as it is</pre><!-- a note -->
<img src="a.png" alt="A dog"><p translate="no">Verso</p>
</body></html>
"""

SUBRIP = """\
1
00:00:01,000 --> 00:00:02,500
Hello there,
my <i>old</i> friend

2
00:00:02,500 --> 00:00:04,000 X1:40
who went away.

3
00:00:05,000 --> 00:00:06,000
- Yes & no?
- Never!

4
00:00:07,000 --> 00:00:08,000
{\\an8}Up there. 42
"""

WEBVTT = """\
WEBVTT - a film

NOTE made by hand

STYLE
::cue { color: red }

intro
00:01.000 --> 00:02.000 align:start
<v Tom>Hi &amp; <00:01.500>bye

00:02.000 --> 00:03.000
The end.
"""

STRINGS = """\
{
  "title": "Hello \\"you\\"",
  "nested": {"item_one": "{{count}} cat", "item_other": "{{count}} cats", "list": ["One", 2, null, "\\u00fcber"]},
  "icu": "{n, plural, one {# cat} other {# cats}}",
  "@title": {"description": "not a text"},
  "$schema": "https://example.com/schema",
  "number": 1.50,
  "empty": ""
}
"""

TABLE = 'id;name;"a text"\r\n1;Hello you;"He said ""no""; yes"\r\n2;;12\r\n"3";" spaced ";=SUM(1)\r\n'

CATALOGUE = """\
# A catalogue.
msgid ""
msgstr ""
"Project-Id-Version: x\\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=3; plural=(n==1 ? 0 : n==2 ? 1 : 2);\\n"

#. A comment.
#: a.c:1
msgid "Hello %s,\\n"
"how are you?\\n"
msgstr ""

msgctxt "menu"
msgid "Open"
msgstr ""

msgid "%d file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#, fuzzy, c-format
#| msgid "Old"
msgid "New"
msgstr "alt"

msgid "kept"
msgstr "ist da"

#~ msgid "gone"
#~ msgstr "weg"
"""

MARKDOWN = """\
---
title: Front matter
---
# A *title* here

Some **bold text** and `code here`, wrapped
[link text](http://x.y "t") end\\*.
Next ![alt](i.png) <b>raw</b> a * b snake_case[^1]

> quoted text
> goes on

- [ ] a task
- item [ref][r] and [r] or <https://example.com>
  1. nested one

| Head | Other |
|------|-------|
| cell one | `c` two |

```python
kept = 1
```

    indented code

<div>html block</div>

[r]: http://ref "T"
[^1]: A note

Setext
======
"""

XLIFF_1 = """\
<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file source-language="en" datatype="plaintext" original="a"><body>
  <trans-unit id="1"><source>Hello <g id="1">big</g> <x id="2"/> world</source></trans-unit>
  <trans-unit id="2" translate="no"><source>Verso</source></trans-unit>
  <trans-unit id="3"><source>There</source><target>da</target></trans-unit>
  <trans-unit id="4"><source>Old</source><target state="needs-translation">Old</target></trans-unit>
  <trans-unit id="5"><source>a <bpt id="1">&lt;b&gt;</bpt>code<ept id="1">&lt;/b&gt;</ept></source></trans-unit>
 </body></file>
</xliff>
"""

XLIFF_2 = """\
<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0" srcLang="en">
 <file id="f"><unit id="1"><segment><source>Hi <pc id="1">you</pc> there</source></segment></unit></file>
</xliff>
"""

FILES = {
    ".txt": "One line. Another one.\nSecond line\r\n\r\n  - indented {name}\n\n\n42\n",
    ".html": PAGE,
    ".srt": SUBRIP,
    ".vtt": WEBVTT,
    ".json": STRINGS,
    ".csv": TABLE,
    ".po": CATALOGUE,
    ".md": MARKDOWN,
    ".xliff": XLIFF_1,
    ".xlf": XLIFF_2,
}


@pytest.mark.parametrize("suffix", [suffix for suffix in FILES if suffix not in (".po", ".xliff", ".xlf")])
def test_a_file_translated_into_itself_is_the_same_bytes(suffix: str) -> None:
    assert unchanged(suffix, FILES[suffix]) == FILES[suffix].encode()


@pytest.mark.parametrize("suffix", FILES)
def test_a_file_without_translations_is_the_same_bytes(suffix: str) -> None:
    file = read(suffix, FILES[suffix])
    assert file.write([None] * len(file.units), "de") == FILES[suffix].encode()


# In capitals no cue seems to go on in the next one.
@pytest.mark.parametrize("suffix", [suffix for suffix in FILES if suffix != ".srt"])
def test_a_translated_file_has_the_same_units_again(suffix: str) -> None:
    again = texts_of(suffix, translated(suffix, FILES[suffix]))
    if suffix not in (".po", ".xliff", ".xlf"):  # whose messages all have a translation now
        assert len(again) == len(texts_of(suffix, FILES[suffix]))
    else:
        assert again == []


@pytest.mark.parametrize("name", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("suffix", [".txt", ".srt", ".csv", ".json"])
def test_the_encoding_is_kept(suffix: str, name: str) -> None:
    data = FILES[suffix].encode(name)
    assert unchanged(suffix, data) == data
    assert translated(suffix, data).decode(name) == translated_text(suffix, FILES[suffix])


def test_the_front_matter_of_a_page_is_kept() -> None:
    page = "---\ntitle: My old house\npermalink: /house/\n---\n\n<p>The house is old.</p>\n"
    assert translated_text(".html", page) == page.replace("The house is old.", "THE HOUSE IS OLD.")
    assert texts_of(".html", "--- no metadata") == ["--- no metadata"]


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


def test_text() -> None:
    assert translated_text(".txt", FILES[".txt"]) == FILES[".txt"].upper().replace("{NAME}", "{name}")


def test_long_texts_are_divided_at_lines() -> None:
    assert [text.count("\n") + 1 for text in texts_of(".txt", "one line\n" * 45)] == [20, 20, 5]


def test_html() -> None:
    text = translated_text(".html", PAGE)
    assert text == (
        PAGE.replace("My page", "MY PAGE")
        .replace("A title", "A TITLE")
        .replace(">click <b>here<", ">CLICK <b>HERE<")
        .replace("Please", "PLEASE")
        .replace("Tom &amp; Jerry", "TOM &amp; JERRY")
        .replace("Thanks", "THANKS")
        .replace(">One<", ">ONE<")
        .replace(">Two ", ">TWO ")
        .replace("A tip", "A TIP")
        .replace("A dog", "A DOG")
    )


def test_subtitles() -> None:
    assert translated_text(".srt", SUBRIP) == (
        SUBRIP.replace("Hello there,\nmy <i>old</i> friend", "HELLO THERE,\nMY <i>OLD</i> FRIEND")
        .replace("who went away.", "WHO WENT AWAY.")
        .replace("- Yes & no?\n- Never!", "- YES & NO?\n- NEVER!")
        .replace("Up there.", "UP THERE.")
    )


def test_a_sentence_over_several_cues_is_one_unit() -> None:
    assert 'friend <img id="1">who went away.' in texts_of(".srt", SUBRIP)[0]


def test_webvtt() -> None:
    assert translated_text(".vtt", WEBVTT) == (
        WEBVTT.replace("Hi &amp; <00:01.500>bye", "HI &amp; <00:01.500>BYE").replace("The end.", "THE END.")
    )


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


def test_line_ends_of_subtitles_are_kept() -> None:
    data = SUBRIP.replace("\n", "\r\n")
    assert translated_text(".srt", data) == translated_text(".srt", SUBRIP).replace("\n", "\r\n")


def test_json_translates_values_and_nothing_else() -> None:
    body = json.loads(translated_text(".json", STRINGS))
    assert body == {
        **json.loads(STRINGS),
        "title": 'HELLO "YOU"',
        "nested": {"item_one": "{{count}} CAT", "item_other": "{{count}} CATS", "list": ["ONE", 2, None, "ÜBER"]},
        "icu": "{n, plural, one {# CAT} other {# CATS}}",
    }
    assert '"\\u00dcBER"' in translated_text(".json", STRINGS)
    assert '"number": 1.50,' in translated_text(".json", STRINGS)


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


def test_csv_translates_cells_and_keeps_the_dialect() -> None:
    assert translated_text(".csv", TABLE) == (
        'id;NAME;"A TEXT"\r\n1;HELLO YOU;"HE SAID ""NO""; YES"\r\n2;;12\r\n"3";" SPACED ";=SUM(1)\r\n'
    )


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


def test_gettext_fills_what_is_missing() -> None:
    result = polib.pofile(translated_text(".po", CATALOGUE))
    before = polib.pofile(CATALOGUE)
    assert [entry.msgid for entry in result] == [entry.msgid for entry in before]
    assert result.metadata["Language"] == "de"
    by_id = {entry.msgid: entry for entry in result}
    assert by_id["Hello %s,\nhow are you?\n"].msgstr == "HELLO %s,\nHOW ARE YOU?\n"
    assert by_id["Open"].msgstr == "OPEN"
    assert by_id["%d file"].msgstr_plural == {0: "%d FILE", 1: "%d FILES", 2: "%d FILES"}
    assert (by_id["New"].msgstr, by_id["New"].flags, by_id["New"].previous_msgid) == ("NEW", ["c-format"], None)
    assert by_id["kept"].msgstr == "ist da"
    assert (by_id["gone"].msgstr, by_id["gone"].obsolete) == ("weg", 1)


def test_markdown() -> None:
    expected = (
        MARKDOWN.replace("title: Front matter", "title: FRONT MATTER")
        .replace("html block", "HTML BLOCK")
        .replace("[^1]: A note", "[^1]: A NOTE")
        .replace("A *title* here", "A *TITLE* HERE")
        .replace("Some **bold text** and", "SOME **BOLD TEXT** AND")
        .replace(", wrapped\n[link text]", ", WRAPPED [LINK TEXT]")
        .replace(" end\\*.\nNext ![alt]", " END\\*. NEXT ![ALT]")
        .replace("<b>raw</b> a * b snake_case", "<b>RAW</b> A * B SNAKE_CASE")
        .replace("quoted text\n> goes on", "QUOTED TEXT GOES ON")
        .replace("a task", "A TASK")
        .replace("item [ref][r] and [r] or", "ITEM [REF][r] AND [R][r] OR")
        .replace("nested one", "NESTED ONE")
        .replace("| Head | Other |", "| HEAD | OTHER |")
        .replace("cell one | `c` two", "CELL ONE | `c` TWO")
        .replace("Setext", "SETEXT")
    )
    assert translated_text(".md", MARKDOWN) == expected


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


def test_xliff_1_fills_targets_and_keeps_inline_elements() -> None:
    text = translated_text(".xliff", XLIFF_1)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<xliff ')
    assert '<target state="translated">HELLO <g id="1">BIG</g> <x id="2"/> WORLD</target>' in text
    assert "<source>Hello <g" in text
    assert '<trans-unit id="2" translate="no"><source>Verso</source></trans-unit>' in text
    assert "<target>da</target>" in text
    assert '<target state="translated">OLD</target>' in text
    assert '<bpt id="1">&lt;b&gt;</bpt>CODE<ept id="1">&lt;/b&gt;</ept></target>' in text
    assert 'target-language="de"' in text


def test_xliff_2_fills_targets() -> None:
    text = translated_text(".xliff", XLIFF_2)
    assert '<target>HI <pc id="1">YOU</pc> THERE</target></segment>' in text
    assert 'trgLang="de"' in text
