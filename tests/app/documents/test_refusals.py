"""Broken and dangerous files: each is refused with a reason, and none makes the service fail."""

from __future__ import annotations

import contextlib
import io
import zipfile
import zlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.documents.formats import archives, document_file
from app.documents.formats.table import FORMATS
from app.errors import DocumentRefused, problem_for
from tests.app.documents.structures.files import FILES as TEXT_FILES
from tests.app.documents.test_office_formats import FILES as OFFICE_FILES
from tests.app.documents.test_office_formats import WORD_SPACE, book, open_document, word_document, zipped
from tests.app.documents.test_pdf import PAGES, pdf
from tests.app.documents.test_sheets import open_presentation, open_sheet, shared_strings
from tests.app.documents.translated import read

READERS = tuple({(row.module, row.name): suffix for suffix, row in reversed(FORMATS.items())}.values())
"""The first suffix of each class that reads files."""

FILES: dict[str, bytes] = {
    **{suffix: text.encode() for suffix, text in TEXT_FILES.items()},
    **{suffix: make() for suffix, make in OFFICE_FILES.items()},
    ".pdf": pdf(*PAGES),
    ".xlsx": shared_strings(),
    ".ods": open_sheet(),
    ".odp": open_presentation(),
}


def with_parts(data: bytes, **changed: str | bytes) -> bytes:
    """An archive with parts replaced or added; two underscores in a name are a slash, one is a full stop."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    return zipped(
        parts
        | {
            name if name[0] == "[" else name.replace("__", "/").replace("_", "."): content
            for name, content in changed.items()
        }
    )


def encrypted(data: bytes) -> bytes:
    """An archive whose first entry says that it is encrypted, in both of its headers."""
    result = bytearray(data)
    result[6] |= 1
    directory = result.index(b"PK\x01\x02")
    result[directory + 8] |= 1
    return bytes(result)


def bomb() -> bytes:
    return with_parts(word_document(), word__media__image1_bmp=b"\0" * 50_000_000)


def content_type(kind: str) -> str:
    """The list of the types of an archive's parts."""
    return f'<Types><Override PartName="/a" ContentType="application/vnd.{kind}"/></Types>'


BODY = f'<w:document xmlns:w="{WORD_SPACE}"><w:body><w:p><w:r><w:t>&x;</w:t></w:r></w:p></w:body></w:document>'
ENTITIES = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
LAUGHS = '<!DOCTYPE a [<!ENTITY y "ha"><!ENTITY x "&y;&y;&y;&y;&y;&y;&y;&y;&y;">]>'

