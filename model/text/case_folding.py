"""The case of a translation follows that of its source, for words in capitals and for the first letter.

A vocabulary learned from ordinary text has few tokens for words in capitals. Such words are split into letters, which
the model translates badly. Production systems therefore fold case (Berard et al. 2019 compare ways to do it): text in
capitals is translated in lower case, and its translation is put into capitals. A sentence that begins with a capital
gets a translation that does. The flag ``fold_capitals`` in a model's manifest switches both on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from model.text.spans.signs import LABELS
from model.text.symbols import Span

_NOUNS_IN_CAPITALS = {"de", "lb"}
"""Languages in which a capital may begin any noun, so that only a whole sentence shows where one begins."""

_WORD = re.compile(r"[\w-]+")
_SENTENCE_END = re.compile(r"[.!?…:][\W_]*$")
_MAX_END = 20
"""Number of characters at the end of a text among which its final punctuation is searched."""

_MIN_CAPITALS = 5
"""A text with fewer capitals may be an abbreviation: NATO, USA, EU."""


def is_in_capitals(text: str) -> bool:
    """Whether a text has at least five capitals and no lower-case letter except ß, which long had no capital.

    Fewer capitals are enough for a label such as NOTE.
    """
    # Every sentence is tested; in this order, ordinary text is decided by its first lower-case letter.
    if any(character.islower() and character != "ß" for character in text):
        return False
    return sum(map(str.isupper, text)) >= _MIN_CAPITALS or text in LABELS


def in_lower_case(text: str) -> str:
    """Convert a text in capitals to lower case after its first letter, without changing its length."""
    first = next((index for index, character in enumerate(text) if character.isalpha()), 0)
    return text[: first + 1] + "".join(map(_lower, text[first + 1 :]))


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


def begins_sentence(text: str, start: int, end: int, language: str) -> bool:
    """Whether a part of a text begins a sentence with a capital, perhaps after quotation marks or brackets.

    Args:
        text: The text.
        start: Index of the part's first character.
        end: Index after its last character.
        language: Its language.
    """
    first = _first_letter(text[start:end], ())
    if first is None or not text[start + first].isupper():
        return False
    if language in _NOUNS_IN_CAPITALS and not _SENTENCE_END.search(text[max(start, end - _MAX_END) : end]):
        return False
    # Long sentences are split at commas and spaces; their later parts begin no sentence.
    before = start - 1
    while before >= 0 and text[before].isspace() and text[before] != "\n":
        before -= 1
    return before < 0 or not (text[before].isalnum() or text[before] in ",;-–—")


def index_to_capitalise(text: str, kept: Sequence[Span] = ()) -> int | None:
    """The index of the lower-case letter that a text begins with, if it can be a capital; otherwise None.

    Args:
        text: A translation.
        kept: Spans that stay as they are.
    """
    first = _first_letter(text, kept)
    if first is None or not text[first].islower() or len(text[first].upper()) > 1:
        return None
    # iPhone, eBay, pH-Wert
    return None if text[first + 1 : first + 2].isupper() else first


def _first_letter(text: str, kept: Sequence[Span]) -> int | None:
    """The index of the first letter of a text; None if a digit or a kept span comes first, or there is none."""
    first = next((index for index, character in enumerate(text) if character.isalnum()), None)
    if first is None or not text[first].isalpha() or any(start <= first for start, _ in kept):
        return None
    return first


def _lower(character: str) -> str:
    """The lower-case form if it is a single character, else the character itself, so that spans stay valid."""
    lower = character.lower()
    return lower if len(lower) == 1 else character


def capitals_of_source(source: str, translation: str) -> list[tuple[Span, str]]:
    """The words of a translation that differ from one of its source in X and x only, and the word of the source.

    Args:
        source: A sentence.
        translation: Its translation by a model that has rarely seen an X.
    """
    words = {word.replace("x", "X"): word for word in _WORD.findall(source) if "X" in word}
    counterparts = ((match.span(), words.get(match[0].replace("x", "X"))) for match in _WORD.finditer(translation))
    return [(span, word) for span, word in counterparts if word is not None and word != translation[slice(*span)]]
