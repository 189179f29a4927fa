"""The characters that a vocabulary has pieces for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from unicodedata import normalize

from model.text.pieces import SURROGATE, WORD_START


class KnownCharacters:
    """The characters of the pieces of a vocabulary, including whitespace and the parts of accented letters.

    Args:
        pieces: The pieces, without special tokens and tokens of single bytes.
        normalise: Normalises a text before it is split into pieces.
    """

    def __init__(self, pieces: Iterable[str], normalise: Callable[[str], str]) -> None:
        characters = {character for piece in pieces for character in piece} - {WORD_START} | {" "}
        self._characters = characters.union(*(normalize("NFD", character) for character in characters))
        self._normalise = normalise
        self._knows_ascii = self._characters.issuperset(map(chr, range(ord(" "), ord("~") + 1)))

    def __contains__(self, character: str) -> bool:
        """Whether the vocabulary has a character, or its normalised form, in upper or lower case."""
        if character in self._characters:
            return True
        if SURROGATE.match(character) or character == WORD_START:  # a text's own U+2581 would come back as a space
            return False
        # The capital of the dotless i is I, whose small letter is another i; that of ß is SS, but ẞ is a form of it.
        other = character.swapcase()
        back = other.swapcase()
        forms = (character, other) if len(other) == 1 and (back == character or len(back) > 1) else (character,)
        return any(self._characters.issuperset(self._normalise(form).replace(WORD_START, " ")) for form in forms)

    def includes(self, text: str) -> bool:
        """Whether the vocabulary surely has all characters of a text; False leaves it open."""
        # The first test decides most English texts, in a tenth of the time.
        if self._knows_ascii and text.isascii() and text.isprintable():
            return True
        return self._characters.issuperset(text)
