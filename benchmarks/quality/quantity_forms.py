"""How English and German spell numbers, amounts, dates and times: the forms that a value may have in a translation.

Names, separators and orders are those of CLDR, from babel. It formats values; it parses only numbers and dates in
digits, and no amounts, times with ``Uhr`` or ``p.m.``, units or dates with the name of a month. So nothing is parsed
here: a case knows its value, and lists its forms.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from itertools import product

from babel.dates import get_day_names, get_month_names
from babel.numbers import format_decimal, get_decimal_symbol

CURRENCIES: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "EUR": ("€", {"de": ("Euro",), "en": ("euros", "euro")}),
    "USD": ("$", {"de": ("US-Dollar", "Dollar"), "en": ("US dollars", "U.S. dollars", "dollars")}),
    "GBP": ("£", {"de": ("britische Pfund", "Britische Pfund", "Pfund"), "en": ("British pounds", "pounds")}),
    "CHF": ("", {"de": ("Schweizer Franken", "Franken"), "en": ("Swiss francs", "francs")}),
}
"""By code: the sign, and the names by language, the longest first."""

SCALES = {
    6: {"de": ("Millionen", "Mio.", "Million"), "en": ("million", "m")},
    9: {"de": ("Milliarden", "Mrd.", "Milliarde"), "en": ("billion", "bn")},
}
"""By power of ten: its words."""

_TIMES_OF_DAY = {
    "de": {
        "am": (" morgens", " vormittags", " früh", " am Morgen", " am Vormittag"),
        "pm": (" nachmittags", " abends", " mittags", " nachts", " am Nachmittag", " am Abend"),
    },
    "en": {
        "am": (" in the morning",),
        "pm": (" in the afternoon", " in the evening", " at night", " at noon"),
    },
}
_ORDINALS = {
    "de": "erste zweite dritte vierte fünfte sechste siebte achte neunte zehnte elfte zwölfte",
    "en": "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth",
}
_CARDINALS = {
    "de": "ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "en": "one two three four five six seven eight nine ten eleven twelve",
}


@dataclass(frozen=True)
class Forms:
    """The forms of one value in a translation. One that ends in ``*`` may continue with letters.

    Args:
        proper: Those of the language.
        readable: Others that have the same value to a reader.
    """

    proper: tuple[str, ...]
    readable: tuple[str, ...] = ()


def number_forms(value: Decimal, language: str, *, plain: bool = False) -> Forms:
    """The forms of a number.

    Args:
        value: The number, with the digits of its fraction.
        language: The language of the translation.
        plain: Whether the source does not group its digits.
    """
    num_digits = max(0, -int(value.as_tuple().exponent))
    fraction = "." + "0" * num_digits if num_digits else ""
    grouped = format_decimal(value, f"#,##0{fraction}", locale=language)
    ungrouped = format_decimal(value, f"0{fraction}", locale=language)
    proper = [grouped]
    if value < 10_000 or plain:
        proper.append(ungrouped)
    if language == "de" and value >= 10_000:
        proper.append(grouped.replace(".", " "))
    if value == value.to_integral() and value <= 12 and value > 0 and not num_digits:
        proper.append(_CARDINALS[language].split()[int(value) - 1] + "*")
    readable = [ungrouped]
    if num_digits not in (0, 3) and value < 1000:  # the sign of the other language can mean nothing else
        readable.append(f"{value}".replace(".", "," if get_decimal_symbol(language) == "." else "."))
    return Forms(tuple(proper), tuple(readable))


def amount_forms(value: Decimal, currency: str, language: str, power: int = 0) -> Forms:
    """The forms of an amount.

    Args:
        value: The number before the word of scale, if there is one.
        currency: The code of the currency.
        language: The language of the translation.
        power: The power of ten of the word of scale, or 0.
    """
    sign, names = CURRENCIES[currency]
    numbers = number_forms(value, language)
    scales = [f" {word}" for word in SCALES[power][language]] if power else [""]
    written = [number.rstrip("*") + scale for number, scale in product(numbers.proper, scales)]
    readable = [number + scale for number, scale in product(numbers.readable, scales)]
    after = [*names[language], currency]
    between = [" ", " of "] if language == "en" else [" "]
    proper = [f"{number}{space}{word}" for number, space, word in product(written, between, after)]
    proper += [f"{currency} {number}" for number in written]
    before = [f"{sign}{number}" for number in written] if sign else []
    behind = [f"{number} {sign}" for number in written] if sign else []
    loose = [f"{number}{sign}" for number in written] + [f"{sign} {number}" for number in written] if sign else []
    loose += [f"{number} {word}" for number, word in product(readable, [*after, *([sign] if sign else [])])]
    loose += [f"{sign}{number}" for number in readable] if sign else []
    # A name that the model misspells leaves the value.
    loose += [f"{number} {word[:4]}*" for number, word in product(written, names[language])]
    loose += [f"{number} Swiss Fran*" for number in written] if currency == "CHF" else []
    if power and language == "en" and sign:
        before += [f"{sign}{number}{scale.strip()}" for number, scale in product(numbers.proper, scales)]
    return Forms(
        (*proper, *(before if language == "en" else behind)), (*(behind if language == "en" else before), *loose)
    )


def percent_forms(value: Decimal, language: str) -> Forms:
    """The forms of a percentage."""
    numbers = number_forms(value, language)
    words = [" %", "%", " Prozent", "-prozentig*"] if language == "de" else ["%", " percent", " per cent"]
    proper = [number.rstrip("*") + word for number, word in product(numbers.proper, words)]
    readable = [number + word for number, word in product(numbers.readable, words)]
    return Forms(tuple(proper), (*readable, *(number + " %" for number in numbers.proper)))


def unit_forms(value: Decimal, words: Sequence[str], language: str) -> Forms:
    """The forms of a number with a unit.

    Args:
        value: The number.
        words: How the language writes the unit, its symbol first.
        language: The language of the translation.
    """
    numbers = number_forms(value, language)

    def with_units(forms: Iterable[str]) -> tuple[str, ...]:
        return tuple(form.rstrip("*") + join + word for form, join, word in product(forms, (" ", "-"), words))

    return Forms(
        with_units(numbers.proper),
        (
            *with_units(numbers.readable),
            *(form + words[0] for form in numbers.proper),
            *(f"{form} {word[:6]}*" for form, word in product(numbers.proper, words) if len(word) > 6),
        ),
    )


def time_forms(value: time, language: str, *, in_range: bool = False) -> Forms:
    """The forms of a time of day.

    Args:
        value: The time; not in the first hour of the day.
        language: The language of the translation.
        in_range: Whether another time follows, whose words count for both.
    """
    hour, minute = value.hour, value.minute
    half = "am" if hour < 12 else "pm"
    hour_of_half = (hour - 1) % 12 + 1
    signs = (":", ".") if language == "de" else (":",)
    clock = [f"{h}{sign}{minute:02}" for h, sign in product({str(hour), f"{hour:02}"}, signs)]
    whole = [str(hour)] if not minute else []
    in_half = [f"{hour_of_half}{sign}{minute:02}" for sign in signs] + ([str(hour_of_half)] if not minute else [])
    of_day = _TIMES_OF_DAY[language][half]
    if language == "de":
        proper = [f"{form} Uhr" for form in clock + whole]
        proper += [f"{form} Uhr{word}" for form, word in product(in_half, of_day)]
        proper += [f"{hour} Uhr {minute}"] if minute else []
        return Forms((*proper, *(clock + whole if in_range else ())), tuple(clock))
    letters = half[0]
    suffixes = [f" {letters}.m.", f" {letters}.m", f" {letters}m", f" {letters.upper()}M", f"{letters}m"]
    suffixes += [f"{letters.upper()}M", f"{letters}.m.", f" {letters.upper()}.M."]
    proper = [form + suffix for form, suffix in product(in_half, suffixes)] + clock
    proper += [f"{hour_of_half} o'clock{word}" for word in of_day] if not minute else []
    proper += [f"{hour} o'clock"] if not minute and hour <= 12 else []
    proper += [f"{_CARDINALS['en'].split()[hour - 1]} o'clock"] if not minute and hour <= 12 else []
    proper += [f"{form}{word}" for form, word in product(in_half, of_day)]
    proper += ["noon"] if (hour, minute) == (12, 0) else []
    return Forms((*proper, *(whole + (in_half if half == "am" else []) if in_range else ())), (f"{hour} o'clock",))


def date_forms(value: date, language: str, *, with_year: bool = True, with_weekday: bool = False) -> Forms:
    """The forms of a date.

    Args:
        value: The date.
        language: The language of the translation.
        with_year: Whether the source has the year.
        with_weekday: Whether the source has the day of the week.
    """
    month = get_month_names("wide", locale=language)[value.month]
    weekday = get_day_names("wide", locale=language)[value.weekday()]
    day, digits = value.day, [f"{value.day}.{value.month}.", f"{value.day:02}.{value.month:02}."]
    readable: list[str] = []
    if language == "de":
        proper = [f"{day}. {month}"]
        if with_year:
            proper = [f"{form} {value.year}" for form in proper] + [f"{form}{value.year}" for form in digits]
        else:
            proper += digits
        joins = [", ", ", den ", ", dem ", " den ", " dem "]
    else:
        proper = [f"{month} {form}" for form in (str(day), ordinal(day))]
        proper += [f"{form} {month}" for form in (str(day), ordinal(day), f"{ordinal(day)} of")]
        proper += [f"the {ordinal(day)} of {month}"]
        if with_year:
            readable = [f"{form} {value.year}" for form in proper[:2]]
            proper = [f"{form}{', ' if form.startswith(month) else ' '}{value.year}" for form in proper]
            readable += [f"{form}{value.year}" for form in digits]
            if day > 12:
                proper += [f"{day}/{value.month:02}/{value.year}", f"{value.month:02}/{day}/{value.year}"]
                proper += [f"{value.month}/{day}/{value.year}", f"{day}/{value.month}/{value.year}"]
        joins = [", ", ", the ", " ", " the "]
    if with_year:
        readable.append(value.isoformat())
    if with_weekday:
        proper, readable = (
            [f"{weekday}{join}{form}" for join, form in product(joins, forms)] for forms in (proper, readable)
        )
    return Forms(tuple(proper), tuple(readable))


def ordinal_forms(number: int, language: str) -> Forms:
    """The forms of an ordinal."""
    words = _ORDINALS[language].split()
    word = (words[number - 1] + "*",) if number <= len(words) else ()
    written = f"{number}." if language == "de" else ordinal(number)
    return Forms((written, *word, *(form.capitalize() for form in word)))


def ordinal(number: int) -> str:
    """An English ordinal in digits."""
    last = number % 10
    suffix = ("st", "nd", "rd")[last - 1] if last in (1, 2, 3) and number % 100 not in (11, 12, 13) else "th"
    return f"{number}{suffix}"
