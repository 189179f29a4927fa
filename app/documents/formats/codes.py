"""Values that are written for programs and not for readers: keys, identifiers, locales, media types, references."""

from __future__ import annotations

import re
from itertools import pairwise

from app.serving.detection import has_letters
from model.text.protection import find_spans

_STYLE = re.compile(
    r"\s*+(?:(?:margin|padding|border|background|font|text|colou?r|display|position|width|height|max|min|flex|grid|align"
    r"|justify|overflow|opacity|line-height|float|top|left|right|bottom|cursor|z-index|transform|transition|animation|gap)"
    r"(?:-[a-z]++)*+\s*+:[^;:!?\n]{1,100}+(?:;\s*+|\Z))++"
)
"""Declarations of CSS: ``margin: 0 auto; color: red``."""

_MAX_LENGTH = 1_000


def is_code(text: str) -> bool:
    """Whether a value is written for a program, and stays as it is.

    Args:
        text: The value.
    """
    if len(text) > _MAX_LENGTH:
        return False
    words = text.split()
    are_codes = not any((word.isalpha() and word.isupper()) or has_words(word) for word in words)
    return are_codes or (";" in text and bool(_STYLE.fullmatch(text))) or not has_words(text)


def has_words(text: str) -> bool:
    """Whether a text has letters outside its protected spans."""
    spans = [(0, 0), *find_spans(text), (len(text), len(text))]
    return any(has_letters(text[end:start]) for (_, end), (start, _) in pairwise(spans))
