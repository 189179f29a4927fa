"""Accelerators: the sign in the text of a menu that names its key, as in ``&File``, ``E&xit``, ``_Open`` or ``~Edit``.

The model reads the word without the sign, which then stands before a letter of the translation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from model.text.symbols import Span, overlaps

MAX_CHARACTERS = 80
"""The longest text with an accelerator; a sign in a longer one is one of prose."""

_LETTER = r"[^\W\d_]"
_BEFORE_WORD = re.compile(rf"(?<![\w&~])[&_~](?={_LETTER}(?![A-Za-z]{{0,30}};))")
# User_id is an identifier: what follows a sign inside a label is no word.
_NO_WORD = r"(?:\w|ß\w*|(?:[bcdfgklmnpstz]|ch|ck|ll|nn|tt|ss|tz|ier)?(?:en|ern|eln)|n?ces|n?ts?|ngs?|tions?|gen)(?!\w)"
LABEL_WITH_KEY = rf"[A-ZÄÖÜ](?:[a-zäöü]{{0,2}}_(?=[a-zäöü])|[a-zäöü]{{3,30}}_(?={_NO_WORD}))\w*"
"""A word with an underscore before the letter of its key: ``E_xit``, ``Schlie_ßen``."""

_IN_WORD = re.compile(rf"(?<={_LETTER})&(?=[a-zäöü](?![A-Za-z]{{0,30}};))|(?<!\w)(?={LABEL_WITH_KEY})\w*?(_)")


def find_accelerator(text: str) -> Span | None:
    """The sign of a text's accelerator; ``R&D``, ``snake_case`` and texts with several signs have none.

    Args:
        text: A text, as a catalogue has it.
    """
    if len(text) > MAX_CHARACTERS or not ("&" in text or "_" in text or "~" in text):
        return None
    match = _BEFORE_WORD.search(text) or _IN_WORD.search(text)
    if match is None:
        return None
    span = match.span(match.lastindex or 0)
    return span if text.count(text[slice(*span)]) == 1 else None


def place_of_accelerator(letter: str, translation: str, spans: Sequence[Span]) -> int | None:
    """The index of the letter of a translation that gets the sign.

    It is the same letter as in the source, at the beginning of a word if possible, or else the first letter.

    Args:
        letter: The letter after the sign in the source.
        translation: The translation without the sign.
        spans: Its protected spans.
    """
    letters = [
        index
        for index, character in enumerate(translation)
        if character.isalpha() and not overlaps((index, index + 1), spans)
    ]
    same = [index for index in letters if translation[index].lower() == letter.lower()]
    first_of_word = [index for index in same if not translation[index - 1 : index].isalpha()]
    return next(iter([*first_of_word, *same, *letters]), None)