REFUSED: dict[str, tuple[str, bytes | Callable[[], bytes], str]] = {
    "no zip": (".docx", b"text", "damaged"),
    "cut off": (".docx", lambda: word_document()[:-100], "damaged"),
    "damaged part": (".docx", lambda: word_document()[:60] + b"x" * 200 + word_document()[260:], "damaged"),
    "another kind of zip": (".docx", lambda: zipped({"a.txt": "a"}), "Content_Types"),
    "odt named docx": (".docx", open_document, "Content_Types"),
    "docx named odt": (".odt", word_document, "mimetype"),
    "docx named epub": (".epub", word_document, "mimetype"),
    "docx named txt": (".txt", word_document, "no text"),
    "old Word": (".docx", b"\xd0\xcf\x11\xe0" + b"\0" * 100, "damaged"),
    "pdf named txt": (".txt", b"%PDF-1.7", "no text"),
    "bomb": (".docx", bomb, "when it is unpacked"),
    "macros": (".docx", lambda: with_parts(word_document(), word__vbaProject_bin="x"), "macros"),
    "macros by type": (
        ".docx",
        lambda: with_parts(word_document(), **{"[Content_Types].xml": content_type("ms-word.document.macroEnabled")}),
        "macros",
    ),
    "macros by type in capitals": (
        ".docx",
        lambda: with_parts(word_document(), **{"[Content_Types].xml": content_type("MS-WORD.MACROENABLED")}),
        "macros",
    ),
    "macros by type in references": (
        ".docx",
        lambda: with_parts(word_document(), **{"[Content_Types].xml": content_type("ms-word.macro&#69;nabled")}),
        "macros",
    ),
    "macros by the type of a part of another name": (
        ".docx",
        lambda: with_parts(word_document(), **{"[Content_Types].xml": content_type("ms-office.vbaProject")}),
        "macros",
    ),
    "macros by a relation": (
        ".docx",
        lambda: with_parts(word_document(), word___rels__a_rels='<a><b Type="x/relationships/vbaProject"/></a>'),
        "macros",
    ),
    "macros by what a part holds": (
        ".docx",
        lambda: with_parts(word_document(), word__a_bin=b"\xd0\xcf" + "_VBA_PROJECT".encode("utf-16-le")),
        "macros",
    ),
    "macros of LibreOffice by what a part holds": (
        ".odt",
        lambda: with_parts(open_document(), a_xml='<m xmlns="http://openoffice.org/2000/script"/>'),
        "macros",
    ),
    "scripts in a text": (
        ".odt",
        lambda: with_parts(
            open_document(), content_xml='<a xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0"><o:script/></a>'
        ),
        "macros",
    ),
    "macros of LibreOffice": (".odt", lambda: with_parts(open_document(), Basic__script_xml="x"), "macros"),
    "encrypted": (".docx", lambda: encrypted(word_document()), "encrypted"),
    "names that lead out": (".docx", lambda: with_parts(word_document(), **{"x__..__..__a": "x"}), "leads out"),
    "external entities": (
        ".docx",
        lambda: with_parts(word_document(), word__document_xml=ENTITIES + BODY),
        "type decl",
    ),
    "a billion laughs": (".odt", lambda: with_parts(open_document(), content_xml=LAUGHS + BODY), "type decl"),
    "broken XML": (".docx", lambda: with_parts(word_document(), word__document_xml="<a>"), "well-formed"),
    "deep XML": (".docx", lambda: with_parts(word_document(), word__document_xml="<a>" * 5_000), "well-formed"),
    "xliff with entities": (".xliff", (ENTITIES + "<xliff version='1.2'/>").encode(), "document type"),
    "other XML": (".xliff", b"<html/>", "XLIFF"),
    "xliff 3": (".xliff", b"<xliff version='3.0'/>", "XLIFF"),
    "a property list with entities": (".stringsdict", (ENTITIES + "<plist/>").encode(), "document type"),
    "XML of another kind": (".xml", b"<html/>", "Android"),
    "TypeScript": (".ts", b"const a: string = 1;", "XML"),
    "code in PHP": (".php", b"<?php return ['a' => system('ls')];", "other code"),
    "PHP that computes": (".php", b"<?php return ['a' => 'b' . $c];", "other code"),
    "a table that is none": (".strings", b'"a" = "b"; c d', "no entry"),
    "YAML that does not end": (".yml", b"a: [b", "YAML"),
    "deep YAML": (".yaml", b"[" * 300 + b"]" * 300, "levels"),
    "JSON of another kind": (".xcstrings", b"{}", "strings"),
    "no JSON": (".json", b"{'a': 1}", "no JSON"),
    "deep JSON": (".json", b"[" * 100_000, "JSON"),
    "deep JSON that is closed": (".json", b"[" * 300 + b"]" * 300, "levels"),
    "no catalogue": (".po", b"hello there\nmy friend\n", "catalogue"),
    "a catalogue of one line": (".po", b"/etc/passwd", "catalogue"),
    "no subtitles": (".srt", b"Some text.\n", "subtitles"),
    "no WebVTT": (".vtt", TEXT_FILES[".srt"].encode(), "WEBVTT"),
    "damaged UTF-8": (
        ".txt",
        "größer als möglich, über größere Höhen".encode() + b"\xff",
        "at byte 45; save it as UTF-8",
    ),
    "an unknown encoding": (".txt", b"\x81\x01", "save it as UTF-8"),
    "binary": (".csv", b"a,\0,b\n", "NUL"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_file_is_refused_with_its_reason(name: str) -> None:
    suffix, data, reason = REFUSED[name]
    with pytest.raises(DocumentRefused, match=reason) as refused:
        read(suffix, data if isinstance(data, bytes) else data())
    assert problem_for(refused.value).status == 422
    assert len(str(refused.value)) < 400


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bomb()
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("it is unpacked"))
    with pytest.raises(DocumentRefused):
        read(".docx", data)


def test_a_part_is_not_unpacked_beyond_its_declared_size() -> None:
    data = bytearray(with_parts(word_document(), word__big_bin=b"\0" * 5_000_000))
    size = (5_000_000).to_bytes(4, "little")
    while (position := data.find(size)) >= 0:
        data[position : position + 4] = (10).to_bytes(4, "little")
    with pytest.raises(DocumentRefused, match="damaged"):
        read(".docx", bytes(data))


def test_the_number_of_parts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_ENTRIES", 5)
    with pytest.raises(DocumentRefused, match="at most 5"):
        read(".docx", word_document())


def test_the_number_of_units_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_file, "MAX_UNITS", 3)
    assert len(read(".csv", "a,b,c").units) == 3
    with pytest.raises(DocumentRefused, match="more than 3"):
        read(".csv", "a,b,c,d")


