"""Structures of Markdown and its dialects."""

from __future__ import annotations

from tests.app.documents.structures.structures import Structures

MARKDOWN = (
    Structures(
        "`.md`, `.markdown`, `.mdx`, `.mkd`, `.qmd`",
        ".md",
        {
            "headings": "# One *title*\n\nSetext\n======\n",
            "paragraphs": "Some **bold text** and _more_.\n",
            "lists": "- one\n- two\n  1. three\n",
            "quotations": "> A text.\n>\n> > Inner\n",
            "cells": "| A | B |\n|---|---|\n| one | «`c`» two |\n",
            "texts of links": "See [The *guide*](«a.md») or [This page][«x»].\n\n[«x]: http://x.y»\n",
            "descriptions of images": (
                'A ![big dog](«a.png "»t«"») and [![old cat](«b.png»)](«x»)\n\n| ![a cat](«c») |\n|---|\n'
                '\n![the house|«100»](«a.png» "Here")\n'
            ),
            "titles of links, attributes of tags": (
                'A [link](«x» "It is") ![the house](«a.png» \'«t»\') <«abbr title»="big word">BW<«/abbr»> on.\n'
            ),
            "titles of defined links": 'See [this][«p»] one.\n\n[«p»]: «https://x.y» "The page"\n',
            "text in HTML": "«<details>\n<summary>»Click me«</summary>»\n\nHidden *text*.\n\n«</details>»\n",
            "tags in text": 'Press <«kbd»>«Ctrl»</«kbd»> <«b»>and *wait*</«b»><«a name="x"»></«a»> <«i»>there.\n',
            "strong lines": "> **Note**\n> This is it.\n\n**Question:**\nAn answer.\n",
            "titles and descriptions in front matter": (
                '---\n«title»: My house\n«description»: "It is \\"red\\""\n«permalink: /a/»\n---\ntext\n'
            ),
            "those of several lines": (
                "---\n«title»: >-\n  My house,\n\n  my street\n«description»: |\n  A: b\n  c\n«hero»:\n"
                '  - «title»: All in one\n    «details»: "so \\"new\\""\n«summary»: >\n«tags»: [«a»]\n---\ntext\n'
            ),
        },
        {
            "code": "Use «`a b`» here.\n\n```«python\nkept = 1»\n```\n\n    «indented code»\n",
            "targets": "See «https://x.y/a_(b)_c» and *«https://x.y/_z»* or [this](«b.md»).\n",
            "names of people": "By [«@octo»](«https://x.y») and [«@me»][].\n\n[«@me»]: «https://x.y/me»\n",
            "links without a text": "See [](«docs.md») and [«`a.b`»][] there.\n\n[«`a.b`]: c»\n",
            "other front matter": "+++\n«title» = 'My house'\n«date = 2024-01-01»\n+++\ntext\n",
            "references and escapes": "Tom &«amp»; Sons &«copy»; 2024 for 5&«nbsp»;euros, it doesn&#39;t & more.\n",
            "hard line breaks": "Line one\\\nline two   \nline three\n",
            "signs that are none": (
                "big < little, [Big ones], snake_case * 2*3 \\* \\[x\\] 1 \\< 2 «`x_y`» $HOME {«this»}\n"
            ),
            "nested emphasis": "***this*** first, **bold *it***, *it **bold***, ==marked== ~~gone~~ _under_\n",
        },
    ),
    Structures(
        "`.md`: GitHub, Obsidian",
        ".md",
        {
            "alerts `> [!NOTE]`": "> [!«WARNING»]\n> This deletes all files.\n",
            "callouts with titles": "> [!«tip»]- A *nice* title\n> Text here.\n>\n> > [!«todo»] Inner\n> > deep\n",
            "footnotes": "A word.[^«a»] Two.[^2]\n\n[^«a»]: The first.\n[^2]: The second.\n\n    It goes on.\n",
            "task lists": "- [«x»] a task\n- [ ] another\n",
            "labels of `[[page\\|label]]`": "See [[«Other page»|the other page]] there.\n",
        },
        {
            "`[[page]]`, `![[file]]`": "See [[«My Notes»]] and ![[«image.png|100»]] there.\n",
            "`^block-id`, comments between `%%`": "Text.\n\n%%\n«hidden»\n%%\n\nmore ^«block-id»\n",
        },
    ),
    Structures(
        "`.md`: MkDocs Material",
        ".md",
        {
            '`!!! note "Title"`': (
                '!!! «note» "Before you"\n\n    Read it.\n\n    - a list\n\n    ```\n    «x»\n    ```\n\nOut.\n'
            ),
            "`???`": "??? «question inline end»\n    Hidden text.\n",
            '`=== "Tab"`': (
                '=== "Linux"\n    Use it.\n\n    !!! «warning»\n        Take care.\n\n=== "Windows"\n\n    Click.\n'
            ),
            "`/// note \\| Title`": "/// «note» | Some title\nSome text\n///\n",
        },
        {
            "`{ .class }`": "[The *guide*](«a.md»){ «.md-button» } and **this**{«.red»} or [that]{«.underline»}.\n",
            "icons, `++ctrl+c++`": "-   :«icon»:{ «.large» } Press ++«ctrl+c»++ now.\n",
            "`--8<--`": 'Text.\n\n<<< @/«a.js{2} [b]»\n--8<-- «"a.md"»\n',
            "names of abbreviations": "*[«Html»]: A language\n*[«Css»]: Another one\n",
        },
    ),
    Structures(
        "`.md`: Docusaurus, VitePress",
        ".md",
        {
            "`:::tip Title`": "::: «details» Click me\nHere it is.\n:::\n\n:::«note»[Look here]\nwell\n:::\n",
            "containers in others": "::::«tabs»\n:::«tab» One\n- a *list*\n:::\n::::\n",
            "containers in lists": "1. First:\n\n   :::«note»\n   Inside.\n   :::\n",
            "bodies of components": (
                '<«Note type»="«info»" «title»="Read">\n    **Look** [here][«ref»].\n\n    - a list\n</«Note»>\n\n'
                "<«Code»>\n{`«a\n\nb»`}\n</«Code»>\n\n[«ref»]: «x»\n"
            ),
            "elements with Markdown": "«<div class='a' markdown>»\ntext of [it][«ref»]\n«</div>»\n\n[«ref»]: «x»\n",
        },
        {
            "code groups": "::: «code-group»\n\n```«sh [npm]\nnpm install»\n```\n\n:::\n",
            "their options": "::: «code-group labels=[a, b]»\nText.\n:::\n",
            "`import` and `export`": (
                "«import A from '@theme/A';\nimport './a.css'»\n\n«export const a = 1;»\n\n# Start\n\nimport it.\n"
            ),
            "components, `{/* comments */}`": (
                '«<Tabs>\n<TabItem value="a">»\nThis is it.\n«</TabItem>\n</Tabs>»\n\n{/* «no text» */}\n'
            ),
            "expressions": (
                "<«B»>\n{«[1].map(x => <b>{x}</b>)»}\n</«B»>\n\n"
                "It is {«2 * Math.PI»} or {«f(x)»}, {'«a»'} {«a ? 'b' : 'c'»} and (a * b).\n"
            ),
        },
    ),
    Structures(
        "`.md`: Hugo, Jekyll, GitBook",
        ".md",
        {
            "text between tags": '{% «hint style="info"» %}\nText\n{% «endhint» %}\n',
            '`title="..."`, `caption="..."`': (
                '{{% «notice title»="Be careful" %}}\nText\n{{% /«notice» %}}\n\n{{< «figure\n  caption»="A cat"\n>}}\n'
            ),
        },
        {
            "`{{< >}}`, `{{% %}}`": '{{< «details» >}}\nInside.\n{{< /«details» >}}\nSee {{< «ref "a.md"» >}} there.\n',
            "expressions in HTML": "<«p»>By {{ «site.x» }} and {% «if a» %}others.</«p»>\n",
            "code between tags": "{% «highlight ruby» %}\n«puts 'hello'»\n{% «endhighlight» %}\n\nText\n",
            "`{: .class }`": "## Bug fixes\n{: «#bug-fixes-v4» }\n\nText\n{: «.note .big-box» }\n",
            "tables of contents": "[[_«TOC»_]]\n\n[«TOC»]\n",
        },
    ),
    Structures(
        "`.md`: MyST, Quarto, Pandoc",
        ".md",
        {
            "directives for prose": (
                "```{«note»}\nThe *dog*.\n```\n\n~~~{«admonition»} Title\n:«class»: «a»\n{«ref»}`«x»`.\n~~~\n"
            ),
            "`:alt:`, captions": (
                ":::{«figure»} «house.png»\n:«alt»: The old house\n:«width»: «50%»\n\nIn summer.\n:::\n"
            ),
            "texts of roles": "See {«ref»}`the chapter <«x-y»>` or {«ref»}`«x-y»` there.\n",
            "definition lists": "Apple\nFruit\n:   A round fruit.\n\n    It grows.\n\nPear\n: Another.\n: And more.\n",
            "bracketed spans": "Here is [the text]{«.small»} now.\n",
            "values of fields": ":«param a»: First one\n:«return»: Second\n:«tada»: We won.\n",
            "titles of containers": '::: {«.callout-note title»="Read this" «collapse»=«true»}\n## Text\n:::\n',
        },
        {
            "`(target)=`": "(«my-target»)=\n# The garden\n",
            "options in YAML": "```{«note»}\n---\n«name: a»\n---\nText.\n```\n",
            "other fences": "```{«code-block»} «python»\n«x = 1»\n```\n\n~~~{«r setup»}\n«library(x)»\n~~~\n",
            "`{#id}`": "## Bug fixes {«#custom-id»}\n\n::: {«#fig-one»}\nText.\n:::\n",
            "`[@citations]`": "As shown [«@smith2020, p. 5»] there.\n",
            "diagrams": "::: «mermaid\ngraph TD\n A --> B»\n:::\n\nText.\n",
        },
    ),
    Structures(
        "`.md`: mathematics",
        ".md",
        kept={
            "`$...$`, `\\(...\\)`": "The area is $«A = \\pi r^2»$ and \\(«a_1 = b»\\), it costs 5 $ and 10 $.\n",
            "`$$...$$`": "$$\n«E = m c^2»\n$$\n\n$$«x = 1»$$ is a formula\n\n$$«a = 1»$$ («eq1»)\n",
            "environments": "Text:\n\\«begin{align}\nx &= y\n\\end{align}»\n",
            "LaTeX commands": "«\\newpage»\n\nas shown «\\cite{smith2020}» here\n",
        },
    ),
)
