"""Case folding: text in capitals is translated in lower case, and its translation is put into capitals.

A vocabulary learned from ordinary text has few tokens for words in capitals. Such words are split into letters, which
the model translates badly. Production systems therefore fold case (Berard et al. 2019 compare ways to do it). The flag
``fold_capitals`` in a model's manifest switches it on.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.text.symbols import Span

_MIN_CAPITALS = 5
"""A text with fewer capitals may be an abbreviation: NATO, USA, EU."""


def is_in_capitals(text: str) -> bool:
    """Whether a text has at least five capitals and no lower-case letter except ß, which long had no capital."""
    # Every sentence is tested, and this order ends the test of ordinary text at its first lower-case letter.
    if any(character.islower() and character != "ß" for character in text):
        return False
    return sum(map(str.isupper, text)) >= _MIN_CAPITALS


def in_small_letters(text: str) -> str:
    """Convert a text in capitals to lower case after its first letter, without changing its length."""
    first = next((index for index, character in enumerate(text) if character.isalpha()), 0)
    return text[: first + 1] + "".join(map(_small, text[first + 1 :]))


def in_capitals(text: str) -> str:
    """Convert a text to capitals; ß becomes SS."""
    return "".join(map(str.upper, text))


def spans_in_capitals(text: str, spans: Sequence[Span]) -> list[Span]:
    """Map spans of a text to spans of the same text in capitals, which may be longer.

    Args:
        text: The text before the conversion.
        spans: Spans of that text.
    """
    starts = [0]
    for character in text:
        starts.append(starts[-1] + len(character.upper()))
    return [(starts[start], starts[end]) for start, end in spans]


def _small(character: str) -> str:
    """The lower-case letter if it is a single character, else the character itself: spans must stay valid."""
    small = character.lower()
    return small if len(small) == 1 else character
