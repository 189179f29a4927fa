"""Structures of office documents and books, as the content of one of their parts."""

from __future__ import annotations

from collections.abc import Callable

from tests.app.documents.structures.structures import Structures
from tests.app.documents.test_office_formats import PAGE_NUMBER, T, body_of, part, presentation, with_body, zipped
from tests.app.documents.test_office_structures import XHTML, book, open_text, parts_of
from tests.app.documents.test_pdf import pdf
from tests.app.documents.test_sheets import shared_strings


def _slides(body: str) -> bytes:
    parts = parts_of(presentation())
    parts["ppt/slides/slide1.xml"] = f'<p:sld xmlns:p="p" xmlns:a="{_DRAWING}">{body}</p:sld>'
    return zipped(parts)


def _sheet(body: str) -> bytes:
    parts = parts_of(shared_strings())
    parts["xl/worksheets/sheet1.xml"] = f'<worksheet xmlns="{_SHEET}"><sheetData>{body}</sheetData></worksheet>'
    return zipped(parts)


def _printed(text: str) -> bytes:
    return pdf([(10, 50, 700 - 12 * number, line) for number, line in enumerate(text.splitlines())])


def _open(kind: str) -> Callable[[str], bytes]:
    """Makes OpenDocument files of another kind."""

    def make(body: str) -> bytes:
        table = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
        parts = parts_of(open_text(f'<office:body xmlns:table="{table}">{body}</office:body>'))
        kinds = (b"opendocument.text", f"opendocument.{kind}".encode())
        return zipped({name: content.replace(*kinds) for name, content in parts.items() if isinstance(content, bytes)})

    return make


def _between(name: str, before: str, after: str) -> Callable[[bytes], str]:
    """What a part of an archive has between two strings."""
    return lambda data: part(data, name).partition(before)[2].rpartition(after)[0]


def _core(metadata: str) -> bytes:
    spaces = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:cp="c"'
    core = f"<cp:coreProperties {spaces}>{metadata}</cp:coreProperties>"
    return zipped({**parts_of(with_body(f"<w:p>{T('Yes')}</w:p>")), "docProps/core.xml": core})


def _meta(metadata: str) -> bytes:
    spaces = 'xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:meta="m" xmlns:office="o"'
    return zipped(
        {
            **parts_of(open_text("<text:p>Yes</text:p>")),
            "meta.xml": f"<office:document-meta {spaces}>{metadata}</office:document-meta>",
        }
    )


def _package(metadata: str) -> bytes:
    manifest = '<manifest><item href="a.xhtml" media-type="application/xhtml+xml"/></manifest>'
    spaces = 'xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    package = f"<package {spaces}><metadata>{metadata}</metadata>{manifest}</package>"
    return book(("a.xhtml", XHTML, _PAGE("<p>Yes</p>")), package=package)


_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_PAGE = '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml"><body>{}</body></html>'.format

ARCHIVES: dict[str, tuple[Callable[[str], bytes], Callable[[bytes], str]]] = {
    ".docx": (with_body, body_of),
    ".odt": (open_text, _between("content.xml", '"x">', "</office:document-content>")),
    ".pptx": (_slides, _between("ppt/slides/slide1.xml", 'main">', "</p:sld>")),
    ".xlsx": (_sheet, _between("xl/worksheets/sheet1.xml", "<sheetData>", "</sheetData>")),
    ".ods": (_open("spreadsheet"), _between("content.xml", 'table:1.0">', "</office:body>")),
    ".odp": (_open("presentation"), _between("content.xml", 'table:1.0">', "</office:body>")),
    ".pdf": (_printed, lambda data: data.decode().partition("<p>")[2].partition("</p>")[0]),
    "core.xml": (_core, _between("docProps/core.xml", 'cp="c">', "</cp:coreProperties>")),
    "meta.xml": (_meta, _between("meta.xml", 'office="o">', "</office:document-meta>")),
    "package": (_package, _between("OPS/b.opf", "<metadata>", "</metadata>")),
    ".epub": (lambda body: book(("a.xhtml", XHTML, _PAGE(body))), _between("OPS/a.xhtml", "<body>", "</body>")),
}
"""How an archive is made of an example, and what its translation has in the place of it, by the ending or the part."""

_SLIDE = "<a:p>{}</a:p>"
_CELL = "<table:table-row><table:table-cell><text:p>{}</text:p></table:table-cell></table:table-row>"


def _run(text: str) -> str:
    return f"<w:r><w:t>‹{text}›</w:t></w:r>"


def _paragraph(*content: str) -> str:
    return f"<w:p>{''.join(content)}</w:p>"


