"""The formats of documents by the ending of the file's name."""

from __future__ import annotations

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
    """

    suffix: str
    media_type: str
    module: str
    name: str

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
        DocumentFormat(".html", "text/html", "web_page", "WebPage"),
        DocumentFormat(".htm", "text/html", "web_page", "WebPage"),
        DocumentFormat(".srt", "application/x-subrip", "subtitles", "SubRip"),
        DocumentFormat(".vtt", "text/vtt", "subtitles", "WebVtt"),
        DocumentFormat(".po", "text/x-gettext-translation", "gettext", "Catalogue"),
        DocumentFormat(".xliff", "application/xliff+xml", "xliff", "Xliff"),
        DocumentFormat(".xlf", "application/xliff+xml", "xliff", "Xliff"),
        DocumentFormat(".json", "application/json", "json_strings", "JsonStrings"),
        DocumentFormat(".csv", "text/csv", "csv_cells", "CsvCells"),
        DocumentFormat(".docx", f"{_OFFICE}.wordprocessingml.document", "word", "WordDocument"),
        DocumentFormat(".dotx", f"{_OFFICE}.wordprocessingml.template", "word", "WordDocument"),
        DocumentFormat(".odt", "application/vnd.oasis.opendocument.text", "open_document", "OpenDocumentText"),
        DocumentFormat(".ott", "application/vnd.oasis.opendocument.text-template", "open_document", "OpenDocumentText"),
        DocumentFormat(".pptx", f"{_OFFICE}.presentationml.presentation", "slides", "Presentation"),
        DocumentFormat(".potx", f"{_OFFICE}.presentationml.template", "slides", "Presentation"),
        DocumentFormat(".ppsx", f"{_OFFICE}.presentationml.slideshow", "slides", "Presentation"),
        DocumentFormat(".epub", "application/epub+zip", "book", "Book"),
    )
}
"""The formats by suffix."""

MEDIA_TYPES = tuple(dict.fromkeys(row.media_type for row in FORMATS.values()))
"""What files are called on the wire."""


def format_of(filename: str) -> DocumentFormat:
    """The format of a file.

    Args:
        filename: Its name; only the ending is looked at.

    Raises:
        UnsupportedDocument: There is none for the ending.
    """
    suffix = "." + filename.rpartition(".")[2].lower() if "." in filename else ""
    if suffix not in FORMATS:
        raise UnsupportedDocument(suffix, sorted(FORMATS))
    return FORMATS[suffix]
