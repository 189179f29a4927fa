"""The numbers, dates and times of a text, with their values.

A text is read by the rules of its language. What has a meaning only by the rules of another one is read by those, and
is not proper: ``1.250,50`` in an English text, or ``May 12`` in a German one. Every expression takes linear time: a
number is matched from its start, and what is beside it within a bounded distance.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache

from model.text.quantities.dates import date_in_digits, is_day, named_dates
from model.text.quantities.names import CURRENCY_WORDS, NAMES, SIGNS, UNIT_WORDS
from model.text.quantities.quantity import GROUP_SIGNS, WINDOW, Quantity, digits_of, english_suffix
from model.text.quantities.times import time_of, with_ranges
from model.text.symbols import Span, overlaps

_MAX_DIGITS = 24
_CORE = re.compile(
    r"(?<!\w)(?<!\w[.,:/])(?:"
    r"(?P<iso>\d{4}-\d\d-\d\d)(?![\w-])|(?P<chain>(?<=\+)\d++(?:[ ()/-]{1,2}\d++)++|\d++(?:-\d++){2,}+)|"
    r"(?P<core>\d++(?:[.,:/]\d++|[\u00a0\u202f'\u2019 ]\d{3}(?!\d))*+))"
)
_DIGITS_BEFORE = re.compile(r"[\d+] ?$")
_DIGITS_AFTER = re.compile(r"[.,:/-]?\s?\d")
_SPACED = re.compile(r"[1-9]\d{0,2}(?:[\u00a0\u202f'\u2019 ]\d{3})+(?:[.,]\d+)?")
_CURRENCY_BEFORE = re.compile(rf"(?:(?<!\w)(?:US)?)([{re.escape(SIGNS)}]) ?$")
_CURRENCY_AFTER = re.compile(rf"([ \u00a0\u202f]?)([{re.escape(SIGNS)}])(?!\w)")
_PERCENT = re.compile(r"([ \u00a0\u202f]?)%")
_ATTACHED_SCALE = re.compile(r"(?:(m|mn|M)|(bn|B)|(tn|T))(?!\w)")
_ATTACHED = re.compile(
    r"(?:m|mn|bn|tn|[MBT]|[kMG]?Hz|[kMGT]B|[kcm]?m|[km]?g|m?l|k?Wh?|V|t|km/h|mph|kph|ft|lbs?|oz)(?!\w)"
)
_STREET = re.compile(r" (?:Street|Avenue|Ave|St|Road|Rd)\b")
_SCALES = {word: power for names in NAMES.values() for power, words in names.scales.items() for word in words}
_SCALE_WORDS = "|".join(sorted(map(re.escape, _SCALES), key=len, reverse=True))
_SCALE = re.compile(rf"[ \u00a0\u202f](?:({_SCALE_WORDS})(?!\w)|(Mio|Mrd|Bio|Mill)(?!\w))")
_SCALE_AGAIN = re.compile(
    r"[ \u00a0\u202f](?:[mM]io|[mM]rd|[mM]illi(?:on|ard)\w*+(?: of)?|billions?(?: of)?)(?:\.|(?!\w))"
)
_CODES = "|".join(code for code in CURRENCY_WORDS if code.isalpha())
_CODE_BEFORE = re.compile(rf"(?<!\w)({_CODES}) $")
_CODE_AFTER = re.compile(
    rf"[ \u00a0\u202f](?:({_CODES})|([Ee]uros?)|((?:US-?)?[Dd]ollars?)|(Swiss [Ff]rancs?|(?:Schweizer )?Franken))(?!\w)"
)
_CODES_OF_NAMES = ("EUR", "USD", "CHF")
_UNIT_SYMBOLS = tuple(UNIT_WORDS)
_UNIT_AFTER = re.compile(
    rf"[ \u00a0\u202f-]?(?:{'|'.join(f'({words})' for words in UNIT_WORDS.values())})(?![\w/])", re.IGNORECASE
)
_ENGLISH_ORDINAL = re.compile(r"(?:st|nd|rd|th)(?!\w)")
_GERMAN_ORDINAL = re.compile(r"\. (?=[^\W\d_])")
_LABEL = re.compile(r"(?:\b[vV]ersions?|\b[vV]\.?|(?<!\w)[A-Z][\w.+-]*[a-z][\w.+-]*) $")
_NO_LABEL = re.compile(
    r"(?:A|About|After|Almost|An?|And|Another|Approximately|Are|Around|As|At|Before|Between|But|By|Every|Fewer|For"
    r"|From|If|In|Is|It|Just|Less|Like|More|Nearly|Of|On|Only|Or|Over|Plus|Roughly|Some|Than|That|The|This|To|Under|Up|With)"
)
_UNIT = re.compile(
    r"[ \u00a0\u202f-]?(?:[%°€$£]|(?:[kMG]?Hz|[kMGT]?B|[kcm]?m|[km]?g|m?l|k?Wh?|V|t|km/h|mph|kph|ft|lbs?|oz)(?!\w)|"
    r"per ?cent|Prozent|thousand|[mbtr]+illion|[a-z]+s(?!\w))"
)
_NO_LABELS = frozenset(
    {name for names in NAMES.values() for name in (*names.months, *names.short_months, *names.weekdays)}
)


@lru_cache(maxsize=16)
def read_quantities(text: str, language: str) -> tuple[Quantity, ...]:
    """The quantities of a sentence or its translation, as :func:`find_quantities`; both are read several times.

    Args:
        text: A sentence; longer texts would stay in the cache.
        language: Its language.
    """
    return find_quantities(text, language)


def find_quantities(text: str, language: str) -> tuple[Quantity, ...]:
    """The quantities of a text, in order; they do not overlap. Words with letters and digits are none.

    Args:
        text: Any text.
        language: A language with names (:data:`model.text.quantities.names.NAMES`).
    """
    dates = list(named_dates(text, language))
    spans = [date.span for date in dates]
    quantities: list[Quantity] = []
    for match in _CORE.finditer(text):
        if not spans or not overlaps(match.span(), spans):
            quantities += _quantity(text, match, language)
    return tuple(with_ranges(text, sorted([*dates, *quantities], key=lambda quantity: quantity.span), language))


def _quantity(text: str, match: re.Match[str], language: str) -> Iterator[Quantity]:
    start, end = match.span()
    core = match[0]
    if match["chain"]:
        yield _code(text, start, end)
        return
    is_grouped = _SPACED.fullmatch(core) and not _DIGITS_BEFORE.search(text, max(0, start - 2), start)
    is_grouped = is_grouped and not _DIGITS_AFTER.match(text, end)
    if " " in core and not is_grouped:  # digits in groups, such as a telephone number
        for part in re.finditer(r"[^ ]+", core):
            yield from _of_core(text, start + part.start(), start + part.end(), language)
    elif match["iso"]:
        year, month, day = map(int, core.split("-"))
        if is_day(month, day):
            yield Quantity((start, end), (start, end), "date", (year, month, day), core.replace("-", ""))
        else:
            yield _code(text, start, end)
    else:
        yield from _of_core(text, start, end, language)


def _of_core(text: str, start: int, end: int, language: str) -> Iterator[Quantity]:
    """The quantity of a run of digits and separators."""
    core = text[start:end]
    if len(core) > _MAX_DIGITS:
        yield _code(text, start, end)
        return
    for read in (date_in_digits, time_of, _ordinal):
        quantity = read(text, start, end, language)
        if quantity is not None:
            yield quantity
            return
    number = _number(core, language)
    if number is None or _is_label(text, start, end, language):
        yield _code(text, start, end)
        return
    value, decimal = number
    if text[end : end + 1].isalpha() and not _ATTACHED.match(text, end):
        return  # a word, such as 1990s or B2B
    quantity = Quantity(
        (start, end), (start, end), "number", value, digits_of(core), decimal == NAMES[language].decimal, decimal
    )
    yield _with_words(text, quantity, language)


def _code(text: str, start: int, end: int) -> Quantity:
    return Quantity((start, end), (start, end), "code", text[start:end], digits_of(text[start:end]))


@lru_cache(maxsize=8)
def _forms(decimal: str, group: str) -> re.Pattern[str]:
    decimal, group = re.escape(decimal), re.escape(group)
    return re.compile(rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})++(?:{decimal}\d+)?|(?:0|[1-9]\d*+)(?:{decimal}\d+)?")


def _number(core: str, language: str) -> tuple[Decimal, str] | None:
    """The value of a number and the sign of its fraction, first by the rules of a language; None if it is no number."""
    names = NAMES[language]
    if core.isdigit():
        return (Decimal(core), names.decimal) if core[0] != "0" or len(core) == 1 else None
    if _SPACED.fullmatch(core):
        whole = GROUP_SIGNS.sub("", core)
        other = names.group if language == "en" and "," not in whole else names.decimal  # such groups are German
        return Decimal(whole.replace(",", ".")), other
    for decimal, group in ((names.decimal, names.group), (names.group, names.decimal)):
        if _forms(decimal, group).fullmatch(core):
            return Decimal(core.replace(group, "").replace(decimal, ".")), decimal
    return None


def _is_label(text: str, start: int, end: int, language: str) -> bool:
    """Whether an English number with a point is a name's part, such as a version: it stays as it is."""
    core = text[start:end]
    if not (core.count(".") == 1 and "," not in core):
        return False
    label = _LABEL.search(text, max(0, start - WINDOW), start)
    if label is None or _UNIT.match(text, end):
        return False
    word = label[0].split()[-1].rstrip(".")
    return (
        word not in _NO_LABELS
        and not _NO_LABEL.fullmatch(word)
        and (language == "en" or word.lower() in ("version", "versions", "v"))
    )


