"""Structures of Word, OpenDocument and books: fields, ranges, tabs, numbering, relationships and manifests."""

from __future__ import annotations

import io
import re
import zipfile

import docx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from tests.app.documents.test_office_formats import (
    CONTENTS,
    PAGE,
    SIGN,
    WORD_SPACE,
    T,
    body_of,
    open_document,
    part,
    presentation,
    with_body,
    zipped,
)
from tests.app.documents.translated import read, texts_of, translated, unchanged

RELATIONSHIP = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def parts_of(data: bytes) -> dict[str, str | bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def instruction(name: str) -> str:
    return f"{SIGN('begin')}<w:r><w:instrText> {name} </w:instrText></w:r>{SIGN('separate')}"


RANGE = '<w:{}Start w:id="{}"/>'.format, '<w:{}End w:id="{}"/>'.format
NUMBER = '<w:fldSimple w:instr=" SEQ Figure "><w:r><w:t>1</w:t></w:r></w:fldSimple>'
DROP_CAP = '<w:pPr><w:framePr w:dropCap="drop"/></w:pPr>'
BOLD = "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>".format
LINKED = '<w:fldSimple w:instr=" HYPERLINK x "><w:r><w:t>{}</w:t></w:r></w:fldSimple>'.format


@pytest.mark.parametrize(
    ("body", "units"),
    [
        # the number of a caption is a word of it
        (f"<w:p>{T('Figure ')}{NUMBER}{T(': The map')}</w:p>", ['Figure <code id="0">1</code>: The map']),
        # links as fields stay around their words
        (f"<w:p>{T('See ')}{LINKED('this page')}{T(' now')}</w:p>", ['See <i id="0">this page</i> now']),
        (
            f"<w:p>{T('See ')}{instruction('HYPERLINK x')}{T('this page')}{SIGN('end')}{T(' now')}</w:p>",
            ['See <i id="0">this page</i> now'],
        ),
        (  # a table of contents, a field over paragraphs, with a field in each
            f"<w:p>{instruction('TOC')}{T('Intro')}<w:r><w:tab/></w:r>{instruction('PAGEREF a')}{T('5')}{SIGN('end')}"
            f"</w:p><w:p>{T('The end')}</w:p><w:p>{SIGN('end')}</w:p>",
            ["Intro", "The end"],
        ),
        (  # a field that begins within a sentence and ends in another paragraph
            f"<w:p>{T('One ')}{instruction('IF a')}{T('two')}</w:p><w:p>{T('Three')}{SIGN('end')}</w:p>",
            ['One <img id="0">two', "Three"],
        ),
        (  # ranges of two kinds and one number, one in the other
            f"<w:p>{T('The ')}{RANGE[0]('bookmark', 1)}{T('big ')}{RANGE[0]('commentRange', 1)}{T('blue')}"
            f"{RANGE[1]('commentRange', 1)}{RANGE[1]('bookmark', 1)}{T(' sea')}</w:p>",
            ['The <i id="0">big <i id="1">blue</i></i> sea'],
        ),
        # a link around a space is a link
        (f"<w:p>{T('One')}<w:hyperlink>{T(' ')}</w:hyperlink>{T('two')}</w:p>", ['One<img id="0">two']),
        (  # columns made with tabs and with spaces
            f"<w:p>{T('Name:')}<w:r><w:ptab/></w:r>{T('My address')}{T('      ')}{T('his address')}</w:p>",
            ["Name:", "My address", "his address"],
        ),
        # drop caps, with and without a paragraph
        (f"<w:p>{DROP_CAP}{T('O')}</w:p><w:p>{T('nce upon a time.')}</w:p>", ["Once upon a time."]),
        (f"<w:p>{DROP_CAP}{T('On')}</w:p>", ["On"]),
    ],
)
def test_paragraphs_of_word(body: str, units: list[str]) -> None:
    data = with_body(body)
    assert texts_of(".docx", data) == units
    assert body_of(translated(".docx", data)) == re.sub("(?<=<w:t>)[^<]*", lambda text: text[0].upper(), body)


@pytest.mark.parametrize(
    ("initial", "rest", "translation", "expected"),
    [
        ("O", "nce upon a time.", "Es war einmal.", ("E", "s war einmal.")),
        ("“O", "nce upon a time.”", "„Es war einmal.“", ("„E", "s war einmal.“")),
        ("The", " king is old.", "Der König ist alt.", ("Der", " König ist alt.")),
        ("A", " king.", "Ein König.", ("E", "in König.")),
    ],
)
def test_the_first_letter_of_a_translation_is_its_drop_cap(
    initial: str, rest: str, translation: str, expected: tuple[str, str]
) -> None:
    data = with_body(f"<w:p>{DROP_CAP}{T(initial)}</w:p><w:p>{T(rest)}</w:p>")
    document = docx.Document(io.BytesIO(read(".docx", data).write([translation], "de")))
    assert tuple(paragraph.text for paragraph in document.paragraphs) == expected


def numbered(*levels: str) -> bytes:
    parts = parts_of(with_body(""))
    parts["word/numbering.xml"] = f'<w:numbering xmlns:w="{WORD_SPACE}">{"".join(levels)}</w:numbering>'
    return zipped(parts)


def test_words_in_the_numbering_of_word_are_translated() -> None:
    level = '<w:lvl><w:numFmt w:val="{}"/><w:lvlText w:val="{}"/></w:lvl>'.format
    kept = [level("decimal", "%1."), level("bullet", "on"), level("lowerLetter", "(%1)"), level("decimal", "§%1")]
    data = numbered(level("decimal", "Chapter %1."), level("decimal", "Part %1.%2"), *kept)
    assert texts_of(".docx", data) == ["Chapter 1.", "Part 1.2"]
    numbering = part(translated(".docx", data), "word/numbering.xml")
    assert 'w:val="CHAPTER %1."' in numbering and 'w:val="PART %1.%2"' in numbering
    assert all(level in numbering for level in kept)
    without_number = part(read(".docx", data).write(["Kapitel.", "2. Teil 1.2"], "de"), "word/numbering.xml")
    assert 'w:val="Chapter %1."' in without_number and 'w:val="2. Teil %1.%2"' in without_number


def related(kind: str, target: str) -> str:
    return f'<Relationship Id="x{kind}" Type="{RELATIONSHIP}/{kind}" Target="{target}"/></Relationships>'


@pytest.mark.parametrize(
    ("kind", "target"),
    [
        ("diagramData", "diagrams/data1.xml"),
        ("diagramDrawing", "/word/Diagrams/a%20b.xml"),
        ("diagramData", "../x/../other/d"),
        ("diagramData", "diagrams\\data1.xml"),
    ],
)
def test_diagrams_of_word_are_translated_wherever_they_are(kind: str, target: str) -> None:
    names = {"diagrams/data1.xml": "word/diagrams/data1.xml", "diagrams\\data1.xml": "word/diagrams/data1.xml"}
    name = names.get(target, "other/d" if "other" in target else "word/diagrams/a b.xml")
    parts = parts_of(with_body(f"<w:p>{T('Text')}</w:p>"))
    relationships = bytes(parts["word/_rels/document.xml.rels"]).decode()  # type: ignore[arg-type]
    parts["word/_rels/document.xml.rels"] = relationships.replace("</Relationships>", related(kind, target))
    parts[name] = f'<d xmlns:a="{DRAWING}"><a:p><a:r><a:t>The first step</a:t></a:r></a:p></d>'
    parts["word/diagrams/data9.xml"] = parts[name]
    result = translated(".docx", zipped(parts))
    assert "<a:t>THE FIRST STEP</a:t>" in part(result, name)
    assert part(result, "word/diagrams/data9.xml") == parts["word/diagrams/data9.xml"]  # nothing shows it


@pytest.mark.parametrize("main", ["word/document2.xml", "text/main.xml"])
def test_the_main_part_of_word_is_the_one_of_its_relationship(main: str) -> None:
    parts = parts_of(with_body(f"<w:p>{T('Some text')}</w:p>"))
    del parts["word/_rels/document.xml.rels"]
    parts[main] = parts.pop("word/document.xml")
    for name in ("[Content_Types].xml", "_rels/.rels"):
        parts[name] = str(parts[name], "utf-8").replace("word/document.xml", main)  # type: ignore[arg-type]
    assert docx.Document(io.BytesIO(translated(".docx", zipped(parts)))).paragraphs[0].text == "SOME TEXT"


def test_slides_are_found_by_relationships() -> None:
    parts = {name.replace("slide1.xml", "first.xml"): content for name, content in parts_of(presentation()).items()}
    for name, content in parts.items():
        if name.endswith(".rels") or name == "[Content_Types].xml":
            parts[name] = bytes(content).replace(b"slides/slide1.xml", b"slides/first.xml")  # type: ignore[arg-type]
    assert texts_of(".pptx", zipped(parts)) == texts_of(".pptx", presentation())


def open_text(body: str, styles: str = "<o/>") -> bytes:
    """An OpenDocument text with some paragraphs and styles."""
    parts = parts_of(open_document())
    spaces = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "text", "style", "form", "draw")
    )
    spaces += ' xmlns:fo="urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0"'
    spaces += ' xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0" xmlns:xlink="x"'
    parts["content.xml"] = f"<office:document-content {spaces}>{body}</office:document-content>"
    parts["styles.xml"] = styles.replace("<o", f"<o {spaces}", 1)
    return zipped(parts)


