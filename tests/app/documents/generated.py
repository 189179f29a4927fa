"""Documents of each format with random blocks and inline elements: one tree, and a writer for each format."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import count

import yaml
from hypothesis import strategies as st

from tests.app.documents.test_office_formats import presentation, with_body, zipped
from tests.app.documents.test_office_structures import XHTML, book, open_text, parts_of

WORDS = ("moon", "river", "garden", "stone", "window", "bridge", "green", "walks")
"""Words that a translation has in capitals; no format has these in its syntax."""

_SIGNS = ("tom & ann", "it's", "two < three", "50 %", '"so"', "5*4", "well-known", "end.", "first,", "a_b", "[1]", "…")


@dataclass(frozen=True)
class Element:
    """An inline element.

    Args:
        kind: ``bold``, ``italic`` or ``link``, which have content; ``code``, ``image`` or ``break``, which have none.
        content: The content.
    """

    kind: str
    content: tuple[Inline, ...] = ()


Inline = str | Element


@dataclass(frozen=True)
class Block:
    """A paragraph or the like.

    Args:
        kind: ``heading``, ``paragraph``, ``item``, ``quotation``, ``cells`` or ``code``.
        texts: Its content, for each of its cells if it has some.
    """

    kind: str
    texts: tuple[tuple[Inline, ...], ...]


def words_of(blocks: Sequence[Block]) -> list[str]:
    """The words of a document, apart from code."""

    def words(content: Iterable[Inline]) -> list[str]:
        return [
            word
            for inline in content
            for word in (words(inline.content) if isinstance(inline, Element) else re.findall("[a-z]+", inline))
            if word in WORDS
        ]

    return [word for block in blocks if block.kind != "code" for text in block.texts for word in words(text)]


_TEXTS = st.lists(st.sampled_from(WORDS + WORDS + _SIGNS), min_size=1, max_size=3).map(" ".join)
_POINTS = st.sampled_from(["code", "code", "image", "break"]).map(Element)


def _contents(inner: st.SearchStrategy[Inline]) -> st.SearchStrategy[tuple[Inline, ...]]:
    """Content that begins with a word; a point may lack the space on one of its sides."""

    def spaced(first: str, parts: list[tuple[bool, Inline]]) -> tuple[Inline, ...]:
        content: list[Inline] = [first]
        may_touch = True
        for touches, part in parts:
            is_touching = may_touch and touches and (_is_point(content[-1]) or _is_point(part))
            content += [part] if is_touching else [" ", part]
            may_touch = not is_touching
        return tuple(content)

    return st.builds(spaced, st.sampled_from(WORDS), st.lists(st.tuples(st.booleans(), inner), max_size=3))


def _is_point(inline: Inline) -> bool:
    return isinstance(inline, Element) and not inline.content


_INLINE = st.recursive(
    _TEXTS | _POINTS,
    lambda inner: st.builds(Element, st.sampled_from(["bold", "italic", "link"]), _contents(inner)),
    max_leaves=3,
)
_BLOCKS = st.builds(
    lambda kind, texts: Block(kind, tuple(texts if kind == "cells" else texts[:1])),
    st.sampled_from(["heading", "paragraph", "paragraph", "item", "quotation", "cells", "code"]),
    st.lists(_contents(_INLINE), min_size=2, max_size=2),
)
DOCUMENTS = st.lists(_BLOCKS, min_size=1, max_size=4).filter(words_of)
"""Lists of blocks with words."""


@dataclass(frozen=True)
class _Markup:
    """How a format writes inline elements.

    Args:
        elements: What it writes for each kind; for those with content around it, divided by ``|``.
        escape: Writes text.
        separator: What has to be between two parts that are not divided by a space.
        is_nested: Whether elements may be in others.
    """

    elements: dict[str, str]
    escape: Callable[[str], str] = str
    separator: str = ""
    is_nested: bool = True

    def __call__(self, content: Sequence[Inline]) -> str:
        """Some content as the format writes it."""
        numbers = count(1)

        def written(inline: Inline, depth: int) -> str:
            if isinstance(inline, str):
                return self.escape(inline)
            before, _, after = self.elements.get(inline.kind, "").format(n=next(numbers)).partition("|")
            inside = joined(inline.content, depth + 1)
            return inside if depth and not self.is_nested else f"{before}{inside}{after}"

        def joined(content: Sequence[Inline], depth: int) -> str:
            text = ""
            for part in filter(None, (written(inline, depth) for inline in content)):
                is_glued = text and self.separator and not (text[-1].isspace() or part[0].isspace())
                text += (self.separator if is_glued else "") + part
            return text

        return joined(content, 0)


def _escaped(text: str) -> str:
    return html.escape(text, quote=False)


_POINT = {"code": "{{name}}", "image": "", "break": "\n"}
_PLAIN = _Markup({**_POINT, "break": " "}, separator=" ")
_TAGS = {"bold": "<b>|</b>", "italic": "<i>|</i>", "link": '<a href="x/{n}">|</a>'}
_STRING = _Markup({**_TAGS, **_POINT}, _escaped)
_HTML = _Markup({**_TAGS, "code": "<code>kept</code>", "image": '<img src="a.png"/>', "break": "<br/>"}, _escaped)
_MARKDOWN = _Markup(
    {"bold": "**|**", "italic": "*|*", "link": "[|](x/{n})", "code": "`kept`", "image": "![](a.png)", "break": "  \n"},
    lambda text: re.sub(r"([\\`*_\[\]<>&])", r"\\\1", text),
    " ",
)
_RST = _Markup(
    {"bold": "**|**", "italic": "*|*", "link": "`| <x/{n}>`_", "code": "``kept``", "image": "|image|", "break": ""},
    lambda text: re.sub(r"([\\`*_|])", r"\\\1", text),
    " ",
    is_nested=False,
)
_CUE = _Markup({"bold": "<b>|</b>", "italic": "<i>|</i>", "link": "<u>|</u>", "break": "\n"})


def _cue(content: Sequence[Inline]) -> str:
    """The text of a cue, which has no blank lines."""
    return re.sub("\n+", "\n", _CUE(content))


_WORD = _Markup(
    {
        "bold": "<w:r><w:rPr><w:b/></w:rPr>|</w:r>",
        "italic": "<w:r><w:rPr><w:i/></w:rPr>|</w:r>",
        "link": '<w:hyperlink w:anchor="a{n}"><w:r>|</w:r></w:hyperlink>',
        "code": '<w:fldSimple w:instr=" PAGE "><w:r><w:t>7</w:t></w:r></w:fldSimple>',
        "image": '<w:r><w:footnoteReference w:id="{n}"/></w:r>',
        "break": "<w:r><w:br/></w:r>",
    },
    lambda text: f'<w:t xml:space="preserve">{_escaped(text)}</w:t>',
)
_SLIDE = _Markup(
    {
        "bold": '<a:r><a:rPr b="1"/>|</a:r>',
        "italic": '<a:r><a:rPr i="1"/>|</a:r>',
        "link": '<a:r><a:rPr u="sng"/>|</a:r>',
        "code": '<a:fld id="{{1}}" type="slidenum"><a:rPr/><a:t>7</a:t></a:fld>',
        "image": "",
        "break": "<a:br/>",
    },
    lambda text: f"<a:t>{_escaped(text)}</a:t>",
)
_OPEN = _Markup(
    {
        "bold": '<text:span text:style-name="B">|</text:span>',
        "italic": '<text:span text:style-name="I">|</text:span>',
        "link": '<text:a xlink:href="x/{n}">|</text:a>',
        "code": "<text:page-number>7</text:page-number>",
        "image": '<text:bookmark text:name="b{n}"/>',
        "break": "<text:line-break/>",
    },
    _escaped,
)
_XLIFF_1 = _Markup(
    {
        "bold": '<g id="{n}">|</g>',
        "italic": '<bpt id="{n}">*</bpt>|<ept id="{n}">*</ept>',
        "link": '<g id="{n}" ctype="link">|</g>',
        "code": '<ph id="{n}">kept</ph>',
        "image": '<x id="{n}"/>',
        "break": '<x id="{n}" ctype="lb"/>',
    },
    _escaped,
)
_XLIFF_2 = _Markup(
    {
        "bold": '<pc id="{n}">|</pc>',
        "italic": '<pc id="{n}" type="fmt">|</pc>',
        "link": '<mrk id="{n}" type="generic">|</mrk>',
        "code": '<ph id="{n}"/>',
        "image": '<ph id="{n}" type="image"/>',
        "break": '<ph id="{n}" subType="xlf:lb"/>',
    },
    _escaped,
)


def _flat(markup: _Markup, run: str) -> Callable[[Sequence[Inline]], str]:
    """Writes content in runs: an element has the text of all elements in it."""

    def text_of(content: Sequence[Inline]) -> str:
        return "".join(inline if isinstance(inline, str) else text_of(inline.content) for inline in content)

    def write(content: Sequence[Inline]) -> str:
        texts = (f"<{run}>{markup([inline])}</{run}>" if isinstance(inline, str) else "" for inline in content)
        elements = (
            ""
            if isinstance(inline, str)
            else markup([Element(inline.kind, tuple(filter(None, [text_of(inline.content)])))])
            for inline in content
        )
        return "".join(text + element for text, element in zip(texts, elements, strict=True))

    return write


def _document(
    markup: Callable[[Sequence[Inline]], str],
    templates: dict[str, str],
    wrap: Callable[[str], str | bytes],
) -> Callable[[Sequence[Block]], str | bytes]:
    """Writes blocks by templates, in which ``@`` stands for a text. Kinds without one are paragraphs; code is left out.

    Args:
        markup: Writes content.
        templates: The templates by the kinds of blocks.
        wrap: Makes a file of all blocks.
    """

    def write(blocks: Sequence[Block]) -> str | bytes:
        parts = []
        for number, block in enumerate(blocks, 1):
            template = templates.get(block.kind, "" if block.kind == "code" else templates["paragraph"])
            pieces = template.replace("{n}", str(number)).split("@")
            texts = list(map(markup, block.texts))
            if len(pieces) <= len(texts):  # a format without tables
                texts = [" ".join(texts)] if template else []
            parts += [piece + text for piece, text in zip(pieces, [*texts, ""], strict=True)]
        return wrap("".join(parts))

    return write


def _strings(write: Callable[[list[str]], str]) -> Callable[[Sequence[Block]], str | bytes]:
    """Writes blocks as strings with tags and placeholders."""
    return lambda blocks: write([_STRING(text) for block in blocks if block.kind != "code" for text in block.texts])


def _each(template: str, change: Callable[[str], str], before: str = "", after: str = "") -> Callable[[list[str]], str]:
    """Writes strings by a template that has a number and a string."""
    return lambda texts: before + "".join(template.format(n, change(text)) for n, text in enumerate(texts)) + after


def _android(text: str) -> str:
    tags = re.compile("(<[^<>]*>)")
    parts = tags.split(text.replace("\n", "\\n"))
    return "".join(part if part.startswith("<") else re.sub("(['\"])", r"\\\1", part) for part in parts)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _named(texts: list[str]) -> dict[str, str]:
    return {f"key{number}": text for number, text in enumerate(texts)}


def _table(texts: list[str], separator: str = ",") -> str:
    written = io.StringIO()
    csv.writer(written, delimiter=separator, lineterminator="\n").writerows([["Key", "Text"], *enumerate(texts)])
    return written.getvalue()


def _slides(body: str) -> bytes:
    parts = parts_of(presentation())
    slide = bytes(parts["ppt/slides/slide1.xml"]).decode()  # type: ignore[arg-type]
    parts["ppt/slides/slide1.xml"] = re.sub("(?<=</a:p>)(?=</p:txBody>)", lambda _: body, slide, count=1)
    return zipped(parts)


_PREFIX = "http://www.w3.org/1999/xhtml"
_HTML_BLOCKS = {
    "paragraph": "<p>@</p>\n",
    "heading": '<h1 id="a{n}">@</h1>\n',
    "item": "<ul><li>@</li></ul>\n",
    "quotation": "<blockquote>@</blockquote>\n",
    "cells": "<table><tr><td>@</td><td>@</td></tr></table>\n",
    "code": "<pre>@</pre>\n",
}
_CUE_BLOCKS = {"paragraph": "00:00:0{n},000 --> 00:00:0{n},500\n@\n\n"}
_TEXT_BLOCKS = {"paragraph": "@\n\n", "item": "- @\n\n", "quotation": "> @\n\n", "cells": "@\n\n@\n\n"}

FORMATS: dict[str, Callable[[Sequence[Block]], str | bytes]] = {
    ".txt": _document(_PLAIN, _TEXT_BLOCKS, str),
    ".md": _document(
        _MARKDOWN,
        _TEXT_BLOCKS | {"heading": "## @\n\n", "cells": "| @ | @ |\n|---|---|\n\n", "code": "```\n@\n```\n\n"},
        str,
    ),
    ".rst": _document(_RST, _TEXT_BLOCKS | {"heading": f"@\n{'=' * 99}\n\n", "code": ".. code::\n\n   @\n\n"}, str),
    ".html": _document(_HTML, _HTML_BLOCKS, "<!DOCTYPE html>\n<html><body>{}</body></html>".format),
    ".epub": _document(
        _HTML,
        _HTML_BLOCKS,
        lambda body: book(
            ("a.xhtml", XHTML, f'<?xml version="1.0"?>\n<html xmlns="{_PREFIX}"><body>{body}</body></html>')
        ),
    ),
    ".srt": _document(_cue, {"paragraph": "{n}\n" + _CUE_BLOCKS["paragraph"]}, str),
    ".vtt": _document(_cue, {"paragraph": _CUE_BLOCKS["paragraph"].replace(",", ".")}, "WEBVTT\n\n{}".format),
    ".docx": _document(
        _flat(_WORD, "w:r"),
        {
            "paragraph": "<w:p>@</w:p>",
            "heading": '<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr>@</w:p>',
            "cells": "<w:tbl><w:tr><w:tc><w:p>@</w:p></w:tc><w:tc><w:p>@</w:p></w:tc></w:tr></w:tbl>",
        },
        with_body,
    ),
    ".odt": _document(
        _OPEN,
        {
            "paragraph": "<text:p>@</text:p>",
            "heading": '<text:h text:outline-level="1">@</text:h>',
            "item": "<text:list><text:list-item><text:p>@</text:p></text:list-item></text:list>",
        },
        open_text,
    ),
    ".pptx": _document(
        _flat(_SLIDE, "a:r"), {"paragraph": "<a:p>@</a:p>", "cells": "<a:p>@</a:p><a:p>@</a:p>"}, _slides
    ),
    ".xliff": _document(
        _XLIFF_1,
        {"paragraph": '<trans-unit id="{n}"><source>@</source></trans-unit>\n'},
        '<xliff version="1.2"><file source-language="en"><body>\n{}</body></file></xliff>'.format,
    ),
    ".xlf": _document(
        _XLIFF_2,
        {"paragraph": '<unit id="{n}"><segment><source>@</source></segment></unit>\n'},
        '<xliff version="2.0" srcLang="en"><file>{}</file></xliff>'.format,
    ),
    ".po": _strings(_each('#: a.c:{}\nmsgid {}\nmsgstr ""\n\n', _quoted)),
    ".ts": _strings(
        _each(
            '<message id="{}"><source>{}</source><translation type="unfinished"/></message>\n',
            _escaped,
            '<!DOCTYPE TS>\n<TS version="2.1"><context>',
            "</context></TS>",
        )
    ),
    ".xml": _strings(
        _each(
            '<string name="key{}">{}</string>\n',
            _android,
            "<resources>",
            "</resources>",
        )
    ),
    ".resx": _strings(_each('<data name="key{}"><value>{}</value></data>\n', _escaped, "<root>", "</root>")),
    ".strings": _strings(_each('"key{}" = {};\n', _quoted)),
    ".properties": _strings(_each("key{} = {}\n", lambda text: text.replace("\n", "\\n"))),
    ".php": _strings(_each("'key{}' => {},\n", _quoted, "<?php\nreturn [", "];\n")),
    ".json": _strings(lambda texts: json.dumps(_named(texts), ensure_ascii=False, indent=2)),
    ".arb": _strings(lambda texts: json.dumps({"@@locale": "en", **_named(texts)}, ensure_ascii=False)),
    ".yml": _strings(lambda texts: yaml.dump({"en": _named(texts)}, allow_unicode=True)),
    ".csv": _strings(_table),
    ".tsv": _strings(lambda texts: _table(texts, "\t")),
    ".xcstrings": _strings(
        lambda texts: json.dumps(
            {"sourceLanguage": "en", "strings": {f"{text} {number}": {} for number, text in enumerate(texts)}}
        )
    ),
}
"""The writer of each format by its suffix."""
