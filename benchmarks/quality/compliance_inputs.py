"""Inputs that test whether a model complies with options.

All are made of the sentence pairs of test sets: the reference says where a placeholder belongs, how a reader is
addressed and how a word can be translated. :mod:`benchmarks.quality.compliance_figures` counts the results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from model.languages import plain_code
from model.text.glossary import Glossary, GlossaryTerm, find_terms, term_in
from model.text.protection import find_spans
from model.text.symbols import INFORMAL, Part, Symbol
from model.training.controlled_pairs import dictionary_form, form_of_address, source_links, with_placeholders
from model.training.corpus import Pair
from model.training.word_lexicon import WordLexicon
from model.translation.options import Formality

MAX_SPANS = 6
"""Protected spans of a sentence; it has at least one."""

_ATTEMPTS = 5
_SHORTEST_WORD = 3
_YOU = re.compile(r"\byou\b", re.IGNORECASE)
_NOUNS = {
    "de": re.compile(r"(?<=[a-zäöüß,] )([A-ZÄÖÜ][a-zäöüß]+)\b"),
    "en": re.compile(r"\b(?:the|a|an|my|your|his|her|our|their) ([a-z]+)(?=[.,!?]|$)"),
}
"""By language, where a word is a noun: German has capitals; between an article and the end stands nothing else."""

_NAMES = ("name", "user", "count", "city", "price", "title", "team", "email", "order", "month", "file", "item")
_SPANS: tuple[Callable[[str, int], str], ...] = (
    lambda name, number: f"{{{name}}}",
    lambda name, number: f"{{{number % 10}}}",
    lambda name, number: f"{{{{ {name} }}}}",
    lambda name, number: f"${{{name}}}",
    lambda name, number: f"%{number % 9 + 1}$s",
    lambda name, number: f"%({name})s",
    lambda name, number: f"https://example.org/{name}?id={number}",
    lambda name, number: f"www.example.com/{number}/{name}",
    lambda name, number: f"{name}{number}@example.org",
    lambda name, number: f"##T{number}##",
    lambda name, number: f"v{number % 20}.{number % 7}.{number % 11}",
    lambda name, number: f"{name}-{number}.pdf",
    lambda name, number: f"/var/{name}/{number}",
    lambda name, number: f"`{name}_{number}`",
    lambda name, number: f"@{name}{number}",
    lambda name, number: f'<img src="{name}{number}.png"/>',
    lambda name, number: f":{name}_{number}:",
    lambda name, number: "🎉🙂👍🚀🔥"[number % 5],
)
"""Spans in place of a word: variables, addresses, numbers of tickets, versions, files and the like."""

_TAGS: tuple[Callable[[str, int], tuple[str, str]], ...] = (
    lambda name, number: ("<b>", "</b>"),
    lambda name, number: ("<i>", "</i>"),
    lambda name, number: ("<em>", "</em>"),
    lambda name, number: ("<strong>", "</strong>"),
    lambda name, number: (f'<a href="https://example.org/{name}/{number}">', "</a>"),
    lambda name, number: (f'<span class="{name}">', "</span>"),
    lambda name, number: (f"<g{number}>", f"</g{number}>"),
)
"""Pairs of tags around words."""


@dataclass(frozen=True)
class SpanCase:
    """A sentence pair with the same protected spans on both sides.

    Args:
        source: The sentence.
        target: Its reference.
        spans: The spans in the order of the reference, all different.
        plain: The pair without them.
    """

    source: str
    target: str
    spans: tuple[str, ...]
    plain: Pair

    def has_all_once(self, translation: str) -> bool:
        """Whether a translation contains every span exactly once.

        Args:
            translation: Of the source.
        """
        return all(translation.count(span) == 1 for span in self.spans)

    def in_order(self, translation: str) -> bool:
        """Whether a translation contains every span, in the order of the reference.

        Args:
            translation: Of the source.
        """
        positions = [translation.find(span) for span in self.spans]
        return min(positions) >= 0 and positions == sorted(positions)


@dataclass(frozen=True)
class TermCase:
    """A sentence with a glossary.

    Args:
        source: The sentence. Every term of the glossary occurs in it once.
        glossary: One term or two.
        other: Whether the terms are other translations than the reference's.
    """

    source: str
    glossary: Glossary
    other: bool

    def num_used(self, translation: str) -> int:
        """How many of the terms a translation contains, in any inflection.

        Args:
            translation: Of the source.
        """
        return sum(term_in(translation, term.target) is not None for term in self.glossary)


def is_swapped(lexicon: WordLexicon, pairs: Sequence[Pair]) -> bool:
    """Whether the sources of sentence pairs are in the second language of a lexicon, by the words it knows.

    Args:
        lexicon: A lexicon.
        pairs: Sentences and their translations.
    """
    words = {word for source, _ in pairs for word in source.lower().split()}
    return len(words & lexicon.backward.keys()) > len(words & lexicon.forward.keys())


def span_cases(
    pairs: Sequence[Pair], lexicon: WordLexicon, swapped: bool, number: int, rng: np.random.Generator
) -> list[SpanCase]:
    """Sentences in which aligned words, or the tags around some, are protected spans on both sides.

    Args:
        pairs: Sentences and their translations.
        lexicon: Knows which words translate each other.
        swapped: Whether the sources are in the lexicon's second language.
        number: How many sentences; fewer if there are not enough that fit.
        rng: Decides.
    """
    cases: list[SpanCase] = []
    for index in rng.permutation(len(pairs)).tolist():
        if len(cases) == number:
            break
        source, target = pairs[index]
        if find_spans(source) or find_spans(target):
            continue
        links = source_links(source, target, lexicon, swapped)
        for _ in range(_ATTEMPTS):
            case = _span_case(pairs[index], with_placeholders(source, target, links, rng), rng)
            if case is not None:
                cases.append(case)
                break
    return cases


def address_cases(pairs: Sequence[Pair], number: int, rng: np.random.Generator) -> list[Pair]:
    """English sentences with "you" whose German reference clearly addresses its reader.

    Args:
        pairs: English sentences and their German translations.
        number: How many; fewer if there are not enough.
        rng: Decides.
    """
    fitting = [pair for pair in pairs if _YOU.search(pair[0]) and address_in(pair[1], pair[0]) is not None]
    return [fitting[index] for index in rng.permutation(len(fitting))[:number].tolist()]


def address_in(german: str, english: str) -> Formality | None:
    """The form of address of a German sentence; None if it has none or both, or if it is not clear.

    Args:
        german: The sentence.
        english: What it translates.
    """
    symbol = form_of_address(german, english)
    if symbol is None:
        return None
    return "informal" if symbol == INFORMAL else "formal"


def term_cases(
    pairs: Sequence[Pair],
    lexicon: WordLexicon,
    languages: tuple[str, str],
    swapped: bool,
    number: int,
    rng: np.random.Generator,
) -> list[TermCase]:
    """Sentences with one or two glossary terms; half of them have other translations than the reference.

    Half of the reference's words are put into dictionary form, as glossaries have them. Another translation is the most
    probable one of the lexicon that is no inflection of the reference's word. In English and German both are nouns,
    because the lexicon also knows other parts of speech, and other forms of the same verb.

    Args:
        pairs: Sentences and their translations.
        lexicon: Knows translations.
        languages: Source and target language.
        swapped: Whether the sources are in the lexicon's second language.
        number: How many sentences; fewer if there are not enough that fit.
        rng: Decides.

    Returns:
        Those with the reference's words, then those with other translations.
    """
    terms = _Terms(pairs, lexicon, languages[1], swapped)
    cases: dict[bool, list[TermCase]] = {False: [], True: []}
    for index in rng.permutation(len(pairs)).tolist():
        # The rarer kind first: not every word has another translation.
        for other in (True, False):
            if len(cases[other]) < (number + 1 - other) // 2:
                case = terms.case(pairs[index], other, languages[0], rng)
                if case is not None:
                    cases[other].append(case)
                    break
    return [*cases[False], *cases[True]]


def _span_case(
    plain: Pair, replaced: tuple[list[Part], list[Part]] | None, rng: np.random.Generator
) -> SpanCase | None:
    """A pair with placeholders as one with spans; None if not exactly these spans would be protected."""
    if replaced is None:
        return None
    texts = _texts(replaced[0], rng)
    if not 1 <= len(texts) <= MAX_SPANS:
        return None
    source, target = (
        "".join(texts[part.name] if isinstance(part, Symbol) else part for part in side) for side in replaced
    )
    in_source, in_target = ([texts[part.name] for part in side if isinstance(part, Symbol)] for side in replaced)
    case = SpanCase(source, target, tuple(in_target), plain)
    if [source[slice(*span)] for span in find_spans(source)] != in_source:
        return None
    return case if case.has_all_once(source) and case.has_all_once(target) else None


def _texts(parts: Sequence[Part], rng: np.random.Generator) -> dict[str, str]:
    """A span for each placeholder of a sentence, by the placeholder's name."""
    names = [_NAMES[index] for index in rng.permutation(len(_NAMES)).tolist()]
    tags = [_TAGS[index] for index in rng.permutation(len(_TAGS)).tolist()]
    spans: dict[str, str] = {}
    for index, part in enumerate(parts):
        if not isinstance(part, Symbol) or part.name in spans:
            continue
        name, number = names[len(spans) % len(names)], int(rng.integers(100, 100_000))
        closing = _closing(parts, index)
        if closing is None or not tags:
            spans[part.name] = _SPANS[int(rng.integers(len(_SPANS)))](name, number)
        else:
            spans[part.name], spans[closing] = tags.pop()(name, number)
    return spans


