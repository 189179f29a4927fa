"""Augmentation of training data: sentence pairs with capitals, typos, other names and similar changes.

Corpora have correct spelling and few different names, and a model trained on them alone fails on other input. A change
of the source is repeated in the target if a translator would keep it: capitals stay capitals, names stay names.
:mod:`model.training.noising` has the functions that are shared with perturbed test inputs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from model.configuration import Requirement, configuration
from model.training.noising import (
    LETTERS,
    MIN_LETTERS_FOR_TYPOS,
    TYPO_KINDS,
    joined_by_commas,
    misspell,
    replace_names,
    without_punctuation,
)

Share = Annotated[float, Field(strict=True, ge=0, le=1), Requirement("a share, 0 to 1")]
"""Share of the pairs or batches of an epoch."""

_ROUNDING = 1e-9
"""Tolerance of the sum of shares for floating-point rounding."""

_CHARACTERS_PER_TYPO = 40
_SIGN_AT_THE_FRONT = 0.3
_MAX_SYLLABLES = 3
_MAX_DIGITS = 6

_NAMES_OF_CORPORA = re.compile(r"\b(Tom|Mary|Maria|Sami|Layla|Skura|Ziri|Yanni|John|Ken|Bill|Jim|Emily)\b")
_ONSETS = (
    *"bcdfghjklmnprstvwxyz", "br", "ch", "dr", "fr", "gl", "gr", "kh", "kl", "kr", "ł", "ñ", "ph", "pr", "qu", "sch",
    "sh", "sk", "st", "ş", "š", "th", "tr", "ts", "tz", "w", "zh", "ž", "",
)  # fmt: skip
_VOWELS = (
    *"aaaeeeiiooouuy",
    *("á", "ai", "au", "å", "ä", "ão", "é", "ei", "ê", "ia", "ie", "í", "ó", "ö", "ø", "ou", "ü"),
)
_CODAS = (*"klmnrstz", "", "", "", "", "ch", "ck", "ff", "ll", "nd", "ng", "nn", "rd", "ś", "ss", "th", "wski", "sen")
_EMOJI = tuple("🙂😀😂👍🎉❤🔥😢🤔🙏")
_SIGNS = ("…", "→", "½", "€", "&", "%", "§", "°", "C#", "日本", "Москва", "«", "»", "—")


@configuration("augment")
class Augmentation:
    """Shares of the sentence pairs of an epoch that are augmented; the pairs are sampled again in every epoch.

    Args:
        upper: Share with both sides in capitals.
        lower: Share with the source in lower case.
        unpunctuated: Share with punctuation removed from both sides.
        typos: Share with a wrong letter in the source, or several in a long source.
        names: Share of the pairs with a frequent name of the corpora in which names are replaced by generated names.
        signs: Share with a number, an address, an emoji or another symbol added at the same end of both sides.
        joined: Share of the batches in which sentences, augmented or not, are joined into longer sentences, up to the
            maximum length.

    Raises:
        ConfigError: A share is not a number from 0 to 1, or the sum of ``upper``, ``lower``, ``unpunctuated``,
            ``typos`` and ``signs`` is above 1.
    """

    upper: Share = 0.0
    lower: Share = 0.0
    unpunctuated: Share = 0.0
    typos: Share = 0.0
    names: Share = 0.0
    signs: Share = 0.0
    joined: Share = 0.0

    @model_validator(mode="after")
    def _check_sum(self) -> Self:
        if self._of_sentences > 1 + _ROUNDING:
            raise ValueError(
                f"The shares of augment come to {self._of_sentences:g} without names and joined; a sentence is "
                "augmented in one way, so they can come to 1 at most."
            )
        return self

    @property
    def changes_sentences(self) -> bool:
        """Whether :meth:`apply` ever changes a pair."""
        return self._of_sentences > 0 or self.names > 0

    @property
    def _of_sentences(self) -> float:
        return self.upper + self.lower + self.unpunctuated + self.typos + self.signs

    def apply(self, source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
        """Augment a sentence pair, or return it unchanged.

        Args:
            source: A sentence.
            target: Its translation.
            rng: Random number generator; the same state gives the same pair.
        """
        if rng.random() < self.names:
            source, target = rename(source, target, rng)
        draw = rng.random()
        for share, change in (
            (self.upper, _capitals),
            (self.lower, _no_capitals),
            (self.unpunctuated, _no_punctuation),
            (self.typos, _typos),
            (self.signs, _signs),
        ):
            if draw < share:
                return change(source, target, rng)
            draw -= share
        return source, target


def join_sentences(pairs: Sequence[tuple[str, str]], rng: np.random.Generator) -> tuple[str, str]:
    """Join sentences into one: unchanged, or with commas instead of full stops.

    Args:
        pairs: Sentences and their translations; at least one.
        rng: Random number generator.
    """
    if rng.random() < 0.5:
        return " ".join(source for source, _ in pairs), " ".join(target for _, target in pairs)
    return joined_by_commas(pairs)


def rename(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    """Replace the frequent names of the corpora by generated names, the same on both sides.

    A pair stays unchanged unless both sides contain the same names equally often; ``Mary`` and ``Maria`` count as one.

    Args:
        source: A sentence.
        target: Its translation.
        rng: Random number generator.
    """

    def made_up(names: list[str]) -> dict[str, str]:
        return {name: made_up_name(rng) for name in names}

    return replace_names((source, target), _NAMES_OF_CORPORA, made_up, _one_spelling) or (source, target)


def made_up_name(rng: np.random.Generator) -> str:
    """Generate a rare name of one to three syllables, often with letters of other languages."""
    syllables = [
        _pick(_ONSETS, rng) + _pick(_VOWELS, rng) + _pick(_CODAS, rng)
        for _ in range(rng.integers(1, _MAX_SYLLABLES + 1))
    ]
    return "".join(syllables).capitalize()


def _one_spelling(name: str) -> str:
    return "Maria" if name == "Mary" else name


def _capitals(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    return source.upper(), target.upper()


def _no_capitals(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    return source.lower(), target


def _no_punctuation(source: str, target: str, _: np.random.Generator) -> tuple[str, str]:
    bare = without_punctuation(source), without_punctuation(target)
    return bare if bare[0].strip() and bare[1].strip() else (source, target)


def _typos(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    letters = list(source)
    for _ in range(1 + len(source) // _CHARACTERS_PER_TYPO):
        indices = [index for index in range(1, len(letters)) if letters[index].isalpha()]
        if len(indices) < MIN_LETTERS_FOR_TYPOS:
            break
        index = indices[int(rng.integers(len(indices)))]
        misspell(letters, index, int(rng.integers(TYPO_KINDS)), lambda: _pick(tuple(LETTERS), rng))
    return "".join(letters), target


def _signs(source: str, target: str, rng: np.random.Generator) -> tuple[str, str]:
    sign = _made_up_sign(rng)
    if rng.random() < _SIGN_AT_THE_FRONT:
        return f"{sign} {source}", f"{sign} {target}"
    return f"{source} {sign}", f"{target} {sign}"


def _made_up_sign(rng: np.random.Generator) -> str:
    kind = rng.integers(6)
    word = made_up_name(rng).lower()
    number = str(int(rng.integers(10 ** int(rng.integers(1, _MAX_DIGITS + 1)))))
    if kind == 0:
        return number
    if kind == 1:
        return f"{number[:2]}:{number[-2:]}" if len(number) > 3 else f"#{number}"
    if kind == 2:
        return f"https://{word}.{_pick(('org', 'com', 'de', 'io'), rng)}/{number}"
    if kind == 3:
        return f"{word}{number[:2]}@{word}.{_pick(('org', 'com', 'de'), rng)}"
    return _pick(_EMOJI if kind == 4 else _SIGNS, rng)


def _pick(choices: tuple[str, ...], rng: np.random.Generator) -> str:
    return choices[int(rng.integers(len(choices)))]
