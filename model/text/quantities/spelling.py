"""How a language spells the numbers, dates and times of another text."""

from __future__ import annotations

import re

from model.text.quantities.names import NAMES
from model.text.quantities.quantity import GROUP_SIGNS, Quantity, digits_of, english_suffix


def spelled(quantity: Quantity, text: str, target: str, counterpart: Quantity | None = None) -> str:
    """A quantity as a language spells it; a code, or a date in the order of ISO 8601, stays as it is.

    Args:
        quantity: The quantity.
        text: The text that has it.
        target: The language of the result, which has names.
        counterpart: What a translation has in its place, which decides whether the words of a range or the sign of a
            currency belong to it; None if it is to stand alone.
    """
    written = text[slice(*quantity.core)]
    if quantity.kind == "date":
        weekday = quantity.weekday if quantity.weekday is not None or counterpart is None else counterpart.weekday
        return _date(quantity, written, target, weekday)
    if quantity.kind == "time" and isinstance(quantity.value, int):
        return _time(quantity, quantity.value, written, target, counterpart)
    if quantity.kind == "ordinal":
        return f"{written}." if target == "de" else written + english_suffix(int(written))
    if quantity.kind == "number":
        return _number(quantity, written, target, counterpart)
    return written


def _number(quantity: Quantity, written: str, target: str, counterpart: Quantity | None) -> str:
    names = NAMES[target]
    joined = GROUP_SIGNS.sub("", written)
    whole, _, fraction = joined.partition(quantity.decimal)
    digits = digits_of(whole)
    is_grouped = len(digits) < len(whole) or len(joined) < len(written)
    number = f"{int(digits):,}".replace(",", names.group) if is_grouped and digits else digits
    number += f"{names.decimal}{fraction}" if fraction else ""
    if quantity.scale:
        word = names.scales[quantity.scale][0]
        if target == "de" and not fraction and digits == "1" and len(names.scales[quantity.scale]) > 1:
            word = names.scales[quantity.scale][1]
        number += f" {word}"
    sign = quantity.sign
    if (
        counterpart is not None
        and counterpart.kind in ("number", "ordinal", "code")
        and not (counterpart.sign and sign)
    ):
        sign = counterpart.sign  # a name or code of the currency stands beside it
    if not sign:
        return number
    if sign == "%":
        return f"{number} %" if target == "de" else f"{number}%"
    return f"{number} {sign}" if target == "de" else f"{sign}{number}"


def _date(quantity: Quantity, written: str, target: str, day_of_week: int | None) -> str:
    year, month, day = quantity.value if isinstance(quantity.value, tuple) else (None, 1, 1)
    names = NAMES[target]
    weekday = f"{names.weekdays[day_of_week]}, " if day_of_week is not None else ""
    if re.fullmatch(r"\d{4}-\d\d-\d\d", written):
        return weekday + written
    if target == "de" and re.fullmatch(r"[\d./]+", written):
        digits = f"{day}.{month}." if len(written) < 6 else f"{day:02}.{month:02}."
        return f"{weekday}{digits}{year or ''}"
    date = f"{day}{'.' if target == 'de' else ''} {names.months[month - 1]}"
    return f"{weekday}{date} {year}" if year else f"{weekday}{date}"


def _time(quantity: Quantity, minutes: int, written: str, target: str, counterpart: Quantity | None) -> str:
    hour, minute = divmod(minutes, 60)
    is_bare = quantity.is_bare if counterpart is None or counterpart.kind != "time" else counterpart.is_bare
    is_clock = ":" in written and quantity.span == quantity.core and not quantity.is_bare
    clock = f"{hour}:{minute:02}" if not written.startswith("0") else f"{hour:02}:{minute:02}"
    if target == "de":
        number = clock if minute or len(written) > 2 else str(hour)
        return number if is_bare or (is_clock and counterpart is None) else f"{number} Uhr"
    half = "a.m." if hour < 12 else "p.m."
    hour_of_half = (hour - 1) % 12 + 1
    if is_clock or (minute and not quantity.is_certain):
        return clock
    number = f"{hour_of_half}:{minute:02}" if minute else str(hour_of_half)
    if quantity.is_certain:
        return f"{number} {half}"
    return clock if len(written) > 2 else number if is_bare else f"{number} o'clock"
