"""Learns the vocabulary of the translator that ships, from the natural text of a configuration and further sentences.

Encyclopaedias and novels are added, which the first back-translation leaves out, so that their words and names have
pieces when they join the training text.
"""

from __future__ import annotations

import argparse
import random
import string
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from model.commands.models import with_progress
from model.training.corpus import LoadedCorpus, load_training_pairs, read_lines
from model.training.settings import TrainingSettings
from model.training.vocabulary import learn_vocabulary
from scripts.shipped.command import start

MORE_SENTENCES = {"mono/wikipedia.de": 90_000, "mono/wikipedia.en": 39_443, "mono/novels.de": 30_000}
"""Further text, and how many sentences of it."""

REQUIRED_CHARACTERS = (
    string.punctuation
    + "–—…‘’‚“”„«»•·¿¡"  # punctuation
    + "€£¥¢§©®™°µ†‡¶"  # currencies and signs
    + "±×−≤≥≠≈∞√→¹²³¼½¾‰′″"  # mathematics
    + "´¯¸¬"
    + "äöüßÄÖÜẞ"  # German
    + "áàâãåæçéèêëíìîïñóòôõøœúùûýÿ"  # Western Europe
    + "ÁÀÂÃÅÆÇÉÈÊËÍÌÎÏÑÓÒÔÕØŒÚÙÛÝ"
    + "ăāąćčďđěēęğīıłńňőōřśşšťţůűūźżž"  # names of other languages in Latin script
    + "ĆČŁŚŠŞŹŻŽ"
)
"""Characters with a piece of their own if the text has enough of them; others rarer than one in 10,000 have none."""

LEAST_FREQUENT = 200
"""How often the training text has a character with a piece. One that it has hardly ever is not learned: a model writes
some other word instead. Without a piece it is unknown, and its word becomes a placeholder
(:func:`model.text.protection.unknown_spans`)."""


def further_sentences(data: Path) -> Iterator[str]:
    """The sentences of :data:`MORE_SENTENCES`, sampled at random, always the same."""
    for name, number in MORE_SENTENCES.items():
        yield from random.Random(1).sample(read_lines(data / name), number)


def required_characters(corpora: Sequence[LoadedCorpus]) -> str:
    """Those of :data:`REQUIRED_CHARACTERS` that the training text has often enough.

    Args:
        corpora: The training text; what models wrote counts, too.
    """
    counts: Counter[str] = Counter()
    for corpus in corpora:
        for pair in corpus.pairs:
            counts.update(pair[0] + pair[1])
    return "".join(character for character in REQUIRED_CHARACTERS if counts[character] >= LEAST_FREQUENT)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the script's arguments."""
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="names corpora and vocabulary size")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where corpus paths start, with mono/")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the SentencePiece model to write")


def run(arguments: argparse.Namespace) -> int:
    """Learn and write."""
    settings = TrainingSettings.load(arguments.config)
    corpora, _ = load_training_pairs(arguments.data, settings.train, settings.languages)
    more = with_progress(
        further_sentences(arguments.data), "reading; the vocabulary follows", sum(MORE_SENTENCES.values())
    )
    tokenizer = learn_vocabulary(settings, corpora, more, required_characters(corpora))
    part = arguments.out.with_name(f"{arguments.out.name}.part")
    part.write_bytes(tokenizer.model_proto)
    part.replace(arguments.out)
    print(f"{arguments.out}: {tokenizer.vocab_size} tokens")
    return 0


if __name__ == "__main__":
    sys.exit(start("vocabulary", __doc__, add_arguments, run))
