"""Sentence pairs that teach a model its controls: placeholders, glossary terms, the form of address.

Words that translate each other are found by :mod:`model.training.word_lexicon`. Controls are written with the
vocabulary's reserved symbols (:func:`model.text.symbols.reserved_symbols`), to which no text is encoded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.text.address import is_formal, is_informal
from model.text.symbols import (
    FORMAL,
    INFORMAL,
    NUM_PLACEHOLDERS,
    Part,
    Replacement,
    Span,
    Symbol,
    placeholder,
    term_parts,
    with_replacements,
)
from model.training.controls import Controls
from model.training.word_lexicon import WordLexicon, WordLink

_SURE = 0.25
"""Score above which a link is trusted."""

_MOST_PLACEHOLDERS = 12
_MOST_TERMS = 3
_OTHER_WORDS = 0.4
"""Share of the terms of a single word that are another word than the translation's."""


def form_of_address(german: str, english: str) -> str | None:
    """How a German sentence addresses its reader: ``<formal>``, ``<informal>``, or None if that is not clear.

    Args:
        german: The sentence.
        english: What it translates.
    """
    formal, informal = is_formal(german, english), is_informal(german)
    if formal == informal:
        return None
    return FORMAL if formal else INFORMAL


def with_placeholders(
    source: str, target: str, links: Sequence[WordLink], rng: np.random.Generator
) -> tuple[list[Part], list[Part]] | None:
    """A pair with placeholders in place of words or of tags around words; None if no word can be one.

    Args:
        source: A sentence.
        target: Its translation.
        links: Words of the two that translate each other, the source's first.
        rng: Decides.
    """
    numbers = [int(number) for number in rng.permutation(NUM_PLACEHOLDERS)]
    num_placeholders = 1 + min(int(rng.geometric(0.45)) - 1, _MOST_PLACEHOLDERS - 1)
    edits: tuple[list[Replacement], list[Replacement]] = ([], [])
    used_spans: tuple[list[Span], list[Span]] = ([], [])
    used = 0
    if rng.random() < 0.12:
        symbol = (Symbol(placeholder(numbers[used])),)
        used += 1
        at_start = rng.random() < 0.5
        for side, text in enumerate((source, target)):
            position = 0 if at_start else len(text)
            edits[side].append(Replacement(position, position, (*symbol, " ") if at_start else (" ", *symbol)))
    for index in rng.permutation(len(links)).tolist():
        if used >= num_placeholders:
            break
        spans = _stretch(links, index, rng) if rng.random() < 0.4 else (links[index].first, links[index].second)
        if any(_overlaps(span, others) for span, others in zip(spans, used_spans, strict=True)):
            continue
        pair = rng.random() < 0.35
        symbols = [Symbol(placeholder(numbers[used + offset])) for offset in range(1 + pair)]
        used += len(symbols)
        for side, (start, end) in enumerate(spans):
            used_spans[side].append((start, end))
            if pair:
                edits[side].extend([Replacement(start, start, (symbols[0],)), Replacement(end, end, (symbols[1],))])
            else:
                edits[side].append(Replacement(start, end, (symbols[0],)))
    if not used:
        return None
    return _parts(source, edits[0]), _parts(target, edits[1])


def with_terms(
    source: str, target: str, links: Sequence[WordLink], lexicon: WordLexicon, swapped: bool, rng: np.random.Generator
) -> tuple[list[Part], list[Part]] | None:
    """A pair in whose source one to three words carry their translation; None if no word can.

    Some terms are other words than the translation's, and replace them: the model learns to write the given term, and
    not what it would write anyway. Half of the rest have another form than in the translation, so that it learns to
    inflect them.

    Args:
        source: A sentence.
        target: Its translation.
        links: Words of the two that translate each other, the source's first.
        lexicon: Knows other forms and other words.
        swapped: Whether the source is in the lexicon's second language.
        rng: Decides.
    """
    edits: tuple[list[Replacement], list[Replacement]] = ([], [])
    used_spans: list[Span] = []
    for index in rng.permutation(len(links)).tolist()[: 1 + int(rng.integers(_MOST_TERMS))]:
        link = links[index]
        spans = _stretch(links, index, rng) if rng.random() < 0.2 else (link.first, link.second)
        if _overlaps(spans[0], used_spans):
            continue
        used_spans.append(spans[0])
        word, term = source[slice(*spans[0])], target[slice(*spans[1])]
        is_single = " " not in term
        others = lexicon.words_ending_like(term, swapped) if is_single and rng.random() < _OTHER_WORDS else ()
        if others:
            other = others[int(rng.integers(len(others)))]
            term = other.capitalize() if term[0].isupper() else other
            edits[1].append(Replacement(spans[1][0], spans[1][1], (term,)))
        elif is_single and rng.random() < 0.5:
            term = dictionary_form(word, term, lexicon, swapped)
        edits[0].append(Replacement(spans[0][0], spans[0][1], term_parts(word, term)))
    return (_parts(source, edits[0]), _parts(target, edits[1])) if edits[0] else None


