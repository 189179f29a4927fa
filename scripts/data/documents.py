"""Extractors of documents whose translation has the structure of the original: Markdown, HTML, DocBook, Mallard.

Each takes the folders of the original and of the translation and gives the pairs of aligned paragraphs.
"""

from __future__ import annotations

import html
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from model.training.corpus import Pair
from scripts.data.align import Block, align, block, numbers
from scripts.data.text import common_files, from_markdown, read, same_keys, siblings, strip_tags, tidy, without_tags

_FRONT_MATTER = re.compile(r"(?s)\A---\n.*?\n---\n")
_CODE_OR_COMMENT = re.compile(r"(?s)```.*?```|<!--.*?-->")
_MARKDOWN_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*+>|#]|\d+\.)\s)|(?<=\|)\n")
_LINK_TARGET = re.compile(r"\]\(([^)\s]+)")
_NO_CELL = re.compile(r"\[!|:?-+:?$")
_MACHINE_TRANSLATED = re.compile(r"translationtype: *MT")


def _aligned(files: Iterator[tuple[Path, Path]], blocks: Callable[[Path], list[Block]]) -> Iterator[Pair]:
    for source, target in files:
        yield from align(blocks(source), blocks(target))


# Markdown


def markdown_blocks(path: Path, *, code: bool = False) -> list[Block]:
    """The paragraphs, items, headings and table cells of a Markdown file, without front matter and blocks of code.

    Args:
        path: The file.
        code: Whether a word of inline code is text. Other code keeps its signs, and the cleaning drops its sentence.
    """
    text = _CODE_OR_COMMENT.sub("", _FRONT_MATTER.sub("", read(path).lstrip("\ufeff")))
    if code:
        text = _CODE_WORD.sub(r"\1", text)
    result = []
    for part in _MARKDOWN_BLOCK.split(text):
        marks = {target.lower() for target in _LINK_TARGET.findall(part)} | numbers(re.sub(r"\([^)]*\)", "", part))
        tag = "".join(character for character in part.lstrip()[:2] if character in "#|->*!") or "p"
        for cell in part.strip().strip("|").split("|") if part.lstrip().startswith("|") else [part]:
            plain = tidy(from_markdown(cell.strip()))
            if plain and not _NO_CELL.match(plain):
                result.append(Block(tag, plain, frozenset(marks)))
    return result


def markdown(source: Path, target: Path) -> Iterator[Pair]:
    """Markdown documents of the same path, without those that a machine translated by their front matter."""
    files = common_files(source, target, ".md")
    human = ((first, second) for first, second in files if not _MACHINE_TRANSLATED.search(read(second)))
    yield from _aligned(human, markdown_blocks)


_CODE_WORD = re.compile(r"`([A-Za-z]+)`")


def markdown_with_code(source: Path, target: Path) -> Iterator[Pair]:
    """Markdown documents of the same path; a word of inline code is text."""
    yield from _aligned(common_files(source, target, ".md"), partial(markdown_blocks, code=True))


def markdown_by_name(source: Path, target: Path) -> Iterator[Pair]:
    """Markdown documents of the same name, where one file of each side has it, in whatever folder."""
    sides: list[dict[str, Path | None]] = []
    for folder in (source, target):
        names: dict[str, Path | None] = {}
        for path in sorted(folder.rglob("*.md")):
            name = path.name.lower()
            names[name] = None if name in names or name in ("index.md", "toc.md", "readme.md") else path
        sides.append(names)
    files = ((first, sides[1].get(name)) for name, first in sorted(sides[0].items()))
    yield from _aligned(((first, second) for first, second in files if first and second), markdown_blocks)


# HTML

_HTML_BLOCK = re.compile(r"(?is)<(p|h[1-6]|dt|th)\b[^>]*>(.*?)</\1>")
_NO_PROSE = re.compile(r"(?is)<(script|style|pre)\b.*?</\1>")
_PARAGRAPH_DIV = re.compile(r'(?s)<div class="para">((?:(?!<div|<p\b).)*?)</div>')
_HELP_PARAGRAPH = re.compile(r'(?s)<(p|h\d)\b[^>]*?\bid="((?:par|hd)_id[^"]+)"[^>]*>(.*?)</\1>')


def html_blocks(path: Path) -> list[Block]:
    """The paragraphs, headings and terms of an HTML page."""
    body = _PARAGRAPH_DIV.sub(r"<p>\1</p>", _NO_PROSE.sub(" ", read(path)))
    texts = [(tag, strip_tags(text)) for tag, text in _HTML_BLOCK.findall(body)]
    return [block(tag, text) for tag, text in texts if text]


def html_book(source: Path, target: Path) -> Iterator[Pair]:
    """A book in HTML, page by page."""
    yield from _aligned(common_files(source, target, ".html"), html_blocks)


