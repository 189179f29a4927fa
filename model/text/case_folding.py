"""Texts in CAPITALS: translated in small letters, and put back into capitals.

A vocabulary learned from ordinary text has hardly a piece for words in capitals; they fall apart into letters, and a
model that knows both languages well makes nonsense of them. Production systems therefore translate such text in small
letters ("case folding"; Berard et al. 2019 compare ways to do it). Models ask for it with ``fold_capitals``.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.text.tokenizer import Span

_FEWEST_CAPITALS = 5
"""Below that it may be an abbreviation: NATO, USA, EU."""


def is_in_capitals(text: str) -> bool:
    """Whether a text shouts: five capitals or more, and no small letter but ß, which long had no capital."""
    # Asked in this order, ordinary text is done with at its first small letter: every sentence passes here.
    if any(character.islower() and character != "ß" for character in text):
        return False
    return sum(map(str.isupper, text)) >= _FEWEST_CAPITALS


def in_small_letters(text: str) -> str:
    """A text in capitals as a sentence would be written: small letters after the first; as long as it was."""
    first = next((place for place, character in enumerate(text) if character.isalpha()), 0)
    return text[: first + 1] + "".join(map(_small, text[first + 1 :]))


def in_capitals(text: str) -> str:
    """A text in capitals; ß becomes SS."""
    return "".join(map(str.upper, text))


def spans_in_capitals(text: str, spans: Sequence[Span]) -> list[Span]:
    """Where parts of a text stand once it is in capitals, which may be longer.

    Args:
        text: The text before.
        spans: Characters of it.
    """
    at = [0]
    for character in text:
        at.append(at[-1] + len(character.upper()))
    return [(at[start], at[end]) for start, end in spans]


def _small(character: str) -> str:
    """The small letter, where it is one character like the capital: places in the text have to stay."""
    small = character.lower()
    return small if len(small) == 1 else character
