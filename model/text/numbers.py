"""The numbers of a text, and those that its translation lacks, writes in another form or writes too often."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise

from model.text.symbols import Span, overlaps

# A word with a digit. Separators are between digits: 1,984 and 3.5 and 10:30, and thousands with a no-break space.
_NUMBER = re.compile(r"(?<!\w)[^\W\d]*+\d(?:\w|\(\w{1,3}\)|[.,:'\u2019\u00a0\u202f](?=\d))*+")
_DIGIT = re.compile(r"\d")
_DIGITS = re.compile(r"\d+")
_LETTER = re.compile(r"[^\W\d_]")
_DATE_OR_TIME = re.compile(r"\d{1,4}([.:])\d{1,2}(?:\1\d{1,4})?")
# Numbers that a translation may spell out, or write with other digits: ordinals and decades (3rd, 90s,
# "der 2. Weltkrieg"), and hours with a.m. or p.m.
_FREE_ENDING = re.compile(r"\d(?:st|nd|rd|th|s|[ap]m|ern?|st?e[nrs]?|te[nrs]?)\Z", re.IGNORECASE)
_FREE_FOLLOWER = re.compile(r"\.\s+\w|\s?[ap]\.?m\b", re.IGNORECASE)
_AFTERNOON = re.compile(r"(?<=\dpm)|\s?p\.?m\b", re.IGNORECASE)
_ORDINAL = re.compile(r"(?<=\d)(?:st|nd|rd|th)\Z")
_OTHER_POINT = str.maketrans(".,", ",.")
_LARGEST_WORD = 12
_NUMBER_WORD = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zero|first|second|third|"
    r"eine?|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|elf|zwölf|null|erste|dritte)",
    re.IGNORECASE,
)
"""Words that a translation may write in digits, up to 12."""


def find_numbers(text: str, kept: Sequence[Span] = ()) -> list[Span]:
    """The words of a text that have a digit, with the separators of a number: ``1,984``, ``10:30``, ``5kg``, ``B2B``.

    Args:
        text: Any text.
        kept: Spans in order, in which no number is searched.
    """
    # Most texts have none; the search for a digit takes half the time.
    if not _DIGIT.search(text):
        return []
    spans = [match.span() for match in _NUMBER.finditer(text)]
    return [span for span in spans if not overlaps(span, kept)] if kept else spans


def wrong_numbers(
    source: str, numbers: Sequence[Span], answer: str, written: Sequence[Span], language: str = ""
) -> list[Span]:
    """The numbers that a translation does not contain as often as the source does, or not as a whole.

    All separators of a number may change alike (``1.299,99`` for ``1,299.99``), and hours may be in p.m. (``7:10 pm``
    for ``19:10``). A number that the translation spells out also counts as wrong. Ordinals, decades, and hours with
    a.m. or p.m. in the source are never wrong: translations spell them out, or write them with other digits.

    Args:
        source: A sentence.
        numbers: The spans of its numbers.
        answer: Its translation.
        written: The spans of the translation's numbers.
        language: The language of the sentence, without a region.
    """
    lost, rest = list(numbers), list(written)
    for reading in (_digits, _digits_of_afternoon):
        lost, rest = _unmatched(source, lost, answer, rest, reading, language)
    # The parts of a date may be separated by words: 01.02.2024.
    plain = [span for span in rest if answer[slice(*span)].isdigit() or _DATE_OR_TIME.fullmatch(answer[slice(*span)])]
    parts = Counter(part for span in plain for part in _parts(answer, span))
    wrong: list[Span] = []
    for span in lost:
        needed = Counter(_parts(source, span))
        if needed <= parts:
            parts -= needed
        elif not _is_free(source, span):
            wrong.append(span)
    small = {str(number) for number in range(_LARGEST_WORD + 1)} if _NUMBER_WORD.search(source) else set()
    digits = [(span, _digits(answer, span)) for span in rest]
    surplus = {same for span, same in digits if same not in small and (span not in plain or parts[same])}
    wrong += (span for span in numbers if _digits(source, span) in surplus)
    return sorted({*wrong, *_torn(source, lost, answer, plain, parts), *_uneven(source, numbers, answer, written)})


def _torn(source: str, lost: Sequence[Span], answer: str, written: Sequence[Span], unused: Counter[str]) -> list[Span]:
    """The numbers of which a translation has all parts, in a number with other parts: 1:10 in 1:10:10."""
    parts = [_parts(answer, span) for span in written]
    torn = {part for own in parts if 0 < sum(unused[part] > 0 for part in set(own)) < len(own) for part in own}
    return [span for span in lost if len(own := _parts(source, span)) > 1 and torn.issuperset(own)]


def _uneven(source: str, numbers: Sequence[Span], answer: str, written: Sequence[Span]) -> list[Span]:
    """The ranges of which a translation writes one number with a comma and the other with a point: 9.30-17.00."""
    forms = {answer[slice(*span)] for span in written}
    uneven: list[Span] = []
    for first, second in pairwise(numbers):
        if source[first[1] : second[0]].strip() in ("-", "\u2013") and "." in source[slice(*first)]:
            commas = [source[slice(*span)].replace(".", ",") in forms for span in (first, second)]
            uneven += (first, second) if commas[0] != commas[1] else ()
    return uneven


def _unmatched(
    source: str,
    numbers: Sequence[Span],
    answer: str,
    written: Sequence[Span],
    reading: Callable[[str, Span], str],
    language: str,
) -> tuple[list[Span], list[Span]]:
    """The numbers of a source and those of its translation without a counterpart in the other."""
    unused = defaultdict[str, list[Span]](list)
    for span in written:
        unused[reading(answer, span)].append(span)
    lost: list[Span] = []
    for span in numbers:
        candidates = unused[_digits(source, span)]
        number = source[slice(*span)]
        same = next((other for other in candidates if _is_form_of(number, answer[slice(*other)], language)), None)
        if same is None:
            lost.append(span)
        else:
            candidates.remove(same)
    return lost, [span for spans in unused.values() for span in spans]


def _is_form_of(number: str, written: str, language: str) -> bool:
    """Whether equal digits are written as they are in the source, or with other separators throughout."""
    if number == written or _LETTER.search(number):
        return True
    written = _ORDINAL.sub("", written)
    if _LETTER.search(written):
        return True
    groups, others = _DIGITS.findall(number), _DIGITS.findall(written)
    separators, changed = _DIGITS.sub("", number), _DIGITS.sub("", written)
    if len(groups) == len(others) and len(separators) == len(changed):  # not so if underscores differ
        if language == "de" and (separators, changed) == (".", ",") and len(groups[1]) != 3:
            return False  # 24.12. is a date, as the decimal point is a comma
        pairs = set(zip(separators, changed, strict=True))
        is_whole = len(pairs) == len(set(separators)) == len(set(changed))
        # Commas separate thousands, and no parts of a date.
        return is_whole and (len(separators) < 2 or "," not in changed or _has_thousands(groups, separators))
    if not changed or not separators:  # 1984 for 1,984, and 1,984 for 1984
        return _has_thousands(groups if separators else others, separators or changed, whole=True)
    return changed in (separators[-1:], separators[-1:].translate(_OTHER_POINT)) and _has_thousands(groups, separators)


def _has_thousands(groups: Sequence[str], separators: str, *, whole: bool = False) -> bool:
    """Whether groups of three digits follow the first group, except after a last separator of another kind."""
    has_fraction = not whole and len(set(separators)) > 1
    thousands = groups[1:-1] if has_fraction else groups[1:]
    return (whole or bool(thousands)) and all(len(group) == 3 for group in thousands)


def _parts(text: str, number: Span) -> list[str]:
    """The parts of a number: 8 and 30 of 08:30."""
    parts = _DIGITS.findall(text, *number)
    return [part[1:] if len(part) == 2 and part[0] == "0" else part for part in parts]


def _digits(text: str, number: Span) -> str:
    return "".join(_parts(text, number))


def _digits_of_afternoon(text: str, number: Span) -> str:
    """The digits of a time, in 24 hours if it is in p.m."""
    hour, *rest = _parts(text, number)
    is_afternoon = len(hour) <= 2 and int(hour) < 12 and _AFTERNOON.match(text, number[1])
    return "".join([str(int(hour) + 12) if is_afternoon else hour, *rest])


def _is_free(text: str, number: Span) -> bool:
    return _FREE_ENDING.search(text[slice(*number)]) is not None or _FREE_FOLLOWER.match(text, number[1]) is not None
