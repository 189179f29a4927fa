"""Perturbed inputs: text as people really send it, made from tidy sentences.

Test sets are tidy: whole sentences, cased and punctuated, with few different names. Each :class:`Perturbation` changes
their sentences in one way. Where the reference translation stays valid, BLEU measures the loss; elsewhere one counts
what is wrong with any translation: empty output, a repetition loop, lost names or digits.

The functions on one sentence pair (:func:`without_punctuation`, :func:`misspell`, :func:`replace_names`,
:func:`joined_by_commas`) also serve the augmentation of training data (:mod:`model.training.augmentation`). They draw
nothing at random; what is drawn, and in which order, is the caller's.
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
"""Ways :func:`misspell` knows."""

MIN_LETTERS_FOR_TYPOS = 4
"""A text with fewer letters to change gets no typos."""

LETTERS = string.ascii_lowercase
"""Letters a wrong letter is drawn from."""

_PUNCTUATION = str.maketrans("", "", '.,!?;:"()„“”«»')
_SENTENCE_ENDS = ".!?"

_LETTERS_PER_TYPO = 30
_ATTEMPTS_PER_INPUT = 20
"""Sentences tried for each input wanted, because not every sentence can be perturbed in every way."""

_EXTRA_SENTENCES = (2, 5)
"""Fewest and most sentences joined to another."""

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
    """A text without its punctuation marks."""
    return text.translate(_PUNCTUATION)


def misspell(letters: list[str], index: int, kind: int, draw_letter: Callable[[], str]) -> None:
    """Change one letter in place.

    Args:
        letters: The text, letter by letter.
        index: Which letter; at least 1.
        kind: 0 swaps it with the letter before, 1 removes it, 2 doubles it, 3 replaces it.
        draw_letter: Gives the letter to replace it with; called for that kind only.
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
    """Replace the names on both sides, each name by the same one.

    Args:
        pair: A sentence and its translation.
        names: Matches the names to replace.
        draw_names: Gives the new names by the old ones, which are in the order of the source, each once.
        key: Maps spellings of one name to one of them.

    Returns:
        The pair with other names, or None where the sides do not have the same names equally often, or none.
    """
    found = [[key(name) for name in names.findall(side)] for side in pair]
    if not found[0] or sorted(found[0]) != sorted(found[1]):
        return None
    new_names = draw_names(list(dict.fromkeys(found[0])))
    source, target = (names.sub(lambda match: new_names[key(match[0])], side) for side in pair)
    return source, target


def joined_by_commas(pairs: Sequence[Pair]) -> Pair:
    """Sentences in a row as one, with commas instead of full stops, which no segmentation cuts."""
    source, target = (
        ", ".join(side.rstrip(_SENTENCE_ENDS) for side in sentences) + "." for sentences in zip(*pairs, strict=True)
    )
    return source, target


@dataclass(frozen=True)
class Perturbation:
    """One way to perturb a sentence.

    Args:
        name: For tables.
        what: What it stands for.
        apply: Makes, with a random number generator, a perturbed pair of the pair at an index of a test set. The
            translation is None where it is no longer known, the pair None where this sentence cannot be perturbed so.
        ignore_case: Whether case is no part of the score, because the source has none left.
    """

    name: str
    what: str
    apply: Callable[[Sequence[Pair], int, random.Random], tuple[str, str | None] | None]
    ignore_case: bool = False


@dataclass(frozen=True)
class PerturbedInput:
    """A perturbed sentence.

    Args:
        perturbation: How it was perturbed.
        text: The sentence.
        reference: Its translation, where it is known.
        kept: Names and numbers put in, which any translation has to contain unchanged.
    """

    perturbation: Perturbation
    text: str
    reference: str | None
    kept: tuple[str, ...] = ()


def make_perturbed_inputs(pairs: Sequence[Pair], number: int, seed: int = 1) -> list[PerturbedInput]:
    """Perturb sentences of a test set, equally many in each way.

    Args:
        pairs: The test set.
        number: Inputs to make.
        seed: The same inputs for the same seed.

    Returns:
        The inputs, one kind after the other.

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
        # Few sentences fit some kinds: those that do are taken again, with other random draws.
        for attempt in range(max(_ATTEMPTS_PER_INPUT * wanted, 2 * len(pairs))):
            if made == wanted:
                break
            perturbed = perturbation.apply(pairs, order[attempt % len(order)], rng)
            if perturbed is not None and perturbed[0].strip():
                found.append(PerturbedInput(perturbation, *perturbed, kept=_put_in(perturbation, perturbed[0])))
                made += 1
    return found


def count_kept(one: PerturbedInput, translation: str) -> tuple[int, int]:
    """How many of the names and numbers put in a translation contains: (found, put in)."""
    return sum(part in translation for part in one.kept), len(one.kept)


def _put_in(perturbation: Perturbation, text: str) -> tuple[str, ...]:
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
    """About one letter in thirty is swapped with the one before, left out, doubled or replaced."""
    source, target = pairs[at]
    letters = list(source)
    indices = [index for index in range(1, len(letters) - 1) if letters[index].isalpha()]
    if len(indices) < MIN_LETTERS_FOR_TYPOS:
        return None
    # From the end, so that a letter removed or doubled moves none of those still to change.
    for index in sorted(rng.sample(indices, max(1, len(indices) // _LETTERS_PER_TYPO)), reverse=True):
        misspell(letters, index, rng.randrange(TYPO_KINDS), lambda: rng.choice(LETTERS))
    return "".join(letters), target


def _new_names(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, str] | None:
    """Names that are not the most frequent ones of the training data."""
    return replace_names(
        pairs[at],
        _COMMON_NAMES,
        lambda names: dict(zip(sorted(names), rng.sample(_NAMES, len(names)), strict=True)),
    )


def _numbers(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None]:
    """A number after some word; the translation is not known, but it must contain the digits."""
    words = pairs[at][0].split()
    words.insert(rng.randint(1, len(words)) if words else 0, rng.choice(_NUMBERS))
    return " ".join(words), None


def _concatenated(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, str]:
    """Three to six sentences joined by commas: long, and no segmentation cuts them."""
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
    """Signs the training data does not contain: emoji, addresses, arrows, other scripts."""
    words = pairs[at][0].split()
    for _ in range(rng.randint(1, 2)):
        words.insert(rng.randint(0, len(words)), rng.choice(_SIGNS))
    return " ".join(words), None


def _stuttering(pairs: Sequence[Pair], at: int, rng: random.Random) -> tuple[str, None] | None:
    """A word three times in a row, which may start a repetition loop."""
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
"""All ways, in the order of tables; their names seed the random draws."""
