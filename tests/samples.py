"""``python -m tests.samples FOLDER``: translates every file of a folder, and checks what comes back.

Each file is translated from English into German and the other way round. The result is compared with its source by
``verso check``, and its shape with that of the source as another library reads both. A table is printed at the end.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import json
import plistlib
import re
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docx
import odfdo
import polib
import pptx
import yaml
from lxml import etree
from lxml import html as lxml_html
from markdown_it import MarkdownIt
from tabulate import tabulate

from app.documents.formats.codes import has_words
from app.documents.formats.document_file import Unit
from app.documents.formats.encodings import decoded
from app.documents.formats.table import FORMATS, DocumentFormat, format_of
from app.documents.skeleton import differences
from app.errors import DocumentRefused, DocumentTooComplex, UnsupportedDocument
from tests.app.documents.translated import in_capitals

PAIRS = (("en", "de"), ("de", "en"))
MAX_BYTES = 600_000

Translate = Callable[[Sequence[Unit], str, str], list[str]]
"""Translates units from a language into another."""


def _of_word(data: bytes) -> Any:
    document = docx.Document(io.BytesIO(data))
    return len(document.paragraphs), [[len(row.cells) for row in table.rows] for table in document.tables]


def _of_slides(data: bytes) -> Any:
    return [[shape.shape_type for shape in slide.shapes] for slide in pptx.Presentation(io.BytesIO(data)).slides]


def _of_open_document(data: bytes) -> Any:
    body = odfdo.Document(io.BytesIO(data)).body
    return len(body.paragraphs), len(body.headers), [table.size for table in body.tables]


def _of_book(data: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pages = [name for name in archive.namelist() if name.endswith((".xhtml", ".html", ".ncx", ".opf"))]
        return archive.namelist(), {name: _of_html(archive.read(name)) for name in pages}


def _of_gettext(data: bytes) -> Any:
    entries = polib.pofile(re.sub(rb"charset=CHARSET", b"charset=UTF-8", data).decode("utf-8-sig"))
    return [(entry.msgctxt, entry.msgid, entry.msgid_plural, entry.occurrences, entry.obsolete) for entry in entries]


def _of_xml(data: bytes) -> Any:
    root = etree.fromstring(data, etree.XMLParser(resolve_entities=False))
    for target in [*root.iter("{*}target", "{*}translation")]:
        etree.strip_elements(target, "*", with_tail=False)
    return Counter(str(element.tag) for element in root.iter() if not str(element.tag).endswith("target"))


def _of_html(data: bytes) -> Any:
    text = lxml_html.document_fromstring(data) if data.strip() else None
    return Counter(str(element.tag) for element in text.iter()) if text is not None else None


def _of_json(data: bytes) -> Any:
    return _shape(json.loads(data.decode("utf-8-sig")))


def _of_yaml(data: bytes) -> Any:
    documents = list(yaml.load_all(data, yaml.BaseLoader))
    if len(documents) == 1 and isinstance(documents[0], dict) and len(documents[0]) == 1:
        documents = list(documents[0].values())  # below the name of a language
    return _shape(documents)


def _of_table(data: bytes) -> Any:
    text = data.decode("utf-8-sig")
    separator = max(",;\t|", key=text.count)
    return [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator)]


def _of_plist(data: bytes) -> Any:
    return _shape(plistlib.loads(data))


def _of_subtitles(data: bytes) -> Any:
    return re.findall(rb"^[^\n]*-->[^\n]*", data, re.MULTILINE)


def _of_markdown(data: bytes) -> Any:
    tokens = MarkdownIt("commonmark").enable("table").parse(re.sub(r"\A---\n.*?\n---\n", "", data.decode(), flags=re.S))
    targets = Counter(
        target
        for token in tokens
        for child in token.children or ()
        for target in (child.attrGet("href"), child.attrGet("src"))
        if target
    )
    return [(token.type, token.tag) for token in tokens], targets.keys()


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape(member) for key, member in value.items() if key not in ("@@locale", "localizations")}
    return [_shape(member) for member in value] if isinstance(value, list) else type(value).__name__


_READERS: dict[str, Callable[[bytes], Any]] = {
    "WordDocument": _of_word,
    "Presentation": _of_slides,
    "OpenDocumentText": _of_open_document,
    "Book": _of_book,
    "GettextCatalogue": _of_gettext,
    "Xliff": _of_xml,
    "QtCatalogue": _of_xml,
    "AndroidStrings": _of_xml,
    "Resources": _of_xml,
    "StringsDict": _of_plist,
    "WebPage": _of_html,
    "JsonStrings": _of_json,
    "StringCatalog": _of_json,
    "YamlStrings": _of_yaml,
    "CsvCells": _of_table,
    "TsvCells": _of_table,
    "SubRip": _of_subtitles,
    "WebVtt": _of_subtitles,
    "Markdown": _of_markdown,
}
"""The shape of a file as another library reads it, by the class that reads it in the service."""


_END_OF_PARAGRAPH = re.compile(
    rb"</(?:\w+:)?(?:p|h|si|t[cdhr]|li|div|h\d|title|text|navLabel)>|<(?:\w+:)?(?:br|tab|cr|s)\b[^<>]*>"
)
_WORD = re.compile(r"[^\W\d_]{3,}")


def _words_of(data: bytes) -> Counter[str]:
    """The words of a file, without regard to capitals, as no reader of a format knows them."""
    if data.startswith(b"PK"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            pages = [archive.read(name) for name in archive.namelist() if name.endswith((".xml", ".xhtml", ".html"))]
        data = re.sub(rb"<[^<>]*>", b"", _END_OF_PARAGRAPH.sub(b" ", b" ".join(pages)))
    text, _ = decoded(data)
    text = re.sub(r"\\u([0-9A-Fa-f]{4})", lambda code: chr(int(code[1], 16)), text)
    text = re.sub(r"\\[nrtN]|\\\n|-\n\s*", " ", html.unescape(text)).replace("*", "")
    return Counter(_WORD.findall(text.upper().casefold()))


@dataclass
class Tally:
    """What was done with the files of a format.

    Args:
        num_files: How many there were.
        num_checked: How many results were compared.
        num_read: How many of them another library read.
        refused: The files that cannot be read, and why.
        differences: The results that are not right, and how.
        seconds: The time that it took.
    """

    num_files: int = 0
    num_checked: int = 0
    num_read: int = 0
    refused: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)
    seconds: float = 0.0


def check_file(name: str, data: bytes, translate: Translate, tally: Tally, keeps_words: bool = False) -> None:
    """Translate a file both ways, and note the result.

    Args:
        name: Its name.
        data: Its bytes.
        translate: Translates units.
        tally: Takes the result.
        keeps_words: Whether translations have the words of their sources in capitals, of which none may be lost.
    """
    tally.num_files += 1
    start = time.perf_counter()
    try:
        format = format_of(name, data)
        reader = _READERS.get(format.name)
        shape = _read(reader, data)
        for source, target in PAIRS:
            file = format.read(data)
            if file.target_language and file.target_language[:2].lower() != target:
                continue  # a catalogue with translations into another language, which the service refuses
            result = file.write(_translations(file.units, translate(file.units, source, target), format), target)
            tally.num_checked += 1
            lines = [str(difference) for difference in differences(name, data, result, target)]
            if keeps_words and not format.is_bilingual and (lost := _words_of(data) - _words_of(result)):
                lines.append(f"lost: {' '.join(lost)}")
            if reader is not None and not isinstance(shape, Exception):
                tally.num_read += 1
                read = _read(reader, result)
                if read != shape:
                    error = f" ({read})" if isinstance(read, Exception) else ""
                    lines.append(f"{reader.__name__.removeprefix('_of_')} reads another shape{error}")
            tally.differences += [f"{name} {source}-{target}: {line}" for line in lines]
    except (DocumentRefused, DocumentTooComplex, UnsupportedDocument) as error:
        tally.refused.append(f"{name}: {error}")
    tally.seconds += time.perf_counter() - start


def _translations(units: Sequence[Unit], texts: Sequence[str], format: DocumentFormat) -> list[str | None]:
    """What is written of some translations: in a catalogue with sources none that equals its source."""
    return [
        None if format.is_bilingual and text == unit.text and has_words(unit.words) else text
        for unit, text in zip(units, texts, strict=True)
    ]


def _read(reader: Callable[[bytes], Any] | None, data: bytes) -> Any:
    """The shape of a file, or why it cannot be read."""
    try:
        return None if reader is None else reader(data)
    except Exception as error:  # noqa: BLE001  (of any library)
        return error


def check_folder(folder: Path, translate: Translate, keeps_words: bool = False) -> dict[str, Tally]:
    """Translate the files of a folder whose endings are those of formats, and check them.

    Args:
        folder: The folder.
        translate: Translates units.
        keeps_words: Whether translations have the words of their sources.
    """
    tallies: dict[str, Tally] = {}
    for path in sorted(folder.rglob("*")):
        suffix = path.suffix.lower()
        if suffix in FORMATS and path.is_file() and path.stat().st_size <= MAX_BYTES:
            tally = tallies.setdefault(suffix, Tally())
            check_file(str(path.relative_to(folder)), path.read_bytes(), translate, tally, keeps_words)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return tallies


def report(tallies: dict[str, Tally]) -> str:
    """The refusals, the differences, and a table of all formats."""
    rows = [
        (suffix, one.num_files, one.num_checked, one.num_read, len(one.differences), len(one.refused), one.seconds)
        for suffix, one in tallies.items()
    ]
    rows.append(("all", *(sum(row[column] for row in rows) for column in range(1, 7))))  # type: ignore[arg-type, misc]
    headers = ["format", "files", "checked", "read elsewhere", "differences", "refused", "seconds"]
    lines: Iterable[str] = [f"refused: {line}" for one in tallies.values() for line in one.refused]
    lines = [*lines, *(line for one in tallies.values() for line in one.differences)]
    return "\n".join([*lines, "", tabulate(rows, headers, floatfmt=".1f")])


def shipped_translator() -> Translate:
    """Translates with the model that is shipped."""
    from model import TranslationOptions, Translator
    from model.artifacts.pretrained import build_pretrained

    translator = Translator.load(build_pretrained("cpu"))

    def translate(units: Sequence[Unit], source: str, target: str) -> list[str]:
        options = [TranslationOptions(decoding="greedy", format=unit.format) for unit in units]
        return [
            translation.text
            for translation in translator.translate([unit.text for unit in units], options, source, target)
        ]

    return translate


def _in_capitals(units: Sequence[Unit], source: str, target: str) -> list[str]:
    return [in_capitals(unit) for unit in units]


def main() -> int:
    """Check the files of a folder; 1 if there are differences."""
    parser = argparse.ArgumentParser(prog="python -m tests.samples", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder with documents")
    parser.add_argument("--stand-in", action="store_true", help="write capitals instead of translating, for speed")
    arguments = parser.parse_args()
    translate = _in_capitals if arguments.stand_in else shipped_translator()
    tallies = check_folder(arguments.folder, translate, keeps_words=arguments.stand_in)
    print(report(tallies))
    return 1 if any(one.differences for one in tallies.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
