"""PDF files: their text by paragraphs. The answer is a web page, as the layout of a PDF cannot be written again.

A PDF says where each stretch of text stands on a page, and nothing of paragraphs. Lines are joined where their distance
and size are those of a paragraph, over columns and pages where a sentence clearly runs on.
"""

from __future__ import annotations

import html
import io
import logging
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pypdf._codecs._codecs  # what is imported for the first text is imported before any file is read
import pypdf.filters  # noqa: F401
from pypdf import PdfReader, apply_configuration

from app.documents.formats.document_file import DocumentFile
from app.documents.formats.plain_text import compounds_of, joined_lines
from app.documents.formats.web_page import WebPage
from app.documents.formats.xml_parts import clean
from app.errors import DocumentRefused
from app.serving.detection import has_letters

logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it quotes the file

MAX_PAGES = 2_000
"""Most pages of a file."""

_SENTENCE_END = re.compile("[.!?:;…]['\"”“’»)\\]]*$")
_MARKER = re.compile(r"(?:[-*•‣▪◦–—]|\d{1,3}[.)]|[a-zA-Z]\))\s")
_SAME_LINE = 0.4
"""Parts of a line are at most this share of its height apart, vertically."""

_SAME_SIZE = 1.1
_HEADING = 1.15
"""How many times as high as most of the text the lines of headings are."""

_PARAGRAPH = 1.25
"""Lines further apart than this many times the usual distance are of two paragraphs."""

_FULL = 0.8
"""Lines with less than this share of the characters of a long line end a paragraph if they end a sentence."""


@dataclass
class _Line:
    """A line of a page.

    Args:
        text: Its text.
        y: The height of its base line on the page.
        size: The size of its characters.
    """

    text: str
    y: float
    size: float


class PdfText(DocumentFile):
    """The text of a PDF file.

    Args:
        data: The file.

    Raises:
        DocumentRefused: It is damaged, protected by a password, too long, or has no text.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__()
        try:
            with apply_configuration(jbig2dec_binary=None, disable_legacy_handling=True):  # it would run a program
                pages, title = _read(PdfReader(io.BytesIO(data)))
        except (DocumentRefused, RecursionError):
            raise
        except Exception as error:  # pypdf raises errors of many kinds about damaged files
            raise DocumentRefused(f"The PDF is damaged ({type(error).__name__}).") from error
        if not any(has_letters(line.text) for page in pages for line in page):
            raise DocumentRefused("The PDF has no text, only pictures; have its text recognised (OCR) first.")
        self._page = WebPage(_as_html(pages, title).encode())
        self.include(self._page)

    def to_bytes(self, target: str) -> bytes:
        """The web page."""
        return self._page.to_bytes(target)


def _read(reader: PdfReader) -> tuple[list[list[_Line]], str]:
    """The lines of each page, and the title.

    Raises:
        DocumentRefused: The file is protected by a password, or too long.
    """
    if reader.is_encrypted:
        raise DocumentRefused("The PDF is protected by a password; save it without one.")
    if len(reader.pages) > MAX_PAGES:
        raise DocumentRefused(f"The PDF has {len(reader.pages)} pages; the limit is {MAX_PAGES}.")
    title = clean(str(reader.metadata.title or "")) if reader.metadata else ""
    return [list(_lines_of(page)) for page in reader.pages], title


def _lines_of(page: Any) -> Iterator[_Line]:
    """The lines of a page that are not blank, in the order of the file."""
    lines: list[_Line] = []
    ends = True

    def visit(text: str, outer: Sequence[float], inner: Sequence[float], _: Any, size: float) -> None:
        nonlocal ends
        y = inner[4] * outer[1] + inner[5] * outer[3] + outer[5]
        height = abs(size * outer[3]) or 1.0
        for number, part in enumerate(text.split("\n")):
            ends = ends or number > 0
            if not part.strip():
                continue
            if ends or abs(lines[-1].y - y) > _SAME_LINE * height:
                lines.append(_Line(part, y, height))
            else:
                lines[-1].text += part
            ends = False

    page.extract_text(visitor_text=visit)
    for line in lines:
        line.text = " ".join(clean(line.text).split())
        if line.text:
            yield line


def _as_html(pages: Sequence[Sequence[_Line]], title: str) -> str:
    """The pages as one web page."""
    lines = [line for page in pages for line in page]
    sizes = Counter[float]()
    for line in lines:
        sizes[round(line.size, 1)] += len(line.text)
    body = sizes.most_common(1)[0][0]
    compounds = compounds_of("\n".join(line.text for line in lines))
    parts = [
        "<!doctype html>",
        '<html lang="und"><head><meta charset="utf-8">',  # of an unknown language
        f"<title>{html.escape(title)}</title></head><body>",
    ]
    for paragraph in _paragraphs(lines):
        name = "h2" if paragraph[0].size > _HEADING * body else "p"
        text = joined_lines([line.text for line in paragraph], compounds)
        parts.append(f"<{name}>{html.escape(text, quote=False)}</{name}>")
    return "\n".join([*parts, "</body></html>", ""])


def _paragraphs(lines: Sequence[_Line]) -> Iterator[list[_Line]]:
    """The lines of each paragraph; lines without letters, such as numbers of pages, interrupt none."""
    distances = [(one.y - two.y) / one.size for one, two in pairwise(lines) if one.y > two.y]
    usual = statistics.median(distances) if distances else 1.0
    longest = Counter[float]()
    for line in lines:
        size = round(line.size, 1)
        longest[size] = max(longest[size], len(line.text))
    paragraph: list[_Line] = []
    apart: list[list[_Line]] = []
    for line in lines:
        if not has_letters(line.text):
            apart.append([line])
        elif paragraph and _runs_on(paragraph[-1], line, usual, longest[round(paragraph[-1].size, 1)]):
            paragraph.append(line)
        else:
            yield from [paragraph, *apart] if paragraph else apart
            paragraph, apart = [line], []
    yield from [paragraph, *apart]


def _runs_on(before: _Line, line: _Line, usual: float, longest: int) -> bool:
    """Whether a line belongs to the paragraph of the line before it.

    Args:
        before: The line before.
        line: The line.
        usual: The usual distance of lines, in heights.
        longest: The characters of the longest line of the first one's size.
    """
    if max(before.size, line.size) > _SAME_SIZE * min(before.size, line.size) or _MARKER.match(line.text):
        return False
    is_end = _SENTENCE_END.search(before.text) is not None
    distance = (before.y - line.y) / before.size
    if distance <= 0:  # the next column or page
        return not is_end and (line.text[0].islower() or before.text.endswith(("-", "\u00ad")))
    return distance <= _PARAGRAPH * usual and not (is_end and len(before.text) < _FULL * longest)
