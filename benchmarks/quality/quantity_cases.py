"""Generated sentences with numbers, amounts, dates and times of all spellings, and the forms of their translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import TypeVar

import numpy as np
from babel.dates import get_day_names, get_month_names

from benchmarks.quality.quantity_forms import (
    CURRENCIES,
    SCALES,
    Forms,
    amount_forms,
    date_forms,
    number_forms,
    ordinal,
    ordinal_forms,
    percent_forms,
    time_forms,
    unit_forms,
)
from benchmarks.quality.quantity_sentences import TEMPLATES, UNITS

_T = TypeVar("_T")
_SPACES = str.maketrans("\u00a0\u202f\u2009", "   ")
_DASHES = str.maketrans("\u2013\u2011\u2212", "---")


@dataclass(frozen=True)
class Case:
    """A sentence with one or two values.

    Args:
        kind: The kind of its values.
        source: The sentence.
        values: The forms of its values in a translation, in the order of the sentence.
        apart: The forms of the parts of its only value, which may stand apart: a day of the week and its date.
    """

    kind: str
    source: str
    values: tuple[Forms, ...]
    apart: tuple[Forms, ...] = ()

    def grade(self, translation: str) -> tuple[bool, bool]:
        """Whether a translation has the values and no other number, and whether it spells them as its language does."""
        is_right, is_proper = _grade(translation, self.values)
        if is_proper or not self.apart:
            return is_right, is_proper
        apart = _grade(translation, self.apart)
        return is_right or apart[0], apart[1]


def _grade(translation: str, values: Sequence[Forms]) -> tuple[bool, bool]:
    rest = translation.translate(_SPACES).translate(_DASHES)
    is_proper = True
    # The last value of a range has the words that count for both.
    for value in reversed(values):
        span = _search(value.proper, rest)
        if span is None:
            is_proper = False
            span = _search(value.readable, rest, re.IGNORECASE)
        if span is None:
            return False, False
        rest = f"{rest[: span[0]]} | {rest[span[1] :]}"
    is_right = not any(map(str.isdigit, rest))
    return is_right, is_right and is_proper


def _search(forms: Sequence[str], text: str, flags: int = 0) -> tuple[int, int] | None:
    """The longest form in a text, as a whole; None if it has none."""
    for form in sorted(forms, key=len, reverse=True):
        plain = re.escape(form.rstrip("*").translate(_SPACES).translate(_DASHES))
        before = r"(?<![\w])(?<!\d[.,:/])" if form[0].isalnum() else r"(?<!\w)"
        after = "" if form.endswith("*") else r"(?!\w|[.,:/]\d)" if form[-1].isalnum() else ""
        matches = list(re.finditer(before + plain + after, text, flags))
        if matches:
            return matches[-1].span()
    return None


class _Generator:
    """Makes the values of one direction.

    Args:
        source: The language of the sentences.
        target: The language of the translations.
        rng: Random number generator.
    """

    def __init__(self, source: str, target: str, rng: np.random.Generator) -> None:
        self.source, self.target = source, target
        self._rng = rng

    def choice(self, values: Sequence[_T]) -> _T:
        return values[int(self._rng.integers(len(values)))]

    def between(self, low: int, high: int) -> int:
        return int(self._rng.integers(low, high))

    def number(self, value: Decimal, *, plain: bool = False) -> str:
        return number_forms(value, self.source).proper[0] if not plain else str(value)

    def integers(self) -> tuple[str, list[Forms]]:
        value = Decimal(
            self.choice(
                [
                    self.between(2, 100),
                    self.between(100, 1000),
                    self.between(1000, 10_000),
                    self.between(10_000, 10**6),
                    self.between(10**6, 10**9),
                ]
            )
        )
        plain = value < 10**6 and bool(self.between(0, 2))
        return self.number(value, plain=plain), [number_forms(value, self.target, plain=plain)]

    def decimals(self) -> tuple[str, list[Forms]]:
        value = self.choice(
            [
                Decimal(self.between(1, 1000)) / 10,
                Decimal(self.between(1, 10_000)) / 100,
                Decimal(self.between(10**5, 10**7)) / 100,
            ]
        )
        value = value if value % 1 else value + Decimal("0.5")
        return self.number(value), [number_forms(value, self.target)]

    def amounts(self) -> tuple[str, list[Forms]]:
        currency = self.choice(list(CURRENCIES))
        value = self.choice(
            [
                Decimal(self.between(1, 100)),
                Decimal(self.between(1000, 10**6)),
                Decimal(self.between(100, 10_000)) / 100,
                Decimal(self.between(10**5, 10**8)) / 100,
            ]
        )
        value = value.quantize(Decimal("0.01")) if value % 1 else value.quantize(Decimal(1))
        return self._amount(value, currency, 0)

    def large_amounts(self) -> tuple[str, list[Forms]]:
        value = self.choice([Decimal(self.between(2, 100)), Decimal(self.between(11, 990)) / 10])
        value = value if value % 1 else value.quantize(Decimal(1))
        return self._amount(value, self.choice(list(CURRENCIES)), self.choice(list(SCALES)))

    def _amount(self, value: Decimal, currency: str, power: int) -> tuple[str, list[Forms]]:
        number = self.number(value)
        if power:
            words = SCALES[power][self.source]
            number += f" {self.choice(words[:2] if self.source == 'de' else words[:1])}"
        sign, names = CURRENCIES[currency]
        options = [f"{number} {currency}", f"{currency} {number}", f"{number} {self.choice(names[self.source])}"]
        if sign:
            options += (
                [f"{sign}{number}"] * 2 if self.source == "en" else [f"{number} {sign}"] * 2 + [f"{sign} {number}"]
            )
        return self.choice(options), [amount_forms(value, currency, self.target, power)]

    def percentages(self) -> tuple[str, list[Forms]]:
        value = self.choice([Decimal(self.between(2, 100)), Decimal(self.between(1, 1000)) / 10])
        number = self.number(value)
        words = [f"{number} %", f"{number}%", f"{number} Prozent"]
        words = words if self.source == "de" else [f"{number}%", f"{number} percent", f"{number} per cent"]
        return self.choice(words), [percent_forms(value, self.target)]

    def _date(self) -> date:
        return date(1980, 1, 1) + timedelta(days=self.between(0, 20_000))

    def dates(self) -> tuple[str, list[Forms]]:
        value = self._date()
        month = get_month_names("wide", locale=self.source)[value.month]
        day, year = value.day, value.year
        if self.source == "de":
            texts = [f"{day}. {month} {year}", f"{day}. {month}"]
        else:
            texts = [
                f"{month} {day}, {year}",
                f"{day} {month} {year}",
                f"{month} {ordinal(day)}, {year}",
                f"{ordinal(day)} {month} {year}",
                f"{month} {day}",
                f"{day} {month}",
            ]
        text = self.choice(texts)
        return text, [date_forms(value, self.target, with_year=str(year) in text)]

    def weekdays(self) -> tuple[str, list[Forms]]:
        value = self._date()
        month = get_month_names("wide", locale=self.source)[value.month]
        weekday = get_day_names("wide", locale=self.source)[value.weekday()]
        day, year = value.day, value.year
        if self.source == "de":
            texts = [
                f"{weekday}, {day}. {month} {year}",
                f"{weekday}, den {day}. {month}",
                f"{weekday}, dem {day}. {month} {year}",
                f"{weekday}, den {day:02}.{value.month:02}.{year}",
            ]
        else:
            texts = [
                f"{weekday}, {month} {day}, {year}",
                f"{weekday}, {day} {month} {year}",
                f"{weekday}, {month} {day}",
                f"{weekday}, {month} {ordinal(day)}",
            ]
        text = self.choice(texts)
        return text, [date_forms(value, self.target, with_year=str(year) in text, with_weekday=True)]

    def numeric_dates(self) -> tuple[str, list[Forms]]:
        value = self._date()
        if self.source == "de":
            text = self.choice(
                [f"{value.day:02}.{value.month:02}.{value.year}", f"{value.day}.{value.month}.{value.year}"]
            )
        else:
            value = value.replace(day=self.between(13, 29))
            text = self.choice(
                [f"{value.month:02}/{value.day}/{value.year}", f"{value.day}/{value.month:02}/{value.year}"]
            )
        return text, [date_forms(value, self.target)]

    def kept_dates(self) -> tuple[str, list[Forms]]:
        value = self._date()
        value = value.replace(day=self.between(1, 13))
        iso = value.isoformat()
        if self.source == "en" and self.between(0, 2):
            text = f"{value.day:02}/{value.month:02}/{value.year}"
            return text, [Forms((text,))]
        return iso, [Forms((iso, *date_forms(value, self.target).proper))]

    def times(self) -> tuple[str, list[Forms]]:
        value = time(self.between(6, 23), self.choice([0, 0, 15, 30, 45, self.between(1, 60)]))
        return self._time(value), [time_forms(value, self.target)]

    def _time(self, value: time, *, clock: bool = True) -> str:
        hour, minute = value.hour, value.minute
        if self.source == "de":
            texts = [f"{hour:02}:{minute:02} Uhr", f"{hour}.{minute:02} Uhr", f"{hour}:{minute:02} Uhr"]
            return self.choice([f"{hour} Uhr", f"{hour} Uhr", texts[0]] if not minute else texts)
        half, hour_of_half = "ap"[hour >= 12], (hour - 1) % 12 + 1
        number = f"{hour_of_half}" if not minute else f"{hour_of_half}:{minute:02}"
        texts = [f"{number} {half}.m.", f"{number} {half}m", f"{number}{half}m", f"{number} {half.upper()}M"]
        return self.choice([*texts, f"{hour}:{minute:02}"] if clock else texts)

    def time_ranges(self) -> tuple[str, list[Forms]]:
        first = time(self.between(6, 12), self.choice([0, 0, 30]))
        last = time(self.between(13, 23), self.choice([0, 0, 30]))
        values = [time_forms(first, self.target, in_range=True), time_forms(last, self.target)]
        if self.source == "de":
            sign = self.choice(".:")
            whole = not (first.minute or last.minute)
            texts = [f"{item.hour}" if whole else f"{item.hour}{sign}{item.minute:02}" for item in (first, last)]
            return self.choice(["von {} bis {} Uhr", "von {} Uhr bis {} Uhr", "{}-{} Uhr", "{}\u2013{} Uhr"]).format(
                *texts
            ), values
        texts = [self._time(item, clock=False) for item in (first, last)]
        return self.choice(["from {} to {}", "from {} until {}", "between {} and {}"]).format(*texts), values

    def units(self) -> tuple[str, list[Forms]]:
        unit = self.choice(UNITS)
        value = self.choice(
            [Decimal(self.between(2, 100)), Decimal(self.between(11, 990)) / 10, Decimal(self.between(1000, 9000))]
        )
        value = value if value % 1 else value.quantize(Decimal(1))
        return f"{self.number(value)} {self.choice(unit[self.source][:2])}", [
            unit_forms(value, unit[self.target], self.target)
        ]

    def ordinals(self) -> tuple[str, list[Forms]]:
        number = self.choice([self.between(2, 13), self.between(13, 100)])
        return f"{number}." if self.source == "de" else ordinal(number), [ordinal_forms(number, self.target)]

    def ranges(self) -> tuple[str, list[Forms]]:
        low = self.choice(
            [Decimal(self.between(13, 90)), Decimal(self.between(11, 90)) / 10, Decimal(self.between(1000, 5000))]
        )
        values = [item if item % 1 else item.quantize(Decimal(1)) for item in (low, low + low.quantize(Decimal(1)))]
        join = self.choice(["-", "\u2013", " bis " if self.source == "de" else " to "])
        return join.join(map(self.number, values)), [number_forms(item, self.target) for item in values]

    def kept(self) -> tuple[str, list[Forms]]:
        def digits(number: int) -> str:
            return "".join(str(self.between(0 if index else 1, 10)) for index in range(number))

        texts = [
            f"+49 {digits(2)} {digits(7)}",
            f"0{digits(3)} {digits(3)} {digits(4)}",
            f"0{digits(2)}/{digits(5)}-{digits(2)}",
            f"{digits(1)}.{digits(1)}.{digits(2)}",
            f"v{digits(1)}.{digits(2)}",
            f"10.{digits(2)}.0.{digits(2)}",
            f"978-3-{digits(4)}-{digits(4)}-{digits(1)}",
            f"{digits(3)}-{digits(3)}-{digits(4)}",
            f"A{digits(2)}-{digits(3)}",
            f"{digits(4)}-{digits(4)}-{digits(4)}",
            f"LH {digits(3)}",
            f"+1 {digits(3)}-{digits(3)}-{digits(4)}",
        ]
        text = self.choice(texts)
        return text, [Forms((text,))]

    def versions(self) -> tuple[str, list[Forms]]:
        names = ["Python", "Windows", "Ubuntu", "Android", "version", "Firefox"]
        name = self.choice(names)
        name = "Version" if name == "version" and self.source == "de" else name
        number = f"{self.between(1, 20)}.{self.between(1, 30)}"
        return f"{name} {number}", [Forms((number,))]


_KINDS: dict[str, tuple[str, Callable[[_Generator], tuple[str, list[Forms]]]]] = {
    "integers": ("integers", _Generator.integers),
    "decimals": ("decimals", _Generator.decimals),
    "amounts": ("amounts", _Generator.amounts),
    "amounts of millions": ("large amounts", _Generator.large_amounts),
    "percentages": ("percentages", _Generator.percentages),
    "dates": ("dates", _Generator.dates),
    "dates with weekday": ("dates", _Generator.weekdays),
    "dates in digits": ("dates", _Generator.numeric_dates),
    "dates that stay": ("dates", _Generator.kept_dates),
    "times": ("times", _Generator.times),
    "ranges of times": ("time ranges", _Generator.time_ranges),
    "units": ("units", _Generator.units),
    "ordinals": ("ordinals", _Generator.ordinals),
    "ranges": ("ranges", _Generator.ranges),
    "numbers that stay": ("kept", _Generator.kept),
    "versions": ("versions", _Generator.versions),
}
"""By name of the kind: its templates, and what makes its values."""


def quantity_cases(source: str, target: str, number: int, rng: np.random.Generator) -> list[Case]:
    """Sentences with values, of all kinds in turn.

    Args:
        source: ``en`` or ``de``.
        target: The other one.
        number: The number of sentences.
        rng: Random number generator.
    """
    generator = _Generator(source, target, rng)
    cases: list[Case] = []
    for index in range(number):
        kind = list(_KINDS)[index % len(_KINDS)]
        templates, make = _KINDS[kind]
        text, values = make(generator)
        template = generator.choice(TEMPLATES[templates][source])
        text = text.rstrip(".") if template.format("X").endswith("X.") and text.endswith(".") else text
        apart: tuple[Forms, ...] = ()
        if kind == "dates with weekday":
            days = get_day_names("wide", locale=target).values()
            weekday = next(day for day in days if values[0].proper[0].startswith(day))
            forms = (values[0].proper, values[0].readable)
            alone = [tuple(form.removeprefix(weekday).lstrip(", ") for form in form_list) for form_list in forms]
            apart = Forms((weekday,)), Forms(*alone)
        cases.append(Case(kind, template.format(text), tuple(values), apart))
    return cases
