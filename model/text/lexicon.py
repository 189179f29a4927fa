"""The lexicon of a model: translations of words that its training text hardly has, which it reads beside these words.

A bundle may carry one, as a text file: a line for each entry with its pair of languages, the words in the source
language and their translation, separated by tabs. An entry in lower case matches in any case; an entry with a capital
matches as written and in capitals, as the terms of a glossary (:mod:`model.text.glossary`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from model.errors import ArtifactError
from model.text.glossary import GlossaryTerm, endings_of, is_inflected
from model.text.symbols import Span, overlaps

LEXICON = "lexicon.tsv"
"""File name in a bundle."""

MAX_BYTES = 4 * 2**20
"""The largest file."""

MAX_WORDS = 4
"""The most words in the source language."""

_MAX_CHARACTERS = 100

_BEGINNING = 4
"""Characters by which words are compared first; shorter entries have no endings."""

_WORD = re.compile(r"\w[\w'’-]*")

_TITLES = frozenset({"Herr", "Herrn", "Frau", "Familie", "Dr", "Prof", "Mr", "Mrs", "Ms", "Sir", "Lady"})

Pair = tuple[str, str]
"""Source and target language, without regions."""


class Lexicon:
    """Entries for some pairs of languages.

    Args:
        entries: The entries of each pair; the last of equal sources counts.

    Raises:
        ArtifactError: An entry has other characters than letters, more than 100 characters or more than four words.
    """

    def __init__(self, entries: Mapping[Pair, Iterable[GlossaryTerm]]) -> None:
        self._entries: dict[Pair, dict[str, GlossaryTerm]] = {}
        self._beginnings: dict[Pair, set[str]] = {}  # of the first words
        self._firsts: dict[Pair, set[str]] = {}  # first words of entries of several words
        for pair, terms in entries.items():
            for term in terms:
                _check(term)
            self._entries[pair] = {term.source.lower(): term for term in terms}
            words = [source.split(" ", 1) for source in self._entries[pair]]
            self._beginnings[pair] = {first[:_BEGINNING] for first, *_ in words}
            self._firsts[pair] = {first for first, *others in words if others}

    @property
    def num_entries(self) -> dict[Pair, int]:
        """The number of entries of each pair."""
        return {pair: len(entries) for pair, entries in self._entries.items()}

    def find(self, text: str, pair: Pair, occupied: Sequence[Span]) -> list[tuple[Span, str]]:
        """The entries in a sentence, with their translations; the longest of entries that begin with the same word.

        Surnames are left out: "Herr Schneider" is no tailor. It takes time in proportion to the number of words.

        Args:
            text: The sentence.
            pair: Its language and the target language.
            occupied: Spans that contain no entry.
        """
        entries = self._entries.get(pair)
        if not entries:
            return []
        beginnings, firsts, lower = self._beginnings[pair], self._firsts[pair], text.lower()
        if len(lower) != len(text):  # it has a character without a single lower-case form
            return []
        words = [match.span() for match in _WORD.finditer(lower)]
        matches: list[tuple[Span, str]] = []
        position = 0
        for index, (start, end) in enumerate(words):
            if start < position or lower[start : min(end, start + _BEGINNING)] not in beginnings:
                continue
            num_words = MAX_WORDS if lower[start:end] in firsts else 1
            for _, last in reversed(words[index : index + num_words]):
                term = _match(lower[start:last], entries, pair[0]) if last - start <= _MAX_CHARACTERS else None
                if term is None or overlaps((start, last), occupied) or _is_surname(text, words, index, last):
                    continue
                plain = text[start : start + len(term.source)]
                if term.source == term.source.lower() or plain in (term.source, term.source.upper()):
                    matches.append(((start, last), term.target))
                    position = last
                    break
        return matches

    def to_bytes(self) -> bytes:
        """The file of a bundle."""
        lines = (
            f"{source}-{target}\t{term.source}\t{term.target}\n"
            for (source, target), terms in self._entries.items()
            for term in terms.values()
        )
        return "".join(lines).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Lexicon:
        """Read the file of a bundle.

        Raises:
            ArtifactError: It is too large, not UTF-8, or a line is no entry.
        """
        if len(content) > MAX_BYTES:
            raise ArtifactError(f"{LEXICON} has {len(content)} bytes; it may have {MAX_BYTES}. Leave entries out.")
        try:
            lines = content.decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise ArtifactError(f"{LEXICON} is not UTF-8 ({error}); make it again.") from error
        entries: dict[Pair, list[GlossaryTerm]] = {}
        for number, line in enumerate(lines, start=1):
            if not line:
                continue
            parts = line.split("\t")
            source, hyphen, target = parts[0].partition("-")
            if len(parts) != 3 or not (source and hyphen and target):
                raise ArtifactError(
                    f"Line {number} of {LEXICON} is {line[:_MAX_CHARACTERS]!r}; it must be a pair of languages such as "
                    "en-de, words and their translation, with tabs between them."
                )
            entries.setdefault((source, target), []).append(GlossaryTerm(parts[1], parts[2]))
        return cls(entries)


def _is_surname(text: str, words: Sequence[Span], index: int, end: int) -> bool:
    """Whether a single word is probably the name of a person: it follows a title, or another capital in a sentence."""
    start, word_end = words[index]
    if index == 0 or end != word_end or not text[start].isupper():
        return False
    begin, before_end = words[index - 1]
    before, between = text[begin:before_end], text[before_end:start]
    return between in (" ", ". ") and (before in _TITLES or (between == " " and begin > 0 and before[0].isupper()))


def _check(term: GlossaryTerm) -> None:
    for text in (term.source, term.target):
        if len(text) > _MAX_CHARACTERS or not is_inflected(text):
            raise ArtifactError(
                f"The lexicon has {text[:_MAX_CHARACTERS]!r}; an entry must have words of at least two letters and at "
                f"most {_MAX_CHARACTERS} characters."
            )
    if term.source.count(" ") >= MAX_WORDS:
        raise ArtifactError(f"The lexicon has {term.source!r}; it may have at most {MAX_WORDS} words.")


def _match(words: str, entries: Mapping[str, GlossaryTerm], language: str) -> GlossaryTerm | None:
    """The entry of words in lower case, with or without an ending; None if no entry has them."""
    term = entries.get(words)
    if term is not None:
        return term
    for length in _LENGTHS.get(language, ()):
        term = entries.get(words[:-length])
        if term is not None and words[-length:] in endings_of(term.source, language):
            return term
    return None


_LENGTHS = {"en": (1, 2), "de": (1, 2, 3)}
"""Lengths of the endings that an entry may have, by language."""


def read_lexicon(path: Path) -> Lexicon:
    """Read the file of a lexicon.

    Raises:
        ArtifactError: It cannot be read, or is no lexicon.
    """
    try:
        return Lexicon.from_bytes(path.read_bytes())
    except OSError as error:
        raise ArtifactError(f"The lexicon {path} cannot be read: {error.strerror or error}.") from error
