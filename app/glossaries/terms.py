"""Terms of stored glossaries: read from TSV and CSV, and selected for the texts of a request."""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from app.errors import InvalidGlossary
from model.text.glossary import Glossary, GlossaryTerm, endings_of
from model.translation.options import MAX_TERM_CHARACTERS, MAX_TERMS

MAX_STORED_TERMS = 100_000
"""Maximum number of terms for one language pair of a stored glossary."""

_SHOWN_CHARACTERS = 60

_CHECK_INTERVAL = 1_000
"""Number of words or terms after which a search checks whether it was cancelled."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_WORD = re.compile(r"[^\W_]+|[\W_]")


def parse_tsv(text: str) -> Glossary:
    """Parse terms: one per line, source and target separated by a tab. Empty lines are skipped.

    Raises:
        InvalidGlossary: A line is not a term, or two have the same source.
    """
    return _checked((number, line.split("\t")) for number, line in enumerate(text.split("\n"), 1) if line.strip())


def parse_csv(text: str) -> Glossary:
    """Parse terms: one per row, source and target, optionally followed by the two languages, which are ignored.

    Raises:
        InvalidGlossary: A row is not a term, or two have the same source.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row[:2] if len(row) == 4 else row) for row in reader if any(map(str.strip, row))]
    except csv.Error as error:
        raise InvalidGlossary(f"Line {reader.line_num} of the entries is not valid CSV: {error}.") from None
    return _checked(rows)


def to_tsv(terms: Glossary) -> str:
    """Terms in the format of :func:`parse_tsv`.

    Args:
        terms: The terms.
    """
    return "\n".join(f"{term.source}\t{term.target}" for term in terms)


def merge_glossaries(glossaries: Iterable[Glossary]) -> Glossary:
    """The terms of several glossaries; of terms with the same source, the first one is used.

    Args:
        glossaries: The glossaries.

    Raises:
        InvalidGlossary: They have too many terms.
    """
    terms_by_source: dict[str, GlossaryTerm] = {}
    for terms in glossaries:
        for term in terms:
            terms_by_source.setdefault(term.source, term)
    return _bounded(terms_by_source)


def stored_tsv(text: str) -> Glossary:
    """Parse terms that :func:`to_tsv` has written, without checks.

    Args:
        text: The lines.
    """
    lines = (line.partition("\t") for line in text.split("\n"))
    return tuple(GlossaryTerm(source, target) for source, _, target in lines)


def terms_in(
    terms: Glossary, texts: Sequence[str], language: str, check: Callable[[], None] = lambda: None
) -> Glossary:
    """The terms of a stored glossary that occur in texts. A request cannot use all of them: its own limit is lower.

    The automaton of Aho and Corasick (1975, doi:10.1145/360825.360855) reads the texts once, word by word, whatever the
    number of terms. The time is linear in the size of the texts and of the glossary.

    Args:
        terms: The terms.
        texts: The texts.
        language: The language of the texts, without a region.
        check: Called every few milliseconds; its exception ends the search.

    Raises:
        InvalidGlossary: More terms occur than a request may have.
    """
    words: set[str] = set()
    for text in texts:
        words.update(_words(text, check))
    lower_words = {word.lower() for word in words}
    # Lower case can split a word: "İ" becomes two characters, the second of which is not a letter.
    lower_parts = {part for word in words for part in _WORD.findall(word.lower())}
    # A term in lower case matches in any case; any other term matches as it is written and in capitals.
    in_any_case, as_written = _WordAutomaton(), _WordAutomaton()
    for number, term in enumerate(terms):
        if not number % _CHECK_INTERVAL:
            check()
        source = term.source
        endings = endings_of(source, language)
        if source == source.lower():
            in_any_case.add(number, _WORD.findall(source), endings, lower_parts)
        else:
            for form in (source, source.upper()):
                *begin, last = _WORD.findall(form)
                for ending in ("", *endings):
                    if (last + ending).lower() in lower_words:
                        for cased in _in_any_case(ending):
                            as_written.add(number, [*begin, last + cased], (), words)
    indexes: set[int] = set()
    for automaton, is_lower in ((in_any_case, True), (as_written, False)):
        automaton.complete(check)
        for text in texts if automaton else ():
            indexes.update(automaton.search(_words(text.lower() if is_lower else text, check)))
            if len(indexes) > MAX_TERMS:
                raise InvalidGlossary(
                    f"More than {MAX_TERMS} terms of the glossary occur in the texts, which is the limit of a request; "
                    "send fewer texts at once."
                )
    return tuple(terms[number] for number in sorted(indexes))


