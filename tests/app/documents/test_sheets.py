"""Workbooks (.xlsx), OpenDocument sheets and presentations."""

from __future__ import annotations

import datetime
import io
import re
import zipfile
from typing import Any

import odfdo
import openpyxl
import pytest
from openpyxl.cell.rich_text import CellRichText, TextBlock
from openpyxl.cell.text import InlineFont
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.worksheet.table import Table

from app.errors import DocumentRefused
from tests.app.documents.translated import read, texts_of, translated, unchanged


def saved(document: Any) -> bytes:
    target = io.BytesIO()
    document.save(target)
    return target.getvalue()


def workbook(*rows: list[Any]) -> openpyxl.Workbook:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return book


def cells_of(data: bytes) -> list[list[Any]]:
    sheet = openpyxl.load_workbook(io.BytesIO(data)).active
    return [[cell.value for cell in row] for row in sheet.iter_rows()]


def with_part(data: bytes, name: str, pattern: str, replacement: str) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(target, "w") as archive:
        for item in source.namelist():
            content = source.read(item)
            if item == name:
                changed, count = re.subn(pattern.encode(), replacement.encode(), content)
                assert count == 1
                content = changed
            archive.writestr(item, content)
    return target.getvalue()


def test_texts_of_cells_are_translated_and_formulas_numbers_dates_and_codes_stay() -> None:
    day = datetime.datetime(2021, 5, 12)
    data = saved(workbook(["a house", 1.5, day], ["AB-12", '=A1&" now"', "user_name"], ["one\ntwo", True, "a house"]))
    assert set(texts_of(".xlsx", data)) == {"a house", "one\ntwo"}
    assert cells_of(translated(".xlsx", data)) == [
        ["A HOUSE", 1.5, day],
        ["AB-12", '=A1&" now"', "user_name"],
        ["ONE\nTWO", True, "A HOUSE"],
    ]
    assert unchanged(".xlsx", data) == data


def test_formatting_within_a_cell_notes_and_titles_of_charts_are_kept() -> None:
    book = workbook([1, 2])
    sheet = book.active
    sheet["A2"] = CellRichText("The ", TextBlock(InlineFont(b=True), "red"), " house")
    sheet["A2"].comment = Comment("Please check", "Anna")
    chart = BarChart()
    chart.title = "Sales"
    chart.add_data(Reference(sheet, min_col=1, min_row=1, max_row=1))
    sheet.add_chart(chart, "D1")
    result = translated(".xlsx", saved(book))
    loaded = openpyxl.load_workbook(io.BytesIO(result), rich_text=True).active
    before, bold, after = loaded["A2"].value
    assert (before, bold.text, bold.font.b, after) == ("THE ", "RED", True, " HOUSE")
    assert loaded["A2"].comment.text == "PLEASE CHECK"
    with zipfile.ZipFile(io.BytesIO(result)) as archive:
        assert b"SALES" in archive.read("xl/charts/chart1.xml")


def table(*more: list[Any]) -> bytes:
    book = workbook(["Name", "name of the owner"], ["a", "b"], *more)
    book.active.add_table(Table(displayName="T", ref="A1:B2"))
    return saved(book)


def test_a_table_and_the_cells_that_name_its_columns_are_renamed_together() -> None:
    data = translated(".xlsx", table())
    assert cells_of(data)[0] == ["NAME", "NAME OF THE OWNER"]
    sheet = openpyxl.load_workbook(io.BytesIO(data)).active
    assert sheet.tables["T"].column_names == ["NAME", "NAME OF THE OWNER"]


def test_names_of_columns_stay_where_formulas_refer_to_them() -> None:
    data = translated(".xlsx", table(["total", "=SUM(T[Name])"]))
    assert cells_of(data)[0] == ["Name", "name of the owner"]
    assert cells_of(data)[2][0] == "TOTAL"


def test_two_columns_never_get_one_name() -> None:
    file = read(".xlsx", table())
    data = file.write(["Name" for _ in file.units], "de")
    first, second = openpyxl.load_workbook(io.BytesIO(data)).active.tables["T"].column_names
    assert first != second
    assert cells_of(data)[0] == [first, second]