_OPEN_BLOCK = re.compile(
    r"(?is)<(p|h[1-6]|dt|th|li|dd|td)\b[^>]*>(.*?)(?=</?(?:p|h[1-6]|li|ul|ol|dl|dt|dd|table|tr|td|th|blockquote)\b)"
)


def page_blocks(path: Path) -> list[Block]:
    """The paragraphs, items and cells of an HTML page whose elements need not be closed."""
    texts = _OPEN_BLOCK.findall(_NO_PROSE.sub(" ", read(path)) + "<p>")
    return [block(tag.lower(), text) for tag, content in texts if (text := strip_tags(content))]


def sibling_pages(folder: Path, source: str, target: str) -> Iterator[Pair]:
    """HTML pages that are :func:`~scripts.data.text.siblings`."""
    yield from _aligned(siblings(folder, source, target), page_blocks)


def office_help(source: Path, target: Path) -> Iterator[Pair]:
    """LibreOffice's help, in which a paragraph has the same identifier in every language."""
    for first, second in common_files(source, target, ".html"):
        sides = [{match[1]: match[2] for match in _HELP_PARAGRAPH.findall(read(path))} for path in (first, second)]
        yield from ((strip_tags(text), strip_tags(translation)) for text, translation in same_keys(*sides))


# DocBook and Mallard

_PHP_BLOCK = re.compile(
    r"(?is)<(para|simpara|title|refpurpose|term|entry)\b[^>]*>((?:(?!<(?:para|simpara)\b).)*?)</\1>"
)
_PHP_CODE = re.compile(
    r"(?is)<!--.*?-->|<programlisting.*?</programlisting>|<screen.*?</screen>|<methodsynopsis.*?</methodsynopsis>"
)
_PHP_MARK = re.compile(r"<(?:function|parameter|literal|constant|classname|link linkend)[^<]*")
_PHP_INLINE_CODE = re.compile(r"<(function|parameter|literal|constant|classname|code|type|varname|option)\b|&\w[\w.]*;")


def php_blocks(path: Path) -> list[Block]:
    """The paragraphs of a file of the PHP manual; one with code in it has marks, but no text."""
    result = []
    for tag, text in _PHP_BLOCK.findall(_PHP_CODE.sub(" ", read(path))):
        marks = frozenset(_PHP_MARK.findall(text))
        code = _PHP_INLINE_CODE.search(text)
        result.append(Block(tag, "", marks) if code else Block(tag, strip_tags(text), marks | numbers(text)))
    return result


def php_manual(source: Path, target: Path) -> Iterator[Pair]:
    """DocBook fragments with entities (the PHP manual)."""
    yield from _aligned(common_files(source, target, ".xml"), php_blocks)


_HELP_TAGS = frozenset({"p", "title", "desc", "para", "simpara", "term", "cite"})
_BETWEEN = {"guiseq": " – ", "menuchoice": " – ", "keyseq": "+", "keycombo": "+"}
_FOREIGN_ENTITY = re.compile(r"&(?!#|amp;|lt;|gt;|quot;|apos;)[\w.-]+;")


def _local_name(node: ET.Element) -> str:
    return node.tag.rpartition("}")[2]


def help_blocks(path: Path) -> list[Block]:
    """The innermost paragraphs of a page of Mallard or DocBook; menus and keys have their separators."""
    try:
        root = ET.fromstring(_FOREIGN_ENTITY.sub("", read(path)))
    except ET.ParseError:
        return []
    for node in root.iter():
        for child in list(node)[:-1] if _local_name(node) in _BETWEEN else ():
            child.tail = _BETWEEN[_local_name(node)]
    return [
        block(_local_name(node), tidy("".join(node.itertext())))
        for node in root.iter()
        if _local_name(node) in _HELP_TAGS
        and not any(_local_name(inner) in _HELP_TAGS for inner in node.iter() if inner is not node)
    ]


def gnome_help(source: Path, target: Path) -> Iterator[Pair]:
    """Manuals of GNOME programs, a folder each; only those that state CC BY-SA and not the GFDL."""
    for manual in sorted(folder.name for folder in target.iterdir()):
        pages = (source / manual).glob("*")
        text = "".join(read(path) for path in pages if path.suffix in (".xml", ".page", ".docbook"))
        if "creativecommons.org/licenses/by-sa" in text and "GFDL" not in text:
            for ending in (".page", ".docbook"):
                yield from _aligned(common_files(source / manual, target / manual, ending), help_blocks)


