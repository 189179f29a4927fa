"""The positions of sentences in a unit and its translation, and the short form in which they are stored."""

from __future__ import annotations

from collections.abc import Sequence

from model.text.symbols import Span

Pairs = Sequence[tuple[Span, Span]]
"""The characters of each sentence of a unit and of its translation."""


_BITS = 7
_MORE = 1 << _BITS


def packed(pairs: Pairs | None, source: str, translation: str) -> bytes:
    """Positions in a short form, about four bytes a sentence; empty if one sentence is all of the text.

    Each span is stored as its gap to the span before it on its side and its length, both in LEB128 (DWARF 5, section
    7.6); the sign of a gap is its lowest bit.

    Args:
        pairs: The positions; None if they are unknown.
        source: The unit.
        translation: Its translation.
    """
    if not pairs or pairs == (((0, len(source)), (0, len(translation))),):
        return b""
    written = bytearray()
    ends = [0, 0]
    for pair in pairs:
        for side, (start, end) in enumerate(pair):
            gap = start - ends[side]
            for number in (2 * gap if gap >= 0 else -2 * gap - 1, end - start):
                while number >= _MORE:
                    written.append(_MORE | number % _MORE)
                    number >>= _BITS
                written.append(number)
            ends[side] = end
    return bytes(written)


def unpacked(positions: bytes) -> Pairs:
    """The positions that :func:`packed` wrote."""
    numbers: list[int] = []
    number = shift = 0
    for byte in positions:
        number |= (byte % _MORE) << shift
        shift += _BITS
        if byte < _MORE:
            numbers.append(number)
            number = shift = 0
    spans: list[Span] = []
    ends = [0, 0]
    for index, (gap, length) in enumerate(zip(numbers[::2], numbers[1::2], strict=True)):
        start = ends[index % 2] + (-(gap + 1) // 2 if gap % 2 else gap // 2)
        ends[index % 2] = start + length
        spans.append((start, start + length))
    return list(zip(spans[::2], spans[1::2], strict=True))
