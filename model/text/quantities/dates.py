"""The dates of a text: in digits, and with the name of a month."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.quantities.names import NAMES
from model.text.quantities.quantity import WINDOW, Quantity, digits_of, english_suffix

_DOTTED_DATE = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4}|\d\d)")
_SLASHED_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})")
_DAY_AND_MONTH = re.compile(r"(\d{1,2})\.(\d{1,2})")
_BEFORE_DAY = re.compile(r"\b(?:am|vom|zum|bis|dem|den|ab|seit)\s$")
_ORDINAL_STOP = re.compile(r"\. (?=[^\W\d_])")
_WEEKDAYS = {name: number for names in NAMES.values() for number, name in enumerate(names.weekdays)}
_MONTHS = {
    name: number
    for names in NAMES.values()
    for form in (names.short_months, names.months)
    for number, name in enumerate(form, start=1)
}
_MONTHS_OF = {language: {*names.months, *names.short_months} for language, names in NAMES.items()}
_SMALL_MONTHS = {name.lower(): name for name in _MONTHS if name not in ("May", "Mai", "March", "Mar", "Dez", "Sept")}
_MONTH = re.compile(rf"(?<!\w)(?:{'|'.join(sorted([*_MONTHS, *_SMALL_MONTHS], key=len, reverse=True))})(?!\w)")
_WEEKDAY_BEFORE = re.compile(rf"(?<!\w)({'|'.join(_WEEKDAYS)})(,? (?:de[nm] |the |am |on |which )?)$", re.IGNORECASE)
_JOINS = {
    "de": (", ", ", den ", ", dem ", " den ", " dem ", ", am ", " am "),
    "en": (", ", " ", " the ", ", the ", ", on "),
}
_DAY_BEFORE = re.compile(r"(?<![\w.,:/-])(\d{1,2})(\.|st|nd|rd|th)? (of )?$")
_MONTH_BEFORE = re.compile(rf"(?<!\w)(?:{'|'.join(_MONTHS)}) $")
_YEAR_AFTER = re.compile(r"\.?(,?) (\d{4})(?![\w%]|[.,:]\d)")
_DAY_AFTER = re.compile(
    r"\.? (\d{1,2})(st|nd|rd|th)?(?![\w%$€]|[.,:/-]\d| (?:\d{3}(?!\d)|%|Uhr|million|percent)"
    rf"|\.? (?:{'|'.join(_MONTHS)})(?!\w))"
)


def date_in_digits(text: str, start: int, end: int, language: str) -> Quantity | None:
    """The date of a run of digits and separators; None if it is none. With slashes, the day must be none of a month.

    Args:
        text: A text.
        start: Index of its first digit.
        end: Index after its last digit.
        language: The language of the text, which has names.
    """
    core = text[start:end]
    is_proper = True
    stop = end
    if match := _DOTTED_DATE.fullmatch(core):
        first, second, third = match.groups()
        if len(third) == 2 and (language == "en" or len(first) + len(second) < 4):
            return None
        year: int | None = (
            int(third) if len(third) == 4 else 2000 + int(third) if int(third) < 50 else 1900 + int(third)
        )
        day, month = int(first), int(second)
        is_proper = language == "de"
    elif match := _SLASHED_DATE.fullmatch(core):
        first, second, third = match.groups()
        day, month, year = int(first), int(second), int(third)
        if language != "en":
            return None
        if day <= 12 < month:
            day, month = month, day
        elif day <= 12:
            return None
    elif language == "de" and (match := _DAY_AND_MONTH.fullmatch(core)) and text[end : end + 1] == ".":
        if not _BEFORE_DAY.search(text, max(0, start - 6), start):
            return None
        day, month, year, stop = int(match[1]), int(match[2]), None, end + 1
    else:
        return None
    if not is_day(month, day):
        return None
    weekday, first_index, is_joined = _weekday_before(text, start, language)
    span = (first_index, stop)
    return Quantity(
        span, (start, stop), "date", (year, month, day), digits_of(core), is_proper and is_joined, weekday=weekday
    )


def named_dates(text: str, language: str) -> Iterator[Quantity]:
    """The dates of a text with the name of a month, in both orders.

    Args:
        text: A text.
        language: Its language, which has names.
    """
    position = 0
    for match in _MONTH.finditer(text):
        name = _SMALL_MONTHS.get(match[0], match[0])
        is_own = match[0] in _MONTHS_OF[language]
        before = _DAY_BEFORE.search(text, max(position, match.start() - WINDOW), match.start())
        if before:
            start, end, day, suffix = before.start(), match.end(), before[1], before[2] or ""
            core_start, after = start, None
            is_proper = is_own and (suffix == "." if language == "de" else bool(suffix) or not before[3])
            year = _YEAR_AFTER.match(text, end)
            if again := _MONTH_BEFORE.search(text, max(position, start - 12), start):
                core_start, is_proper = again.start(), False  # November 5. November
        elif after := _DAY_AFTER.match(text, match.end()):
            core_start, end, day, suffix = match.start(), after.end(), after[1], after[2] or ""
            is_proper = is_own and language == "en"
            year = _YEAR_AFTER.match(text, end) if text[end : end + 1] != "." else None
            if language == "de" and not year and _ORDINAL_STOP.match(text, end):
                end += 1
            is_proper = is_proper and (year is None or year[1] == ",")
        else:
            continue
        if name == "May" and not match.start() and after and not year and not after[2]:
            continue  # May 5 people come?
        month = _MONTHS[name]
        if not is_day(month, int(day)):
            continue
        if language == "en" and suffix not in ("", english_suffix(int(day))):
            is_proper = False
        number = int(year[2]) if year else None
        end = year.end() if year else end
        weekday, start, is_joined = _weekday_before(text, core_start, language)
        digits = digits_of(text[core_start:end])
        yield Quantity(
            (start, end),
            (core_start, end),
            "date",
            (number, month, int(day)),
            digits,
            is_proper and is_joined,
            weekday=weekday,
        )
        position = end


def _weekday_before(text: str, start: int, language: str) -> tuple[int | None, int, bool]:
    """The number of the day of the week before a date, where it begins, and whether both are joined properly."""
    match = _WEEKDAY_BEFORE.search(text, max(0, start - WINDOW), start)
    if match is None:
        return None, start, True
    is_own = match[1] in NAMES[language].weekdays
    return _WEEKDAYS[match[1].capitalize()], match.start(), is_own and match[2] in _JOINS[language]


def is_day(month: int, day: int) -> bool:
    """Whether numbers can be a month and a day of it."""
    return 1 <= month <= 12 and 1 <= day <= 31
