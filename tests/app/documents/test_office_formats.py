"""Office documents and books, made and opened with the libraries of others."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import docx
import odfdo
import pptx
import pytest
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from lxml import etree
from pptx.util import Inches

from tests.app.documents.translated import read, texts_of, translated, unchanged

WORD_SPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def saved(document: Any) -> bytes:
    written = io.BytesIO()
    document.save(written)
    return written.getvalue()


def part(data: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


def names(data: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.namelist()


def zipped(parts: dict[str, str | bytes]) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            is_first = name == "mimetype"
            archive.writestr(name, content, zipfile.ZIP_STORED if is_first else zipfile.ZIP_DEFLATED)
    return written.getvalue()


def word_element(name: str, text: str = "", **attributes: str) -> Any:
    element = OxmlElement(f"w:{name}")
    for attribute, value in attributes.items():
        element.set(qn(f"w:{attribute}"), value)
    if text:
        run_text = OxmlElement("w:t")
        run_text.text = text
        element.append(run_text)
    return element


def word_document() -> bytes:
    document = docx.Document()
    document.add_heading("A heading", 1)
    paragraph = document.add_paragraph("Hello ")
    paragraph.add_run("big").bold = True
    paragraph.add_run(" wor")
    paragraph.add_run("ld.")
    document.add_paragraph("Name:\tTom\nNext line")
    link = word_element("hyperlink", anchor="x")
    link.append(word_element("r", "this link"))
    paragraph = document.add_paragraph("See ")
    paragraph._p.append(link)
    paragraph.add_run(" now.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Cell one", "12"
    document.sections[0].header.paragraphs[0].text = "Head line"
    document.add_paragraph("An item", style="List Bullet")
    return saved(document)


def test_word() -> None:
    document = docx.Document(io.BytesIO(translated(".docx", word_document())))
    assert [(paragraph.style.name if paragraph.style else "", paragraph.text) for paragraph in document.paragraphs] == [
        ("Heading 1", "A HEADING"),
        ("Normal", "HELLO BIG WORLD."),
        ("Normal", "NAME:\tTOM\nNEXT LINE"),
        ("Normal", "SEE THIS LINK NOW."),
        ("List Bullet", "AN ITEM"),
    ]
    assert [(run.text, run.bold) for run in document.paragraphs[1].runs] == [
        ("HELLO ", None),
        ("BIG", True),
        (" WORLD.", None),
    ]
    assert [link.text for link in document.paragraphs[3].hyperlinks] == ["THIS LINK"]
    assert [cell.text for row in document.tables[0].rows for cell in row.cells] == ["CELL ONE", "12"]
    assert document.sections[0].header.paragraphs[0].text == "HEAD LINE"


def test_parts_of_a_word_document_without_translations_keep_their_bytes() -> None:
    data = word_document()
    result = translated(".docx", data)
    assert names(result) == names(data)
    changed = [name for name in names(data) if part_bytes(result, name) != part_bytes(data, name)]
    others = "word/styles.xml", "docProps/core.xml"  # the language of the text; the title
    assert [name for name in changed if name not in ("word/document.xml", "word/header1.xml", *others)] == []


def part_bytes(data: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name)


@cache
def empty_word_document() -> bytes:
    document = docx.Document()
    document.core_properties.title = document.core_properties.comments = ""
    return saved(document)


def with_body(body: str) -> bytes:
    """A Word document with some paragraphs, written by hand."""
    with zipfile.ZipFile(io.BytesIO(empty_word_document())) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    parts["word/document.xml"] = (
        f'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n<w:document xmlns:w="{WORD_SPACE}"><w:body>{body}'
        "<w:sectPr/></w:body></w:document>"
    )
    return zipped(parts)


def body_of(data: bytes) -> str:
    document = part(data, "word/document.xml").replace(' xml:space="preserve"', "")
    return document.partition("<w:body>")[2].partition("<w:sectPr/>")[0]


T = "<w:r><w:t>{}</w:t></w:r>".format
SIGN = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
PAGE_NUMBER = f"{SIGN('begin')}<w:r><w:instrText> PAGE </w:instrText></w:r>{SIGN('separate')}{T('7')}{SIGN('end')}"
NOTE = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:footnoteReference w:id="2"/></w:r>'
DELETED = '<w:del w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del>'
CONTROL = '<w:sdt><w:sdtPr><w:id w:val="1"/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>'.format


@pytest.mark.parametrize(
    ("body", "units", "expected"),
    [
        (  # runs that differ only in what nobody sees are one
            '<w:p><w:r w:rsidR="1"><w:t>One </w:t></w:r><w:proofErr w:type="spellStart"/><w:r w:rsidR="2"><w:rPr>'
            '<w:lang w:val="en"/></w:rPr><w:t>sentence.</w:t></w:r></w:p>',
            ["One sentence."],
            f"<w:p>{T('ONE SENTENCE.')}</w:p>",
        ),
        (  # a space with a formatting of its own is a space
            f"<w:p>{T('Two')}<w:r><w:rPr><w:b/></w:rPr><w:t> </w:t></w:r>{T('words')}</w:p>",
            ["Two words"],
            f"<w:p>{T('TWO WORDS')}</w:p>",
        ),
        (  # bookmarks around and within
            '<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="a"/>'
            f'{T("All")}<w:bookmarkEnd w:id="0"/></w:p>',
            ["All"],
            '<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:bookmarkStart w:id="0" w:name="a"/>'
            f'{T("ALL")}<w:bookmarkEnd w:id="0"/></w:p>',
        ),
        (  # the number of a page
            f"<w:p>{T('Page ')}{PAGE_NUMBER}{T(' of ten')}</w:p>",
            ['Page <code id="0">7</code> of ten'],
            f"<w:p>{T('PAGE ')}{PAGE_NUMBER}{T(' OF TEN')}</w:p>",
        ),
        (  # a footnote's sign, in a run of its own
            f"<w:p>{T('Words')}{NOTE}{T(' more.')}</w:p>",
            ['Words<img id="0"> more.'],
            f"<w:p>{T('WORDS')}{NOTE}{T(' MORE.')}</w:p>",
        ),
        (  # text that was deleted with tracked changes stays, inserted text is text
            f'<w:p>{DELETED}<w:ins w:id="2">{T("Put in")}</w:ins></w:p>',
            ["Put in"],
            f'<w:p>{DELETED}<w:ins w:id="2">{T("PUT IN")}</w:ins></w:p>',
        ),
        (  # a content control
            f"<w:p>{T('Dear ')}{CONTROL(T('friend'))}</w:p>",
            ['Dear <i id="0">friend</i>'],
            f"<w:p>{T('DEAR ')}{CONTROL(T('FRIEND'))}</w:p>",
        ),
        (  # a table of contents
            f'<w:p><w:hyperlink w:anchor="a">{T("Intro")}<w:r><w:tab/></w:r>{T("5")}</w:hyperlink></w:p>',
            ["Intro"],
            f'<w:p><w:hyperlink w:anchor="a">{T("INTRO")}<w:r><w:tab/></w:r>{T("5")}</w:hyperlink></w:p>',
        ),
        (  # a text box is a paragraph of its own
            f"<w:p>{T('Outer')}<w:r><w:pict><w:txbxContent><w:p>{T('Inner')}</w:p></w:txbxContent></w:pict></w:r>"
            f"{T(' text')}</w:p>",
            ['Outer<img id="0"> text', "Inner"],
            f"<w:p>{T('OUTER')}<w:r><w:pict><w:txbxContent><w:p>{T('INNER')}</w:p></w:txbxContent></w:pict></w:r>"
            f"{T(' TEXT')}</w:p>",
        ),
        (  # nothing to translate
            f"<w:p>{T('12 %')}</w:p><w:p/>",
            [],
            f"<w:p>{T('12 %')}</w:p><w:p/>",
        ),
    ],
)
def test_paragraphs_of_word(body: str, units: list[str], expected: str) -> None:
    data = with_body(body)
    assert texts_of(".docx", data) == units
    actual = body_of(translated(".docx", data)).replace(' w:rsidR="1"', "")
    assert actual == expected


@cache
def presentation() -> bytes:
    product = pptx.Presentation()
    product.core_properties.title = product.core_properties.comments = ""
    slide = product.slides.add_slide(product.slide_layouts[1])
    slide.shapes.title.text = "The title"
    frame = slide.placeholders[1].text_frame
    frame.text = "First\vline"
    paragraph = frame.add_paragraph()
    for text, is_bold in (("Some ", None), ("bold", True), (" text", None)):
        run = paragraph.add_run()
        run.text, run.font.bold = text, is_bold
    table = slide.shapes.add_table(1, 2, Inches(1), Inches(1), Inches(2), Inches(1)).table
    table.cell(0, 0).text, table.cell(0, 1).text = "A cell", "42"
    slide.notes_slide.notes_text_frame.text = "A note"
    return saved(product)


def test_powerpoint() -> None:
    result = pptx.Presentation(io.BytesIO(translated(".pptx", presentation())))
    slide = result.slides[0]
    texts = [shape.text_frame.text for shape in slide.shapes if shape.has_text_frame]
    assert texts == ["THE TITLE", "FIRST\vLINE\nSOME BOLD TEXT"]
    runs = slide.placeholders[1].text_frame.paragraphs[1].runs
    assert [(run.text, run.font.bold) for run in runs] == [("SOME ", None), ("BOLD", True), (" TEXT", None)]
    (table,) = (shape.table for shape in slide.shapes if shape.has_table)
    assert [cell.text for cell in table.iter_cells()] == ["A CELL", "42"]
    assert slide.notes_slide.notes_text_frame.text == "A NOTE"


@cache
def open_document() -> bytes:
    document = odfdo.Document("text")
    document.body.clear()
    document.body.append(odfdo.Header(1, "My heading"))
    paragraph = odfdo.Paragraph("Hello big world")
    paragraph.set_span("T1", regex="big")
    document.body.append(paragraph)
    document.body.append(odfdo.Paragraph("First line\nnext  words"))
    table = odfdo.Table("t", width=2, height=1)
    table.set_value("A1", "A cell")
    document.body.append(table)
    noted = odfdo.Paragraph("Words here.")
    noted.insert_note(after="Words", note_id="1", citation="1", body="A footnote")
    document.body.append(noted)
    return saved(document)


def test_open_document() -> None:
    document = odfdo.Document(io.BytesIO(translated(".odt", open_document())))
    paragraphs = [item.serialize() for item in document.body.get_paragraphs()]
    assert [header.text for header in document.body.headers] == ["MY HEADING"]
    assert any('HELLO <text:span text:style-name="T1">BIG</text:span> WORLD' in paragraph for paragraph in paragraphs)
    assert any("FIRST LINE<text:line-break/>NEXT <text:s/>WORDS" in item for item in paragraphs)
    assert any("A CELL" in item for item in paragraphs)
    assert any("WORDS<text:note" in item and "A FOOTNOTE" in item for item in paragraphs)


PAGE = """\
<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" lang="en"><head><title/><script src="a.js"/></head>
<body><p>Call me <em>Ishmael</em>.<a id="n1"/> Some years&#160;ago.</p><hr/><p>Tom &amp; I</p></body></html>
"""

CONTENTS = """\
<?xml version="1.0"?>
<!DOCTYPE ncx PUBLIC "-//NISO//DTD ncx 2005-1//EN" "http://www.daisy.org/z3986/2005/ncx-2005-1.dtd">
<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><docTitle><text>A &amp; B</text></docTitle></ncx>
"""


def book() -> bytes:
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": "<container/>",
            "OEBPS/one.xhtml": PAGE,
            "OEBPS/toc.ncx": CONTENTS,
            "OEBPS/style.css": "p { color: red }",
        }
    )


def test_book() -> None:
    result = translated(".epub", book())
    page = part(result, "OEBPS/one.xhtml")
    assert "<p>CALL ME <em>ISHMAEL</em>." in page
    assert "SOME YEARS&#160;AGO.</p><hr/><p>TOM &amp; I</p>" in page
    assert '<a id="n1"></a>' in page
    etree.fromstring(page.encode())
    assert "<text>A &amp; B</text>" in part(result, "OEBPS/toc.ncx")
    with zipfile.ZipFile(io.BytesIO(result)) as archive:
        assert archive.namelist() == names(book())
        assert archive.infolist()[0].compress_type == zipfile.ZIP_STORED


FILES: dict[str, Callable[[], bytes]] = {
    ".docx": word_document,
    ".pptx": presentation,
    ".odt": open_document,
    ".epub": book,
}


@pytest.mark.parametrize("suffix", FILES)
def test_a_document_translated_into_itself_is_the_same_bytes(suffix: str) -> None:
    data = FILES[suffix]()
    assert unchanged(suffix, data) == data
    file = read(suffix, data)
    assert file.write([None] * len(file.units), "de") == data


@pytest.mark.parametrize("suffix", FILES)
def test_a_translated_document_has_the_same_number_of_units(suffix: str) -> None:
    data = FILES[suffix]()
    assert len(texts_of(suffix, translated(suffix, data))) == len(texts_of(suffix, data)) > 2
