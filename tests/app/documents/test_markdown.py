"""Markdown of dialects: their signs stay as they are, and the text between them is translated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.documents.formats.inline import Group, Node
from app.documents.formats.markdown_inline import InlineContent
from tests.app.documents.translated import read, texts_of, translated_text, unchanged


@pytest.mark.parametrize("suffix", [".markdown", ".mdx", ".mkd", ".qmd"])
def test_other_endings_are_markdown_too(suffix: str) -> None:
    assert translated_text(suffix, "A *word*\n") == "A *WORD*\n"


@pytest.mark.parametrize(
    "text",
    [
        "It was 12:30.\n: no\n",  # a definition; text all the same
        "$5 or $6, US$5/US$6, $HOME and $PATH\n",
        "import taxes were lower\nexport them\n",
        "Call me: :tada: or :)\n",
        "{not} (this)= (is)\n",
        '!!! wow, this is "it" and more\n',
        "=== this is no tab\n",
        "$$ alone, and \\begin{x} alone, and {% raw %} alone\n",
    ],
)
def test_what_only_looks_like_a_sign_stays_text(text: str) -> None:
    assert len(texts_of(".md", text)) > 0


def test_an_exclamation_mark_before_a_note_or_a_link_makes_no_image_of_it() -> None:
    file = read(".md", "Stop[^1] is *new* [a](b).\n\n[^1]: A note.\n")
    written = file.write(['Halt!<img id="0"> ist <i id="1">neu</i>!<i id="2">a</i>.', None], "de").decode()
    assert written == "Halt\\![^1] ist *neu*\\![a](b).\n\n[^1]: A note.\n"


@pytest.mark.parametrize(
    ("source", "translation", "written"),
    [
        ("title: My house", "Mein Haus: rot", 'title: "Mein Haus: rot"'),
        ("title: My house", "Nein", "title: Nein"),
        ("title: My house", "no", 'title: "no"'),
        ("title: 'My house'", "Peter's Haus", 'title: "Peter\'s Haus"'),
        ('title: "My house"', 'Das "Haus"', 'title: "Das \\"Haus\\""'),
    ],
)
def test_values_of_front_matter_stay_valid(source: str, translation: str, written: str) -> None:
    assert read(".md", f"---\n{source}\n---\n").write([translation], "de").decode() == f"---\n{written}\n---\n"


def written(source: str, nodes: list[Node]) -> str:
    return InlineContent(source, lambda label: False).write(nodes)


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("a &mdash; b", "a \u2013 b", "a &mdash; b"),
        ("a &ndash; b", "a \u2013 b", "a &ndash; b"),
        ("a \u2014 b &mdash; c", "a \u2013 b \u2013 c", "a \u2013 b &mdash; c"),
    ],
)
def test_a_reference_to_a_dash_stands_for_the_dash_of_the_translation(
    source: str, translation: str, expected: str
) -> None:
    assert written(source, [translation]) == expected


STRONG = ("**", "**")


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([Group(STRONG, ()), "Bitte lesen"], "Bitte lesen"),
        (["Viel", Group(("*", "*"), (",",)), " mehr"], "Viel, mehr"),
        (["so ", Group(STRONG, (" Wort ",)), "so"], "so  **Wort** so"),
        (["Wort", Group(("_", "_"), ("teil",)), "e"], "Wort*teil*e"),
        (["Sieh das Buch ", Group(("[", "](x)"), ()), "."], "Sieh das [Buch](x) ."),
        ([Group(("[", "](x)"), (Group(STRONG, ("da",)),))], "[**da**](x)"),
    ],
)
def test_no_sign_is_written_around_nothing(nodes: list[Node], expected: str) -> None:
    assert written("text", nodes) == expected


MARKS = [
    "*",
    "**",
    "_",
    "`",
    "[",
    "]",
    "](x)",
    "[[",
    "]]",
    "\\",
    "<b>",
    "&amp;",
    "~~",
    "==",
    "$",
    "{#a}",
    " ",
    "a",
    "B c",
    "|",
]


@given(st.lists(st.sampled_from(MARKS), min_size=1, max_size=20).map("".join))
def test_content_is_written_as_it_was(text: str) -> None:
    content = InlineContent(text, lambda label: False)
    again = InlineContent(content.write(content.nodes), lambda label: False)
    assert content.write(content.nodes) == content.write(again.nodes)


@given(st.lists(st.sampled_from([*MARKS[:14], "x", " "]), min_size=1, max_size=12).map("".join).filter(str.strip))
def test_a_translation_never_becomes_markup(text: str) -> None:
    text = f"x {' '.join(text.split())} y"
    tokens = MarkdownIt("commonmark").enable("strikethrough").parse(written("text", [text]))
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert "".join(child.content for child in tokens[1].children or []) == text


BLOCKS = [
    ":::tip\n",
    ":::\n",
    "$$\n",
    "!!! note\n",
    "    a\n",
    "a b\n",
    "\n",
    "- ",
    "> ",
    "```{note}\n",
    "```\n",
    ": ",
    "[^1]: ",
]
BLOCKS += [
    "{{< a >}}\n",
    "{% raw %}\n",
    "{% endraw %}\n",
    "import a from 'b'\n",
    "<div>\n",
    ":a: b\n",
    '=== "A"\n',
    "| a |\n|---|\n",
]


@given(st.lists(st.sampled_from(BLOCKS), max_size=25).map("".join))
def test_any_blocks_can_be_read_and_written(text: str) -> None:
    assert unchanged(".md", text) == text.encode()
    file = read(".md", text)
    assert file.write([f"{unit.text} x" for unit in file.units], "de").count(b" x") == len(file.units)