@cache
def _in_any_case(ending: str) -> tuple[str, ...]:
    """An ending in every combination of lower and upper case."""
    return tuple(map("".join, product(*zip(ending, ending.upper(), strict=True))))


class _WordAutomaton:
    """Finds which of many sequences of words occur in a text."""

    def __init__(self) -> None:
        # All four are indexed by state; state 0 is the start.
        self._next: list[dict[str, int]] = [{}]  # the next states, by word
        self._suffix = [0]  # the state of the longest proper suffix
        self._ends_before = [0]  # the state of the longest proper suffix at which a term ends, or 0
        self._terms: dict[int, list[int]] = {}  # the terms that end at this state

    def __bool__(self) -> bool:
        return bool(self._terms)

    def add(self, number: int, words: Sequence[str], endings: Iterable[str], text_words: Collection[str]) -> None:
        """Add a term, unless one of its words does not occur in the texts.

        Args:
            number: The number of the term.
            words: Its words.
            endings: Endings that may follow the last word.
            text_words: The words of the texts.
        """
        *begin, last = words
        if not all(word in text_words for word in begin):
            return
        for ending in ("", *endings):
            if last + ending in text_words:
                state = 0
                for word in (*begin, last + ending):
                    state = self._next[state].setdefault(word, len(self._next))
                    if state == len(self._next):
                        self._next.append({})
                        self._suffix.append(0)
                        self._ends_before.append(0)
                self._terms.setdefault(state, []).append(number)

    def complete(self, check: Callable[[], None]) -> None:
        """Link the states by their suffixes, once all terms are added.

        Args:
            check: As for :func:`terms_in`.
        """
        queue = deque(self._next[0].values())
        for number in range(len(self._next) - 1):
            if not number % _CHECK_INTERVAL:
                check()
            state = queue.popleft()
            for word, following in self._next[state].items():
                queue.append(following)
                suffix = self._suffix[following] = self._follow(self._suffix[state], word)
                self._ends_before[following] = suffix if suffix in self._terms else self._ends_before[suffix]

    def search(self, words: Iterable[str]) -> set[int]:
        """The numbers of the terms in a text.

        Args:
            words: The words of the text.
        """
        indexes: set[int] = set()
        visited: set[int] = {0}  # each end is visited once, so that nested terms do not make the search quadratic
        state = 0
        for word in words:
            state = self._follow(state, word)
            end = state if state in self._terms else self._ends_before[state]
            while end not in visited:
                visited.add(end)
                indexes.update(self._terms[end])
                end = self._ends_before[end]
        return indexes

    def _follow(self, state: int, word: str) -> int:
        while state and word not in self._next[state]:
            state = self._suffix[state]
        return self._next[state].get(word, 0)


def _words(text: str, check: Callable[[], None]) -> Iterator[str]:
    """The words of a text, and each character between them."""
    for number, match in enumerate(_WORD.finditer(text)):
        if not number % _CHECK_INTERVAL:
            check()
        yield match[0]


def _checked(rows: Iterable[tuple[int, Sequence[str]]]) -> Glossary:
    """The terms in the cells of numbered lines, after checking them."""
    by_source: dict[str, GlossaryTerm] = {}
    for number, cells in rows:
        if len(cells) != 2:
            raise InvalidGlossary(
                f"Line {number} of the entries has {len(cells)} cells; it must have a source and a target."
            )
        source, target = (_checked_side(number, cell.strip()) for cell in cells)
        if source in by_source:
            raise InvalidGlossary(
                f"Line {number} of the entries has the same source as an earlier one: {_shown(source)}."
            )
        by_source[source] = GlossaryTerm(source, target)
        if len(by_source) > MAX_STORED_TERMS:
            break
    if not by_source:
        raise InvalidGlossary("The glossary has no entries.")
    return _bounded(by_source)


def _bounded(terms_by_source: Mapping[str, GlossaryTerm]) -> Glossary:
    if len(terms_by_source) > MAX_STORED_TERMS:
        raise InvalidGlossary(
            f"The glossary has more than {MAX_STORED_TERMS} entries for one language pair; divide it into several."
        )
    return tuple(terms_by_source.values())


def _checked_side(number: int, text: str) -> str:
    if not 1 <= len(text) <= MAX_TERM_CHARACTERS:
        raise InvalidGlossary(
            f"Line {number} of the entries: source and target must have 1 to {MAX_TERM_CHARACTERS} characters."
        )
    if len(text.splitlines()) > 1 or _CONTROL.search(text):
        raise InvalidGlossary(f"Line {number} of the entries has a control character: {_shown(text)}.")
    return text


def _shown(text: str) -> str:
    return repr(text[:_SHOWN_CHARACTERS])