def content_links(links: Sequence[WordLink], lexicon: WordLexicon, first: str, second: str) -> list[WordLink]:
    """The links that are sure and join words that carry meaning, not articles and the like."""
    return [
        link
        for link in links
        if link.score >= _SURE
        and first[slice(*link.first)].lower() not in lexicon.frequent
        and second[slice(*link.second)].lower() not in lexicon.frequent
    ]


def source_links(source: str, target: str, lexicon: WordLexicon, swapped: bool) -> list[WordLink]:
    """The links of a sentence pair that are sure and join words that carry meaning, in the order of the source.

    Args:
        source: A sentence.
        target: Its translation.
        lexicon: Knows which words translate each other.
        swapped: Whether the source is in the lexicon's second language.
    """
    first, second = (target, source) if swapped else (source, target)
    links = content_links(lexicon.links(first, second), lexicon, first, second)
    return sorted((link.swapped() for link in links), key=lambda link: link.first_index) if swapped else links


def _stretch(links: Sequence[WordLink], index: int, rng: np.random.Generator) -> tuple[Span, Span]:
    """The words of a link, with those behind it as long as they follow each other on both sides; three at most."""
    last = index
    longest = int(rng.integers(2, 4))
    while last + 1 < len(links) and last + 1 - index < longest:
        here, following = links[last], links[last + 1]
        if following.first_index != here.first_index + 1 or following.second_index != here.second_index + 1:
            break
        last += 1
    return (links[index].first[0], links[last].first[1]), (links[index].second[0], links[last].second[1])


def _overlaps(span: Span, others: Sequence[Span]) -> bool:
    return any(span[0] < end and start < span[1] for start, end in others)


def dictionary_form(word: str, term: str, lexicon: WordLexicon, swapped: bool) -> str:
    """The shortest form of a term that translates the word, too; the term itself if no other is known.

    Args:
        word: A word of a source.
        term: A translation of it, a single word.
        lexicon: Knows the other forms.
        swapped: Whether the word is in the lexicon's second language.
    """
    table = lexicon.backward if swapped else lexicon.forward
    plain = _without_umlauts(term.lower())
    stem = plain[: max(4, round(0.7 * len(plain)))]
    forms = [
        form
        for form in table.get(word.lower(), {})
        if _without_umlauts(form).startswith(stem) and abs(len(form) - len(term)) <= 3
    ]
    if len(plain) < 5 or not forms:
        return term
    shortest = min(forms, key=len)
    return shortest.capitalize() if term[0].isupper() else shortest


def _without_umlauts(word: str) -> str:
    return word.translate(str.maketrans("äöü", "aou"))


def _parts(text: str, edits: Sequence[Replacement]) -> list[Part]:
    return [part for part, _ in with_replacements(text, edits)]


class ControlledPairs:
    """Makes sentence pairs that tell the model something out of ordinary ones.

    Args:
        controls: How many, and of what kind.
        lexicon: Which words translate each other; its first language is the first of ``languages``.
        languages: The two languages of the pairs.
    """

    def __init__(self, controls: Controls, lexicon: WordLexicon, languages: tuple[str, str]) -> None:
        self._controls = controls
        self._lexicon = lexicon
        self._languages = languages

    @property
    def share(self) -> float:
        """Share of the pairs that :meth:`make` is called for."""
        return self._controls.placeholders + self._controls.glossary

    def make(
        self, source: str, target: str, source_language: str, rng: np.random.Generator
    ) -> tuple[list[Part], list[Part]] | None:
        """A pair with placeholders or terms; None if no word is aligned well enough.

        Args:
            source: A sentence.
            target: Its translation.
            source_language: The source's language.
            rng: Decides.
        """
        swapped = source_language != self._languages[0]
        links = source_links(source, target, self._lexicon, swapped)
        if rng.random() * self.share < self._controls.placeholders:
            return with_placeholders(source, target, links, rng)
        return with_terms(source, target, links, self._lexicon, swapped, rng)

    def address(self, source: str, target: str, target_language: str) -> str | None:
        """The symbol of the form of address that a target has; None if the language has none or it is not clear."""
        return form_of_address(target, source) if self._controls.formality and target_language == "de" else None

    @property
    def address_share(self) -> float:
        """Share of the known forms of address that sources name."""
        return self._controls.formality
