"""How languages write numbers, dates and times: separators, names and words. A language with a row is read and spelled.

The rows are made from CLDR by ``python -m scripts.quantity_names``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    """The separators and names of a language.

    Args:
        decimal: The sign before a fraction.
        group: The sign between groups of three digits.
        months: The names of the months.
        short_months: Their abbreviations, without a full stop.
        weekdays: The names of the days, from Monday.
        scales: By power of ten: its words, that of the plural first.
    """

    decimal: str
    group: str
    months: tuple[str, ...]
    short_months: tuple[str, ...]
    weekdays: tuple[str, ...]
    scales: dict[int, tuple[str, ...]]


UNIT_WORDS = {
    "km/h": r"km/h|kmh|kph|kilomet\w+ (?:per|an|pro|in der|die|eine) (?:hour|stunde)|stundenkilomet\w+",
    "mph": r"mph|miles (?:per|an) hour|meilen pro stunde",
    "m/s": r"m/s|met(?:er|re)s? (?:per|pro) (?:second|sekunde)",
    "km": r"km|kilomet\w+",
    "cm": r"cm|[cz]entimet\w+",
    "mm": r"mm|millimet\w+",
    "m²": r"m²|sqm|square met\w+|quadratmet\w+",
    "m³": r"m³|cubic met\w+|kubikmet\w+",
    "m": r"m|met(?:er|re)[ns]?",
    "mi": r"miles?|meilen?",
    "ft": r"ft|feet|foot|fuß",
    "in": r"inch(?:es)?|zoll",
    "kg": r"kg|kilos?|kilogram\w*",
    "mg": r"mg|milligram\w*",
    "g": r"g|gram\w*",
    "t": r"t|tonn?\w{0,3}",
    "ml": r"ml|millilit\w+",
    "l": r"l|lit(?:er|re)[ns]?",
    "GB": r"gb|gigab\w+",
    "MB": r"mb|megab\w+",
    "TB": r"tb|terab\w+",
    "kWh": r"kwh|kilowatt\w* ?(?:hour|stunde)\w*|kilowattstunde\w*",
    "kW": r"kw|kilowatt\w*",
    "MHz": r"mhz|megahertz",
    "GHz": r"ghz|gigahertz",
    "°C": r"°c|degrees? (?:celsius|centigrade)|grad celsius",
    "°F": r"°f|degrees? fahrenheit|grad fahrenheit",
    "°": r"°|degrees?|grad",
}
"""By symbol of a unit: an expression of its words in all languages, in small letters; longer units come first."""

CURRENCY_WORDS = {
    "€": "euro|eur",
    "$": "dollar|usd|bucks",
    "£": "pound|pfund|gbp|sterling",
    "¥": "yen|jpy|yuan",
    "EUR": "euro|eur|€",
    "USD": "dollar|usd|\\$",
    "GBP": "pound|pfund|gbp|£",
    "CHF": "fran|chf",
    "JPY": "yen|jpy|¥",
}
"""By sign or code of a currency: an expression of the words for it, in small letters."""


# From CLDR: begin
SIGNS = "€$£¥"

NAMES = {
    "de": Names(
        decimal=",",
        group=".",
        months=(
            "Januar",
            "Februar",
            "März",
            "April",
            "Mai",
            "Juni",
            "Juli",
            "August",
            "September",
            "Oktober",
            "November",
            "Dezember",
        ),
        short_months=("Jan", "Feb", "März", "Apr", "Mai", "Juni", "Juli", "Aug", "Sept", "Okt", "Nov", "Dez"),
        weekdays=("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
        scales={
            3: ("Tausend",),
            6: ("Millionen", "Million", "Mio."),
            9: ("Milliarden", "Milliarde", "Mrd."),
            12: ("Billionen", "Billion", "Bio."),
        },
    ),
    "en": Names(
        decimal=".",
        group=",",
        months=(
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ),
        short_months=("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
        weekdays=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        scales={3: ("thousand",), 6: ("million",), 9: ("billion",), 12: ("trillion",)},
    ),
}
# From CLDR: end