def test_the_number_of_units_of_a_whole_book_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    num_units = len(read(".epub", book()).units)
    two_parts = with_parts(book(), OEBPS__two_xhtml="<p>One more</p>")
    monkeypatch.setattr(document_file, "MAX_UNITS", num_units)
    with pytest.raises(DocumentRefused, match=f"more than {num_units}"):
        read(".epub", two_parts)


def test_two_parts_of_one_name_are_refused() -> None:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("a", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a", "2")
    with pytest.raises(DocumentRefused, match="same name"):
        read(".docx", written.getvalue())


def test_a_book_may_have_document_types_because_nothing_reads_them() -> None:
    assert read(".epub", book()).units


@pytest.mark.parametrize("suffix", READERS)
@given(data=st.data())
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_damaged_file_is_refused_or_read(suffix: str, data: st.DataObject) -> None:
    content = bytearray(FILES.get(suffix, FILES[".html"]))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content)))
        end = data.draw(st.integers(start, min(len(content), start + 50)))
        content[start:end] = data.draw(st.binary(max_size=20))
    try:
        file = read(suffix, bytes(content))
    except DocumentRefused:
        return
    assert isinstance(
        file.write([f"x {unit.text}" if unit.format == "text" else None for unit in file.units], "de"), bytes
    )


@pytest.mark.parametrize("suffix", [suffix for suffix in READERS if suffix in TEXT_FILES])
@given(content=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode(errors="replace")))
@settings(max_examples=20)
def test_any_bytes_are_refused_or_read(suffix: str, content: bytes) -> None:
    try:
        file = read(suffix, content)
    except DocumentRefused:
        return
    file.write([unit.text for unit in file.units], "de")


@pytest.mark.parametrize("suffix", [".docx", ".odt"])
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
@settings(max_examples=20, deadline=None)
def test_any_translation_can_be_written_into_xml(suffix: str, text: str) -> None:
    file = read(suffix, FILES[suffix])
    written = file.write([text if unit.format == "text" else None for unit in file.units], "de")
    read(suffix, written)


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        (".md", b"[" * 50_000),
        (".md", b"*a " * 30_000),
        (".md", b"`" * 50_000),
        (".md", b"![" * 30_000),
        (".md", b"[a](" * 20_000),
        (".html", b"<b>" * 15_000 + b"x"),
        (".srt", (b"1\n00:00:01,000 --> 00:00:02,000\n" + b"<i>" * 20_000 + b"\n")),
        (".srt", b"00:00:01,000 --> 00:00:02,000\n" * 20_000),
        (".json", b'"' + b"\\\\" * 100_000 + b'"'),
        (".csv", b'"' * 100_001),
        (".csv", b"a,b\n" * 10_000),
        (".txt", b" \n" * 200_000),
        (".po", b'msgid "a"\nmsgstr ""\n\n' * 5_000),
    ],
)
def test_large_and_odd_files_take_no_long_time(suffix: str, content: bytes) -> None:
    """Each takes a second at most; what takes quadratic time would take minutes."""
    with contextlib.suppress(DocumentRefused):
        read(suffix, content)


def test_errors_of_decompression_are_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bytes:
        raise zlib.error("Error -3 while decompressing data")

    data = word_document()
    monkeypatch.setattr(zipfile.ZipFile, "read", broken)
    with pytest.raises(DocumentRefused, match="damaged"):
        read(".docx", data)
