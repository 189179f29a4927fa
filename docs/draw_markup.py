"""Draws docs/images/markup.svg, the way of a sentence with a link, a placeholder and an emoji through the pipeline.

``python docs/draw_markup.py``, from the root of the repository. The code of the pipeline makes every row; only the
tokens that the model writes, and its alignment, are given.
"""

from __future__ import annotations

import html
from itertools import pairwise
from pathlib import Path

from model.text.markup import MarkedUp, place_marks
from model.text.placeholders import Place, describe_spans, restore_spans
from model.text.protection import find_spans
from model.text.symbols import Span, TargetText, placeholder

DOCUMENT = '{name}, have you seen <a href="/dogs">my old dog</a>? 😀'
SOURCE_PIECES = ["▁", ",", "▁have", "▁you", "▁seen", "▁my", "▁old", "▁dog", "?"]
TARGET_PIECES = ["▁", ",", "▁haben", "▁Sie", "▁meinen", "▁alten", "▁Hund", "▁gesehen", "?"]
ALIGNED = [(1, 1), (2, 2), (3, 3), (5, 4), (6, 5), (7, 6), (4, 7), (8, 8)]

_CHARACTER, _HEIGHT, _ROW, _LEFT = 8.4, 26, 62, 150
_COLOURS = {"text": "#e8eef5", "tag": "#f6d9b8", "span": "#cfe8cf"}
Box = tuple[str, str]
"""A text, and the key of its colour."""


def rows() -> list[tuple[str, list[Box]]]:
    """The rows of the picture, each with its title."""
    document = MarkedUp(DOCUMENT, "html")
    (marked,) = document.texts
    spans = find_spans(marked.text)
    target = "".join(TARGET_PIECES).removeprefix("▁").replace("▁", " ").removeprefix(" ")
    placed = restore_spans(
        [
            Place(0, written=True),
            TargetText(target, (), begins_word=False),
            Place(1, written=True),
        ],
        describe_spans(marked.text, spans),
        len(spans),
    )
    links = [(_span_of(marked.text, SOURCE_PIECES[a]), _span_of(placed.text, TARGET_PIECES[b])) for a, b in ALIGNED]
    rendered = document.render([place_marks(marked, placed.text, [*links, *zip(spans, placed.spans, strict=True)])])
    symbols = [placeholder(number) for number, _ in enumerate(spans)]
    return [
        ("document", _boxes(DOCUMENT)),
        ("text", _boxes(marked.text)),
        ("with symbols", _boxes(marked.text, symbols)),
        ("source tokens", _tokens(["<2de>"], symbols, SOURCE_PIECES)),
        ("target tokens", _tokens([], symbols, TARGET_PIECES)),
        ("translation", _boxes(placed.text)),
        ("document", _boxes(rendered)),
    ]


def _span_of(text: str, piece: str) -> Span:
    start = text.index(piece.removeprefix("▁"))
    return start, start + len(piece.removeprefix("▁"))


def _tokens(first: list[str], symbols: list[str], pieces: list[str]) -> list[Box]:
    inner: list[Box] = [(piece, "text") for piece in pieces[1:]]
    return [*((symbol, "tag") for symbol in first), (symbols[0], "span"), *inner, (symbols[1], "span")]


def _boxes(text: str, symbols: list[str] | None = None) -> list[Box]:
    """A text, its tags and its protected spans; symbols replace the spans."""
    spans = find_spans(text)
    edges = [0, *(edge for span in spans for edge in span), len(text)]
    boxes: list[Box] = []
    for start, end in pairwise(edges):
        if start == end:
            continue
        part = text[start:end]
        if (start, end) not in spans:
            boxes.append((part, "text"))
        elif part.startswith("<"):
            boxes.append((part, "tag"))
        else:
            boxes.append((symbols[spans.index((start, end))] if symbols else part, "span"))
    return boxes


def draw(pictured: list[tuple[str, list[Box]]]) -> str:
    """The rows as an SVG picture."""
    parts: list[str] = []
    centres: list[list[float]] = []
    widest = 0.0
    for number, (title, boxes) in enumerate(pictured):
        top = 16 + number * _ROW
        x = float(_LEFT)
        parts.append(f'<text x="16" y="{top + 18}" class="title">{number + 1}. {title}</text>')
        centres.append([])
        for text, colour in boxes:
            width = max(_CHARACTER * len(text) + 10, 26.0)  # an emoji is wider than a letter
            parts.append(
                f'<rect x="{x:.1f}" y="{top}" width="{width:.1f}" height="{_HEIGHT}" rx="4" fill="{_COLOURS[colour]}"/>'
                f'<text x="{x + 5:.1f}" y="{top + 18}" xml:space="preserve">{html.escape(text, quote=False)}</text>'
            )
            centres[-1].append(x + width / 2)
            x += width + 4
        widest = max(widest, x)
    parts += _alignment(centres)
    size = f'width="{widest + 12:.0f}" height="{16 + len(pictured) * _ROW - _ROW + _HEIGHT + 16:.0f}"'
    style = "text{font:14px monospace;fill:#222}.title{font:13px sans-serif;fill:#555}line{stroke:#8a97a6}"
    background = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{background}{"".join(parts)}</svg>\n'


def _alignment(centres: list[list[float]]) -> list[str]:
    """Lines between the tokens of the source, which begin with that of the language, and those of the target."""
    top = 16 + 3 * _ROW + _HEIGHT
    both = [(0, 0), *ALIGNED, (len(SOURCE_PIECES), len(TARGET_PIECES))]
    return [
        f'<line x1="{centres[3][a + 1]:.1f}" y1="{top}" x2="{centres[4][b]:.1f}" y2="{top + _ROW - _HEIGHT}"/>'
        for a, b in both
    ]


if __name__ == "__main__":
    Path(__file__).with_name("images").joinpath("markup.svg").write_text(draw(rows()), encoding="utf-8")
