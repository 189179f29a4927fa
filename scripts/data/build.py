"""Builds the sets of the table, one after the other, into the folder of the corpora."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from model.commands.models import say, with_progress
from model.errors import DataError
from model.process.files import file_digest
from model.training.corpus import Pair, read_lines, read_parallel, write_lines
from scripts.data.cleaning import Cleaner, bare
from scripts.data.fetch import Cache
from scripts.data.table import EXTRACTORS, Archive, Table, TextSet
from scripts.data.text import read, tidy
from scripts.shipped.absent import LIST
from scripts.shipped.command import LANGUAGES

CHECKSUMS = "sha256sums.txt"
ATTRIBUTION = "ATTRIBUTION.md"


@dataclass
class Outcome:
    """What a build did.

    Args:
        built: Names of sets that were built or were there.
        unlike: Sets that are neither the text that the shipped weights were trained on nor what the table gave before.
        failed: Messages of sets that could not be built.
    """

    built: list[str] = field(default_factory=list)
    unlike: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)


def digest_of(texts: Iterable[str]) -> str:
    """The SHA-256 digest of texts, whatever their order."""
    return hashlib.sha256("".join(f"{text}\n" for text in sorted(texts)).encode()).hexdigest()


class Builder:
    """Builds sets of a table.

    Args:
        table: The archives and sets.
        cache: Where archives come from.
        folder: The folder of the corpora (DATA).
    """

    def __init__(self, table: Table, cache: Cache, folder: Path) -> None:
        self._table = table
        self._cache = cache
        self._folder = folder

    def build(self, names: Collection[str] = ()) -> Outcome:
        """Build the sets that the folder lacks, in the order of the table; each leaves out what an earlier one has.

        Args:
            names: Only these; all by default.
        """
        outcome = Outcome()
        cleaner: Cleaner | None = None
        # Evaluation sets first: no sentence of them may be in the others.
        sets = sorted(self._table.sets, key=lambda item: item.folder != "eval")
        for item in with_progress(sets, "building", len(sets), "sets"):
            if cleaner is None and item.folder != "eval":
                cleaner = self._cleaner()
            there = all((self._folder / name).is_file() for name in item.files)
            if not there and names and item.name not in names:
                continue
            try:
                texts = self._read(item) if there else self._write(item, list(self._texts(item, cleaner)))
            except DataError as error:
                outcome.failed.append(f"{item.folder}/{item.name}: {error}")
                continue
            if cleaner:
                _add_known(cleaner, item, texts)
            outcome.built.append(item.name)
            if not self._report(item, texts, built=not there):
                outcome.unlike.append(item.name)
        self._write_lists(outcome)
        return outcome

    def _texts(self, item: TextSet, cleaner: Cleaner | None) -> Iterator[str]:
        """The lines of a set; the two sides of a pair have a tab between them."""
        raw: Iterator[Any] = self._extracted(item)
        if item.language:
            assert cleaner is not None
            yield from cleaner.sentences(raw, item.language, item.min_words or 1)
            return
        if item.min_words is None:
            yield from self._as_they_are(item, raw)
            return
        assert cleaner is not None
        pairs: Iterable[Pair] = ((tidy(first), tidy(second)) for first, second in raw)
        usable = cleaner.pairs(pairs, item.min_words, min_words_of_phrases=item.min_words_of_phrases, whole=item.whole)
        yield from map("\t".join, usable)

    def _as_they_are(self, item: TextSet, raw: Iterable[Pair]) -> Iterator[str]:
        """The pairs of published corpora, without those of evaluation sets or of another set if the table says so."""
        evaluation = self._evaluation_sentences if item.held_back else set()
        others = self._read(self._set(item.without)) if item.without else []
        other_pairs = {tuple(map(bare, line.split("\t"))) for line in others}
        for pair in dict.fromkeys(raw) if item.held_back else raw:
            sides = tuple(map(bare, pair))
            if sides not in other_pairs and not any(side in evaluation for side in sides):
                yield "\t".join(pair)

    def _extracted(self, item: TextSet) -> Iterator[Any]:
        for call in item.extract:
            for name, arguments in call.items():
                values = [value for argument in arguments for value in self._resolved(argument)]
                yield from EXTRACTORS[name](*values)

    def _resolved(self, argument: str | int) -> list[Path | str | int]:
        """The paths that an argument names: an archive, a file or folder in it, or all that match a pattern."""
        first, _, rest = str(argument).partition("/")
        if first == "DATA":
            return [self._folder / rest]
        archive = next((archive for archive in self._table.archives if archive.name == first), None)
        if archive is None:
            return [argument]
        folder = self._cache.unpacked(archive)
        paths: list[Path | str | int] = [*sorted(folder.glob(rest))] if rest else [folder]
        if not paths:
            raise DataError(f"{argument} is not in {archive.pin}.")
        return paths

    @cached_property
    def _evaluation_sentences(self) -> set[str]:
        """The letters and digits of the sentences of all published evaluation sets."""
        sentences: set[str] = set()
        for pattern in self._table.evaluation:
            for path in self._resolved(pattern):
                assert isinstance(path, Path)
                sentences.update(bare(cell) for line in read(path).split("\n") for cell in (line, *line.split("\t")))
        return sentences - {""}

    def _cleaner(self) -> Cleaner:
        """A cleaner that knows those and the folder's own evaluation sets."""
        files = sorted((self._folder / "eval").glob("*.xz"))
        own = {bare(line) for path in files for line in read_lines(path.with_suffix(""))}
        return Cleaner(self._evaluation_sentences | own - {""})

    def _set(self, name: str) -> TextSet:
        return next(item for item in self._table.sets if item.name == name)

    def _read(self, item: TextSet) -> list[str]:
        base = self._folder / item.folder / item.name
        if item.language:
            return read_lines(base)
        return ["\t".join(pair) for pair in read_parallel(base, LANGUAGES)]

    def _write(self, item: TextSet, texts: list[str]) -> list[str]:
        if not texts:
            raise DataError("no usable text in its archives")
        for side, name in reversed(list(enumerate(item.files))):  # the set is complete when its first file is there
            write_lines(self._folder / name, (text.split("\t")[side] for text in texts))
        return texts

    def _report(self, item: TextSet, texts: list[str], *, built: bool) -> bool:
        """Print what came out; False if it is neither the published text nor what the table gave before."""
        digest = digest_of(texts)
        verdict = {item.rebuilt: f"as before; {item.note}", item.sha256: "as published"}.get(digest)
        if built or verdict is None:
            unit = "sentences" if item.language else "pairs"
            verdict = verdict or f"not the {item.count:,} published: {digest}"
            say(f"{item.folder + '/' + item.name:<30}{len(texts):>9,} {unit:<10}{verdict}")
        return digest in (item.sha256, item.rebuilt)

    def _write_lists(self, outcome: Outcome) -> None:
        """Write the digests of the files, whom the text is from, and what is absent."""
        built = [item for item in self._table.sets if item.name in outcome.built]
        sums = [f"{file_digest(self._folder / name)}  {name}" for item in built for name in item.files]
        write_lines(self._folder / CHECKSUMS, sums)
        write_lines(self._folder / ATTRIBUTION, attribution(built, self._table.archives))
        write_lines(self._folder / LIST, (f"{name}: {why}" for name, why in self._table.absent.items()))


def _add_known(cleaner: Cleaner, item: TextSet, texts: list[str]) -> None:
    for text in texts:
        if item.language:
            cleaner.known.add_sentence(text, item.language)
        else:
            first, second = text.split("\t")
            cleaner.known.add_pair((first, second))


def attribution(sets: Iterable[TextSet], archives: Collection[Archive]) -> list[str]:
    """The lines of a document with the licence, authors and sources of sets."""
    lines = ["# Licences and attribution", "", "| set | licence | attribution | sources |", "|---|---|---|---|"]
    for item in sets:
        names = item.archives(archive.name for archive in archives)
        pins = ", ".join(archive.pin for archive in archives if archive.name in names)
        lines.append(f"| `{item.folder}/{item.name}` | {item.licence} | {item.attribution} | {pins} |")
    return lines
