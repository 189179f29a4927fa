"""Parallel text, read from two aligned files (plain, gzip or xz)."""

from __future__ import annotations

import gzip
import io
import lzma
import random
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model.errors import DataError
from model.process.files import atomic_write
from model.training.settings import CorpusSettings

Pair = tuple[str, str]
"""A sentence in the two languages of a run, in the order of its settings."""


@dataclass(frozen=True)
class LoadedCorpus:
    """Parallel text and how it is used in training.

    Args:
        pairs: Sentence pairs in the order of the run's languages.
        direction: The only (source, target) it is used for; None for every direction of the run.
        tag: A reserved symbol at the start of its sources, if any.
        weight: How often a pair occurs in an epoch on average.
    """

    pairs: list[Pair]
    direction: tuple[str, str] | None = None
    tag: str | None = None
    weight: float = 1.0

    def natural_sides(self, languages: tuple[str, str]) -> Iterable[str]:
        """The sentences written by humans: both sides, or the targets of a corpus with one direction."""
        for pair in self.pairs:
            if self.direction is None:
                yield from pair
            else:
                yield pair[languages.index(self.direction[1])]


_ENDINGS = ("", ".gz", ".xz")

HOW_TO_CONVERT = "Convert it first, for example with 'iconv -f latin1 -t utf-8'."
"""The remedy for a text in another encoding."""

_SPACE_BEFORE = re.compile(r" +([.,;:!?%)\]}»”’…])")
_SPACE_AFTER = re.compile(r"([(\[{«„“‘$£€#]) +")
_APOSTROPHE = re.compile(r" ?(['’]) ?(s|t|re|ve|ll|d|m)\b")
_PAIRED_QUOTES = re.compile(r'(") +([^"]*?) +(")')
_WORD = re.compile(r"\w+")
_HYPHEN = re.compile(r"(?<=\w) @-@ (?=\w)")


def find_text(path: Path) -> Path:
    """Find a text file: the path itself, or the path with ``.gz`` or ``.xz``.

    Raises:
        DataError: None of them exists.
    """
    for ending in _ENDINGS:
        candidate = path.with_name(path.name + ending)
        if candidate.is_file():
            return candidate
    raise DataError(f"No text at {path} (nor with .gz or .xz); check the path and the data folder.")


def read_unpacked(path: Path) -> bytes:
    """Read a file; it is decompressed if it ends in ``.gz`` or ``.xz``.

    Raises:
        DataError: It cannot be read or decompressed.
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        elif path.suffix == ".xz":
            data = lzma.decompress(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{path} cannot be read or unpacked: {error}.") from error
    return data


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 text; files ending in ``.gz`` or ``.xz`` are decompressed.

    Raises:
        DataError: The file is missing, empty, damaged, or not UTF-8; the message then names the line.
    """
    file = find_text(path)
    data = read_unpacked(file)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{file} is not UTF-8: line {line} has byte 0x{data[error.start]:02x}. {HOW_TO_CONVERT}"
        ) from error
    # splitlines() would also split at U+2028, which may occur within a sentence.
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    if not any(line.strip() for line in lines):
        raise DataError(f"{file} is empty.")
    return lines


