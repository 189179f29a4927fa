"""Values that are written for programs and not for readers: keys, identifiers, locales, media types, references."""

from __future__ import annotations

import re
from itertools import pairwise

from app.serving.detection import has_letters
from model.text.protection import find_spans

_CODE = re.compile(
    r"""
      [A-Za-z_$][\w$]*+ (?:\.[A-Za-z_$][\w$]*+)++            # menu.file.open
    | [a-z]++[a-z0-9]*+ (?:[A-Z][a-z0-9]*+)++                # firstName
    | [a-z][a-z0-9]*+ (?:_[a-z0-9]++)++ | [A-Z][A-Z0-9]*+ (?:_[A-Z0-9]++)++  # first_name, FIRST_NAME
    | [a-z][a-z0-9]++ (?:-[a-z0-9]++)++                       # dark-mode
    | [a-z]{2,3} (?:[-_][A-Z][a-z]{3})? [-_](?:[A-Z]{2}|[0-9]{3})  # en-GB, zh-Hant-TW
    | (?:application|audio|font|image|message|model|multipart|text|video)/[\w.+*-]++
    | (?:--|[.#@?]|::)[A-Za-z_][\w.:/+-]*+                   # --primary-color, .button, #fff, @string/title
    | [\w.-]++ (?:::[\w.-]++)++                              # activerecord::errors
    | \[%key:[^\[\]%]*+%\]
    | @(?:\.\w++)?:(?:\([\w.]++\)|[\w.]++)                   # @:menu.title, @.lower:title
    | %(?:\d{1,2}\$)?\#@\w++@                                # %#@files@
    """,
    re.VERBOSE,
)
_PLURAL_RULE = re.compile(r"nplurals\s*=\s*\d")
_STYLE = re.compile(
    r"\s*+(?:(?:margin|padding|border|background|font|text|colou?r|display|position|width|height|max|min|flex|grid|align"
    r"|justify|overflow|opacity|line-height|float|top|left|right|bottom|cursor|z-index|transform|transition|animation|gap)"
    r"(?:-[a-z]++)*+\s*+:[^;:!?\n]{1,100}+(?:;\s*+|\Z))++"
)
"""Declarations of CSS: ``margin: 0 auto; color: red``."""

_CLASS = re.compile(r"[a-z][a-z0-9-]*+")
_MAX_LENGTH = 1_000


def is_code(text: str) -> bool:
    """Whether a value is written for a program, and stays as it is.

    Args:
        text: The value.
    """
    if len(text) > _MAX_LENGTH:
        return False
    words = text.split()
    if all(map(_CODE.fullmatch, words)) or _PLURAL_RULE.match(text) or (";" in text and _STYLE.fullmatch(text)):
        return True
    # btn btn-primary
    is_class = len(words) > 1 and all(map(_CLASS.fullmatch, words)) and words[1].startswith(f"{words[0]}-")
    return is_class or not has_words(text)


def has_words(text: str) -> bool:
    """Whether a text has letters outside its protected spans."""
    spans = [(0, 0), *find_spans(text), (len(text), len(text))]
    return any(has_letters(text[end:start]) for (_, end), (start, _) in pairwise(spans))
