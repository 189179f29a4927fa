"""Adds the newer training sets to the text, without the pairs of any development or test set.

DATA/train has the sets of others, data/ of this repository those that were written and translated for it. The folder
gets mix/NAME.xx for each, and dev/NAME.xx, the development sets that were cut out of the repository's own. A pair is
left out if a side of more than three words is in a development set, in DATA/eval or among the everyday sentences of
tests/quality, up to case and punctuation.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from pathlib import Path

from model.commands.models import with_progress
from model.training.corpus import Pair, read_parallel, unseen, write_parallel
from scripts.shipped.absent import absent
from scripts.shipped.command import LANGUAGES, start
from scripts.shipped.held_out import MIN_WORDS_CLEARED

ROOT = Path(__file__).parents[2]
EVERYDAY = ROOT / "tests" / "quality" / "everyday.tsv"

OTHERS = (
    "dictionary", "nouns", "titles", "names", "iconclass", "terms", "ui-terms", "geneval", "debian-news",
    "freebsd-docs", "dynamics-operations", "rust-book", "corona-app", "privacy-guides", "bitcoin-org",
    "mozilla-legal", "opensource-guide", "mozilla-foundation", "sdg", "web-apps", "home-assistant",
    "libreoffice-ui", "chromium", "thunderbird", "shopware", "duckduckgo",
)  # fmt: skip
"""Sets of ``DATA/train``, beside those of :mod:`scripts.shipped.held_out`."""


def names(folder: Path) -> list[str]:
    """The names of the sets of a folder."""
    return sorted(path.name.removesuffix(f".{LANGUAGES[0]}.xz") for path in folder.glob(f"*.{LANGUAGES[0]}.xz"))


def everyday_pairs(path: Path) -> list[Pair]:
    """The sentences of the everyday test with their translations."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [
        (row["text"], row["reference"]) if row["from"] == LANGUAGES[0] else (row["reference"], row["text"])
        for row in rows
    ]


def remaining(pairs: Iterable[Pair], held_out: Iterable[Pair]) -> list[Pair]:
    """The complete pairs, each once, without those with a held-out side of more than three words."""
    stripped = [(first.strip(), second.strip()) for first, second in pairs]
    return unseen(dict.fromkeys(pair for pair in stripped if all(pair)), held_out, MIN_WORDS_CLEARED)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder with train/ and eval/")
    parser.add_argument(
        "--own", type=Path, default=ROOT / "data", metavar="DIR", help="with written/, translated/, dev/"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder that has dev/ and gets the sets")


def run(arguments: argparse.Namespace) -> int:
    """Read, clear and write."""
    own, out = arguments.own, arguments.out
    for name in names(own / "dev"):
        write_parallel(out / "dev" / name, LANGUAGES, read_parallel(own / "dev" / name, LANGUAGES))
    held_out = everyday_pairs(EVERYDAY)
    for base in [
        *(out / "dev" / path.name.removesuffix(f".{LANGUAGES[0]}") for path in (out / "dev").glob(f"*.{LANGUAGES[0]}")),
        *(arguments.data / "eval" / name for name in names(arguments.data / "eval")),
    ]:
        held_out += read_parallel(base, LANGUAGES)
    without = absent(arguments.data)
    bases = [arguments.data / "train" / name for name in OTHERS if name not in without]
    bases += [own / part / name for part in ("written", "translated") for name in names(own / part)]
    for base in with_progress(bases, "adding", len(bases), "sets"):
        pairs = read_parallel(base, LANGUAGES)
        usable = remaining(pairs, held_out)
        write_parallel(out / "mix" / base.name, LANGUAGES, usable)
        print(f"mix/{base.name:<22}{len(usable):>9,} pairs, {len(pairs) - len(usable):,} left out")
    return 0


if __name__ == "__main__":
    sys.exit(start("add_sets", __doc__, add_arguments, run))