def _with_words(text: str, number: Quantity, language: str) -> Quantity:
    """A number with the words and signs that belong to it."""
    start, end = number.span
    scale, is_proper = 0, number.is_proper
    before = _CURRENCY_BEFORE.search(text, max(0, start - 5), start)
    if match := _SCALE.match(text, end):
        word = match[1] or f"{match[2]}."
        scale, end = _SCALES.get(word, 6), match.end()
        is_proper = is_proper and word in NAMES[language].scales.get(scale, ())
    elif before and (match := _ATTACHED_SCALE.match(text, end)):
        scale, end = 6 if match[1] else 9 if match[2] else 12, match.end()
        is_proper = is_proper and language == "en"
    sign = ""
    if before:
        start, sign = before.start(1), before[1]
        is_proper = is_proper and language == "en" and before.end(1) == number.span[0]
    elif match := _CURRENCY_AFTER.match(text, end):
        end, sign = match.end(), match[2]
        is_proper = is_proper and language == "de" and bool(match[1])
    elif not scale and (match := _PERCENT.match(text, end)):
        end, sign = match.end(), "%"
        is_proper = is_proper and not (language == "en" and match[1])
    if match := _SCALE_AGAIN.match(text, end) if scale else None:
        end, is_proper = match.end(), False
    currency = sign.strip("%")
    if not sign and (match := _CODE_BEFORE.search(text, max(0, start - 5), start) or _CODE_AFTER.match(text, end)):
        currency = match[1] or _CODES_OF_NAMES[(match.lastindex or 2) - 2]
    value = number.value
    if scale and isinstance(value, Decimal):
        value = value.scaleb(scale)
    unit = _UNIT_AFTER.match(text, end) if not sign else None
    return replace(
        number,
        span=(start, end),
        value=value,
        is_proper=is_proper,
        scale=scale,
        sign=sign,
        currency=currency,
        unit=_UNIT_SYMBOLS[(unit.lastindex or 1) - 1] if unit else "",
        unit_end=unit.end() if unit else 0,
    )


def _ordinal(text: str, start: int, end: int, language: str) -> Quantity | None:
    core = text[start:end]
    if not core.isdigit() or len(core) > 4 or core[0] == "0":
        return None
    if match := _ENGLISH_ORDINAL.match(text, end):
        if _STREET.match(text, match.end()):
            return _code(text, start, match.end())
        is_proper = language == "en" and match[0] == english_suffix(int(core))
        return Quantity((start, match.end()), (start, end), "ordinal", int(core), core, is_proper)
    if len(core) < 4 and _GERMAN_ORDINAL.match(text, end):
        return Quantity((start, end + 1), (start, end), "ordinal", int(core), core, language == "de")
    return None


def position_of(quantities: Sequence[Quantity], span: Span) -> Quantity | None:
    """The quantity that shares characters with a span; None if none does.

    Args:
        quantities: Quantities in order.
        span: Characters of their text.
    """
    index = bisect_left([quantity.span for quantity in quantities], (span[1], 0)) - 1
    return quantities[index] if index >= 0 and quantities[index].span[1] > span[0] else None
