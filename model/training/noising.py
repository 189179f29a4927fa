"""Changes of sentence pairs that perturbed test inputs and the augmentation of training data share.

The functions draw no random numbers; the caller passes in what is random.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Mapping, Sequence

Pair = tuple[str, str]
"""A sentence and its translation."""

TYPO_KINDS = 4
"""Number of kinds of typos :func:`misspell` makes."""

MIN_LETTERS_FOR_TYPOS = 4
"""Texts with fewer letters that can be changed get no typos."""

LETTERS = string.ascii_lowercase
"""Letters from which a wrong letter is drawn."""

SENTENCE_ENDS = ".!?"
"""Marks at the end of sentences."""

_PUNCTUATION = str.maketrans("", "", '.,!?;:"()„“”«»')


def without_punctuation(text: str) -> str:
    """Remove the punctuation marks from a text."""
    return text.translate(_PUNCTUATION)


def misspell(letters: list[str], index: int, kind: int, draw_letter: Callable[[], str]) -> None:
    """Change one letter in place.

    Args:
        letters: The characters of the text.
        index: Index of the letter; at least 1.
        kind: 0 swaps it with the letter before, 1 removes it, 2 doubles it, 3 replaces it.
        draw_letter: Returns the replacement; called for kind 3 only.
    """
    if kind == 0:
        letters[index - 1], letters[index] = letters[index], letters[index - 1]
    elif kind == 1:
        del letters[index]
    elif kind == 2:
        letters.insert(index, letters[index])
    else:
        letters[index] = draw_letter()


def replace_names(
    pair: Pair,
    names: re.Pattern[str],
    draw_names: Callable[[list[str]], Mapping[str, str]],
    key: Callable[[str], str] = str,
) -> Pair | None:
    """Replace the names in a sentence and its translation, consistently on both sides.

    Args:
        pair: A sentence and its translation.
        names: Matches the names to replace.
        draw_names: Takes the distinct names in the order of the source; returns the new name of each.
        key: Maps the spellings of a name to one spelling.

    Returns:
        The pair with other names, or None if the sides contain no names, or not the same names equally often.
    """
    keys = [[key(name) for name in names.findall(side)] for side in pair]
    if not keys[0] or sorted(keys[0]) != sorted(keys[1]):
        return None
    new_names = draw_names(list(dict.fromkeys(keys[0])))
    source, target = (names.sub(lambda match: new_names[key(match[0])], side) for side in pair)
    return source, target


def joined_by_commas(pairs: Sequence[Pair]) -> Pair:
    """Join sentences with commas instead of full stops, so that segmentation does not split them again."""
    source, target = (
        ", ".join(side.rstrip(SENTENCE_ENDS) for side in sentences) + "." for sentences in zip(*pairs, strict=True)
    )
    return source, target
