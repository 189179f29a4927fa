"""The positions of sentences in a unit and its translation, and the short form in which they are stored."""

from __future__ import annotations

from collections.abc import Sequence

from model.text.symbols import Span

Pairs = Sequence[tuple[Span, Span]]
"""The characters of each sentence of a unit and of its translation."""


def packed(pairs: Pairs | None, source: str, translation: str) -> str:
    """Positions in a short form; empty if one sentence is all of the text.

    Args:
        pairs: The positions; None if they are unknown.
        source: The unit.
        translation: Its translation.
    """
    if not pairs or pairs == (((0, len(source)), (0, len(translation))),):
        return ""
    return " ".join(str(index) for pair in pairs for span in pair for index in span)


def unpacked(positions: str) -> Pairs:
    """The positions that :func:`packed` wrote."""
    numbers = list(map(int, positions.split()))
    return [((a, b), (c, d)) for a, b, c, d in zip(*[iter(numbers)] * 4, strict=True)]
