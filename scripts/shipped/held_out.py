"""Cuts a development set for each kind of text out of the training corpora, and writes the text that remains.

The folder gets dev/KIND.xx, the development sets, and mix/NAME.xx, each corpus without any pair that shares a side with
a development set, up to case and punctuation. Sides of up to three words are not compared: "Good morning!" in a
development set must not remove every greeting from the training text. The same corpora give the same sets, whatever
their order of lines. Corpora that absent.txt of the folder names are left out (scripts.shipped.absent).
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from model.commands.models import with_progress
from model.errors import DataError
from model.process.files import file_digest
from model.training.corpus import Pair, bare_words, detokenise, read_parallel, unseen, write_parallel
from scripts.shipped.absent import LIST, absent
from scripts.shipped.command import LANGUAGES, start

KINDS: Mapping[str, Mapping[str, int]] = {
    "manuals": {
        "dynamics-docs": 150,
        "libreoffice-help": 120,
        "gnome-help": 80,
        "php-manual": 70,
        "debian-handbook": 80,
    },
    "encyclopaedia-news": {"mlqe_pe": 250, "xquad": 150, "pud": 100},
    "game": {"cataclysm": 300, "dink": 100},
    "apps": {"firefox": 160, "apps": 120, "mozilla": 120},
    "fiction": {"books": 500},
    "history": {"history": 400},
    "bible": {"bible": 300},
    "stories": {"storybooks": 120},
}
"""Pairs that each development set gets from each corpus."""

WITH_OWN_SETS = ("tatoeba", "bcontrast")
"""Corpora whose development sets are in ``eval/``."""

CORPORA = (*(name for parts in KINDS.values() for name in parts), *WITH_OWN_SETS)
"""All corpora of which sentences are held out, or whose training text is cleared of such."""

TOKENISED = ("mlqe_pe",)
"""Corpora with spaces around punctuation, in which some sentences lack their first word."""

_MIN_WORDS = 3
_MAX_WORDS = 60
MIN_WORDS_CLEARED = 4
"""Development sentences with fewer words may occur in the training text."""


def read_corpus(base: Path, *, tokenised: bool) -> list[Pair]:
    """Read a corpus of ``train/``.

    Args:
        base: Its path without language ending.
        tokenised: Whether to remove spaces around punctuation, and pairs of which a side starts with a small letter.
    """
    pairs = [(first.strip(), second.strip()) for first, second in read_parallel(base, LANGUAGES)]
    if not tokenised:
        return pairs
    sentences = [pair for pair in pairs if not any(side[:1].islower() for side in pair)]
    return [(detokenise(first), detokenise(second)) for first, second in sentences]


def choose(pairs: Sequence[Pair], number: int) -> list[Pair]:
    """Choose the pairs with the smallest digests that are fit to test with and share no side.

    Args:
        pairs: A corpus.
        number: Number of pairs to choose; fewer if there are not enough.
    """
    chosen: list[Pair] = []
    sides: tuple[set[str], set[str]] = (set(), set())
    for pair in sorted(set(pairs), key=_digest):
        if len(chosen) == number:
            break
        words = (bare_words(pair[0]), bare_words(pair[1]))
        if not _tests_something(words) or any(
            side in words_of_side for side, words_of_side in zip(words, sides, strict=True)
        ):
            continue
        for side, words_of_side in zip(words, sides, strict=True):
            words_of_side.add(side)
        chosen.append(pair)
    return chosen


def _digest(pair: Pair) -> str:
    return hashlib.sha256("\t".join(pair).encode()).hexdigest()


def _tests_something(words: Pair) -> bool:
    """Whether both sides say something on their own, are not longer than a sentence, and are of similar length."""
    shorter, longer = sorted(len(side.split()) for side in words)
    return shorter >= _MIN_WORDS and longer <= min(_MAX_WORDS, 2 * shorter + 5)


def hold_out(
    corpora: Mapping[str, Sequence[Pair]], kinds: Mapping[str, Mapping[str, int]]
) -> tuple[dict[str, list[Pair]], dict[str, list[Pair]]]:
    """Cut development sets out of corpora.

    Args:
        corpora: Pairs by the name of their corpus.
        kinds: Number of pairs by corpus, for each development set.

    Returns:
        The development sets by kind, and what remains of each corpus.
    """
    dev = {
        kind: [pair for name, number in parts.items() for pair in choose(corpora[name], number)]
        for kind, parts in kinds.items()
    }
    held_out = [pair for pairs in dev.values() for pair in pairs]
    held_out_pairs = set(held_out)
    return dev, {
        name: unseen([pair for pair in pairs if pair not in held_out_pairs], held_out, MIN_WORDS_CLEARED)
        for name, pairs in corpora.items()
    }


def check(folder: Path, checksums: Path, kinds: Collection[str] = KINDS) -> None:
    """Compare development sets with a list that ``sha256sum`` wrote.

    Args:
        folder: The folder of the sets.
        checksums: The list.
        kinds: The sets to compare.

    Raises:
        DataError: The list cannot be read, or a file differs or is missing.
    """
    try:
        expected = dict(line.split()[::-1] for line in checksums.read_text(encoding="utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise DataError(f"The checksums {checksums} cannot be read: {error}.") from error
    # The folder may hold other development sets, which later steps of a recipe add.
    names = expected.keys() | {f"{kind}.{language}" for kind in KINDS for language in LANGUAGES}
    written = {name for name in names if name.rpartition(".")[0] in kinds}
    digests = {name: file_digest(folder / name) for name in written if (folder / name).is_file()}
    wrong = sorted(name for name in written if expected.get(name) != digests.get(name))
    if wrong:
        raise DataError(
            f"{', '.join(wrong)} in {folder} are not the development sets of {checksums}: the corpora have changed. "
            "Scores on other sets cannot be compared."
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of the corpora, with train/")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder that gets dev/ and mix/")
    parser.add_argument("--checksums", type=Path, metavar="FILE", help="digests that the development sets must have")


def run(arguments: argparse.Namespace) -> int:
    """Hold out, write and check."""
    without = absent(arguments.data)
    names = [name for name in CORPORA if name not in without]
    kinds = {kind: {name: parts[name] for name in parts if name in names} for kind, parts in KINDS.items()}
    kinds = {kind: parts for kind, parts in kinds.items() if parts}
    corpora = {
        name: read_corpus(arguments.data / "train" / name, tokenised=name in TOKENISED)
        for name in with_progress(names, "reading", len(names), "corpora")
    }
    dev, mix = hold_out(corpora, kinds)
    for part, texts in (("dev", dev), ("mix", mix)):
        for name, pairs in texts.items():
            write_parallel(arguments.out / part / name, LANGUAGES, pairs)
    for kind, pairs in dev.items():
        print(f"dev/{kind:<22}{len(pairs):>9,} pairs")
    for name, pairs in mix.items():
        print(f"mix/{name:<22}{len(pairs):>9,} pairs, {len(corpora[name]) - len(pairs):,} left out")
    complete = [kind for kind, parts in kinds.items() if parts.keys() == KINDS[kind].keys()]
    if incomplete := sorted(KINDS.keys() - complete):
        print(f"not as published, because {LIST} names corpora of them: {', '.join(incomplete)}")
    if arguments.checksums:
        check(arguments.out / "dev", arguments.checksums, complete)
    return 0


if __name__ == "__main__":
    sys.exit(start("held_out", __doc__, add_arguments, run))
