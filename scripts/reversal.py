"""Write the text of the word-reversal study: random words and the same words backwards.

The folder gets training text (train.qfw, train.qrv) and held-out text of other words (dev.qfw, dev.qrv). The defaults
are for configs/reverse.yaml:

  python -m scripts.reversal runs/words && verso train --config configs/reverse.yaml --data runs/words

Short words, for configs/presets/:

  python -m scripts.reversal runs/short-words --words 20000 --held-out 500 --letters 3 6 --alphabet abcdefgh
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Collection, Sequence
from pathlib import Path

from model.training.corpus import Pair, write_parallel

LANGUAGES = ("qfw", "qrv")
"""Codes that BCP 47 reserves for private use: "forward" and "reversed"."""


def reversed_words(
    number: int, letters: tuple[int, int], alphabet: str, seed: int, without: Collection[Pair] = ()
) -> list[Pair]:
    """Random words and their reversals, all different; equal arguments give equal words.

    Args:
        number: Number of words.
        letters: Minimum and maximum length of a word.
        alphabet: The letters, drawn with equal probability.
        seed: Seed of the random numbers.
        without: Excluded pairs.

    Raises:
        ValueError: Too few words are possible. Words are drawn until enough are different, so most must be unused.
    """
    possible = sum(len(alphabet) ** length for length in range(letters[0], letters[1] + 1)) - len(without)
    if number > possible // 2:
        raise ValueError(f"{number} words are too many: only {max(0, possible)} are possible; ask for half at most.")
    rng = random.Random(seed)
    excluded = set(without)
    pairs: list[Pair] = []
    while len(pairs) < number:
        word = "".join(rng.choices(alphabet, k=rng.randint(*letters)))
        pair = (word, word[::-1])
        if pair not in excluded:
            excluded.add(pair)
            pairs.append(pair)
    return pairs


def main(argv: Sequence[str] | None = None) -> int:
    """Write the text."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.reversal", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="DIR", help="the folder to write to")
    parser.add_argument("--words", type=int, default=50_000, metavar="N", help="words of the training text")
    parser.add_argument("--held-out", type=int, default=1_000, metavar="N", help="words of the held-out text")
    parser.add_argument("--letters", type=int, nargs=2, default=(10, 20), metavar=("MIN", "MAX"), help="of a word")
    parser.add_argument("--alphabet", default="abcdefghijklmnopqrstuvwxyz", metavar="TEXT")
    parser.add_argument("--seed", type=int, default=1, help="of the training text; that of the held-out text is 1 more")
    arguments = parser.parse_args(argv)
    letters = (arguments.letters[0], arguments.letters[1])
    try:
        train = reversed_words(arguments.words, letters, arguments.alphabet, arguments.seed)
        held_out = reversed_words(arguments.held_out, letters, arguments.alphabet, arguments.seed + 1, without=train)
    except ValueError as error:
        parser.error(str(error))
    write_parallel(arguments.out / "train", LANGUAGES, train)
    write_parallel(arguments.out / "dev", LANGUAGES, held_out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
