"""Writes a lexicon: translations of words that the training text hardly has, for a bundle to carry.

The entries are those of dictionary, titles, terms and names with a single translation. An entry is taken if running
text has its words at most 200 times, and if at least 30 % of these pairs have its translation; without any pair it is
taken, too. The lexicon of the shipped translator lies beside its weights:

    python -m scripts.shipped.lexicon --data DATA --pair de-en --out model/pretrained/verso-en-de.lexicon.tsv
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from model.commands.models import output_file, parse_pair, with_progress
from model.errors import ConfigError
from model.text.glossary import GlossaryTerm, endings_of, find_terms, is_inflected, term_in
from model.text.lexicon import MAX_WORDS, Lexicon
from model.text.symbols import Span
from model.training.corpus import Pair, read_parallel
from scripts.shipped.command import LANGUAGES, start

ENTRIES = ("dictionary", "titles", "terms", "names")
"""Corpora whose pairs are entries."""

PHRASES = ("nouns", "collocations", "collocations2", "collocations3", *ENTRIES)
"""Corpora that are no running text."""

_PAIRS_OF_AN_INDEX = 20_000
"""Pairs after which entries that are not rare are no longer searched."""

MOST = 200
"""The most pairs of running text that may have an entry."""

AGREEMENT = 0.3
"""The least share of these pairs that have its translation."""

_WORD = re.compile(r"\w[\w'’-]*")
_ARTICLE = {"en": re.compile(r"(?:the|an?) "), "de": re.compile(r"(?:der|die|das|eine?) ")}


@dataclass(frozen=True)
class Entry:
    """An entry with a single translation.

    Args:
        term: The entry.
        corpora: The corpora that have it.
    """

    term: GlossaryTerm
    corpora: frozenset[str]


@dataclass
class Evidence:
    """How often running text has an entry.

    Attributes:
        num_pairs: Pairs whose source has it.
        num_agreeing: Those of them whose target has its translation.
    """

    num_pairs: int = 0
    num_agreeing: int = 0

    @property
    def agreement(self) -> float:
        """The share of the pairs that have the translation; 1 without pairs."""
        return self.num_agreeing / self.num_pairs if self.num_pairs else 1.0


def single_entries(corpora: Mapping[str, Iterable[Pair]], languages: tuple[str, str]) -> list[Entry]:
    """The entries with a single translation, up to case, of words that a model can inflect.

    Args:
        corpora: Pairs of source and target, by the name of their corpus.
        languages: Source and target language.
    """
    targets: dict[str, dict[str, GlossaryTerm]] = defaultdict(dict)
    names: dict[str, set[str]] = defaultdict(set)
    for name, pairs in corpora.items():
        for pair in pairs:
            source, target = (
                _ARTICLE[language].sub("", side.strip(), count=1) if name == "nouns" else side.strip()
                for side, language in zip(pair, languages, strict=True)
            )
            if source and target:
                targets[source.lower()].setdefault(target.lower(), GlossaryTerm(source, target))
                names[source.lower()].add(name)
    return [
        Entry(term, frozenset(names[source]))
        for source, terms in targets.items()
        if len(terms) == 1
        for term in terms.values()
        if is_inflected(term.source) and is_inflected(term.target) and term.source.count(" ") < MAX_WORDS
        if term.source.lower() != term.target.lower()
    ]


class EntryIndex:
    """Finds entries in text.

    Args:
        entries: The entries.
        language: The language of the text.
    """

    def __init__(self, entries: Iterable[Entry], language: str) -> None:
        self._language = language
        self._entries: dict[str, Entry] = {}
        for entry in entries:
            source = entry.term.source.lower()
            self._entries[source] = entry
            for ending in endings_of(source, language):
                self._entries.setdefault(source + ending, entry)
        self._firsts = {form.split(" ", 1)[0] for form in self._entries}

    def mentioned(self, text: str) -> set[Entry]:
        """The entries whose words a text has, in any case; those within longer ones included."""
        words = _WORD.findall(text.lower())
        return {
            entry
            for first in ([] if self._firsts.isdisjoint(words) else range(len(words)))
            if words[first] in self._firsts
            for last in range(first + 1, min(first + MAX_WORDS, len(words)) + 1)
            if (entry := self._entries.get(" ".join(words[first:last])))
        }

    def find(self, text: str) -> dict[Entry, Span]:
        """The entries that would be terms of a text, with their first characters in it."""
        terms = {entry: find_terms(text, (entry.term,), self._language, ()) for entry in self.mentioned(text)}
        return {entry: matches[0][0] for entry, matches in terms.items() if matches}


def count_entries(entries: Iterable[Entry], language: str, pairs: Iterable[Pair], most: int) -> dict[Entry, Evidence]:
    """How often running text has entries, for those that it has rarely.

    Args:
        entries: The entries.
        language: The language of their sources.
        pairs: Pairs of source and target.
        most: The most pairs that may have an entry; those of more are left out.
    """
    evidence = {entry: Evidence() for entry in entries}
    index = EntryIndex(evidence, language)
    for number, (source, target) in enumerate(pairs):
        if number % _PAIRS_OF_AN_INDEX == 0:
            index = EntryIndex(evidence, language)
        for entry in index.mentioned(source):
            item = evidence.get(entry)
            if item is None:
                continue
            item.num_pairs += 1
            if item.num_pairs > most:
                del evidence[entry]
            elif term_in(target, entry.term.target):
                item.num_agreeing += 1
    return evidence


def running_text(folder: Path, pair: Pair) -> Iterator[Pair]:
    """The pairs of all corpora of a folder that are no entries, with a progress bar.

    Args:
        folder: The folder.
        pair: Source and target language.
    """
    names = {path.name.removesuffix(f".{LANGUAGES[0]}") for path in folder.glob(f"*.{LANGUAGES[0]}")} - {*PHRASES}
    for name in with_progress(sorted(names), "counting", len(names), "corpora"):
        yield from read_parallel(folder / name, pair)


def read_entries(folder: Path, pair: Pair, names: Iterable[str] = ENTRIES) -> list[Entry]:
    """The entries of a folder of corpora with a single translation.

    Args:
        folder: The folder.
        pair: Source and target language.
        names: Its corpora of entries; those that it lacks are left out.
    """
    present = [name for name in names if (folder / f"{name}.{LANGUAGES[0]}").exists()]
    return single_entries({name: read_parallel(folder / name, pair) for name in present}, pair)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of a training, with mix/")
    parser.add_argument("--pair", action="append", required=True, metavar="XX-YY", help="may be given several times")
    parser.add_argument("--out", type=output_file, required=True, metavar="FILE", help="the lexicon to write")
    parser.add_argument("--most", type=int, default=MOST, metavar="N", help=f"see above; default {MOST}")
    parser.add_argument("--agreement", type=float, default=AGREEMENT, metavar="P", help=f"default {AGREEMENT}")


def run(arguments: argparse.Namespace) -> int:
    """Count and write."""
    folder: Path = arguments.data / "mix"
    chosen: dict[Pair, list[GlossaryTerm]] = {}
    for pair in map(parse_pair, arguments.pair):
        if sorted(pair) != sorted(LANGUAGES):
            raise ConfigError(f"--pair is '{'-'.join(pair)}'; it must be of the languages {' and '.join(LANGUAGES)}.")
        entries = read_entries(folder, pair)
        evidence = count_entries(entries, pair[0], running_text(folder, pair), arguments.most)
        terms = [entry.term for entry, item in evidence.items() if item.agreement >= arguments.agreement]
        chosen[pair] = sorted(terms, key=lambda term: (term.source.lower(), term.source))
        print(f"{'-'.join(pair)}: {len(terms):,} of {len(entries):,} entries")
    arguments.out.write_bytes(Lexicon(chosen).to_bytes())
    return 0


if __name__ == "__main__":
    sys.exit(start("lexicon", __doc__, add_arguments, run))