LOEXT = "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0"
LINK = '<text:a xlink:href="x">{}</text:a>'.format
BOOKMARK = '<text:bookmark-start text:name="a"/>{}<text:bookmark-end text:name="a"/>'.format


@pytest.mark.parametrize(
    ("content", "units", "expected"),
    [
        (
            "First<text:tab/>second word<text:tab/>42",
            ["First", "second word"],
            "FIRST<text:tab/>SECOND WORD<text:tab/>42",
        ),
        (
            "<text:span>One<text:tab/>two <text:span>big</text:span> men</text:span>",
            ["One", 'two <i id="0">big</i> men'],
            "<text:span>ONE<text:tab/>TWO <text:span>BIG</text:span> MEN</text:span>",
        ),
        (
            f"Visit<text:s/>{LINK('our shop')}<text:s/>for more.",
            ['Visit <i id="0">our shop</i> for more.'],
            f"VISIT {LINK('OUR SHOP')} FOR MORE.",
        ),
        ('Name:<text:s text:c="10"/>My text', ["Name:", "My text"], 'NAME:<text:s text:c="10"/>MY TEXT'),
        ("<text:s/>Indented.", [" Indented."], "<text:s/>INDENTED."),
        ("One. <text:s/>Two.", ["One.  Two."], "ONE. <text:s/>TWO."),
        ("\n  Some\n  text", ["Some text"], "SOME TEXT"),
        (f"The {BOOKMARK('big')} sea", ['The <i id="0">big</i> sea'], f"THE {BOOKMARK('BIG')} SEA"),
        (f"One{LINK(' ')}two", ['One<img id="0">two'], f"ONE{LINK(' ')}TWO"),
    ],
)
def test_paragraphs_of_open_document(content: str, units: list[str], expected: str) -> None:
    data = open_text(f"<text:p>{content}</text:p>")
    assert texts_of(".odt", data) == units
    assert f"<text:p>{expected}</text:p>" in part(translated(".odt", data), "content.xml")
    assert unchanged(".odt", data) == data


