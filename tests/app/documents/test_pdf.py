"""PDF files: lines are joined to paragraphs, and the answer is a web page."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.documents.formats.table import FORMATS, format_of
from app.documents.skeleton import differences
from app.errors import DocumentRefused
from tests.app.documents.translated import in_capitals, read, texts_of

Placed = tuple[int, int, int, str]
"""Size, distances from the left and the bottom, and text of a line."""


def pdf(*pages: Sequence[Placed], trailer: str = "") -> bytes:
    """A file with some lines of text on each page."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, lines in enumerate(pages):
        drawn = "".join(f"BT /F {size} Tf 1 0 0 1 {x} {y} Tm ({text}) Tj ET\n" for size, x, y, text in lines)
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F 3 0 R >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    content, offsets = "%PDF-1.4\n", []
    for number, item in enumerate(objects, start=1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    content += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R {trailer} >>\n"
    return f"{content}startxref\n{content.index('xref')}\n%%EOF\n".encode("latin-1")


PAGES = (
    [
        (20, 50, 700, "A heading"),
        (10, 50, 660, "The first paragraph has a sentence that runs over its"),
        (10, 50, 648, "lines, and a word that is divi-"),
        (10, 50, 636, "ded. It ends."),
        (10, 50, 612, "The second one has another sentence, which runs over"),
        (10, 50, 40, "1"),
    ],
    [
        (10, 50, 700, "to the next page. It ends here, too."),
        (10, 50, 688, "- A first item"),
        (10, 50, 676, "- A second item"),
    ],
)
PARAGRAPHS = [
    "A heading",
    "The first paragraph has a sentence that runs over its lines, and a word that is divided. It ends.",
    "The second one has another sentence, which runs over to the next page. It ends here, too.",
    "- A first item",
    "- A second item",
]


def test_lines_are_joined_to_paragraphs_over_pages() -> None:
    assert texts_of(".pdf", pdf(*PAGES)) == PARAGRAPHS


def test_the_answer_is_a_web_page() -> None:
    file = read(".pdf", pdf(*PAGES))
    page = file.write([in_capitals(unit) for unit in file.units], "de").decode()
    assert "<h2>A HEADING</h2>" in page
    assert f"<p>{PARAGRAPHS[1].upper()}</p>" in page
    assert "<p>1</p>" in page, "the number of a page stays"
    assert texts_of(".html", page) == [text.upper() for text in PARAGRAPHS]
    assert FORMATS[".pdf"].result_media_type == "text/html"


def test_columns_follow_one_another() -> None:
    left = [(10, 50, 700 - 12 * number, f"left {number} is a rather long line without an") for number in range(3)]
    right = [(10, 300, 700 - 12 * number, f"right {number} is a rather long line without an") for number in range(3)]
    (text,) = texts_of(".pdf", pdf([*left, *right]))
    assert [word for word in text.split() if word in ("left", "right")] == ["left"] * 3 + ["right"] * 3


def test_a_translation_cannot_be_compared_with_its_source() -> None:
    with pytest.raises(DocumentRefused, match="another format"):
        differences("a.pdf", pdf(*PAGES), b"<p>a</p>")


def test_a_pdf_is_recognised_by_its_content() -> None:
    assert format_of("letter", pdf(*PAGES)).suffix == ".pdf"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf([(10, 50, 700, "12.5")]), "no text"),
        (pdf([]), "no text"),
        (b"%PDF-1.4\nno more", "damaged"),
        (b"%PDF", "damaged"),
        (
            pdf(*PAGES, trailer="/Encrypt << /Filter /Standard /V 1 /R 2 /O (x) /U (x) /P -4 >> /ID [(a) (b)]"),
            "password",
        ),
        (pdf(*PAGES).replace(b"/Kids [4 0 R", b"/Kids [2 0 R"), "damaged"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentRefused, match=reason):
        read(".pdf", data)
