"""Write the names and separators of numbers and dates into model/text/quantities/names.py, from CLDR, with babel.

python -m scripts.quantity_names

The service reads this table instead of babel, which takes 60 ms and 8 MB until it has formatted the first dates, and
parses only numbers and dates in digits: no names of months, no amounts, no words for millions.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from babel import Locale

from model.text.quantities.names import Names

MODULE = Path(__file__).parent.parent / "model" / "text" / "quantities" / "names.py"
START, END = "# From CLDR: begin\n", "# From CLDR: end\n"
LANGUAGES = ("de", "en")
_CURRENCIES = ("EUR", "USD", "GBP", "JPY")
_MONTHS, _DAYS = range(1, 13), range(7)


def names_of(language: str) -> Names:
    """The separators and names of a language in CLDR.

    Args:
        language: Its code.
    """
    locale = Locale(language)
    symbols = locale.number_symbols["latn"]
    months, short = (
        tuple(locale.months["format"][width][month].rstrip(".") for month in _MONTHS)
        for width in ("wide", "abbreviated")
    )
    days = tuple(locale.days["format"]["wide"][day] for day in _DAYS)
    return Names(symbols["decimal"], symbols["group"], months, short, days, _scales(locale))


def signs() -> str:
    """The signs of currencies that are read."""
    return "".join(Locale("en").currency_symbols[code] for code in _CURRENCIES)


def module(text: str) -> str:
    """The module with the current table.

    Args:
        text: The module.
    """
    before, _, rest = text.partition(START)
    rows = "".join(f"{language!r}: {names_of(language)!r},\n" for language in LANGUAGES)
    table = f"SIGNS = {signs()!r}\n\nNAMES = {{\n{rows}}}\n"
    return f"{before}{START}{table}{END}{rest.partition(END)[2]}"


def _scales(locale: Locale) -> dict[int, tuple[str, ...]]:
    """By power of ten: its words, that of the plural first, as most amounts need it."""
    scales: dict[int, tuple[str, ...]] = {}
    for width in ("long", "short"):
        for form, patterns in locale.compact_decimal_formats[width].items():
            for power, pattern in patterns.items():
                word = re.sub("[0'\xa0 ]", "", str(pattern.pattern))
                exponent = len(power) - 1
                words = scales.get(exponent, ())
                if exponent % 3 == 0 and len(word) > 2 and word not in words:
                    scales[exponent] = (word, *words) if form == "other" and width == "long" else (*words, word)
    return scales


if __name__ == "__main__":
    MODULE.write_text(module(MODULE.read_text(encoding="utf-8")), encoding="utf-8")
    subprocess.run([sys.executable, "-m", "ruff", "format", str(MODULE)], check=True)
