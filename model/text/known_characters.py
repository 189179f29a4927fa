"""The characters that a vocabulary has pieces for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from unicodedata import normalize

WORD_START = "\u2581"
"""Stands for the space before a word in SentencePiece's pieces."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def encodable(text: str) -> str:
    """A text of the same length that has a UTF-8 form: U+FFFD replaces unpaired surrogates, which strings may have."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)


class KnownCharacters:
    """The characters of the pieces of a vocabulary, parts of accented letters and whitespace among them.

    Args:
        pieces: The pieces, without special tokens and tokens of single bytes.
        normalised: The normalisation of a text before it is split into pieces.
    """

    def __init__(self, pieces: Iterable[str], normalised: Callable[[str], str]) -> None:
        characters = {character for piece in pieces for character in piece} - {WORD_START} | {" "}
        self._characters = characters.union(*(normalize("NFD", character) for character in characters))
        self._normalised = normalised
        self._knows_ascii = self._characters.issuperset(map(chr, range(ord(" "), ord("~") + 1)))

    def __contains__(self, character: str) -> bool:
        """Whether the vocabulary has a character, or what normalisation makes of it, in either case."""
        if _SURROGATE.match(character) or character == WORD_START:  # a text's own U+2581 would come back as a space
            return False
        # The capital of the dotless i is I, whose small letter is another i; that of ß is SS, but ẞ is a form of it.
        other = character.swapcase()
        back = other.swapcase()
        forms = (character, other) if len(other) == 1 and (back == character or len(back) > 1) else (character,)
        return any(self._characters.issuperset(self._normalised(form).replace(WORD_START, " ")) for form in forms)

    def includes(self, text: str) -> bool:
        """Whether the vocabulary has all characters of a text. A text of which it is not true may be known, too."""
        # Most English texts are decided by the first test, ten times as fast.
        if self._knows_ascii and text.isascii() and text.isprintable():
            return True
        return self._characters.issuperset(text)
