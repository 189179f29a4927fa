"""Glossary terms in a sentence, and in its translation."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from model.text.symbols import Span, overlaps

_ENDINGS = {"en": ("s", "es"), "de": ("e", "en", "n", "s", "es", "nen")}
"""Endings that a source term of at least four letters may have; other languages have none."""

_SHORTEST_WITH_ENDINGS = 4
_STEM_SHARE = 0.7
_SHORTEST_STEM = 4
_UMLAUTS = str.maketrans("äöüÄÖÜ", "aouAOU")
_WORD = re.compile(r"\w[\w-]*")
_INFLECTED = re.compile(r"[^\W\d_]{2,}(?:[ '-][^\W\d_]{2,})*")


@dataclass(frozen=True)
class GlossaryTerm:
    """A term and its translation.

    Args:
        source: The term in the source language.
        target: Its translation.
    """

    source: str
    target: str


Glossary = tuple[GlossaryTerm, ...]
"""The terms of a request."""


def find_terms(text: str, glossary: Glossary, language: str, protected: Sequence[Span]) -> list[tuple[Span, str]]:
    """The glossary terms in a sentence, with their translations; the longest of terms that overlap.

    A term in lower case matches in any case; a term with a capital matches as written and in capitals.

    Args:
        text: The sentence.
        glossary: The terms; the first of equal ones counts.
        language: The language of the sentence, without a region.
        protected: Spans that contain no term.
    """
    terms: list[tuple[Span, str]] = []
    for match in _pattern(glossary, language).finditer(text):
        term = _matching_term(glossary, language, match[0])
        if term is not None and not overlaps(match.span(), protected):
            terms.append((match.span(), term.target))
    return terms


def is_inflected(target: str) -> bool:
    """Whether a term consists of words, which a model can inflect: not ``Typ 3``, ``C++`` or ``a  b``."""
    return _INFLECTED.fullmatch(target) is not None


def term_in(text: str, term: str, occupied: Sequence[Span] = ()) -> Span | None:
    """The first occurrence of a term in a translation, inflected or not; None if there is none.

    A word is an inflection if it begins with the first 70 % of the term's letters, and at least four of them; umlauts
    count as plain vowels. Terms of several words are compared word by word.

    Args:
        text: The translation.
        term: The term in the target language.
        occupied: Spans of other terms, in order.
    """
    words = [match.span() for match in _WORD.finditer(text)]
    stems = [_stem(word) for word in _WORD.findall(term)]
    if not stems:
        spans = (match.span() for match in re.finditer(re.escape(term), text))
        return next((span for span in spans if not overlaps(span, occupied)), None)
    for first in range(len(words) - len(stems) + 1):
        candidates = words[first : first + len(stems)]
        if all(_is_inflection(text[slice(*span)], stem) for span, stem in zip(candidates, stems, strict=True)):
            span = candidates[0][0], candidates[-1][1]
            if not overlaps(span, occupied):
                return span
    return None


def spans_of_terms(text: str, terms: Iterable[str], occupied: Sequence[Span] = ()) -> list[Span | None]:
    """For each of several terms, its span in a translation, as :func:`term_in`; an occurrence counts for one term.

    Args:
        text: The translation.
        terms: The terms in the target language.
        occupied: Spans of other terms, in order.
    """
    occupied = list(occupied)
    spans: list[Span | None] = []
    for term in terms:
        span = term_in(text, term, occupied)
        if span is not None:
            insort(occupied, span)
        spans.append(span)
    return spans


@lru_cache(maxsize=64)
def _pattern(glossary: Glossary, language: str) -> re.Pattern[str]:
    """Matches any term; longer ones come first, so that they win."""
    longest_first = sorted((term.source for term in glossary), key=len, reverse=True)
    return re.compile("|".join(_term_pattern(source, language) for source in longest_first))


def endings_of(source: str, language: str) -> Sequence[str]:
    """Endings that a term may have.

    Args:
        source: The term in the source language.
        language: The language, without a region.
    """
    return _ENDINGS.get(language, ()) if len(source) >= _SHORTEST_WITH_ENDINGS and source[-1].isalpha() else ()


def _term_pattern(source: str, language: str) -> str:
    """Matches a term as a separate word: in any case if it is in lower case, else as written and in capitals."""
    endings = endings_of(source, language)
    ending = f"(?i:{'|'.join(endings)})?" if endings else ""
    plain = re.escape(source)
    cases = f"(?i:{plain})" if source == source.lower() else f"(?:{plain}|{re.escape(source.upper())})"
    # No word boundary beside a character that is not part of a word, such as the plus signs of "C++".
    before = r"(?<!\w)" if source[0].isalnum() else ""
    after = r"(?!\w)" if source[-1].isalnum() else ""
    return before + cases + ending + after


def _matching_term(glossary: Glossary, language: str, match: str) -> GlossaryTerm | None:
    """The longest term that a match is an occurrence of; the first of several."""
    fitting = [term for term in glossary if re.fullmatch(_term_pattern(term.source, language), match)]
    return max(fitting, key=lambda term: len(term.source), default=None)


def _stem(word: str) -> str:
    plain = word.translate(_UMLAUTS).lower()
    return plain[: max(_SHORTEST_STEM, round(_STEM_SHARE * len(plain)))]


def _is_inflection(word: str, stem: str) -> bool:
    plain = word.translate(_UMLAUTS).lower()
    return plain.startswith(stem) if len(stem) >= _SHORTEST_STEM else plain == stem
