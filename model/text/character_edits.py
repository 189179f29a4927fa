"""Characters that a model reads in another form: the text says one thing and its characters another.

An apostrophe may be escaped or typed as an accent, a letter may be a ligature, a sequence with a combining accent or a
character reference, and German gender forms have a sign inside a word. A model reads the plain spelling; the positions
of the original characters are kept. What :func:`find_edits` does not list is read as it is.

Every expression takes linear time: its repetitions are possessive or bounded, and a word is matched from its start.
"""

from __future__ import annotations

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from model.text.protection import merge_spans
from model.text.punctuation import quotes_to_read
from model.text.symbols import Span, overlaps


class Edit(NamedTuple):
    """Characters of a text, and what a model reads instead.

    Args:
        start: Index of the first character.
        end: Index after the last one.
        text: What the model reads; empty if it skips the characters.
    """

    start: int
    end: int
    text: str


_GENDER_SIGN = re.compile("[*_/(:\u00b7\u2022\u2027]")
_RARE = re.compile(
    "[\u00ad\u00b4\u017f\u02b9\u02bc\u0132\u0133\u0300-\u036f\u2018\u201b\u200b\u2032\u2060\ufb00-\ufb06\ufeff"
    "\uff07-\uff5a\U0001d400-\U0001d7ff]"
)

_ESCAPES = r"\\{1,2}'|''|\\{1,2}u(?:2019|0027)|\\x27|&(?:#0?39|#8217|#[xX](?:27|2019)|apos|rsquo);"
_ACCENTS = "\u00b4\u02b9\u02bc\u2018\u201b\u2032\uff07"
# The letters after an apostrophe where a backtick stands for it: any other backtick may begin code.
_SHORT_FORMS = "d|em|en|er|ll|m|n|ne|nen|ner|r|re|s|t|ve"
_LETTER = r"[^\W\d_]"
_APOSTROPHE = re.compile(
    rf"(?<={_LETTER})(?:(?P<escape>{_ESCAPES})|[{_ACCENTS}]|`(?=(?:{_SHORT_FORMS})\b))(?={_LETTER})"
)
_REFERENCE = re.compile(r"&(?:[A-Za-z]{2,8}|#\d{2,5}|#[xX][0-9A-Fa-f]{2,4});")
# Soft hyphens and characters without width inside a word, ligatures, long s, letters of other widths and styles.
_INVISIBLE = re.compile(rf"(?<={_LETTER})[\u00ad\u200b\u2060\ufeff]+(?={_LETTER})")
_COMPATIBLE = re.compile(
    r"[\u017f\u0132\u0133\ufb00-\ufb06\uff10-\uff19\uff21-\uff3a\uff41-\uff5a\U0001d400-\U0001d7ff]"
)
_DECOMPOSED = re.compile(rf"{_LETTER}[\u0300-\u036f]{{1,8}}")

_SIGN = "*\u00b7\u2022\u2027:_"
_GENDER_NOUN = re.compile(
    rf"(?<!\w)[A-Z\u00c4\u00d6\u00dc](?:[a-z\u00e4\u00f6\u00fc\u00df]{{1,40}}+"
    rf"(?:(?P<sign>[{_SIGN}]|/-?)(?=in(?!\w)|innen)|(?P<bracket>\((?P<ending>in|innen)\))|(?P<capital>I)(?=nnen(?!\w)))"
    r"|[A-Z\u00c4\u00d6\u00dc]{2,40}+(?P<upper>[*:\u00b7])(?=IN(?:NEN)?(?!\w)))"
)
_PRONOUN = "(?:[dms]?ein|kein|unser|eu?er|ihr|[dj]ies|jed|jen|welch|manch|solch|all|ander|beid)"
_GENDER_PRONOUN = re.compile(
    rf"(?<![\w*])(?:{_PRONOUN}(?P<joined>[{_SIGN}])e|{_PRONOUN}e(?P<dropped>[{_SIGN}][rnms])"
    rf"|{_LETTER}{{2,40}}?e(?P<also>[*\u00b7][rnms]))(?![\w*])",
    re.IGNORECASE,
)
_GENDER_ARTICLE = re.compile(
    rf"(?<![\w*])(?P<first>d(?:er|ie|en|em|es)|er|sie|ih[nmr]|sein|dessen|deren)[{_SIGN}]"
    rf"(?P<second>d(?:er|ie|en|em|es)|er|sie|ih[nmr]|sein|dessen|deren)(?![\w*])",
    re.IGNORECASE,
)
_ENGLISH_DATES = (
    "January February March April June July August September October November December "
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday"
)
_GERMAN_DATES = (
    "Januar Februar März April Juni Juli August September Oktober November Dezember "
    "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag"
)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", "Mo", "Di", "Mi", "Do", "Fr", "Sa", "So")
_FEMININE = ("die", "sie", "deren", "ihr", "der")

