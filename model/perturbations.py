"""Perturbed inputs: sentences of a test set changed to resemble the text users send.

Test sets contain whole sentences with correct case and punctuation and few different names. Each :class:`Perturbation`
changes their sentences in one way. If the reference translation stays valid, BLEU measures the loss of quality.
Otherwise errors are counted that are wrong in any translation: empty output, repetition loops, lost names or digits.

The functions on one sentence pair (:func:`without_punctuation`, :func:`misspell`, :func:`replace_names`,
:func:`joined_by_commas`) are also used by the augmentation of training data (:mod:`model.training.augmentation`). They
draw no random numbers; the caller passes in what is random.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

Pair = tuple[str, str]
"""A sentence and its translation."""

TYPO_KINDS = 4
"""Number of kinds of typos :func:`misspell` makes."""

MIN_LETTERS_FOR_TYPOS = 4
"""Texts with fewer letters that can be changed get no typos."""

LETTERS = string.ascii_lowercase
"""Letters from which a wrong letter is drawn."""

_PUNCTUATION = str.maketrans("", "", '.,!?;:"()„“”«»')
_SENTENCE_ENDS = ".!?"

_LETTERS_PER_TYPO = 30
_ATTEMPTS_PER_INPUT = 20
"""Sentences tried for each requested input, because not every perturbation applies to every sentence."""

_EXTRA_SENTENCES = (2, 5)
"""Smallest and largest number of sentences joined to another."""

_NAMES = (
    "Ayşe",
    "Björn",
    "Chidi",
    "Guadalupe",
    "Hiroshi",
    "Ingrid",
    "Kowalski",
    "Nguyen",
    "Olumide",
    "Priya",
    "Svetlana",
)
_NUMBERS = ("7", "23", "1,984", "3.5", "42 %", "10:30", "2026-11-21", "0171 555 0199")
_SIGNS = ("🙂", "https://example.org/a?b=c", "user@example.org", "#2", "C++", "…", "„“", "→", "½", "日本")
_COMMON_NAMES = re.compile(r"\b(Tom|Mary|Maria)\b")


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
    found = [[key(name) for name in names.findall(side)] for side in pair]
    if not found[0] or sorted(found[0]) != sorted(found[1]):
        return None
    new_names = draw_names(list(dict.fromkeys(found[0])))
    source, target = (names.sub(lambda match: new_names[key(match[0])], side) for side in pair)
    return source, target


def joined_by_commas(pairs: Sequence[Pair]) -> Pair:
    """Join sentences with commas instead of full stops, so that segmentation does not split them again."""
    source, target = (
        ", ".join(side.rstrip(_SENTENCE_ENDS) for side in sentences) + "." for sentences in zip(*pairs, strict=True)
    )
    return source, target


@dataclass(frozen=True)
class Perturbation:
    """One way to perturb a sentence.

    Args:
        name: Its name in tables.
        what: A short description.
        apply: Takes the pairs of a test set, an index and a random number generator; returns the perturbed pair. The
            translation is None if the reference is no longer valid. The pair is None if the perturbation does not apply
            to this sentence.
        ignore_case: Whether scores ignore case, because the source has none.
    """

    name: str
    what: str
    apply: Callable[[Sequence[Pair], int, random.Random], tuple[str, str | None] | None]
    ignore_case: bool = False


@dataclass(frozen=True)
class PerturbedInput:
    """A perturbed sentence.

    Args:
        perturbation: The perturbation applied.
        text: The sentence.
        reference: Its translation, if it is known.
        kept: Inserted names and numbers, which any translation must contain unchanged.
    """

    perturbation: Perturbation
    text: str
    reference: str | None
    kept: tuple[str, ...] = ()


def make_perturbed_inputs(pairs: Sequence[Pair], number: int, seed: int = 1) -> list[PerturbedInput]:
    """Perturb sentences of a test set, equally many with each perturbation.

    Args:
        pairs: The test set.
        number: Number of inputs to make.
        seed: Seed of the random numbers; the same seed gives the same inputs.

    Returns:
        The inputs, grouped by perturbation.

    Raises:
        ValueError: There are no pairs.
    """
    if not pairs:
        raise ValueError("There are no sentences to perturb.")
    found: list[PerturbedInput] = []
    for kind, perturbation in enumerate(PERTURBATIONS):
        wanted = number * (kind + 1) // len(PERTURBATIONS) - number * kind // len(PERTURBATIONS)
        rng = random.Random(f"{seed} {perturbation.name}")
        order = list(range(len(pairs)))
        rng.shuffle(order)
        made = 0
        # Some perturbations apply to few sentences; these are then used repeatedly with other random numbers.
        for attempt in range(max(_ATTEMPTS_PER_INPUT * wanted, 2 * len(pairs))):
            if made == wanted:
                break
            perturbed = perturbation.apply(pairs, order[attempt % len(order)], rng)
            if perturbed is not None and perturbed[0].strip():
                found.append(PerturbedInput(perturbation, *perturbed, kept=_inserted(perturbation, perturbed[0])))
                made += 1
    return found


def count_kept(one: PerturbedInput, translation: str) -> tuple[int, int]:
    """How many of the inserted names and numbers a translation contains: (found, inserted)."""
    return sum(part in translation for part in one.kept), len(one.kept)


def _inserted(perturbation: Perturbation, text: str) -> tuple[str, ...]:
    if perturbation.apply is _new_names:
        return tuple(name for name in _NAMES if name in text)
    if perturbation.apply is _numbers:
        return tuple(re.findall(r"\d+", text))
    return ()


def _upper(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str]:
    return pairs[at][0].upper(), pairs[at][1]


def _lower(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str] | None:
    source, target = pairs[at]
    return None if source == source.lower() else (source.lower(), target)


def _unpunctuated(pairs: Sequence[Pair], at: int, _: random.Random) -> tuple[str, str] | None:
    source, target = (without_punctuation(side) for side in pairs[at])
    return None if source == pairs[at][0] else (source, target)


def _typos(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, str] | None:
    """Swap about one letter in thirty with the letter before, or remove, double or replace it."""
    source, target = pairs[at]
    letters = list(source)
    indices = [index for index in range(1, len(letters) - 1) if letters[index].isalpha()]
    if len(indices) < MIN_LETTERS_FOR_TYPOS:
        return None
    # From the end, so that removing or doubling a letter does not move the letters still to be changed.
    for index in sorted(rng.sample(indices, max(1, len(indices) // _LETTERS_PER_TYPO)), reverse=True):
        misspell(letters, index, rng.randrange(TYPO_KINDS), lambda: rng.choice(LETTERS))
    return "".join(letters), target


def _new_names(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, str] | None:
    """Replace the most frequent names of the training data by other names."""
    return replace_names(
        pairs[at],
        _COMMON_NAMES,
        lambda names: dict(zip(sorted(names), rng.sample(_NAMES, len(names)), strict=True)),
    )


def _numbers(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None]:
    """Insert a number after a random word. The translation is not known, but it must contain the digits."""
    words = pairs[at][0].split()
    words.insert(rng.randint(1, len(words)) if words else 0, rng.choice(_NUMBERS))
    return " ".join(words), None


def _concatenated(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, str]:
    """Join three to six sentences by commas: a long input that segmentation does not split."""
    return joined_by_commas(
        [pairs[at], *(pairs[rng.randrange(len(pairs))] for _ in range(rng.randint(*_EXTRA_SENTENCES)))]
    )


def _fragments(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None] | None:
    words = pairs[at][0].split()
    if len(words) < 3:
        return None
    length = rng.randint(1, len(words) - 1)
    start = rng.randint(0, len(words) - length)
    return " ".join(words[start : start + length]), None


def _noisy(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None]:
    """Insert symbols that the training data does not contain: emoji, addresses, arrows, other scripts."""
    words = pairs[at][0].split()
    for _ in range(rng.randint(1, 2)):
        words.insert(rng.randint(0, len(words)), rng.choice(_SIGNS))
    return " ".join(words), None


def _stuttering(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None] | None:
    """Repeat a word three times, which may start a repetition loop."""
    words = pairs[at][0].split()
    if len(words) < 2:
        return None
    index = rng.randrange(len(words))
    return " ".join([*words[:index], *[words[index]] * 3, *words[index + 1 :]]), None


PERTURBATIONS: tuple[Perturbation, ...] = (
    Perturbation("upper case", "ALL CAPITALS", _upper, ignore_case=True),
    Perturbation("lower case", "no capitals", _lower, ignore_case=True),
    Perturbation("no punctuation", "as typed on a telephone", _unpunctuated),
    Perturbation("typos", "a letter in thirty is wrong", _typos),
    Perturbation("other names", "than Tom and Mary", _new_names),
    Perturbation("numbers", "somewhere in the sentence", _numbers),
    Perturbation("long", "three to six sentences with commas between", _concatenated),
    Perturbation("fragments", "some words of a sentence", _fragments),
    Perturbation("odd signs", "emoji, addresses, arrows, other scripts", _noisy),
    Perturbation("stutter", "a word three times", _stuttering),
)
"""All perturbations, in the order of tables. Their names are part of the random seed."""
