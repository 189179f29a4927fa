"""Glossary terms in a sentence, and in its translation."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from model.text.symbols import Span, overlaps

_ENDINGS = {"en": ("s", "es"), "de": ("e", "en", "n", "s", "es", "nen")}
"""Endings with which a source term of at least four letters is found, too; other languages have none."""

_SHORTEST_WITH_ENDINGS = 4
_STEM_SHARE = 0.7
_SHORTEST_STEM = 4
_UMLAUTS = str.maketrans("äöüÄÖÜ", "aouAOU")
_WORD = re.compile(r"\w[\w-]*")


@dataclass(frozen=True)
class GlossaryTerm:
    """A term and how to translate it.

    Args:
        source: The term in the source language.
        target: Its translation.
    """

    source: str
    target: str


Glossary = tuple[GlossaryTerm, ...]
"""The terms of a request."""


def find_terms(text: str, glossary: Glossary, language: str, protected: Sequence[Span]) -> list[tuple[Span, str]]:
    """The glossary terms in a sentence, with their translations; of terms that overlap, the longest.

    A term in lower case is found in any case; one with a capital as it is written and in capitals.

    Args:
        text: The sentence.
        glossary: The terms; of equal ones the first counts.
        language: The language of the sentence, without a region.
        protected: Spans in which no term is looked for.
    """
    found: list[tuple[Span, str]] = []
    for match in _pattern(glossary, language).finditer(text):
        term = _matching_term(glossary, language, match[0])
        if term is not None and not overlaps(match.span(), protected):
            found.append((match.span(), term.target))
    return found


def term_in(text: str, term: str, taken: Sequence[Span] = ()) -> Span | None:
    """Where a translation holds a term, in some inflection; None if it does not.

    A word is an inflection if it begins with the first 70 % of the term's letters, and at least four of them, umlauts
    counting as plain vowels. Terms of several words are compared word by word.

    Args:
        text: The translation.
        term: The term in the target language.
        taken: Spans that hold something else, in order.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    stems = [_stem(word) for word in _WORD.findall(term)]
    if not stems:
        places = (match.span() for match in re.finditer(re.escape(term), text))
        return next((place for place in places if not overlaps(place, taken)), None)
    for first in range(len(words) - len(stems) + 1):
        candidates = words[first : first + len(stems)]
        if all(_is_inflection(text[slice(*span)], stem) for span, stem in zip(candidates, stems, strict=True)):
            whole = candidates[0][0], candidates[-1][1]
            if not overlaps(whole, taken):
                return whole
    return None


def places_of(text: str, terms: Iterable[str], taken: Sequence[Span] = ()) -> list[Span | None]:
    """Where a translation holds each of several terms, as :func:`term_in`; each occurrence counts for one of them.

    Args:
        text: The translation.
        terms: The terms in the target language.
        taken: Spans that hold something else, in order.
    """
    occupied = list(taken)
    places: list[Span | None] = []
    for term in terms:
        place = term_in(text, term, occupied)
        if place is not None:
            insort(occupied, place)
        places.append(place)
    return places


@lru_cache(maxsize=64)
def _pattern(glossary: Glossary, language: str) -> re.Pattern[str]:
    """Matches all terms; longer ones first, so that they win."""
    longest_first = sorted((term.source for term in glossary), key=len, reverse=True)
    return re.compile("|".join(_term_pattern(source, language) for source in longest_first))


def endings_of(source: str, language: str) -> Sequence[str]:
    """Endings with which a term is found, too.

    Args:
        source: The term in the source language.
        language: The language, without a region.
    """
    return _ENDINGS.get(language, ()) if len(source) >= _SHORTEST_WITH_ENDINGS and source[-1].isalpha() else ()


def _term_pattern(source: str, language: str) -> str:
    """Matches one term as a word of its own: in lower case in any case, else as written and in capitals."""
    endings = endings_of(source, language)
    ending = f"(?i:{'|'.join(endings)})?" if endings else ""
    plain = re.escape(source)
    cases = f"(?i:{plain})" if source == source.lower() else f"(?:{plain}|{re.escape(source.upper())})"
    # No word boundary beside a character that is no part of a word, such as the plus signs of "C++".
    before = r"(?<!\w)" if source[0].isalnum() else ""
    after = r"(?!\w)" if source[-1].isalnum() else ""
    return before + cases + ending + after


def _matching_term(glossary: Glossary, language: str, found: str) -> GlossaryTerm | None:
    """The first of the longest terms that a match is an occurrence of."""
    fitting = [term for term in glossary if re.fullmatch(_term_pattern(term.source, language), found)]
    return max(fitting, key=lambda term: len(term.source), default=None)


def _stem(word: str) -> str:
    plain = word.translate(_UMLAUTS).lower()
    return plain[: max(_SHORTEST_STEM, round(_STEM_SHARE * len(plain)))]


def _is_inflection(word: str, stem: str) -> bool:
    plain = word.translate(_UMLAUTS).lower()
    return plain.startswith(stem) if len(stem) >= _SHORTEST_STEM else plain == stem