def test_labels_of_forms_and_descriptions_of_frames_are_translated() -> None:
    body = (
        '<form:button form:label="Send it" form:name="a b"/><draw:frame><svg:title>A map</svg:title>'
        "<svg:desc>Of the town</svg:desc></draw:frame><text:index-title-template>Contents</text:index-title-template>"
    )
    content = part(translated(".odt", open_text(body)), "content.xml")
    for text in ('form:label="SEND IT"', 'form:name="a b"', ">A MAP<", ">OF THE TOWN<", ">CONTENTS<"):
        assert text in content


def test_words_in_the_numbering_of_open_document_are_translated_the_same_in_both_places() -> None:
    style = (
        '<o><text:outline-level-style style:num-prefix="{}" style:num-suffix="{}" l:num-list-format="{}"/></o>'.format
    )
    styles = style("Chapter ", ".", "Chapter %1%.").replace("<o>", f'<o xmlns:l="{LOEXT}">')
    data = open_text("", styles)
    assert set(texts_of(".odt", data)) == {"Chapter 1."}
    written = read(".odt", data).write(["1. Kapitel"] * 2, "de")
    style_element = etree.fromstring(part(written, "styles.xml").encode())[0]
    assert style_element.attrib.values() == ["", ". Kapitel", "%1%. Kapitel"]
    assert texts_of(".odt", open_text("", style("(", ")", "(%1%)").replace("<o>", f'<o xmlns:l="{LOEXT}">'))) == []


