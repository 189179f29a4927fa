"""A number, date or time of a text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from model.text.symbols import Span, overlaps

Kind = Literal["number", "ordinal", "date", "time", "code"]
Value = Decimal | int | str | tuple[int | None, int, int]
"""A number; an ordinal; the characters of a code; the minutes of a day; year, month and day."""

GROUP_SIGNS = re.compile("[\u00a0\u202f'\u2019 ]")
"""What may stand between groups of three digits, besides commas and full stops."""

WINDOW = 40
"""Characters beside a number or a name that may belong to it."""

_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True)
class Quantity:
    """A number, date or time of a text.

    Args:
        span: All of its characters: with a sign of currency or percent, a word for millions, a half of the day.
        core: Its digits and separators.
        kind: What it is. A code is a word of digits that stays as it is, such as a version or an ambiguous date.
        value: Its value; equal values of different kinds are not the same.
        digits: Its digits.
        is_proper: Whether it is spelled as its language spells it.
        decimal: The sign before the fraction of a number.
        scale: The power of ten of the word after a number, or 0.
        sign: The sign of its currency, or ``%``.
        currency: The sign or code of its currency, which may also stand outside of it.
        unit: The symbol of the unit behind it, which is outside of it.
        unit_end: Index after this unit.
        weekday: The number of the day of the week before a date.
        is_certain: Whether a time is of one half of the day; German hours up to 12 may be of both.
        is_bare: Whether its words stand after the other end of a range.
    """

    span: Span
    core: Span
    kind: Kind
    value: Value
    digits: str
    is_proper: bool = True
    decimal: str = ""
    scale: int = 0
    sign: str = ""
    currency: str = ""
    unit: str = ""
    unit_end: int = 0
    weekday: int | None = None
    is_certain: bool = True
    is_bare: bool = False

    def overlaps(self, spans: Sequence[Span]) -> bool:
        """Whether it shares characters with one of several spans, which are in order."""
        return bool(spans) and overlaps(self.span, spans)


def digits_of(text: str) -> str:
    """The digits of a text, without what is between them."""
    return "".join(_DIGITS.findall(text))


def english_suffix(number: int) -> str:
    """The letters after the digits of an English ordinal.

    Args:
        number: The number.
    """
    last = number % 10 if number % 100 not in (11, 12, 13) else 0
    return ("th", "st", "nd", "rd")[last] if last < 4 else "th"