_NAMES_OF_DATES = {
    "en": {name[:3]: name for name in _ENGLISH_DATES.split()},
    "de": {name[: 2 if name.endswith(("tag", "woch")) else 3]: name for name in _GERMAN_DATES.split()}
    | {"Mrz": "März"},
}


def _expression_of_dates(names: Iterable[str], before_day: bool) -> re.Pattern[str]:
    """Abbreviations beside a day of the month or before a year."""
    days, months = ("|".join(name for name in names if (name in _DAYS) == are_days) for are_days in (True, False))
    end = r"(?!\w)(?:\.(?=,? ?\w))?"
    day = r"\d{1,2}(?!\d|[.:]\d| ?%)|" if before_day else ""
    return re.compile(
        rf"(?<!\w)(?:(?:(?<=\d )|(?<=\d\. ))(?P<after>{months})t?{end}"
        rf"|(?P<before>{months})t?{end}(?=\ (?:{day}(?:19|20)\d\d\b))"
        rf"|(?P<day>{days}){end}(?=, (?:\d{{1,2}}(?:\.| [A-Z])|(?:{months})\w*\.? \d)))"
    )


_DATES = {language: _expression_of_dates(names, language == "en") for language, names in _NAMES_OF_DATES.items()}


@lru_cache(maxsize=4)  # of the text that is being read: its spans and its sentences need them
def find_edits(text: str, language: str) -> tuple[Edit, ...]:
    """The characters of a text that a model reads in another form, in order; edits do not overlap.

    Args:
        text: Any text.
        language: Its language, without a region.
    """
    candidates: list[Edit] = []
    # Most texts have none of these, which takes a microsecond to see.
    has_escapes = "\\" in text or "''" in text or "&" in text or "`" in text
    if has_escapes or (not text.isascii() and _RARE.search(text)):
        candidates += [Edit(*match.span(), "'") for match in _APOSTROPHE.finditer(text)]
        candidates += _letters(text)
    if language in _DATES:
        candidates += _dates(text, language)
    if language == "de" and ("Innen" in text or _GENDER_SIGN.search(text)):
        candidates += _gender_forms(text)
    edits: list[Edit] = []
    for edit in sorted(candidates):
        if not edits or edit.start >= edits[-1].end:
            edits.append(edit)
    return tuple(edits)


def escape_of_apostrophes(text: str, edits: Sequence[Edit]) -> str:
    """How a text escapes its apostrophes: the first escape among its edits; empty if it escapes none.

    Args:
        text: The text.
        edits: Its edits.
    """
    escapes = (text[edit.start : edit.end] for edit in edits if edit.text == "'")
    return next((escape for escape in escapes if len(escape) > 1), "")


def edits_outside(edits: Sequence[Edit], spans: Sequence[Span]) -> list[Edit]:
    """The edits that share no character with protected spans.

    Args:
        edits: Edits in order.
        spans: Spans in order that do not overlap.
    """
    return [edit for edit in edits if not overlaps((edit.start, edit.end), spans)]


def without_code_quotes(text: str, edits: Sequence[Edit]) -> str:
    """A text of the same length whose backticks in place of apostrophes are apostrophes: they begin no code.

    Args:
        text: The text.
        edits: Its edits.
    """
    return with_stand_ins(text, [edit for edit in edits if text[edit.start] == "`"])


def spans_outside(spans: Sequence[Span], edits: Sequence[Edit]) -> list[Span]:
    """The protected spans of a text that are not an edit, such as an escaped apostrophe.

    Args:
        spans: The spans, in order.
        edits: The edits of the text, in order.
    """
    ends = {edit.start: edit.end for edit in edits}
    return [(start, end) for start, end in spans if ends.get(start) != end]