PACKAGE = '<package xmlns="http://www.idpf.org/2007/opf"><manifest>{}</manifest></package>'.format
ITEM = '<item href="{}" media-type="{}"/>'.format
CONTAINER = (
    '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles><rootfile full-path="OPS/b.opf"/>'
    "</rootfiles></container>"
)


def book(*items: tuple[str, str, str | bytes], package: str = "") -> bytes:
    manifest = PACKAGE("".join(ITEM(href, media_type) for href, media_type, _ in items))
    names = {"mimetype": "application/epub+zip", "META-INF/container.xml": CONTAINER, "OPS/b.opf": package or manifest}
    return zipped({**names, **{f"OPS/{href.replace('%20', ' ')}": content for href, _, content in items}})


XHTML = "application/xhtml+xml"


@pytest.mark.parametrize("href", ["a.xml", "a.xht", "a%20b", "pages/a.xhtml"])
def test_pages_of_a_book_are_those_of_its_manifest(href: str) -> None:
    result = translated(".epub", book((href, XHTML, PAGE), ("b.xhtml", "text/plain", PAGE)))
    assert "CALL ME <em>ISHMAEL</em>" in part(result, f"OPS/{href.replace('%20', ' ')}")
    assert part(result, "OPS/b.xhtml") == PAGE


@pytest.mark.parametrize("package", ["<broken", '<!DOCTYPE a [<!ENTITY b "c">]><a/>', "<package/>"])
def test_pages_of_a_book_without_a_manifest_have_the_endings_of_pages(package: str) -> None:
    result = translated(".epub", book(("b.xhtml", XHTML, PAGE), ("c.xml", XHTML, PAGE), package=package))
    assert "CALL ME" in part(result, "OPS/b.xhtml")
    assert part(result, "OPS/c.xml") == PAGE


def test_pages_of_a_book_have_their_own_encoding() -> None:
    page = PAGE.replace("utf-8", "ISO-8859-1").replace("Ishmael", "Andr\u00e9").encode("latin-1")
    written = translated(".epub", book(("a.xhtml", XHTML, page)))
    with zipfile.ZipFile(io.BytesIO(written)) as archive:
        assert "CALL ME <em>ANDR\u00c9</em>" in archive.read("OPS/a.xhtml").decode("latin-1")


def test_entries_of_a_table_of_contents_may_have_prefixes_and_attributes() -> None:
    contents = CONTENTS.replace("docTitle", "n:docTitle").replace("<text>", '<n:text xml:lang="en">')
    contents = contents.replace("</text>", "</n:text>").replace("A &amp; B", "The first &amp; last chapter")
    result = translated(".epub", book(("t.ncx", "application/x-dtbncx+xml", contents)))
    assert '<n:text xml:lang="de">THE FIRST &amp; LAST CHAPTER</n:text>' in part(result, "OPS/t.ncx")


