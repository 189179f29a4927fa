"""Files that are as hard to read as a stranger can make them, for each format and in any size."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from tests.app.documents.test_office_formats import WORD_SPACE

Make = Callable[[int], bytes]
"""Makes a file of about this size in bytes; that of an archive is its unpacked size."""


@dataclass(frozen=True)
class HostileFile:
    """A kind of hostile files.

    Args:
        suffix: The ending of the name.
        name: What is odd about them.
        make: Makes one.
    """

    suffix: str
    name: str
    make: Make

    @property
    def id(self) -> str:
        """Its name in reports."""
        return f"{self.suffix[1:]}: {self.name}"


def repeated(unit: str, before: str = "", after: str = "") -> Make:
    """Files of one unit again and again."""
    return lambda size: (before + unit * max(1, size // len(unit.encode())) + after).encode()


def numbered(unit: Callable[[int], str], before: str = "", after: str = "") -> Make:
    """Files of units that each have a number."""
    return lambda size: (before + "".join(map(unit, range(max(1, size // len(unit(1000)))))) + after).encode()


def nested(opening: str, closing: str, inside: str = "a", before: str = "", after: str = "") -> Make:
    """Files of one thing in another, as deep as they are long."""

    def make(size: int) -> bytes:
        depth = max(1, size // (len(opening) + len(closing)))
        return (before + opening * depth + inside + closing * depth + after).encode()

    return make


def chains(opening: str, closing: str, inside: str, before: str, after: str, depth: int) -> Make:
    """Files of many things that are each nested to a depth."""
    return repeated(opening * depth + inside + closing * depth, before, after)


def half_and_half(first: str, second: str, before: str = "", between: str = "", after: str = "") -> Make:
    """Files of which the first half is one unit repeated, and the other half another."""

    def make(size: int) -> bytes:
        remaining, right = size // 2 // len(first) or 1, size // 2 // len(second) or 1
        return (before + first * remaining + between + second * right + after).encode()

    return make


def archived(parts: dict[str, str], part: str, make: Make) -> Make:
    """Archives with some parts, one of which is hostile."""

    def make_archive(size: int) -> bytes:
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in parts.items():
                archive.writestr(name, content, zipfile.ZIP_STORED if name == "mimetype" else None)
            archive.writestr(part, make(size))
            # Bytes that cannot be compressed, so that no archive is refused for growing too much.
            archive.writestr("filler.bin", noise(size // 100))
        return written.getvalue()

    return make_archive


def noise(size: int) -> bytes:
    """The same bytes in each run, which cannot be compressed."""
    import random

    return random.Random(size).randbytes(size)


def many_parts(size: int) -> bytes:
    """A book of many empty pages."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in BOOK_PARTS.items():
            archive.writestr(name, content)
        for number in range(max(1, size // 100)):
            archive.writestr(f"{number}.xhtml", "<p>a</p>")
    return written.getvalue()


CUE = "1\n00:00:01,000 --> 00:00:02,000\n"
VTT_CUE = "WEBVTT\n\n00:01.000 --> 00:02.000\n"


def relationships(*pairs: tuple[str, str]) -> str:
    """A part of relationships with some kinds and targets."""
    return "<r>" + "".join(f'<Relationship Type="x/{kind}" Target="{target}"/>' for kind, target in pairs) + "</r>"


WORD_PARTS = {"[Content_Types].xml": "<Types/>"}
WORD = f'<w:document xmlns:w="{WORD_SPACE}"><w:body>'
WORD_END = "</w:body></w:document>"
P, P_END = "<w:p>", "</w:p>"
RUN = "<w:r><w:t>a</w:t></w:r>"
BOLD = "<w:r><w:rPr><w:b/></w:rPr><w:t>b</w:t></w:r>"

DRAWING_SPACE = "http://schemas.openxmlformats.org/drawingml/2006/main"
SLIDE_PARTS = {
    "[Content_Types].xml": "<Types/>",
    "ppt/presentation.xml": "<p/>",
    "ppt/_rels/presentation.xml.rels": relationships(("slide", "slides/slide1.xml")),
}
SLIDE, SLIDE_END = f'<s xmlns:a="{DRAWING_SPACE}">', "</s>"

SHEET_PARTS = {
    "[Content_Types].xml": "<Types/>",
    "xl/workbook.xml": "<w/>",
    "xl/_rels/workbook.xml.rels": relationships(("sharedStrings", "s.xml"), ("table", "t.xml")),
    "xl/s.xml": "<sst><si><t>a b</t></si></sst>",
}
SHEET, SHEET_END = "<sst>", "</sst>"
TABLE, TABLE_END = "<table>", "</table>"

ODT_PARTS = {"mimetype": "application/vnd.oasis.opendocument.text"}
ODT = '<o xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
ODT_END = "</o>"

CORE_PARTS = {
    "[Content_Types].xml": "<Types/>",
    "_rels/.rels": relationships(("officeDocument", "word/document.xml"), ("core-properties", "core.xml")),
    "word/document.xml": f"{WORD}{P}{RUN}{P_END}{WORD_END}",
}
CORE, CORE_END = "<coreProperties>", "</coreProperties>"

BOOK_PARTS = {"mimetype": "application/epub+zip", "META-INF/container.xml": "<container/>"}

XLIFF = '<xliff version="1.2"><file><body>'
XLIFF_END = "</body></file></xliff>"


def word(make: Make) -> Make:
    """Word documents with a hostile text."""
    return archived(WORD_PARTS, "word/document.xml", make)


def core(make: Make) -> Make:
    """Word documents with hostile metadata."""
    return archived(CORE_PARTS, "core.xml", make)


def slide(make: Make) -> Make:
    """Presentations with a hostile slide."""
    return archived(SLIDE_PARTS, "ppt/slides/slide1.xml", make)


def sheet(make: Make) -> Make:
    """Workbooks with hostile texts."""
    return archived({name: part for name, part in SHEET_PARTS.items() if name != "xl/s.xml"}, "xl/s.xml", make)


def table(make: Make) -> Make:
    """Workbooks with a hostile table."""
    return archived(SHEET_PARTS, "xl/t.xml", make)


def open_text(make: Make) -> Make:
    """OpenDocument texts with a hostile text."""
    return archived(ODT_PARTS, "content.xml", make)


def page(make: Make) -> Make:
    """Books with a hostile page."""
    return archived(BOOK_PARTS, "a.xhtml", make)


def package(make: Make) -> Make:
    """Books with a hostile package document."""
    return archived({**BOOK_PARTS, "a.xhtml": "<p>a</p>"}, "a.opf", make)


def contents(make: Make) -> Make:
    """Books with a hostile table of contents."""
    return archived(BOOK_PARTS, "toc.ncx", make)


TEXT = {
    "spaces": repeated(" "),
    "spaces before a word": repeated(" ", "", "a"),
    "lines of spaces": repeated(" " * 99 + "\n"),
    "short lines of spaces": repeated(" \n"),
    "tabs and returns": repeated("\t\r"),
    "words and spaces": repeated("a" + " " * 50),
    "line ends": repeated("\n"),
    "lines": repeated("a\n"),
    "one line": repeated("a"),
    "words": repeated("a "),
    "full stops": repeated("."),
    "exclamation marks": repeated("a!"),
    "rare spaces": repeated("\u3000\u2028"),
    "accents": repeated("\u0301", "a"),
    "initials": repeated("A. "),
    "initials and rare spaces": repeated("A\u00a0"),
    "quotation marks": repeated("“a"),
    "brackets": repeated("(a"),
    "quotation signs": repeated(">|"),
    "wrapped text": repeated("a long line of words that runs on\nand "),
    "wrapped text of one margin": repeated("a" * 30 + "\n", "a long line of words that runs\non to this\n\n"),
    "divided words": repeated("words of a long line that divid-\ned again are so "),
    "other indentations": lambda size: "".join(
        f"{' ' * (n % 9)}a long line of words that runs\n" for n in range(size // 36)
    ).encode(),
    "marks of direction": repeated("\u200ea b\u200f\n"),
    "dot leaders": repeated(". "),
}
RESTRUCTURED = {
    "openings of links": repeated("`a <"),
    "spaces in labels": repeated("`a" + " " * 600),
    "directives": repeated(".. note:: a\n"),
    "directives and options": repeated(".. note::\n   :a: b\n\n   c\n\n"),
    "titles": repeated("a\n---\n\n"),
    "rules": repeated("---\n"),
    "literal blocks": repeated("a::\n\n b\n\n"),
    "options": repeated("   :alt: a\n", ".. image:: b\n"),
    "an option of many lines": repeated("      a\n", ".. image:: b\n   :alt: a\n"),
    "half of a replacement": repeated("a", ".. |"),
    "links": repeated("`a <b>`_ "),
    "half of a link": repeated("`a <"),
    "half of a role": repeated(":a:`b "),
    "descriptions": repeated(".. py:function:: a\n"),
    "half of a field": repeated("a", ":"),
}
MARKUP = {
    "half of a directive": repeated("@if(("),
    "blocks of Angular": nested("@if (a) {", "}"),
    "comments of a template": repeated("{{/* a */}} "),
    "half of a comment of a template": repeated("{{/* "),
    "open elements": repeated("<b>", "", "x"),
    "elements": nested("<b>", "</b>"),
    "blocks": nested("<div>", "</div>"),
    "signs": repeated("<"),
    "half of a tag": repeated("<a "),
    "a long tag": repeated("a", "<", ">x"),
    "one tag of many attributes": numbered(lambda n: f" a{n}=1", "<p title=x", ">x</p>"),
    "one attribute again and again": repeated(" title=x", "<p", ">x</p>"),
    "an attribute that does not end": repeated("a ", '<p title="'),
    "equals signs": repeated("=", "<p title=x ", ">x</p>"),
    "attributes": repeated('<p title="a">'),
    "names of the language": repeated("<p lang=en>a"),
    "names of the language in a paragraph": repeated("<i lang=en>a</i>"),
    "names of the language in a tag": repeated(" lang=en", "<p", ">a</p>"),
    "names of many languages": numbered(lambda n: f"<p lang=en-{n:08}>a"),
    "a long name of a language": repeated("en-", "<p lang=", ">a</p>"),
    "metadata of a page": repeated("<meta property=og:locale content=en_US>a"),
    "directions": repeated("<html><p dir=rtl>a"),
    "half of a comment": repeated("<!--"),
    "comments": repeated("<!---->a"),
    "comment that does not end": repeated("- -", "<!--"),
    "dropped tags": repeated("</>a"),
    "end tags": repeated("</b>a"),
    "references": repeated("&amp;a"),
    "half of a reference": repeated("&a"),
    "a reference with many digits": repeated("9", "<p>a &#", ";</p>"),
    "a name of many letters": repeated("a", "<p>&", ";</p>"),
    "code that does not end": repeated("<code>a"),
    "kept elements": repeated('<i translate="no">a</i>'),
    "kept elements that do not end": repeated('<i translate="no">a'),
    "kept paragraphs that do not end": repeated('<p translate="no"><b>'),
    "script that does not end": repeated("<script>a"),
    "titles": repeated("<title>a"),
    "open lists": repeated("<li translate=no><ul>"),
    "tables": repeated("<table><tr><td>a"),
    "returns": repeated("a\r\n"),
    "instructions": repeated("<?a>"),
    "sections": repeated("<![CDATA[a]]>"),
}
MARKDOWN = {
    "components": nested("<A>\n", "</A>\n", "a\n"),
    "components that do not end": repeated("<A>\n"),
    "components that end at another column": repeated("<A>\n </A>\n"),
    "attributes of a component": repeated(" a=1", "<A", ">\na\n</A>\n"),
    "expressions": repeated("{a(b} "),
    "expressions that do not end": repeated("{a\n"),
    "captions": repeated('![a](b "c") '),
    "half of a caption": repeated('![a "b" '),
    "half of a role": repeated("{a}`b "),
    "keys of front matter": repeated("title: >\n a\n", "---\n", "---\n"),
    "a value of many lines": repeated(" a\n", "---\ntitle: >\n", "---\n"),
    "a value of one line": repeated(" a", "---\ntitle: ", " #\n---\n"),
    "openings of images": repeated("![a]("),
    "terms without a definition": repeated("a\nb\nc\n\n"),
    "containers": repeated(":::note\na\n"),
    "colons": repeated(":"),
    "definitions of terms": repeated("a\n: b\n"),
    "terms in terms": repeated(": ", "a\n"),
    "notes in notes": repeated("[^1]: "),
    "admonitions": lambda size: "".join(f"{'    ' * (n % 30)}!!! note\n" for n in range(size // 70)).encode(),
    "formulas that do not end": repeated("$$a\n"),
    "formulas in items that do not end": repeated("- $$a\n  $$b\n"),
    "dollar signs": repeated("$a"),
    "dollar signs and spaces": repeated(" $a b"),
    "environments that do not end": numbered(lambda n: f"\\begin{{a{n}}}\n"),
    "environments": numbered(lambda n: f"\\begin{{a{n}}}\n\\end{{a{n}}}\n"),
    "tags that do not end": repeated("{% raw %}\n"),
    "half of a tag of a template": repeated("{%"),
    "half of a shortcode": repeated("{{<"),
    "shortcodes of several lines": repeated("{{< a\n"),
    "braces": repeated("{"),
    "attributes": repeated(" a=b", "{#c", "}"),
    "attribute lists": repeated("{#a"),
    "options": repeated(":a: b\n", ":::{note}\n"),
    "directives": repeated(":::{note}\n"),
    "fenced directives": numbered(lambda n: f"{'`' * (n % 90 + 3)}{{note}}\n"),
    "modules": repeated("import a from 'b'\n"),
    "half of a module": repeated("import a \n\n"),
    "inline tags": repeated("<b>a</i>"),
    "keys": repeated("<kbd>a"),
    "wiki links": repeated("[[a|b]]"),
    "half of a wiki link": repeated("[[a|"),
    "commands": repeated("\\ab"),
    "arguments of commands": repeated("{a}", "\\ab"),
    "references that are read": repeated("&amp;*a"),
    "citations": repeated("[@a"),
    "formulas of parentheses": repeated("\\("),
    "addresses of the web": repeated("https://a"),
    "a long address": repeated("a", "https://", " b"),
    "long runs": repeated("***a "),
    "equals signs": repeated("=="),
    "text in blocks of HTML": repeated("<div>a\n\n"),
    "a block of HTML": repeated("a<b>", "<div>\n", "\n"),
    "values": repeated("title: a\n", "---\n", "---\n"),
    "quotation marks in a value": repeated("''", "---\ntitle: '", "\n---\n"),
    "references in a value": repeated("\\u00e4", '---\ntitle: "', '"\n---\n'),
    "names of the language": repeated("lang: en\n", "---\ntitle: a\n", "---\n"),
    "half of a name of the language": repeated(" ", "---\ntitle: a\nlang:", "\n---\n"),
    "a long name of a language": repeated("en-", "---\ntitle: a\nlang: ", "\n---\n"),
    "a long value": repeated("\\a", '---\ntitle: "', '"\n---\n'),
    "brackets": repeated("["),
    "closed brackets": nested("[", "]"),
    "closing brackets": repeated("]"),
    "images": repeated("!["),
    "links that do not end": repeated("[a]("),
    "links": repeated("[a](b)"),
    "links of brackets": repeated("[a](("),
    "links to names": repeated("[a][b]"),
    "emphasis": repeated("*a "),
    "stars": repeated("*"),
    "stars and lines": repeated("*_"),
    "strong emphasis": repeated("**a _b "),
    "nested emphasis": nested("*a **a ", "** a*"),
    "backquotes": repeated("`"),
    "backquotes of all lengths": numbered(lambda n: "`" * (n % 90 + 1) + "a"),
    "code": repeated("`a"),
    "angle brackets": repeated("<"),
    "addresses": repeated("<a:"),
    "mail": repeated("<a@"),
    "tags": repeated("<a "),
    "comments": repeated("<!--"),
    "escapes": repeated("\\"),
    "escaped brackets": repeated("\\["),
    "hard breaks": repeated("a  \n"),
    "footnotes": repeated("[^a"),
    "tildes": repeated("~~a"),
    "quotations": repeated("> "),
    "lists": repeated("- "),
    "items": repeated("- a\n"),
    "nested items": lambda size: "".join(f"{' ' * (2 * (n % 40))}- a\n" for n in range(size // 44)).encode(),
    "numbers": repeated("1. a\n\n"),
    "headings": repeated("# a\n"),
    "underlines": repeated("a\n=\n"),
    "fences": repeated("```\n"),
    "lines that begin fences": repeated("~~~a`\n"),
    "front matter that does not end": repeated("a: b\n", "---\n"),
    "front matter again and again": repeated("---\n"),
    "plus signs": repeated("+++\n"),
    "paragraph": repeated("a\n"),
    "quoted paragraph": repeated("> a\n"),
    "lazy quotation": repeated("a\n", "> > > > > > a\n"),
    "definitions": numbered(lambda n: f"[a{n}]: b\n"),
    "definitions with titles": numbered(lambda n: f'[a{n}]: b "c d"\n'),
    "a definition with a long title": repeated("c\n", '[a]: b "', '"\n'),
    "definitions whose titles do not end": repeated('[a]: b\n"c\n'),
    "half of a definition": repeated("[a]:\n"),
    "half of a label": repeated("[a\n"),
    "a long label": repeated("a ", "[", "]: b\n\n[c]"),
    "table": repeated("a|b\n", "a|b\n-|-\n"),
    "wide table": lambda size: ("|a" * (size // 6) + "|\n" + "|-" * (size // 6) + "|\n" + "|b" * (size // 6)).encode(),
    "table of empty rows": lambda size: (
        "|a" * (size // 6) + "|\n" + "|-" * (size // 6) + "|\n" + "a\n" * (size // 6)
    ).encode(),
    "cells that the parser changes": lambda size: (
        "|a" * (size // 11) + "|\n" + "|-" * (size // 11) + "|\n" + "|a\\\\\\|b" * (size // 11)
    ).encode(),
    "equal cells": lambda size: (
        "|a" * (size // 8) + "|\n" + "|-" * (size // 8) + "|\n" + "|a a" * (size // 8)
    ).encode(),
    "half of a table": repeated("|-\n", "|a\n"),
    "blocks of HTML": repeated("<div>\n"),
    "blocks of HTML that do not end": repeated("<script>\n"),
    "references": repeated("&a"),
    "tabs": repeated("\t-\ta\n"),
    "spaces": repeated(" "),
    "lines of spaces": repeated(" \n"),
    "spaces in a paragraph": repeated(" ", "a", "a"),
}
SUBTITLES = {
    "a tag that does not end": repeated("a", CUE + "<", "\n"),
    "half of tags": repeated("<a", CUE, "\n"),
    "tags": repeated("<i>", CUE, "\n"),
    "closed tags": nested("<i>", "</i>", "a", CUE, "\n"),
    "pairs of tags": repeated("<i>a</i>", CUE, "\n"),
    "tags of many names": numbered(lambda n: f"<{''.join(chr(97 + int(c)) for c in str(n))}>a", CUE, "\n"),
    "end tags": repeated("</i>a", CUE, "\n"),
    "times in tags": repeated("<1", CUE, "\n"),
    "a long time in a tag": repeated("1", CUE + "<", "\n"),
    "styles": repeated("{\\a", CUE, "\n"),
    "times": repeated("00:00:01,000 --> 00:00:02,000\n"),
    "half of times": repeated("00:00:01,000 -->\n", CUE),
    "digits": repeated("1", CUE),
    "cues": repeated(CUE + "a\n\n"),
    "cues of one sentence": repeated(CUE + "a,\n\n"),
    "cues of blank lines": repeated(CUE + "\n" * 50),
    "lines": repeated("a\n", CUE),
    "blank lines": repeated(" \n", CUE + "a\n", "a\n"),
    "spaces": repeated(" ", CUE + "a", "b\n"),
    "words": repeated("a ", CUE, "\n"),
    "long cues": lambda size: ((CUE + "word " * 8000 + "\n\n") * max(1, size // 40_000)).encode(),
    "speakers": repeated("- a\n", CUE),
    "spaces before times": repeated(" ", CUE + "a\n", "00"),
    "references": repeated("&a", CUE),
    "times of words": repeated("a <00:00:01.000><c> b</c>", CUE, "\n"),
    "names": repeated("A B: c\n", CUE),
    "notes": repeated("♪", CUE),
    "notes and spaces": repeated(" " * 50 + "♪", CUE + "a"),
    "brackets": repeated("[a\n", CUE),
    "styled lines": repeated("<i>a</i>\n", CUE),
    "styles that end": nested("{\\i1}", "{\\i0}", "a", CUE, "\n"),
    "broken lines": repeated("a\\N", CUE),
    "cues without blank lines": repeated(CUE + "a\n"),
    "rolling captions": repeated(CUE + "a\n\n" + CUE + "a\nb\n\n" + CUE + "b\na\n\n"),
    "long parts of a sentence": lambda size: (
        CUE + "word " * (size // 10) + "\n\n" + CUE + "word " * (size // 10)
    ).encode(),
}
HEADERS = {
    "lines": repeated("a\n", "WEBVTT\n", "\n00:01.000 --> 00:02.000\na\n"),
    "languages": repeated("Language: en\n", "WEBVTT\n", "\n00:01.000 --> 00:02.000\na\n"),
    "a long language": repeated("en-", "WEBVTT\nLanguage: ", "\n\n00:01.000 --> 00:02.000\na\n"),
}
CATALOGUE = {
    "messages": repeated('msgid "a"\nmsgstr ""\n\n'),
    "equal messages with translations": repeated('msgid "a"\nmsgstr "b"\n\n'),
    "a message of many lines": repeated('"a"\n', 'msgid ""\n', 'msgstr ""\n'),
    "a translation of many lines": repeated('"a"\n', 'msgid "a"\nmsgstr ""\n'),
    "a header of many lines": repeated('"a\\n"\n', 'msgid ""\nmsgstr "a: b\\n"\n'),
    "a header of many names": numbered(lambda n: f'"a{n}: b\\n"\n', 'msgid ""\nmsgstr ""\n'),
    "plural forms": repeated("nplurals", 'msgid ""\nmsgstr "Plural-Forms: ', '\\n"\n'),
    "comments": repeated("# a\n", "", 'msgid "a"\nmsgstr ""\n'),
    "comments of a message": repeated("# a\n", 'msgid "b"\nmsgstr ""\n\n', 'msgid "a"\nmsgstr ""\n'),
    "notes of programs": repeated("#. a\n", 'msgid "b"\nmsgstr ""\n\n', 'msgid "a"\nmsgstr ""\n'),
    "places": repeated("#: a:1\n", "", 'msgid "a"\nmsgstr ""\n'),
    "places in a line": repeated("a:1 ", "#: ", '\nmsgid "a"\nmsgstr ""\n'),
    "flags": repeated("#, a\n", "", 'msgid "a"\nmsgstr ""\n'),
    "flags in a line": repeated("a,", "#, ", '\nmsgid "a"\nmsgstr ""\n'),
    "earlier messages": repeated('#| "a"\n', '#| msgid "a"\n', 'msgid "a"\nmsgstr ""\n'),
    "obsolete messages": repeated('#~ msgid "a"\n#~ msgstr "b"\n\n', 'msgid "a"\nmsgstr ""\n'),
    "an obsolete message of many lines": repeated(
        '#~ "a"\n', 'msgid "a"\nmsgstr ""\n\n#~ msgid "a"\n', '#~ msgstr ""\n'
    ),
    "a long message": repeated("a ", 'msgid "', '"\nmsgstr ""\n'),
    "a long word": repeated("a", 'msgid "', '"\nmsgstr ""\n'),
    "hyphens": repeated("-", 'msgid "', '"\nmsgstr ""\n'),
    "escapes": repeated("\\", 'msgid "', '"\nmsgstr ""\n'),
    "a long comment": repeated("a ", "# ", '\nmsgid "a"\nmsgstr ""\n'),
    "hyphens in a comment": repeated("a-", "# ", '\nmsgid "a"\nmsgstr ""\n'),
    "hyphens alone in a comment": repeated("-", "# ", '\nmsgid "a"\nmsgstr ""\n'),
    "spaces": repeated(" ", "", 'msgid "a"\nmsgstr ""\n'),
    "forms": numbered(lambda n: f'msgstr[{n % 1000}] ""\n', 'msgid "a b"\nmsgid_plural "c d"\n'),
    "languages": repeated("Language: ", 'msgid ""\nmsgstr "', '\\n"\n\nmsgid "a b"\nmsgstr ""\n'),
    "strings in a line": repeated('"a"', "msgid ", '\nmsgstr ""\n'),
    "line ends": repeated("\n", "", 'msgid "a"\nmsgstr ""\n'),
}
XLIFF_FILES = {
    "units": repeated('<trans-unit id="1"><source>a</source></trans-unit>', XLIFF, XLIFF_END),
    "sources of one unit": repeated("<source>a</source>", XLIFF + '<trans-unit id="1">', "</trans-unit>" + XLIFF_END),
    "targets of one unit": repeated(
        "<target>a</target>", XLIFF + '<trans-unit id="1"><source>a</source>', "</trans-unit>" + XLIFF_END
    ),
    "nested units": chains('<trans-unit id="1"><source>a', "</source></trans-unit>", "a", XLIFF, XLIFF_END, depth=100),
    "nested groups": chains(
        "<group>", "</group>", '<trans-unit id="1"><source>a</source></trans-unit>', XLIFF, XLIFF_END, 200
    ),
    "nested elements": chains(
        "<g>", "</g>", "a", XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END, depth=200
    ),
    "groups": repeated('<g id="1">a</g>', XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END),
    "placeholders": repeated(
        '<x id="1"/>a', XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END
    ),
    "blank target": repeated(
        "<x/>", XLIFF + '<trans-unit id="1"><source>a</source><target>', "</target></trans-unit>" + XLIFF_END
    ),
    "attributes": numbered(lambda n: f' a{n}="1"', XLIFF + "<trans-unit", "/>" + XLIFF_END),
    "namespaces": numbered(
        lambda n: f' xmlns:a{n}="b{n}"',
        '<xliff version="1.2"',
        '><file><body><trans-unit id="1"><source>a</source></trans-unit></body></file></xliff>',
    ),
    "namespaces and units": lambda size: (
        '<xliff version="1.2"'
        + "".join(f' xmlns:a{n}="b{n}"' for n in range(size // 80))
        + "><file><body>"
        + '<trans-unit id="1"><source>a<x id="1"/>b</source></trans-unit>' * (size // 160)
        + XLIFF_END
    ).encode(),
    "texts": repeated("a&amp;", XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END),
    "comments": repeated("<!--a-->b", XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END),
    "segments": repeated(
        '<mrk mtype="seg" mid="1">a</mrk>',
        XLIFF + '<trans-unit id="1"><source>a</source><seg-source>',
        "</seg-source></trans-unit>" + XLIFF_END,
    ),
    "lines": repeated("\n ", XLIFF + '<trans-unit id="1"><source>a', "b</source></trans-unit>" + XLIFF_END),
    "protected elements": chains(
        '<mrk translate="no">',
        "</mrk>",
        "a",
        XLIFF + '<trans-unit id="1"><source>b',
        "</source></trans-unit>" + XLIFF_END,
        depth=40,
    ),
    "sections": repeated("<![CDATA[a]]>", XLIFF + '<trans-unit id="1"><source>', "</source></trans-unit>" + XLIFF_END),
}
JSON_FILES = {
    "declarations of styles": repeated("color: a; ", '{"a": "', '"}'),
    "numbers": repeated("1,", "[", "1]"),
    "empty lists": repeated("[],", "[", "1]"),
    "empty objects": repeated("{},", "[", "1]"),
    "lists": nested("[", "]", "1"),
    "lists that do not end": repeated("["),
    "strings": repeated('"a",', "[", "1]"),
    "a long string": repeated("a", '"', '"'),
    "escapes": repeated("\\\\", '"', '"'),
    "escaped characters": repeated("\\u00e9", '"', '"'),
    "a string that does not end": repeated("a", '"'),
    "a long number": repeated("1", "[", "]"),
    "a long fraction": repeated("1", "[0.", "]"),
    "an exponent": repeated("9", "[1e", "]"),
    "names": numbered(lambda n: f'"{n}":"a",', "{", '"a":1}'),
    "spaces": repeated(" ", "[", "1]"),
    "signs of message formats": repeated("{a", '"', '"'),
    "spaces of message formats": repeated(" ", '"{', '"'),
    "words of message formats": repeated("a", '"{', '"'),
    "branches": repeated("a {b c} ", '"{n, plural, ', '}"'),
    "nested branches": nested("{n, plural, a {", "}}", "b c", '"', '"'),
    "quoted braces": repeated("'{", '"{n, plural, a {', '}}"'),
    "bars": repeated("a b|", '"', 'a"'),
    "brackets and bars": repeated("[", '"a|b', '"'),
    "spaces and bars": repeated(" ", '"a|b', '|c"'),
    "words with underscores": repeated("a_a-", '["', 'é"]'),
    "doubled apostrophes": repeated("''", '"{a} ', '"'),
    "message formats": repeated("{a , ", '"', '"'),
}
CSV = {
    "quotation marks after a quoted cell": repeated('"', 'a,"b",c\n', "x"),
    "quotation marks": repeated('"'),
    "an odd number of them": repeated('""', '"'),
    "cells": repeated("a,"),
    "rows": repeated("a,b\n"),
    "empty rows": repeated("\n"),
    "separators": repeated(",;\t|"),
    "quoted cells": repeated('"a",'),
    "a long quoted cell": repeated("a", '"', '"'),
    "a quoted cell that does not end": repeated("a", '"'),
    "quoted line ends": repeated('"\n",'),
    "quoted and not": repeated('"a"b,'),
    "one column": repeated("word\n"),
    "a directive": repeated("a;", "sep=;\n"),
    "columns of codes": repeated("AB,CD\n", "a,b\n"),
    "spaces": repeated(" "),
}
WORD_FILES = {
    "paragraphs": repeated(P + RUN + P_END, WORD, WORD_END),
    "empty elements": repeated("<w:x/>", WORD, WORD_END),
    "empty elements of a paragraph": repeated("<w:x/>", WORD + P + RUN, P_END + WORD_END),
    "equal runs": repeated(RUN, WORD + P, P_END + WORD_END),
    "other runs": repeated(RUN + BOLD, WORD + P, P_END + WORD_END),
    "texts of a run": repeated("<w:t>a</w:t>", WORD + P + "<w:r>", "</w:r>" + P_END + WORD_END),
    "texts and signs of a run": repeated("<w:t>a</w:t><w:sym/>", WORD + P + "<w:r>", "</w:r>" + P_END + WORD_END),
    "tabs": repeated("<w:t>a</w:t><w:tab/>", WORD + P + "<w:r>", "</w:r>" + P_END + WORD_END),
    "tabs of runs": repeated(RUN + "<w:r><w:tab/></w:r>", WORD + P, P_END + WORD_END),
    "breaks": repeated("<w:t>a</w:t><w:br/>", WORD + P + "<w:r>", "</w:r>" + P_END + WORD_END),
    "links": repeated(f"<w:hyperlink>{RUN}</w:hyperlink>", WORD + P, P_END + WORD_END),
    "nested links": chains("<w:hyperlink>", "</w:hyperlink>", RUN, WORD + P, P_END + WORD_END, depth=200),
    "nested links without text": chains(
        "<w:hyperlink>", "</w:hyperlink>", "", WORD + P + RUN, P_END + WORD_END, depth=200
    ),
    "nested paragraphs": chains(P, P_END, RUN, WORD, WORD_END, depth=200),
    "nested text boxes": chains(P + "<w:r><w:pict>", "</w:pict></w:r>" + P_END, RUN, WORD, WORD_END, depth=60),
    "fields that do not end": repeated(
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>', WORD + P + RUN, P_END + WORD_END
    ),
    "signs of one run": repeated(
        '<w:fldChar w:fldCharType="begin"/>', WORD + P + RUN + "<w:r>", "</w:r>" + P_END + WORD_END
    ),
    "instructions of fields": repeated(
        '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>PAGE</w:instrText></w:r>', WORD + P + RUN, P_END + WORD_END
    ),
    "nested fields": nested(
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>',
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        RUN,
        WORD + P,
        P_END + WORD_END,
    ),
    "fields": repeated(
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>',
        WORD + P + RUN,
        P_END + WORD_END,
    ),
    "one formatting of many elements": half_and_half(
        "<w:b/>", "<w:t>a</w:t><w:sym/>", WORD + P + "<w:r><w:rPr>", "</w:rPr>", "</w:r>" + P_END + WORD_END
    ),
    "formattings": repeated("<w:b/>", WORD + P + "<w:r><w:rPr>", "</w:rPr><w:t>a</w:t></w:r>" + P_END + WORD_END),
    "different formattings": numbered(
        lambda n: f'<w:r><w:rPr><w:sz w:val="{n}"/></w:rPr><w:t>a</w:t></w:r>', WORD + P, P_END + WORD_END
    ),
    "attributes": numbered(lambda n: f' a{n}="1"', WORD + "<w:p", "/>" + WORD_END),
    "namespaces": numbered(
        lambda n: f' xmlns:a{n}="b{n}"',
        f'<w:document xmlns:w="{WORD_SPACE}"',
        f"><w:body>{P}{RUN}{P_END}{WORD_END}",
    ),
    "namespaces and runs": lambda size: (
        f'<w:document xmlns:w="{WORD_SPACE}"'
        + "".join(f' xmlns:a{n}="b{n}"' for n in range(size // 80))
        + f"><w:body>{P}"
        + (RUN + BOLD) * (size // 200)
        + P_END
        + WORD_END
    ).encode(),
    "one long text": repeated("a ", WORD + P + "<w:r><w:t>", "</w:t></w:r>" + P_END + WORD_END),
    "bookmarks": repeated(f'<w:bookmarkStart w:id="1"/>{RUN}<w:bookmarkEnd w:id="1"/>', WORD + P, P_END + WORD_END),
    "nested bookmarks": lambda size: (
        WORD
        + P
        + "".join(f'<w:bookmarkStart w:id="{n}"/>' + RUN for n in range(size // 100))
        + "".join(f'<w:bookmarkEnd w:id="{n}"/>' for n in range(size // 100))
        + P_END
        + WORD_END
    ).encode(),
    "links with tabs": repeated(
        f"<w:hyperlink>{RUN}<w:r><w:tab/></w:r>{RUN}</w:hyperlink>", WORD + P, P_END + WORD_END
    ),
    "gaps": repeated("a   ", WORD + P + "<w:r><w:t>", "</w:t></w:r>" + P_END + WORD_END),
    "drop caps": repeated(
        f'{P}<w:pPr><w:framePr w:dropCap="drop"/></w:pPr>{RUN}{P_END}{P}{RUN}{P_END}', WORD, WORD_END
    ),
    "fields of links": repeated(
        '<w:r><w:fldChar w:fldCharType="begin"/><w:instrText>HYPERLINK</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r>{RUN}<w:r><w:fldChar w:fldCharType="end"/></w:r>',
        WORD + P,
        P_END + WORD_END,
    ),
    "numbering": repeated("ab %1.%2 ", f'{WORD}<w:lvlText w:val="', f'"/>{WORD_END}'),
    "controls": chains("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>", RUN, WORD + P, P_END + WORD_END, depth=100),
    "comments": repeated("<!--a-->", WORD + P + RUN, P_END + WORD_END),
    "descriptions": repeated('<d:docPr descr="a b"/>', f'{WORD}<p xmlns:d="d">', f"</p>{P}{RUN}{P_END}{WORD_END}"),
    "languages": numbered(
        lambda n: f'<w:r><w:rPr><w:lang w:val="en-{n:08}"/></w:rPr><w:t>a</w:t></w:r>', WORD + P, P_END + WORD_END
    ),
    "sections": repeated("<![CDATA[a]]>", WORD + P + "<w:r><w:t>", "</w:t></w:r>" + P_END + WORD_END),
}
CORE_FILES = {
    "titles": repeated("<title>a b</title>", CORE, CORE_END),
    "a long title": repeated("a ", f"{CORE}<title>", f"</title>{CORE_END}"),
    "languages": numbered(lambda n: f"<language>en-{n:08}</language>", f"{CORE}<title>a b</title>", CORE_END),
    "nested titles": nested("<title>", "</title>", "a b", CORE, CORE_END),
}
SLIDES = {
    "paragraphs": repeated("<a:p><a:r><a:t>a</a:t></a:r></a:p>", SLIDE, SLIDE_END),
    "runs": repeated("<a:r><a:t>a</a:t></a:r>", SLIDE + "<a:p>", "</a:p>" + SLIDE_END),
    "tabs": repeated("a\t", SLIDE + "<a:p><a:r><a:t>", "</a:t></a:r></a:p>" + SLIDE_END),
    "texts of a run": repeated("<a:t>a</a:t>", SLIDE + "<a:p><a:r>", "</a:r></a:p>" + SLIDE_END),
    "one formatting of many elements": half_and_half(
        "<a:b/>", "a\t", SLIDE + "<a:p><a:r><a:rPr>", "</a:rPr><a:t>", "</a:t></a:r></a:p>" + SLIDE_END
    ),
    "fields": repeated("<a:fld><a:t>1</a:t></a:fld>", SLIDE + "<a:p><a:r><a:t>a</a:t></a:r>", "</a:p>" + SLIDE_END),
    "nested fields": chains(
        "<a:fld>", "</a:fld>", "<a:t>1</a:t>", SLIDE + "<a:p><a:r><a:t>a</a:t></a:r>", "</a:p>" + SLIDE_END, 200
    ),
}
SHEETS = {
    "texts": repeated("<si><t>a</t></si>", SHEET, SHEET_END),
    "runs": repeated("<r><t>a</t></r>", f"{SHEET}<si>", f"</si>{SHEET_END}"),
    "lines": repeated("a\n", f"{SHEET}<si><r><t>", f"</t></r></si>{SHEET_END}"),
    "texts of a run": repeated("<t>a</t>", f"{SHEET}<si><r>", f"</r></si>{SHEET_END}"),
    "nested texts": nested("<si>", "</si>", "<t>a</t>", SHEET, SHEET_END),
    "returns": repeated("_x000d_", f"{SHEET}<si><t>", f"\n</t></si>{SHEET_END}"),
}
TABLES = {
    "columns": numbered(lambda n: f'<tableColumn name="{n} a"/>', TABLE, TABLE_END),
    "columns of one name": repeated('<tableColumn name="a b"/>', TABLE, TABLE_END),
    "formulas": repeated("<f>[</f>", TABLE, TABLE_END),
    "a formula": repeated("[", f"{TABLE}<f>", f"</f>{TABLE_END}"),
}
ODT_FILES = {
    "paragraphs": repeated("<text:p>a</text:p>", ODT, ODT_END),
    "nested paragraphs": chains("<text:p>a", "</text:p>", "a", ODT, ODT_END, 200),
    "nested spans": chains("<text:span>", "</text:span>", "a", ODT + "<text:p>", "</text:p>" + ODT_END, 200),
    "nested spans with text": chains("<text:span>a", "</text:span>", "a", ODT + "<text:p>", "</text:p>" + ODT_END, 200),
    "spans": repeated("<text:span>a</text:span>", ODT + "<text:p>", "</text:p>" + ODT_END),
    "spans of spaces": repeated("<text:span> </text:span>", ODT + "<text:p>a", "</text:p>" + ODT_END),
    "empty spans": repeated("<text:span/>a", ODT + "<text:p>a", "</text:p>" + ODT_END),
    "breaks": repeated("<text:line-break/>a", ODT + "<text:p>", "</text:p>" + ODT_END),
    "tabs": repeated("<text:tab/>a", ODT + "<text:p>", "</text:p>" + ODT_END),
    "tabs in nested spans": chains(
        "<text:span>a<text:tab/>", "</text:span>", "a", ODT + "<text:p>", "</text:p>" + ODT_END, 200
    ),
    "signs of spaces": repeated("<text:s/>a", ODT + "<text:p>", "</text:p>" + ODT_END),
    "signs of spaces alone": repeated("<text:s/>", ODT + "<text:p>a", "b</text:p>" + ODT_END),
    "bookmarks": repeated(
        '<text:bookmark-start text:name="a"/>a<text:bookmark-end text:name="a"/>',
        ODT + "<text:p>",
        "</text:p>" + ODT_END,
    ),
    "numbering": repeated(
        '<text:outline-level-style style:num-prefix="ab"/>',
        ODT[:-1] + ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0">',
        ODT_END,
    ),
    "languages": repeated(
        '<style:text-properties fo:language="en"/>',
        ODT[:-1]
        + ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'
        + ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"><text:p>a</text:p>',
        ODT_END,
    ),
    "notes": repeated("<text:note><text:p>a</text:p></text:note>", ODT + "<text:p>a", "</text:p>" + ODT_END),
    "comments": repeated("<!--a-->b", ODT + "<text:p>", "</text:p>" + ODT_END),
}
BOOK_PAGES = {
    "empty elements": repeated("<a/>a"),
    "half of an empty element": repeated(" ", "<a", "a"),
    "an empty element of many attributes": repeated(' a="b"', "<a", ">"),
    "half of attributes": repeated(' a="', "<a"),
    "names of attributes": repeated(" a", "<a"),
    "equals signs": repeated(" = ", "<a a"),
}
PACKAGES = {
    "titles": repeated("<dc:title>a</dc:title>"),
    "titles that do not end": repeated("<title>a"),
    "pages as descriptions": repeated("&lt;p&gt;a", "<description>", "</description>"),
    "half of tags in descriptions": repeated("&lt;p ", "<description>", "</description>"),
    "languages": repeated("<language>en</language>", "<title>a</title>"),
    "half of a language": repeated(" ", "<title>a</title><language>"),
    "names of the language": repeated(' xml:lang="en"', "<title>a</title><a", ">"),
    "half of a name of the language": repeated(" xml:lang ", "<title>a</title><a"),
    "spines": repeated("<spine a ", "<title>a</title><language>en</language>"),
    "authors": repeated("<docAuthor><text>a</text>"),
}
CONTENTS = {
    "entries": repeated("<text>a</text>"),
    "entries that do not end": repeated("<text>a"),
    "half of an entry": repeated("a", "<text>"),
    "entries with prefixes": repeated("<a:text>a</a:text>"),
    "half of a prefix": repeated("a", "<", ":text>"),
    "attributes of an entry": repeated(" a", "<text", ">a</text>"),
    "references": repeated("&#9;a", "<text>", "</text>"),
    "a reference with many digits": repeated("9", "<text>a&#", "</text>"),
}
ENCODINGS = {
    "bytes beyond ASCII": lambda size: b"\xe4" * size,
    "lines of other scripts": lambda size: "Привет, как дела?\n".encode("cp1251") * (size // 18),
    "one line of another script": lambda size: "おはよう".encode("cp932") * (size // 8),
    "damaged UTF-8": lambda size: "ö".encode() * (size // 2) + b"\xff",
}
DECLARATIONS = {
    "half of declarations": repeated("<meta "),
    "declarations without an encoding": repeated("<meta charset "),
    "a declaration that does not end": repeated(" ", "<?xml encoding"),
}
ANDROID = {
    "strings": repeated('<string name="a">b</string>', "<resources>", "</resources>"),
    "elements": chains("<b>", "</b>", "a", "<resources><string>", "</string></resources>", depth=200),
    "deep elements": nested("<b>", "</b>", "a", "<resources><string>", "</string></resources>"),
    "escapes": repeated("\\'", "<resources><string>", "</string></resources>"),
    "line ends": repeated("\n ", "<resources><string>a", "</string></resources>"),
    "sections": repeated("<![CDATA[a]]>", "<resources><string>", "</string></resources>"),
    "attributes": numbered(lambda n: f' a{n}="1"', "<resources", "><string>a</string></resources>"),
    "comments before the root": repeated("<!---->", "", "<resources/>"),
}
QT = {
    "messages": repeated("<message><source>a</source><translation/></message>", "<TS>", "</TS>"),
    "forms": repeated(
        "<numerusform/>", '<TS><message numerus="yes"><source>a</source><translation>', "</translation></message></TS>"
    ),
}
RESOURCES = {"values": repeated('<data name="a"><value>b</value></data>', "<root>", "</root>")}
STRINGS_DICT = {
    "values": repeated("<key>one</key><string>a</string>", "<plist><dict>", "</dict></plist>"),
    "dictionaries": chains("<dict><key>a</key>", "</dict>", "", "<plist><dict>", "</dict></plist>", depth=100),
}
STRINGS = {
    "entries": repeated('"a" = "b";\n'),
    "comments": repeated("/**/"),
    "a comment that does not end": repeated("/*", '"a" = "b";'),
    "quotation marks": repeated('"'),
    "escapes": repeated("\\", '"a" = "', '";'),
    "a key that has no end": repeated("a"),
    "spaces": repeated(" ", '"a" = "b";'),
}
PROPERTIES = {
    "entries": repeated("a=b\n"),
    "continued lines": repeated("b\\\n", "a="),
    "backslashes": repeated("\\", "a="),
    "keys": repeated("a\\ "),
    "spaces": repeated(" ", "a=b\n"),
    "numbers": repeated("\\u00e4", "a="),
}
PHP = {
    "strings": repeated("'a',", "<?php return [", "];"),
    "arrays": nested("[", "]", "'a'", "<?php return ", ";"),
    "comments": repeated("/**/", "<?php return ['a' => 'b']; "),
    "a comment that does not end": repeated("/*", "<?php return ['a' => 'b']; "),
    "escapes": repeated("\\", '<?php return ["', '"];'),
    "signs of variables": repeated("\\$", '<?php return ["', '"];'),
}
YAML = {
    "values": repeated("- a b\n"),
    "names": numbered(lambda n: f"a{n}: b c\n"),
    "lists": nested("[", "]", "a"),
    "lists that do not end": repeated("["),
    "mappings that do not end": repeated("{a: "),
    "flow lists": repeated("a b, ", "[", "]"),
    "indentation": repeated("- "),
    "a block": repeated("  a b\n", "a: |\n"),
    "a folded text": repeated("  a\n\n", "a: >\n"),
    "blank lines": repeated("\n", "a: |\n  b\n"),
    "anchors": repeated("- &a b c\n"),
    "aliases": repeated("- *a\n", "- &a b\n"),
    "question marks": repeated("? "),
    "a plain text of many lines": repeated(" a\n", "a:\n"),
    "escapes": repeated("\\n", 'a: "', '"'),
    "quotation marks": repeated("''", "a: '", "'"),
}
XCODE = {
    "strings": numbered(lambda n: f'"{n} a": {{}},', '{"sourceLanguage": "en", "strings": {', '"a": {}}}'),
    "localizations": numbered(
        lambda n: f'"{n}": {{}},', '{"sourceLanguage": "en", "strings": {"a": {"localizations": {', '"x": {}}}}}'
    ),
    "variations": nested(
        '{"a":', "}", "1", '{"sourceLanguage": "en", "strings": {"a": {"localizations": {"en": ', "}}}}"
    ),
}
_FAMILIES: list[tuple[str, dict[str, Make], Callable[[Make], Make]]] = [
    (".txt", TEXT, lambda make: make),
    (".txt", ENCODINGS, lambda make: make),
    (".html", DECLARATIONS, lambda make: make),
    (".rst", {**TEXT, **RESTRUCTURED}, lambda make: make),
    (".md", MARKDOWN, lambda make: make),
    (".html", MARKUP, lambda make: make),
    (".srt", SUBTITLES, lambda make: make),
    (".vtt", SUBTITLES, lambda make: lambda size: b"WEBVTT\n\n" + make(size).replace(b",000", b".000")),
    (".vtt", HEADERS, lambda make: make),
    (".po", CATALOGUE, lambda make: make),
    (".xliff", XLIFF_FILES, lambda make: make),
    (".json", JSON_FILES, lambda make: make),
    (".csv", CSV, lambda make: make),
    (".xml", ANDROID, lambda make: make),
    (".ts", QT, lambda make: make),
    (".resx", RESOURCES, lambda make: make),
    (".stringsdict", STRINGS_DICT, lambda make: make),
    (".strings", STRINGS, lambda make: make),
    (".properties", PROPERTIES, lambda make: make),
    (".php", PHP, lambda make: make),
    (".yml", YAML, lambda make: make),
    (".xcstrings", XCODE, lambda make: make),
    (".docx", WORD_FILES, word),
    (".docx", CORE_FILES, core),
    (".pptx", SLIDES, slide),
    (".xlsx", SHEETS, sheet),
    (".xlsx", TABLES, table),
    (".odt", ODT_FILES, open_text),
    (".epub", BOOK_PAGES, page),
    (".epub", CONTENTS, contents),
    (".epub", PACKAGES, package),
]

FILES = [
    *(HostileFile(suffix, name, around(make)) for suffix, family, around in _FAMILIES for name, make in family.items()),
    HostileFile(".epub", "many parts", many_parts),
]
"""All kinds of hostile files."""