def within(edits: Sequence[Edit], start: int, end: int) -> tuple[Edit, ...]:
    """The edits of a text that lie in a part of it, in characters of the part.

    Args:
        edits: Edits in order.
        start: Index of the part's first character.
        end: Index after its last character.
    """
    inside = takewhile(lambda edit: edit.end <= end, islice(edits, bisect_left(edits, (start,)), None))
    return tuple(Edit(edit.start - start, edit.end - start, edit.text) for edit in inside)


def with_quotes(text: str, protected: Sequence[Span], edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """The edits of a sentence, with those of its quotation marks.

    Args:
        text: The sentence.
        protected: Its protected spans, in order.
        edits: Its other edits, in order.
    """
    kept = merge_spans(protected, [(start, end) for start, end, _ in edits]) if edits else protected
    quotes = [Edit(index, index + 1, form) for index, form in quotes_to_read(text, kept)]
    return tuple(sorted([*edits, *quotes])) if quotes else edits


def with_stand_ins(text: str, edits: Sequence[Edit]) -> str:
    """A text of the same length with what a model reads in place of each edit, repeated or cut to fit.

    Args:
        text: The text.
        edits: Its edits.
    """
    parts: list[str] = []
    position = 0
    for start, end, new in edits:
        parts += [text[position:start], ((new or text[start - 1]) * (end - start))[: end - start]]
        position = end
    return "".join([*parts, text[position:]])


def with_edits(text: str, origins: Sequence[int] | None, edits: Sequence[Edit]) -> tuple[str, list[int], list[int]]:
    """A text with its edits made.

    Args:
        text: A text, or what remains of one.
        origins: The original index of each of its characters; None if it is complete.
        edits: Edits in order, in original characters.

    Returns:
        The text, and for each of its characters the original index of the first and after the last one it stands for.
    """
    origins = range(len(text)) if origins is None else origins
    parts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    position = 0
    for edit in [*edits, Edit(len(text) and origins[-1] + 1, 0, "")]:
        first = bisect_left(origins, edit.start)
        parts += [text[position:first], edit.text]
        starts += origins[position:first]
        ends += (origin + 1 for origin in origins[position:first])
        starts += [edit.start] * len(edit.text)
        ends += [edit.end] * len(edit.text)
        position = bisect_left(origins, edit.end) if edit.end else first
    return "".join(parts), starts, ends


def _letters(text: str) -> Iterator[Edit]:
    """Character references of letters and dashes, and letters in other characters."""
    if "&" in text:
        for match in _REFERENCE.finditer(text):
            letter = html.unescape(match[0])
            if len(letter) == 1 and (letter.isalpha() or letter in "\u2013\u2014"):
                yield Edit(*match.span(), letter)
    if text.isascii():
        return
    for match in _INVISIBLE.finditer(text):
        yield Edit(*match.span(), "")
    for match in _COMPATIBLE.finditer(text):
        plain = unicodedata.normalize("NFKC", match[0])
        if plain.isalnum():
            yield Edit(*match.span(), plain)
    for match in _DECOMPOSED.finditer(text):
        composed = unicodedata.normalize("NFC", match[0])
        if len(composed) < len(match[0]):
            yield Edit(*match.span(), composed)


def _dates(text: str, language: str) -> Iterator[Edit]:
    """Abbreviated months and days of the week in a date."""
    for match in _DATES[language].finditer(text):
        yield Edit(*match.span(), _NAMES_OF_DATES[language][match[match.lastgroup or 0]])


def _gender_forms(text: str) -> Iterator[Edit]:
    """The signs of German gender forms: the plain word is the feminine, which has all letters of the form."""
    for match in _GENDER_NOUN.finditer(text):
        if match["bracket"]:
            yield Edit(*match.span("bracket"), match["ending"])
        else:
            yield Edit(*match.span(match.lastgroup or 0), "i" if match["capital"] else "")
    for match in _GENDER_PRONOUN.finditer(text):
        yield Edit(*match.span(match.lastgroup or 0), "")
    for match in _GENDER_ARTICLE.finditer(text):
        pair = match["first"].lower(), match["second"].lower()
        word = next((word for word in _FEMININE if word in pair), "")
        if word:
            yield Edit(*match.span(), word.capitalize() if match[0][0].isupper() else word)