def shared_strings() -> bytes:
    """A workbook as Excel writes it: its texts are in a part of their own, which cells refer to."""
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = 'xmlns="http://schemas.openxmlformats.org/package/2006/relationships"'
    parts = {
        "[Content_Types].xml": '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        + "".join(
            f'<Override PartName="/xl/{name}.xml" ContentType="application/vnd.openxmlformats-officedocument.'
            f'spreadsheetml.{kind}+xml"/>'
            for name, kind in (
                ("workbook", "sheet.main"),
                ("worksheets/sheet1", "worksheet"),
                ("sharedStrings", "sharedStrings"),
            )
        )
        + "</Types>",
        "_rels/.rels": f'<Relationships {package}><Relationship Id="a" Type="{office}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}"><sheets><sheet name="One" sheetId="1" r:id="b"/>'
        '</sheets><calcPr calcId="1"/></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships {package}><Relationship Id="b" Type="{office}/worksheet" '
        f'Target="worksheets/sheet1.xml"/><Relationship Id="c" Type="{office}/sharedStrings" '
        'Target="sharedStrings.xml"/></Relationships>',
        "xl/sharedStrings.xml": f"<sst {main}><si><t>a house</t></si><si><r><rPr><b/></rPr><t>bold</t></r><r><t "
        'xml:space="preserve"> words</t></r><rPh sb="0" eb="1"><t>x</t></rPh><phoneticPr fontId="1"/></si></sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet {main}><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c>'
        '<c r="B1" t="s"><v>0</v></c><c r="C1" t="str"><f>A1&amp;"!"</f><v>a house!</v></c><c r="D1" t="s"><v>1</v></c>'
        "</row></sheetData></worksheet>",
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return target.getvalue()


def test_cells_with_one_text_share_its_translation_and_results_that_are_texts_are_computed_again() -> None:
    data = shared_strings()
    assert texts_of(".xlsx", data) == ["a house", '<i id="0">bold</i> words']
    result = translated(".xlsx", data)
    assert cells_of(result) == [["A HOUSE", "A HOUSE", '=A1&"!"', "BOLD WORDS"]]
    with zipfile.ZipFile(io.BytesIO(result)) as archive:
        assert b'fullCalcOnLoad="1"' in archive.read("xl/workbook.xml")


def test_a_workbook_with_macros_is_refused() -> None:
    types = r"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main\+xml"
    data = with_part(
        saved(workbook(["a"])), "[Content_Types].xml", types, "application/vnd.ms-excel.sheet.macroEnabled.main+xml"
    )
    with pytest.raises(DocumentRefused, match="macros"):
        read(".xlsx", data)


def open_sheet() -> bytes:
    document = odfdo.Document("spreadsheet")
    sheet = document.body.tables[0]
    for place, value in (("A1", "a house"), ("B1", 12.5), ("C1", datetime.date(2021, 5, 12)), ("D1", "AB-12")):
        sheet.set_value(place, value)
    sheet.set_cell("E1", odfdo.Cell("a house now", formula='of:=[.A1]&" now"'))
    return saved(document)


def test_an_open_document_sheet() -> None:
    data = open_sheet()
    assert "a house now" not in texts_of(".ods", data)
    loaded = odfdo.Document(io.BytesIO(translated(".ods", data))).body.tables[0]
    assert [loaded.get_value(place) for place in ("A1", "B1", "D1", "E1")] == ["A HOUSE", 12.5, "AB-12", "a house now"]


def open_presentation() -> bytes:
    document = odfdo.Document("presentation")
    page = odfdo.DrawPage("p", "Page 1")
    page.append(odfdo.Frame.text_frame("The red house", size=("7cm", "5cm"), position=("1cm", "1cm")))
    document.body.append(page)
    return saved(document)


def test_an_open_document_presentation() -> None:
    result = odfdo.Document(io.BytesIO(translated(".odp", open_presentation())))
    assert "THE RED HOUSE" in result.body.serialize()


@pytest.mark.parametrize("suffix", [".odt", ".ods", ".odp"])
def test_a_document_of_another_kind_is_refused(suffix: str) -> None:
    kinds = {".odt": "spreadsheet", ".ods": "presentation", ".odp": "text"}
    with pytest.raises(DocumentRefused):
        read(suffix, saved(odfdo.Document(kinds[suffix])))