@pytest.mark.parametrize(
    ("suffix", "like"), [(".dotx", ".docx"), (".ott", ".odt"), (".potx", ".pptx"), (".ppsx", ".pptx")]
)
def test_templates_are_read_like_documents(suffix: str, like: str) -> None:
    data = {
        ".docx": with_body(f"<w:p>{T('One')}</w:p>"),
        ".odt": open_text("<text:p>One</text:p>"),
        ".pptx": presentation(),
    }
    assert texts_of(suffix, data[like]) == texts_of(like, data[like]) != []


RUNS = st.sampled_from([T(" one "), T(" two "), BOLD(" three "), BOLD(" four "), "<w:r><w:tab/></w:r>", NUMBER])
STARTS_AND_ENDS = st.sampled_from(
    [RANGE[end](kind, number) for end in (0, 1) for kind in ("bookmark", "commentRange") for number in (1, 2)]
    + [instruction("HYPERLINK x"), instruction("PAGE"), SIGN("end"), SIGN("begin")]
)
LINKS = st.lists(RUNS, max_size=3).map(lambda runs: f'<w:hyperlink w:anchor="a">{"".join(runs)}</w:hyperlink>')


@settings(max_examples=60, deadline=None)
@given(st.lists(RUNS | STARTS_AND_ENDS | LINKS, max_size=10))
def test_everything_in_a_paragraph_of_word_is_there_once_and_in_its_order(content: list[str]) -> None:
    def skeleton(data: bytes) -> list[tuple[str, str]]:
        elements = etree.fromstring(part(data, "word/document.xml").encode()).iter(f"{{{WORD_SPACE}}}*")
        kinds = ((element.tag.rpartition("}")[2], "".join(map(str, element.attrib.values()))) for element in elements)
        return [kind for kind in kinds if kind[0] not in ("r", "rPr", "b", "t")]

    data = with_body(f"<w:p>{''.join(content)}</w:p>")
    result = translated(".docx", data)
    assert skeleton(result) == skeleton(data)
    texts = [
        "".join(map(str, etree.fromstring(part(file, "word/document.xml").encode()).itertext()))
        for file in (data, result)
    ]
    assert "".join(texts[1].split()).upper() == "".join(texts[0].split()).upper()


TEXTS = st.sampled_from(
    [" one ", " two ", "three ", "<text:s/>", '<text:s text:c="4"/>', "<text:tab/>", "<text:line-break/>"]
)
ENDS = st.sampled_from(
    [
        f'<text:{kind}-{end} text:name="{name}"/>'
        for kind in ("bookmark", "reference-mark")
        for end in ("start", "end")
        for name in "ab"
    ]
)
GROUPS = st.builds(
    "<text:{0}>{1}</text:{0}>".format, st.sampled_from(["span", "a"]), st.lists(TEXTS, max_size=3).map("".join)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS | ENDS | GROUPS, max_size=10))
def test_everything_in_a_paragraph_of_open_document_is_there_once_and_in_its_order(content: list[str]) -> None:
    def skeleton(data: bytes) -> list[tuple[str, list[str]]]:
        elements = etree.fromstring(part(data, "content.xml").encode())[0].iterdescendants("{*}*")
        kinds = [(element.tag.rpartition("}")[2], list(map(str, element.attrib.values()))) for element in elements]
        kept = [kind for kind in kinds if kind not in (("s", []), ("span", []))]
        # A line break at the edge of a link may stand outside of it.
        breaks = [kind for kind in kept if kind[0] == "line-break"]
        return breaks + [kind for kind in kept if kind[0] != "line-break"]

    data = open_text(f"<text:p>{''.join(content)}</text:p>")
    result = translated(".odt", data)
    assert skeleton(result) == skeleton(data)
    texts = [
        "".join(map(str, etree.fromstring(part(file, "content.xml").encode()).itertext())) for file in (data, result)
    ]
    assert texts[1].upper().split() == texts[0].upper().split()
