"""Which quantities of a sentence its translation has, how to spell those it has in another form, and which it lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from model.text.quantities.names import CURRENCY_WORDS, NAMES, SIGNS, UNIT_WORDS
from model.text.quantities.quantity import Quantity
from model.text.quantities.reading import position_of, read_quantities
from model.text.quantities.spelling import spelled
from model.text.symbols import Span

_HALF_OF_DAY = re.compile(r"nachmittag|abend|mittag|nacht|afternoon|evening|night|noon", re.IGNORECASE)
_HOURS = {
    "de": ["zwölf", "ein", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf"],
    "en": ["twelve", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"],
}
_HOUR_IN_WORDS = re.compile(r"\b(?:halb|[Vv]iertel|half|quarter|noon|midday|midnight|[Mm]ittag|[Mm]itternacht)")
_WORDS_BEFORE = {
    ("en", "date", "the "): "",
    ("de", "date", "im "): "am ",
    ("de", "date", "in "): "am ",
    ("de", "date", "von "): "vom ",
    ("de", "date", "bis "): "bis zum ",
    ("de", "time", "im "): "um ",
    ("de", "time", "am "): "um ",
}
_BEFORE_ORDINAL = re.compile(r"(?<!\w)(?:the|on|in|at|her|his|its|their|our|my|your) $")
_NOUN = re.compile(r" (?!of )[a-z]")
_SUFFIX = re.compile(r"(?:st|nd|rd|th)(?!\w)")
_NUMBER_WORDS = re.compile(
    rf"\b(?:{'|'.join(word for words in _HOURS.values() for word in words)}|dozen|Dutzend)", re.I
)
_RANGE_SIGN = re.compile(r" ?[-\u2013\u2014] ?")
_MAX_QUANTITIES = 64
"""The most quantities that are compared with those of a translation, one by one."""

_MAX_JOINED = 4
"""The most numbers that are read as one that a translation has torn."""


@dataclass(frozen=True)
class Respelling:
    """Characters of a translation that spell a quantity in another form than its language does.

    Args:
        source: The quantity in the sentence.
        start: Index of the first character in the translation.
        end: Index after the last one.
        text: The right form.
    """

    source: Span
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Agreement:
    """The quantities of a sentence and those of its translation.

    Args:
        respellings: The changes of the translation, in order; they do not overlap.
        sources: The characters of the sentence whose quantities the translation has.
        targets: Those of the translation that have them.
        lost: The dates and times that it does not have.
    """

    respellings: tuple[Respelling, ...] = ()
    sources: tuple[Span, ...] = ()
    targets: tuple[Span, ...] = ()
    lost: tuple[Span, ...] = ()


NO_QUANTITIES = Agreement()


def has_names(source: str, target: str) -> bool:
    """Whether quantities of a pair of languages are read."""
    return source in NAMES and target in NAMES and source != target


@lru_cache(maxsize=16)  # of the sentence that is being verified: it is written and verified several times
def find_agreement(
    source: str, kept: tuple[Span, ...], target: str, spans: tuple[Span, ...], languages: tuple[str, str]
) -> Agreement:
    """Compare the quantities of a sentence with those of its translation.

    Args:
        source: The sentence.
        kept: Its spans that are not read, in order.
        target: Its translation.
        spans: The spans of the translation that are not read, in order.
        languages: Their languages, without regions; both have names (:func:`has_names`).
    """
    first = [quantity for quantity in read_quantities(source, languages[0]) if not quantity.overlaps(kept)]
    if not 0 < len(first) <= _MAX_QUANTITIES:
        return NO_QUANTITIES
    second = [quantity for quantity in read_quantities(target, languages[1]) if not quantity.overlaps(spans)]
    if len(second) > _MAX_QUANTITIES:
        return NO_QUANTITIES
    return _Comparison(source, first, target, second, languages).agreement()


def before_form(text: str, start: int, form: str, kind: str, language: str) -> tuple[int, str]:
    """The words before a date or time in its proper form that need another form themselves.

    Args:
        text: A translation.
        start: Index of the first character of the date or time.
        form: The proper form.
        kind: Its kind.
        language: The language of the translation.

    Returns:
        Where the words begin, and what replaces them; the start and nothing if they stay.
    """
    if kind not in ("date", "time") or not form[:1].isdigit():
        return start, ""
    for (of_language, of_kind, word), other in _WORDS_BEFORE.items():
        begin = start - len(word)
        is_word = begin == 0 or (begin > 0 and not text[begin - 1].isalnum())
        if (of_language, of_kind) == (language, kind) and is_word and text[begin:start] == word:
            return begin, other
    return start, ""


def right_form(source: str, span: Span, languages: tuple[str, str]) -> tuple[Quantity, str] | None:
    """The quantity around a number of a sentence, and how the target language spells it; None if it is none.

    Args:
        source: The sentence.
        span: The number.
        languages: The languages of the sentence and of its translation, without regions.
    """
    quantity = position_of(read_quantities(source, languages[0]), span)
    if quantity is None:
        return None
    return quantity, spelled(quantity, source, languages[1])


class _Comparison:
    """The comparison of a sentence with its translation."""

    def __init__(
        self,
        source: str,
        first: Sequence[Quantity],
        target: str,
        second: Sequence[Quantity],
        languages: tuple[str, str],
    ) -> None:
        self._source, self._target, self._languages = source, target, languages
        self._first, self._second = list(first), list(second)
        self._matched: list[Quantity] = []
        self._targets: list[Span] = []
        self._respellings: list[Respelling] = []

    def agreement(self) -> Agreement:
        """Match equal values, then equal digits, then dates and times in their order."""
        self._match_values()
        if self._first and self._second:
            self._match_digits()
            self._match_torn()
            self._match_joined()
            self._match_kinds()
        lost = [
            quantity.span
            for quantity in self._first
            if quantity.kind in ("date", "time") and not self._in_words(quantity)
        ]
        lost = sorted({*lost, *self._repeated()}) if self._second else lost
        respellings = sorted(self._respellings, key=lambda item: item.start)
        return Agreement(
            tuple(_without_overlaps(respellings)),
            tuple(sorted(quantity.span for quantity in self._matched)),
            tuple(sorted(self._targets)),
            tuple(lost),
        )

    def _match(self, source: Quantity, target: Quantity, *, respell: bool) -> None:
        self._take([source], [target])
        if respell:
            self._respell(source, target.span, target)

    def _take(self, sources: Sequence[Quantity], targets: Sequence[Quantity]) -> None:
        """Note quantities of the sentence that the translation has, and those of the translation that are them."""
        for source in sources:
            self._first.remove(source)
            self._matched.append(source)
        for target in targets:
            self._second.remove(target)
            self._targets.append(target.span)

    def _respell(self, source: Quantity, span: Span, target: Quantity | None) -> None:
        start, end = span
        lacks_currency = target is not None and self._lacks_currency(source, target)
        text = spelled(source, self._source, self._languages[1], None if lacks_currency else target)
        if lacks_currency and not source.sign:
            text = f"{source.currency} {text}"
        written = self._target
        if target is not None and self._lacks_unit(source, target):
            text, end = f"{text} {source.unit}", target.unit_end or end
        if source.kind in ("number", "code") and "Uhr" not in self._source and written[end : end + 4] == " Uhr":
            end += 4
        if suffix := _SUFFIX.match(written, end):
            end = suffix.end()
        has_stray_sign = source.kind == "time" or (source.sign and target is not None and target.kind == "code")
        if has_stray_sign and written[max(0, start - 1) : start] in tuple(SIGNS):
            start -= 1
        if written[end - 1] == "." and end == len(written):
            end -= 1  # that of an abbreviation is also that of the sentence
        start, before = before_form(written, start, text, source.kind, self._languages[1])
        text = before + text
        if written[start:end] != text:
            self._respellings.append(Respelling(source.span, start, end, text))

    def _match_values(self) -> None:
        # Times of a day of 24 may be in either half; those that are in the same one are matched first.
        for is_exact in (True, False):
            for source in list(self._first):
                target = next((other for other in self._second if self._agrees(source, other, is_exact)), None)
                if target is not None:
                    weekday = source.weekday
                    has_weekday = weekday is None or target.weekday == weekday or self._has_weekday(weekday)
                    is_proper = target.is_proper and has_weekday and not self._lacks(source, target)
                    self._match(source, target, respell=not is_proper and source.kind != "code")

    def _agrees(self, source: Quantity, target: Quantity, is_exact: bool) -> bool:
        if source.kind == "code":
            return self._target[slice(*target.core)] == source.value
        if source.kind != target.kind:
            return {source.kind, target.kind} == {"number", "ordinal"} and source.value == target.value
        if source.kind != "time" or is_exact:
            return source.value == target.value
        text = self._target if source.is_certain else self._source
        is_open = not (source.is_certain and target.is_certain) and _HALF_OF_DAY.search(text) is not None
        is_same = (
            isinstance(source.value, int) and isinstance(target.value, int) and not (source.value - target.value) % 720
        )
        return is_open and is_same

    def _lacks(self, source: Quantity, target: Quantity) -> bool:
        """Whether a translation has a number without its currency, its unit or the form of its ordinal."""
        is_cardinal = source.kind == "ordinal" and target.kind == "number" and self._languages[1] == "en"
        start, end = target.span
        return (
            self._lacks_currency(source, target)
            or self._lacks_unit(source, target)
            or (
                is_cardinal
                and bool(
                    _BEFORE_ORDINAL.search(self._target, max(0, start - 8), start) and _NOUN.match(self._target, end)
                )
            )
        )

    def _lacks_unit(self, source: Quantity, target: Quantity) -> bool:
        if not source.unit or source.unit == target.unit:
            return False
        words = UNIT_WORDS[source.unit]
        words = f"{words}|{UNIT_WORDS['°']}" if source.unit == "°C" else words
        return re.search(rf"(?<![^\W\d_])(?:{words})(?!\w)", self._target, re.IGNORECASE) is None

    def _lacks_currency(self, source: Quantity, target: Quantity) -> bool:
        """Whether a translation has an amount without its currency, or with that of another."""
        if not source.currency or source.currency in (target.sign, target.currency):
            return False
        if target.sign.strip("%") and source.sign:
            return True
        return re.search(CURRENCY_WORDS[source.currency], self._target.lower()) is None

    def _has_weekday(self, weekday: int) -> bool:
        return NAMES[self._languages[1]].weekdays[weekday] in self._target

    def _match_digits(self) -> None:
        """Quantities with the same digits: the translation has another form, or another value by its form."""
        for source in list(self._first):
            target = next((other for other in self._second if other.digits == source.digits), None)
            if target is not None and (source.kind != "ordinal" or target.kind != "number"):
                # A number without a word may have one in the translation: at 7, um 7 Uhr.
                is_plain = source.kind in ("number", "ordinal") and not (source.unit or source.currency or source.scale)
                is_named = is_plain and target.kind in ("date", "time")
                self._match(source, target, respell=not is_named)

    def _match_torn(self) -> None:
        """Numbers beside one another in a translation that have the digits of one in the sentence: 1987 02-09."""
        for source in list(self._first):
            if len(source.digits) < 4:
                continue
            run = next((run for run in self._runs() if "".join(part.digits for part in run) == source.digits), None)
            if run:
                span = run[0].span[0], run[-1].span[1]
                self._take([source], run)
                self._respell(source, span, None)

    def _match_joined(self) -> None:
        """Both ends of a range that a translation has as one number or time: 5:10 for 5-10."""
        for first, last in list(pairwise(self._first)):
            sign = _RANGE_SIGN.fullmatch(self._source, first.span[1], last.span[0])
            digits = first.digits + last.digits
            target = next((other for other in self._second if other.digits == digits), None)
            if sign is None or target is None or first not in self._first or last not in self._first:
                continue
            self._take([first, last], [target])
            ends = (spelled(source, self._source, self._languages[1]) for source in (first, last))
            span = first.span[0], last.span[1]
            self._respellings.append(Respelling(span, *target.span, sign[0].join(ends)))

    def _runs(self) -> Iterator[list[Quantity]]:
        """The runs of two to four numbers that are beside one another."""
        for start in range(len(self._second)):
            for end in range(start + 1, min(start + _MAX_JOINED, len(self._second))):
                between = self._target[self._second[end - 1].span[1] : self._second[end].span[0]]
                if len(between) > 2 or any(map(str.isalnum, between)):
                    break
                yield self._second[start : end + 1]

    def _match_kinds(self) -> None:
        """Dates and times that have other values, if there are as many of a kind in both."""
        for kind in ("date", "time"):
            sources = [quantity for quantity in self._first if quantity.kind == kind]
            targets = [quantity for quantity in self._second if quantity.kind == kind]
            if len(sources) == len(targets):
                for source, target in zip(sources, targets, strict=True):
                    self._match(source, target, respell=True)

    def _repeated(self) -> Iterator[Span]:
        """The quantities that a translation has, and then again or in part."""
        rest = {other.digits for other in self._second}
        has_words = bool(_NUMBER_WORDS.search(self._source) or _HOUR_IN_WORDS.search(self._source))
        kinds = set() if has_words else {other.kind for other in self._second} & {"date", "time"}
        for source in self._matched:
            is_again = source.digits in rest and (len(source.digits) > 1 or source.kind == "date" or not has_words)
            is_in_part = any(len(digits) > 2 and digits in source.digits for digits in rest)
            if is_again or is_in_part or source.kind in kinds:
                yield source.span

    def _in_words(self, quantity: Quantity) -> bool:
        """Whether a translation has a date or time in its words."""
        language = self._languages[1]
        if quantity.kind == "time" and isinstance(quantity.value, int):
            hour = _HOURS[language][quantity.value // 60 % 12]
            return re.search(rf"\b{hour}", self._target, re.IGNORECASE) is not None or bool(
                _HOUR_IN_WORDS.search(self._target)
            )
        if isinstance(quantity.value, tuple):
            year, month, day = quantity.value
            numbers = {self._target[slice(*other.core)].rstrip(".") for other in self._second}
            parts = {str(part) for part in (year, day) if part is not None}
            return NAMES[language].months[month - 1] in self._target and parts <= numbers
        return False


def _without_overlaps(respellings: Sequence[Respelling]) -> Iterator[Respelling]:
    position = 0
    for item in respellings:
        if item.start >= position:
            yield item
            position = item.end