OFFICE = (
    Structures(
        "`.docx`, `.dotx`",
        ".docx",
        {
            "paragraphs": _paragraph(_run("Good morning")),
            "tables": f"<w:tbl><w:tr><w:tc>{_paragraph(_run('One'))}</w:tc></w:tr></w:tbl>",
            "text boxes": _paragraph(
                f"<w:r><w:pict><w:txbxContent>{_paragraph(_run('Box'))}</w:txbxContent></w:pict></w:r>"
            ),
            "texts of links": _paragraph('<w:hyperlink w:anchor="a">', _run("this page"), "</w:hyperlink>"),
            "inserted text": _paragraph('<w:ins w:id="2">', _run("Put in"), "</w:ins>"),
            "descriptions of pictures and tables": _paragraph(
                '<w:r><w:drawing><d:docPr xmlns:d="d" id="1" name="Picture 1" descr="‹A red house›"/></w:drawing></w:r>'
            )
            + '<w:tbl><w:tblPr><w:tblCaption w:val="‹All houses›"/></w:tblPr></w:tbl>',
            "tips of links": _paragraph(
                '<w:hyperlink w:anchor="a" w:tooltip="‹Go there›">', _run("this"), "</w:hyperlink>"
            ),
            "names of the language": _paragraph(
                '<w:r><w:rPr><w:lang w:val="⟦en-US⟧⟪de-DE⟫" w:bidi="ar-SA"/></w:rPr><w:t>‹Yes›</w:t></w:r>'
            ),
        },
        {
            "formatting": _paragraph(_run("Some "), "<w:r><w:rPr><w:b/></w:rPr><w:t>‹bold›</w:t></w:r>"),
            "tabs": _paragraph(_run("Name:"), "<w:r><w:tab/></w:r>", _run("Tom")),
            "fields": _paragraph(_run("Page "), PAGE_NUMBER, _run(" of ten")),
            "bookmarks": _paragraph('<w:bookmarkStart w:id="0" w:name="a"/>', _run("All"), '<w:bookmarkEnd w:id="0"/>'),
            "deleted text": '<w:p><w:del w:id="1"><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>',
            "images": '<w:p><w:r><w:drawing w:a="b"/></w:r></w:p>',
        },
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "`.odt`, `.ott`",
        ".odt",
        {
            "paragraphs and headings": '<text:h text:outline-level="1">‹Title›</text:h><text:p>‹Good morning›</text:p>',
            "lists": "<text:list><text:list-item><text:p>‹one›</text:p></text:list-item></text:list>",
            "labels of forms": '<form:button form:label="‹Send it›" form:name="a b"/>',
            "descriptions of frames": (
                "<draw:frame><svg:title>‹A map›</svg:title><svg:desc>‹Of it›</svg:desc></draw:frame>"
            ),
            "tips of links": '<text:p><text:a xlink:href="x" office:title="‹Go there›">‹this›</text:a></text:p>',
            "names of the language": (
                '<style:text-properties fo:language="⟦en⟧⟪de⟫" fo:country="⟦US⟧⟪DE⟫"/><text:p>‹Yes›</text:p>'
            ),
        },
        {
            "formatting": '<text:p>‹some ›<text:span text:style-name="B">‹bold›</text:span>‹ text›</text:p>',
            "links": '<text:p>‹see ›<text:a xlink:href="x">‹this›</text:a></text:p>',
            "tabs": "<text:p>‹First›<text:tab/>‹second›</text:p>",
            "bookmarks": (
                '<text:p>‹The ›<text:bookmark-start text:name="a"/>‹sea›<text:bookmark-end text:name="a"/></text:p>'
            ),
            "fields": "<text:p>‹Page ›<text:page-number>7</text:page-number>‹ of it›</text:p>",
        },
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "`.pptx`, `.potx`, `.ppsx`",
        ".pptx",
        {
            "paragraphs of slides": _SLIDE.format("<a:r><a:t>‹Good morning›</a:t></a:r>"),
            "tables": (
                "<a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>‹One›</a:t></a:r></a:p></a:txBody></a:tc></a:tr></a:tbl>"
            ),
            "descriptions of pictures": '<p:pic><p:cNvPr id="2" name="Picture 1" descr="‹A red house›"/></p:pic>',
            "names of the language": _SLIDE.format('<a:r><a:rPr lang="⟦en-US⟧⟪de-DE⟫"/><a:t>‹Yes›</a:t></a:r>'),
        },
        {
            "formatting": _SLIDE.format('<a:r><a:t>‹Some ›</a:t></a:r><a:r><a:rPr b="1"/><a:t>‹bold›</a:t></a:r>'),
            "fields": _SLIDE.format(
                '<a:r><a:t>‹Page ›</a:t></a:r><a:fld id="{1}" type="slidenum"><a:t>7</a:t></a:fld>'
            ),
            "line breaks": _SLIDE.format("<a:r><a:t>‹One›</a:t></a:r><a:br/><a:r><a:t>‹Two›</a:t></a:r>"),
        },
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "`.xlsx`, `.xltx`",
        ".xlsx",
        {
            "texts of cells": (
                '<row r="1"><c r="A1" t="inlineStr"><is><t⟪ xml:space="preserve"⟫>‹a house›</t></is></c></row>'
            )
        },
        {
            "numbers, dates": '<row r="1"><c r="A1"><v>42</v></c></row>',
            "codes": '<row r="1"><c r="A1" t="inlineStr"><is><t>AB-12</t></is></c></row>',
            "formulas": '<row r="1"><c r="A1"><f>SUM(B1:B2)</f><v>2</v></c></row>',
        },
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "`.ods`",
        ".ods",
        {"texts of cells": _CELL.format("‹a house›")},
        {"codes": _CELL.format("AB-12")},
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "`.odp`",
        ".odp",
        {"texts of slides": "<draw:page><draw:frame><text:p>‹The house›</text:p></draw:frame></draw:page>"},
        {"names of slides": '<draw:page draw:name="Page one"/>'},
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "metadata of `.docx`, `.pptx`, `.xlsx` and their templates",
        ".docx",
        {
            "title, subject, description, keywords": (
                "<dc:title>‹My house›</dc:title><dc:subject>‹Houses›</dc:subject>"
                "<dc:description>‹It is red.›</dc:description><cp:keywords>‹red, old›</cp:keywords>"
            ),
            "the language": "<dc:language>⟦en-GB⟧⟪de-DE⟫</dc:language>",
        },
        {
            "names of people, dates, categories": (
                "<dc:creator>Tom King</dc:creator><cp:lastModifiedBy>Ann King</cp:lastModifiedBy>"
                "<cp:category>Report</cp:category><dc:identifier>a b</dc:identifier>"
            ),
        },
        has_marked_text=True,
        part="core.xml",
    ),
    Structures(
        "metadata of `.odt`, `.odp`, `.ods`, `.ott`",
        ".odt",
        {
            "title, subject, description, keywords": (
                "<dc:title>‹My house›</dc:title><dc:subject>‹Houses›</dc:subject>"
                "<dc:description>‹It is red.›</dc:description><meta:keyword>‹red›</meta:keyword>"
            ),
            "the language": "<dc:language>⟦en-GB⟧⟪de-DE⟫</dc:language>",
        },
        {
            "names of people, dates, own fields": (
                '<dc:creator>Tom King</dc:creator><meta:user-defined meta:name="state">all done</meta:user-defined>'
            ),
        },
        has_marked_text=True,
        part="meta.xml",
    ),
    Structures(
        "`.pdf`, as a web page",
        ".pdf",
        {"paragraphs over lines": "‹The first text has a sentence that runs over its›⟦\n⟧⟪ ⟫‹lines. It ends here.›"},
        refused={"damaged files": "%PDF-1.4\nno more"},
        has_marked_text=True,
    ),
    Structures(
        "`.epub`",
        ".epub",
        {"the pages that the manifest names, as HTML": "<p>‹Call me ›<em>‹Ishmael›</em>‹.›</p>"},
        {"tags": '<p><a id="n1"></a>‹Yes›<br/>‹No›</p><hr/>', "code": "<pre>kept as it is</pre>"},
        {"damaged archives": "PK\x03\x04"},
        has_marked_text=True,
    ),
    Structures(
        "metadata of `.epub`",
        ".epub",
        {
            "titles, subjects, descriptions": (
                '<dc:title id="t">‹My house›</dc:title><dc:subject>‹Houses›</dc:subject>'
                "<dc:description>&lt;p&gt;‹It is› &lt;b&gt;‹red›&lt;/b&gt;.&lt;/p&gt;</dc:description>"
            ),
            "the language": '<dc:language>⟦en⟧⟪de⟫</dc:language><dc:title xml:lang="⟦en⟧⟪de⟫">‹My house›</dc:title>',
        },
        {
            "names of people and publishers, dates, identifiers": (
                "<dc:creator>Tom King</dc:creator><dc:publisher>Old House</dc:publisher><dc:date>May 2020</dc:date>"
                "<dc:identifier>urn:a b</dc:identifier>"
            ),
            "titles in other languages": '<dc:language>de</dc:language><dc:title xml:lang="fr">Ma maison</dc:title>',
            "codes of subjects": '<dc:subject opf:authority="BISAC">Old</dc:subject><dc:subject>FIC001</dc:subject>',
        },
        has_marked_text=True,
        part="package",
    ),
)
