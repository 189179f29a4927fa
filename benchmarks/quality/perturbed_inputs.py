"""Perturbed inputs made of a test set, and errors in their translations that need no reference."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from benchmarks.quality.perturbations import PERTURBATIONS, Draw, Perturbation
from benchmarks.quality.texts import COMMON_FIRST_NAMES
from model.training.noising import Pair

_ATTEMPTS_PER_INPUT = 20
"""Sentences tried for each requested input, because not every perturbation applies to every sentence."""

_WORD = re.compile(r"\w+")
_ALIKE = 0.6
"""Similarity from which a name counts as another spelling of a word of the source: Mary and Maria, Tom and Tmo."""


@dataclass(frozen=True)
class PerturbedInput:
    """A perturbed sentence.

    Args:
        perturbation: The perturbation applied.
        text: The sentence.
        reference: Its translation, if it is known.
        kept: Inserted names, numbers and the like, which any translation must contain unchanged.
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
    inputs: list[PerturbedInput] = []
    for kind, perturbation in enumerate(PERTURBATIONS):
        quota = number * (kind + 1) // len(PERTURBATIONS) - number * kind // len(PERTURBATIONS)
        rng = random.Random(f"{seed} {perturbation.name}")
        order = list(range(len(pairs)))
        rng.shuffle(order)
        num_made = 0
        # Some perturbations apply to few sentences; these are then used repeatedly with other random numbers.
        for attempt in range(max(_ATTEMPTS_PER_INPUT * quota, 2 * len(pairs))):
            if num_made == quota:
                break
            changed = perturbation.apply(Draw(pairs, order[attempt % len(order)], rng, num_made))
            if changed is not None and changed.text.strip():
                inputs.append(PerturbedInput(perturbation, changed.text, changed.reference, changed.kept))
                num_made += 1
    return inputs


def count_kept(perturbed: PerturbedInput, translation: str) -> tuple[int, int]:
    """How many of the inserted names and numbers a translation contains: (found, inserted)."""
    return sum(part in translation for part in perturbed.kept), len(perturbed.kept)


def has_replacement_character(text: str, source: str) -> bool:
    """Whether a translation contains U+FFFD, the sign for an unreadable character, although its source does not.

    Args:
        text: A translation.
        source: What it translates.
    """
    return "\ufffd" in text and "\ufffd" not in source


def invented_names(text: str, source: str) -> list[str]:
    """The frequent first names in a translation that resemble no word of its source.

    Other invented names are not noticed, so the count is a lower bound.

    Args:
        text: A translation.
        source: What it translates.
    """
    words = {word.capitalize() if word.isupper() else word for word in _WORD.findall(text)}
    names = sorted(words & COMMON_FIRST_NAMES)
    of_source = _WORD.findall(source.lower()) if names else []
    return [name for name in names if not get_close_matches(name.lower(), of_source, n=1, cutoff=_ALIKE)]
