"""Markdown of dialects: their signs stay as they are, and the text between them is translated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from app.documents.formats.inline import Group, Node
from app.documents.formats.markdown_inline import InlineContent
from tests.app.documents.translated import marked, read, texts_of, translated_text, unchanged

# What is between « and » is kept, the rest is written in capitals.
DIALECTS = {
    "a container": ":::«tip»\nYou can stop it.\n:::\n",
    "its title": "::: «details» Click me\nHere it is.\n:::\n\n:::«note»[Look here]\nwell\n:::\n",
    "its attributes": '::: {«.callout-note title»="Read this" «collapse»=«true»}\n## Text\n:::\n',
    "an id alone": "::: {«#fig-one»}\nText.\n:::\n",
    "containers in others": "::::«tabs»\n:::«tab» One\n- a *list*\n:::\n::::\n",
    "a container in a list": "1. First:\n\n   :::«note»\n   Inside.\n   :::\n",
    "a code group": "::: «code-group»\n\n```«sh [npm]\nnpm install»\n```\n\n:::\n",
    "an alert": "> [!«WARNING»]\n> This deletes all files.\n",
    "a callout": "> [!«tip»]- A *nice* title\n> Text here.\n>\n> > [!«todo»] Inner\n> > deep\n",
    "an admonition": '!!! «note» "Before you"\n\n    Read it.\n\n    - a list\n\n    ```\n    «x»\n    ```\n\nOut.\n',
    "an admonition without a blank line": "??? «question inline end»\n    Hidden text.\n",
    "tabs": '=== "Linux"\n    Use it.\n\n    !!! «warning»\n        Take care.\n\n=== "Windows"\n\n    Click.\n',
    "a block of pymdown": "/// «note» | Some title\nSome text\n///\n",
    "a formula": "The area is $«A = \\pi r^2»$ and \\(«a_1 = b»\\), it costs $5 and $10.\n\n$$\n«E = m c^2»\n$$\n",
    "a formula that begins a line": "$$«x = 1»$$ is a formula\n\n$$«a = 1»$$ («eq1»)\n",
    "arguments": "::: «code-group labels=[a, b]»\nText.\n:::\n",
    "an environment": "Text:\n\\«begin{align}\nx &= y\n\\end{align}»\n",
    "commands of LaTeX": "«\\newpage»\n\nas shown «\\cite{smith2020}» here\n",
    "wiki links": "See [[«My Notes»]], [[«Other page»|the other page]] and ![[«image.png|100»]] there.\n",
    "an attribute list": "## Bug fixes\n{: «#bug-fixes-v4» }\n\nText\n{: «.note .big-box» }\n",
    "an id behind a heading": "## Heading {«#custom-id»}\n\nSetext {«#x .y»}\n======\n",
    "attributes of elements": "[The *guide*](«a.md»){ «.md-button» } and **this**{«.red»} or [that]{«.underline»}.\n",
    "a list of fields": ":«param a»: First one\n:«return»: Second\n:«tada»: We won.\n",
    "a container behind HTML": ':::{«div»}\n«<img src="a.png" alt=»"A dog">\n:::\n',
    "a diagram": "::: «mermaid\ngraph TD\n A --> B»\n:::\n\nText.\n",
    "abbreviations": "*[«Html»]: A language\n*[«Css»]: Another one\n",
    "strong lines": "> **Note**\n> This is it.\n\n**Question:**\nAn answer.\n",
    "options in YAML": "```{«note»}\n---\n«name: a»\n---\nText.\n```\n",
    "icons and keys": "-   :«icon»:{ «.large» } Press ++«ctrl+c»++ now.\n",
    "breaks in cells": "| A<«br»>b |\n|---|\n| one<«br»/>two |\n",
    "tags": 'Press <«kbd»>«Ctrl»</«kbd»> <«b»>and *wait*</«b»><«a name="x"»></«a»> <«img src="a"»> <«i»>there.\n',
    "included files": 'Text.\n\n<<< @/«a.js{2} [b]»\n--8<-- «"a.md"»\n',
    "a definition": "Apple\n:   A round fruit.\n\n    It grows on trees.\n\nPear\n: Another.\n: And more.\n",
    "shortcodes": '{{< «details» >}}\nInside.\n{{< /«details» >}}\nSee {{< «ref "a.md"» >}} there.\n',
    "a title in a shortcode": '{{% «notice title»="Be careful" %}}\nText\n{{% /«notice» %}}\n',
    "a shortcode of several lines": '{{< «figure\n  src="x.jpg"\n  caption»="A cat"\n>}}\n',
    "code between tags": "{% «highlight ruby» %}\n«puts 'hello'»\n{% «endhighlight» %}\n\nText\n",
    "tags around text": '{% «hint style="info"» %}\nText\n{% «endhint» %}\n',
    "a target": "(«my-target»)=\n# The garden\n",
    "a directive": ":::{«figure»} «house.png»\n:«alt»: The old house\n:«width»: «50%»\n\nIn summer.\n:::\n",
    "a fence with text": "```{«note»}\nThe *dog*.\n```\n\n~~~{«admonition»} Title\n:«class»: «a»\n{«ref»}`«x»`.\n~~~\n",
    "a fence with code": "```{«code-block»} «python»\n«x = 1»\n```\n\n~~~{«r setup»}\n«library(x)»\n~~~\n",
    "a table of contents": "```{«toctree»}\n:«maxdepth»: 2\n«intro»\n```\n\n[[_«TOC»_]]\n\n[«TOC»]\n",
    "footnotes": "A word.[^«a»] Two.[^2]\n\n[^«a»]: The first.\n[^2]: The second.\n\n    It goes on.\n",
    "modules": "«import A from '@theme/A';\nimport './a.css'»\n\n«export const a = 1;»\n\n# Start\n\nimport it.\n",
    "components": '«<Tabs>\n<TabItem value="a">»\nThis is it.\n«</TabItem>\n</Tabs>»\n\n{/* «no text» */}\n',
    "expressions in components": "<«B»>\n{«[1].map(x => <b>{x}</b>)»}\n</«B»>\n",
    "a block of HTML": "«<details>\n<summary>»Click me«</summary>»\n\nHidden *text*.\n\n«</details>»\n",
    "breaks": "Line one\\\nline two   \nline three\n",
    "references": "Tom &«amp»; Sons &«copy»; 2024 for 5&«nbsp»;euros, it doesn&#39;t & more.\n",
    "signs that are none": "big < little, [Big ones], snake_case * 2*3 \\* \\[x\\] 1 \\< 2 «`x_y`» $HOME {«this»}\n",
    "nested emphasis": "***this*** first, **bold *it***, *it **bold***, ==marked== ~~gone~~ _under_\n",
    "an address": "See «https://x.y/a_(b)_c» and *«https://x.y/_z»*.\n",
    "links without a text": "See [](«docs.md») and [«`a.b`»][] there.\n\n[«`a.b`]: c»\n",
    "comments": "Text.\n\n%%\n«hidden»\n%%\n\nmore ^«block-id»\n",
    "citations": "As shown [«@smith2020, p. 5»] there.\n",
    "front matter": '---\n«title»: My house\n«description»: "It is \\"red\\""\n«permalink: /a/»\n---\ntext\n',
    "captions": 'A [link](«x» "It is") ![the house](«a.png» \'«t»\') <«abbr title»="big word">BW<«/abbr»> on.\n',
    "captions alone": '![the house|«100»](«a.png» "Here")\n\n| ![a cat](«c») |\n|---|\n',
    "a person": "By [«@octo»](«https://x.y») and [«@me»][].\n\n[«@me»]: «https://x.y/me»\n",
    "roles with a text": "See {«ref»}`the chapter <«x-y»>` or {«ref»}`«x-y»` there.\n",
    "components with a body": '<«Note type»="«info»" «title»="Read">\n    **Look** [here][«ref»].\n\n    - a list\n'
    "</«Note»>\n\n<«Code»>\n{`«a\n\nb»`}\n</«Code»>\n\n[«ref»]: «x»\n",
    "elements with Markdown": "«<div class='a' markdown>»\ntext of [it][«ref»]\n«</div>»\n\n[«ref»]: «x»\n",
    "expressions": "It is {«2 * Math.PI»} or {«f(x)»}, {'«a»'} {«a ? 'b' : 'c'»} and (a * b).\n",
    "HTML with templates": "<«p»>By {{ «site.x» }} and {% «if a» %}others.</«p»>\n",
    "front matter in several lines": "---\n«title»: >-\n  My house,\n\n  my street\n«description»: |\n  A: b\n  c\n"
    '«hero»:\n  - «title»: All in one\n    «details»: "so \\"new\\""\n«summary»: >\n«tags»: [«a»]\n---\ntext\n',
    "front matter of Hugo": "+++\n«title» = 'My house'\n«date = 2024-01-01»\n+++\ntext\n",
}


@pytest.mark.parametrize("text", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_signs_of_dialects_are_kept(text: str, line_end: str) -> None:
    source, expected = marked(text.replace("\n", line_end))
    assert translated_text(".md", source) == expected


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