_FREEBSD_DROPPED = re.compile(
    r"(?is)<!--.*?-->|<(programlisting|screen|literallayout|synopsis|funcsynopsis|userinput|indexterm|remark|pre|script"
    r"|style|authorgroup|copyright|legalnotice|revhistory|mediaobject|footnote)\b[^>]*>.*?</\1>"
    r"|<!\[CDATA\[.*?\]\]>|<!\[%.*?\[|\]\]>|<!DOCTYPE.*?(?:\[.*?\]\s*)?>|<!ENTITY[^>]*>"
)
_FREEBSD_SECTION = re.compile(
    r"(?i)<(?:chapter|sect\d|section|qandaentry|qandadiv|question|appendix|preface|part|article|book|sidebar|example"
    r'|figure|table)\b[^>]*?\b(?:xml:)?id="([^"]+)"'
)
_FREEBSD_TAGS = "para|simpara|title|term|entry|p|h[1-6]|li|dt|dd"
_FREEBSD_BLOCK = re.compile(
    rf"(?is)<({_FREEBSD_TAGS}|seg)\b[^>]*>((?:(?!<(?:{_FREEBSD_TAGS})\b).)*?)"
    r"(?=</\1>|<(?:para|simpara|title|term|itemizedlist|orderedlist|variablelist|p|li|ul|ol|dl|dt|dd)\b)"
)
_FREEBSD_MARK = re.compile(
    r"<(?:filename|command|literal|option|application|package|acronym|link linkend|varname)[^<]*"
)
_UNKNOWN = "~"
"""Stands for what has no plain form; the paragraph is left out."""

_FREEBSD_NAMES = {
    name.lower(): name
    for name in (
        "UNIX", "Linux", "Windows", "Xorg", "MS-DOS", "DTrace", "Intel", "PostScript", "Xen", "Oracle", "Mathematica",
        "VirtualBox", "macOS", "POSIX", "Microsoft", "MATLAB", "Solaris", "Java", "JDK", "IBM", "Apple", "Adobe",
        "i386", "AMD", "Sun", "OpenGL", "RealPlayer", "NetBSD", "OpenBSD", "SCSI", "Firefox", "Google", "MySQL",
        "PowerPC", "SPARC", "SPARC64", "Pentium", "Xeon", "Opteron", "Athlon", "Cisco", "NetApp", "VMware", "RPM",
        "Mozilla", "SoundBlaster", "Motif", "TeX", "LaTeX", "Ports", "NVIDIA",
    )
} | {
    "os": "FreeBSD", "microsoft.windows": "Microsoft Windows", "arch.i386": "i386", "arch.amd64": "amd64",
    "linux.centos": "CentOS", "os.current": "FreeBSD-CURRENT", "os.stable": "FreeBSD-STABLE", "mac.os": "Mac OS",
    "os.x": "OS X", "redhat": "Red Hat", "acrobat.reader": "Acrobat Reader", "whitehat": "", "prompt.root": "#",
    "prompt.user": "%", "hyphen": "-", "ndash": "–", "mdash": "—", "nbsp": " ", "a.posix": "POSIX",
}  # fmt: skip
"""What the entities of FreeBSD's documents stand for."""


def _freebsd_entity(match: re.Match[str]) -> str:
    if page := re.match(r"man\.([\w.+-]+)\.(\w+)", match[1]):
        return f"{page[1]}({page[2]})"
    text = _FREEBSD_NAMES.get(match[1], html.unescape(match[0]))
    return text if text != match[0] else _UNKNOWN


def freebsd_sections(path: Path) -> dict[str, list[Block]]:
    """The paragraphs of a DocBook file by the identifier of their section."""
    data = path.read_bytes()
    utf8 = re.search(rb'(?i)encoding="utf-8"', data[:200])
    try:
        text = data.decode("utf-8", "replace" if utf8 else "strict")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    text = _FREEBSD_DROPPED.sub(" ", text)
    starts = [(0, ""), *((match.start(), match[1].lower()) for match in _FREEBSD_SECTION.finditer(text))]
    result: dict[str, list[Block]] = {}
    for (begin, key), (end, _) in zip(starts, [*starts[1:], (len(text), "")], strict=True):
        for tag, content in _FREEBSD_BLOCK.findall(text[begin:end]):
            marks = frozenset(html.unescape(mark) for mark in _FREEBSD_MARK.findall(content))
            plain = _freebsd_text(content)
            if plain:
                result.setdefault(key, []).append(block(tag.lower(), plain, marks))
    return result


def _freebsd_text(content: str) -> str:
    content = re.sub(r"(?s)<quote>(.*?)</quote>", r'"\1"', content)
    content = re.sub(r"(?s)<(?:xref|link)\b[^>]*/>|<replaceable>.*?</replaceable>", f" {_UNKNOWN} ", content)
    content = re.sub(r"&#(\d+);", lambda match: html.unescape(match[0]), without_tags(content))
    return tidy(re.sub(r"&([\w.#-]+);", _freebsd_entity, content))


def freebsd_manual(source: Path, target: Path) -> Iterator[Pair]:
    """FreeBSD's DocBook, aligned within sections of the same identifier."""
    for first, second in common_files(source, target, ".xml"):
        original = freebsd_sections(first)
        for key, blocks in freebsd_sections(second).items():
            pairs = align(original.get(key, []), blocks)
            yield from (pair for pair in pairs if _UNKNOWN not in "".join(pair))