def read_parallel(base: Path, languages: tuple[str, str]) -> list[Pair]:
    """Read two aligned files, ``base.xx`` and ``base.yy``.

    Raises:
        DataError: A file is missing or unusable, or the two have different numbers of lines.
    """
    first = read_lines(base.with_name(f"{base.name}.{languages[0]}"))
    second = read_lines(base.with_name(f"{base.name}.{languages[1]}"))
    if len(first) != len(second):
        raise DataError(
            f"{base} does not line up: {len(first)} lines of {languages[0]} and {len(second)} of {languages[1]}."
        )
    return list(zip(first, second, strict=True))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a UTF-8 text, compressed if its name ends in ``.xz``; its folder is created if necessary.

    The file gets its name when it is complete.
    """
    with (
        atomic_write(path) as unfinished,
        lzma.open(unfinished, "wb") if path.suffix == ".xz" else unfinished.open("wb") as content,
        io.TextIOWrapper(content, encoding="utf-8", newline="\n") as sink,
    ):
        sink.writelines(f"{line}\n" for line in lines)


def write_parallel(base: Path, languages: tuple[str, str], pairs: Sequence[Pair]) -> None:
    """Write two aligned files, ``base.xx`` and ``base.yy``, the second one first."""
    for side, language in reversed(tuple(enumerate(languages))):
        write_lines(base.with_name(f"{base.name}.{language}"), (pair[side] for pair in pairs))


def detokenise(text: str) -> str:
    """Remove the spaces a tokeniser put around punctuation: ``It 's , ( say ) .`` becomes ``It's, (say).``"""
    text = _HYPHEN.sub("-", text)
    text = _PAIRED_QUOTES.sub(r"\1\2\3", text)
    text = _SPACE_AFTER.sub(r"\1", text)
    text = _SPACE_BEFORE.sub(r"\1", text)
    return _APOSTROPHE.sub(r"\1\2", text).strip()


def load_dev_pairs(data_dir: Path, dev: Iterable[str], languages: tuple[str, str]) -> dict[str, list[Pair]]:
    """Read the held-out pairs, by the name of their corpus.

    Raises:
        DataError: The text is unusable.
    """
    return {Path(path).name: read_parallel(data_dir / path, languages) for path in dev}


def spread(pairs: Sequence[Pair], number: int) -> list[Pair]:
    """Choose at most ``number`` pairs, evenly spaced and in their order, because files are often sorted."""
    number = min(number, len(pairs))
    return [pairs[index * len(pairs) // number] for index in range(number)]


def unseen(pairs: Iterable[Pair], training: Iterable[Pair], min_words: int = 0) -> list[Pair]:
    """The pairs whose sides both do not occur in the training text, ignoring case and punctuation.

    Args:
        pairs: Test pairs.
        training: Training pairs, with the languages in the same order.
        min_words: Sides with fewer words do not count as occurring.
    """
    training_sides = [
        {words for sentence in side if len((words := bare_words(sentence)).split()) >= min_words}
        for side in zip(*training, strict=True)
    ] or [set(), set()]
    return [
        pair
        for pair in pairs
        if not any(bare_words(sentence) in side for sentence, side in zip(pair, training_sides, strict=True))
    ]


def bare_words(sentence: str) -> str:
    """The words of a sentence in lower case without punctuation; two sentences are the same if these are equal."""
    return " ".join(_WORD.findall(sentence.lower()))


def is_lopsided(first: str, second: str, length_ratio: float = 1.0) -> bool:
    """Whether a side of a pair is so much longer than the other that it is hardly its translation.

    Args:
        first: A sentence.
        second: Its translation.
        length_ratio: Characters of the second language for each character of the first.
    """
    lengths = (len(first) * length_ratio, len(second))
    return max(lengths) > 3 * min(lengths) + 20


def load_training_pairs(
    data_dir: Path, corpora: Iterable[CorpusSettings], languages: tuple[str, str]
) -> tuple[list[LoadedCorpus], dict[str, int]]:
    """Load all training text, cleaned as the settings of each corpus say, without duplicates.

    Returns:
        The corpora, and the number of pairs left out by reason.

    Raises:
        DataError: A corpus is unusable, or no pair is left.
    """
    left_out = {"empty": 0, "duplicate": 0, "fragment": 0, "lopsided": 0}
    unique: set[Pair] = set()
    loaded: list[LoadedCorpus] = []
    for corpus in corpora:
        pairs: list[Pair] = []
        lines = read_parallel(data_dir / corpus.path, languages)
        if corpus.sentences is not None and corpus.sentences < len(lines):
            lines = random.Random(1).sample(lines, corpus.sentences)
        for first, second in lines:
            first, second = first.strip(), second.strip()
            if corpus.detokenise:
                first, second = detokenise(first), detokenise(second)
            if not first or not second:
                left_out["empty"] += 1
            elif corpus.whole_sentences_only and (first[0].islower() or second[0].islower()):
                left_out["fragment"] += 1
            elif is_lopsided(first, second, corpus.length_ratio):
                left_out["lopsided"] += 1
            elif (first, second) in unique:
                left_out["duplicate"] += 1
            else:
                unique.add((first, second))
                pairs.append((first, second))
        loaded.append(LoadedCorpus(pairs, corpus.direction_pair, corpus.tag, corpus.weight))
    if not any(corpus.pairs for corpus in loaded):
        raise DataError(f"No training pair is left after cleaning; left out: {left_out}.")
    return loaded, left_out