def _closing(parts: Sequence[Part], index: int) -> str | None:
    """The placeholder at the other end of the words that a placeholder begins; None if it stands for a word itself.

    Words are enclosed whole, and a letter never follows where a word was replaced.
    """
    if index + 2 >= len(parts):
        return None
    words, end = parts[index + 1], parts[index + 2]
    return end.name if isinstance(words, str) and words[0].isalnum() and isinstance(end, Symbol) else None


class _Terms:
    """Makes glossary terms of words that translate each other.

    Args:
        pairs: Text in the source and the target language, which shows what is a noun.
        lexicon: Knows translations.
        language: The target language.
        swapped: Whether the sources are in the lexicon's second language.
    """

    def __init__(self, pairs: Sequence[Pair], lexicon: WordLexicon, language: str, swapped: bool) -> None:
        self._lexicon = lexicon
        self._swapped = swapped
        pattern = _NOUNS.get(plain_code(language))
        self._nouns = pattern and {word.lower() for _, target in pairs for word in pattern.findall(target)}

    def case(self, pair: Pair, other: bool, language: str, rng: np.random.Generator) -> TermCase | None:
        """A sentence with one or two terms; None if it has no word for that, or one of them twice."""
        num_terms = 1 + int(rng.integers(2))
        terms: list[GlossaryTerm] = []
        links = source_links(*pair, self._lexicon, self._swapped)
        for index in rng.permutation(len(links)).tolist():
            word, translation = (
                side[slice(*span)] for side, span in zip(pair, (links[index].first, links[index].second), strict=True)
            )
            # The first word of a sentence has a capital, whatever it is.
            if not (links[index].second_index and _is_term(word, translation)):
                continue
            if other:
                term = self._other(word, translation, pair[1])
            elif rng.random() < 0.5:
                term = dictionary_form(word, translation, self._lexicon, self._swapped)
            else:
                term = translation
            if term is not None:
                terms.append(GlossaryTerm(word, term))
            if len(terms) == num_terms:
                break
        if not terms or len(find_terms(pair[0], tuple(terms), language, ())) != len(terms):
            return None
        return TermCase(pair[0], tuple(terms), other)

    def _other(self, word: str, translation: str, reference: str) -> str | None:
        """The most probable translation of a word besides the one in the reference and its inflections."""
        if not self._is_noun(translation):
            return None
        table = self._lexicon.backward if self._swapped else self._lexicon.forward
        scores: dict[str, float] = {}
        for candidate in table.get(word.lower(), {}):
            inflects = _is_form(translation, candidate) or term_in(reference, candidate) is not None
            if not inflects and _is_term(word, candidate) and self._is_noun(candidate):
                words = (candidate, word) if self._swapped else (word, candidate)
                scores.update((candidate, link.score) for link in self._lexicon.links(*words))
        best = max(scores, key=scores.__getitem__, default=None)
        return best.capitalize() if best and translation[0].isupper() else best

    def _is_noun(self, word: str) -> bool:
        return self._nouns is None or word.lower() in self._nouns


def _is_form(word: str, other: str) -> bool:
    """Whether two words look like forms of one word."""
    short, long = sorted((word.lower(), other.lower()), key=len)
    return long.startswith(short) or term_in(long, short) is not None


def _is_term(word: str, translation: str) -> bool:
    """Whether a word and its translation can be a term: two different words of letters."""
    both = (word, translation)
    return all(side.isalpha() and len(side) >= _SHORTEST_WORD for side in both) and word.lower() != translation.lower()
