"""The formats of documents by the ending of the file's name, or by the content where the ending does not tell."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from app.documents.formats.document_file import DocumentFile
from app.errors import DocumentRefused, UnsupportedDocument


@dataclass(frozen=True)
class DocumentFormat:
    """A format.

    Args:
        suffix: The ending of the file's name, with the full stop.
        media_type: What it is called on the wire.
        module: The module in this folder that reads it.
        name: The class that does.
        is_bilingual: Whether its files have sources and translations, which differ.
        result_suffix: The ending of translated files, if they are of another format.
    """

    suffix: str
    media_type: str
    module: str
    name: str
    is_bilingual: bool = False
    result_suffix: str = ""

    @property
    def result_media_type(self) -> str:
        """What translated files are called on the wire."""
        return FORMATS[self.result_suffix].media_type if self.result_suffix else self.media_type

    def load(self) -> Callable[[bytes], DocumentFile]:
        """Import what reads its files."""
        read: Callable[[bytes], DocumentFile] = getattr(import_module(f"{__package__}.{self.module}"), self.name)
        return read

    def read(self, data: bytes) -> DocumentFile:
        """Read a file.

        Args:
            data: Its bytes.

        Raises:
            DocumentRefused: It is broken, dangerous, or of another kind than its name says.
        """
        try:
            return self.load()(data)
        except RecursionError:
            raise DocumentRefused("The document is nested too deeply.") from None


_OFFICE = "application/vnd.openxmlformats-officedocument"

FORMATS = {
    row.suffix: row
    for row in (
        DocumentFormat(".txt", "text/plain", "plain_text", "PlainText"),
        *(
            DocumentFormat(suffix, "text/markdown", "markdown", "Markdown")
            for suffix in (".md", ".markdown", ".mdx", ".mkd", ".qmd")
        ),
        DocumentFormat(".rst", "text/x-rst", "restructured_text", "RestructuredText"),
        *(DocumentFormat(suffix, "text/html", "web_page", "WebPage") for suffix in (".html", ".htm", ".xhtml")),
        DocumentFormat(".srt", "application/x-subrip", "subtitles", "SubRip"),
        DocumentFormat(".vtt", "text/vtt", "subtitles", "WebVtt"),
        DocumentFormat(".po", "text/x-gettext-translation", "catalogues.gettext", "GettextCatalogue", True),
        DocumentFormat(".pot", "text/x-gettext-translation-template", "catalogues.gettext", "GettextCatalogue", True),
        DocumentFormat(".xliff", "application/xliff+xml", "catalogues.xliff", "Xliff", True),
        DocumentFormat(".xlf", "application/xliff+xml", "catalogues.xliff", "Xliff", True),
        DocumentFormat(".ts", "application/x-linguist", "catalogues.qt", "QtCatalogue", True),
        DocumentFormat(
            ".xcstrings", "application/x-xcstrings+json", "catalogues.string_catalog", "StringCatalog", True
        ),
        DocumentFormat(".json", "application/json", "catalogues.json_strings", "JsonStrings"),
        DocumentFormat(".arb", "application/json", "catalogues.json_strings", "JsonStrings"),
        DocumentFormat(".xml", "application/xml", "catalogues.xml_strings", "AndroidStrings"),
        DocumentFormat(".resx", "application/x-resx+xml", "catalogues.xml_strings", "Resources"),
        DocumentFormat(".resw", "application/x-resx+xml", "catalogues.xml_strings", "Resources"),
        DocumentFormat(".stringsdict", "application/x-plist", "catalogues.xml_strings", "StringsDict"),
        DocumentFormat(".strings", "text/x-strings", "catalogues.key_values", "AppleStrings"),
        DocumentFormat(".properties", "text/x-java-properties", "catalogues.key_values", "Properties"),
        DocumentFormat(".php", "application/x-php", "catalogues.php_arrays", "PhpArray"),
        DocumentFormat(".yml", "application/yaml", "catalogues.yaml_strings", "YamlStrings"),
        DocumentFormat(".yaml", "application/yaml", "catalogues.yaml_strings", "YamlStrings"),
        DocumentFormat(".csv", "text/csv", "csv_cells", "CsvCells"),
        DocumentFormat(".tsv", "text/tab-separated-values", "csv_cells", "TsvCells"),
        DocumentFormat(".docx", f"{_OFFICE}.wordprocessingml.document", "word", "WordDocument"),
        DocumentFormat(".dotx", f"{_OFFICE}.wordprocessingml.template", "word", "WordDocument"),
        DocumentFormat(".odt", "application/vnd.oasis.opendocument.text", "open_document", "OpenDocumentText"),
        DocumentFormat(".ott", "application/vnd.oasis.opendocument.text-template", "open_document", "OpenDocumentText"),
        DocumentFormat(
            ".odp", "application/vnd.oasis.opendocument.presentation", "open_document", "OpenDocumentPresentation"
        ),
        DocumentFormat(".ods", "application/vnd.oasis.opendocument.spreadsheet", "open_document", "OpenDocumentSheet"),
        DocumentFormat(".pptx", f"{_OFFICE}.presentationml.presentation", "slides", "Presentation"),
        DocumentFormat(".potx", f"{_OFFICE}.presentationml.template", "slides", "Presentation"),
        DocumentFormat(".ppsx", f"{_OFFICE}.presentationml.slideshow", "slides", "Presentation"),
        DocumentFormat(".xlsx", f"{_OFFICE}.spreadsheetml.sheet", "workbook", "Workbook"),
        DocumentFormat(".xltx", f"{_OFFICE}.spreadsheetml.template", "workbook", "Workbook"),
        DocumentFormat(".pdf", "application/pdf", "pdf", "PdfText", result_suffix=".html"),
        DocumentFormat(".epub", "application/epub+zip", "book", "Book"),
    )
}
"""The formats by suffix."""

MEDIA_TYPES = tuple(dict.fromkeys(row.media_type for row in FORMATS.values()))
"""What files are called on the wire."""


_HEAD_BYTES = 4_096
_XML = r"\A\s*+(?:<\?[^>]*+>\s*+|<!--(?:(?!-->).)*+-->\s*+|<!doctype[^>]*+>\s*+)*+"
_CONTENTS = {
    suffix: re.compile(pattern, re.DOTALL | re.IGNORECASE | re.MULTILINE)
    for suffix, pattern in {
        ".odt": r"\APK\x03\x04.{26,60}application/vnd\.oasis\.opendocument\.text",
        ".odp": r"\APK\x03\x04.{26,60}application/vnd\.oasis\.opendocument\.presentation",
        ".ods": r"\APK\x03\x04.{26,60}application/vnd\.oasis\.opendocument\.spreadsheet",
        ".epub": r"\APK\x03\x04.{26,60}application/epub\+zip",
        ".pdf": r"\A%PDF-",
        ".vtt": r"\AWEBVTT\b",
        ".srt": r"\A\s*+\d{1,9}[^\S\n]*+\n\s*+\d{1,3}:\d\d:\d\d[,.]\d{1,3}\s++-->",
        ".xliff": rf"{_XML}<(?:\w++:)?xliff[\s/>]",
        ".ts": rf"{_XML}<TS[\s/>]",
        ".xml": rf"{_XML}<resources[\s/>]",
        ".resx": rf"{_XML}<root>\s*+(?:<!--(?:(?!-->).)*+-->\s*+)?<(?:xsd:schema|resheader|data)\s",
        ".stringsdict": rf"{_XML}<plist[\s>]",
        ".html": rf"{_XML}<html[\s>]|\A\s*+<!doctype html\b",
        ".php": r"\A\s*+<\?php\s",
        ".po": r"^msgid\s*+\"",
        ".json": r"\A\s*+(?:\[\s*+[\[{\"\]]|\{\s*+[\"}])",
        ".strings": r"^\"[^\"\n]*+\"\s*+=\s*+\"[^\"\n]*+\"\s*+;",
    }.items()
}
"""What the beginning of a file has in it, by the suffix of its format; the first that matches counts."""


def format_of(filename: str, content: bytes = b"") -> DocumentFormat:
    """The format of a file: that of its name's ending, unless its content is clearly of another one.

    Args:
        filename: Its name.
        content: Its bytes; without them only the ending counts.

    Raises:
        UnsupportedDocument: Neither tells a format.
    """
    suffix = "." + filename.rpartition(".")[2].lower() if "." in filename else ""
    named, shown = FORMATS.get(suffix), FORMATS.get(_suffix_of(content))
    if named is None and shown is None:
        raise UnsupportedDocument(suffix, sorted(FORMATS))
    if named is None or shown is None:
        return named or shown or FORMATS[".txt"]
    is_contradicted = shown.name != named.name and (named.suffix in _CONTENTS or content.startswith(_ARCHIVE))
    return shown if is_contradicted else named


def translated_name(filename: str, target: str) -> str:
    """The name of a translated file: ``letter.docx`` becomes ``letter.de.docx``.

    Its ending is that of the file, unless the format cannot be written.

    Args:
        filename: The name of the file, without folders.
        target: The target language.
    """
    stem, dot, ending = filename.rpartition(".")
    if not dot:
        return f"{filename}.{target}"
    suffix = f".{ending}"
    format = FORMATS.get(suffix.lower())
    return f"{stem}.{target}{suffix if format is None else format.result_suffix or suffix}"


_ARCHIVE = b"PK\x03\x04"


def _suffix_of(content: bytes) -> str:
    """The suffix of the format that a file's content clearly has; empty if none."""
    head = content[:_HEAD_BYTES]
    text = head.decode("utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "latin-1", "ignore")
    text = text.removeprefix("\ufeff").removeprefix("\xef\xbb\xbf")
    if content.startswith(_ARCHIVE) and b"word/document" in content:
        return ".docx"
    if content.startswith(_ARCHIVE) and b"ppt/presentation.xml" in content:
        return ".pptx"
    if content.startswith(_ARCHIVE) and b"xl/workbook.xml" in content:
        return ".xlsx"
    return next((suffix for suffix, pattern in _CONTENTS.items() if pattern.search(text)), "")
