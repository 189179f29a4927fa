"""Code of template languages in a page: the page is read as if it were not there, and it comes back byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.markup.items import Role
from model.text.symbols import Span

_OPENING = re.compile(r"<%|<\?(?:php\b|=|\s)|</?[#@][A-Za-z]|\{\{|\{%|\{#|\{!!|\[%", re.IGNORECASE)
_ENDS = {"<%": "%>", "<?": "?>", "{{": "}}", "{%": "%}", "{#": "#}", "{!": "!!}", "[%": "%]"}
_MAX_BRACED = 1_000
"""The most characters of code in braces or brackets, which are also characters of a text."""

_VALUE = re.compile(r"<%[=-]|<\?=|<\?(?i:php)\s+(?:echo|print)\b|\{\{|\{!!|\[%[-+]?\s*(?![A-Z]{2})|<@")
_COMMENT = re.compile(r"<%--|<%#|\{#|<#--|\{\{!--")
_MASK = "\ue000"


def template_code(document: str) -> Iterator[Span]:
    """The code of template languages, in order.

    Args:
        document: A page.
    """
    missing: set[str] = set()
    position = 0
    while match := _OPENING.search(document, position):
        start, position = match.span()
        opening = match[0][:2]
        is_tag = opening not in _ENDS
        end = ">" if is_tag else _ENDS[opening]
        if end in missing:
            continue
        is_braced = not opening.startswith("<")
        stop = document.find(end, position, position + _MAX_BRACED if is_braced else len(document))
        if stop >= 0:
            position = stop + len(end)
            position += document.startswith("{{{", start) and document.startswith("}", position)
            yield start, position
        elif stop < 0 and opening == "<?":  # the last code of a file needs no end
            yield start, len(document)
            return
        elif stop < 0 and not is_braced:
            missing.add(end)


def masked(document: str, codes: list[Span]) -> str:
    """A page of the same length and with the same lines, in which code has no meaning.

    Args:
        document: The page.
        codes: The code in it.
    """
    parts: list[str] = []
    position = 0
    for start, end in codes:
        parts += [document[position:start], re.sub(r"[^\n]", _MASK, document[start:end])]
        position = end
    return "".join([*parts, document[position:]])


def has_code(text: str) -> bool:
    """Whether a masked text has code."""
    return _MASK in text


def role_of(code: str) -> Role:
    """The role of code in a text: a value is a word of its sentence, a statement separates texts.

    Args:
        code: The code.
    """
    if _COMMENT.match(code):
        return Role.POINT
    return Role.CONTENT if _VALUE.match(code) else Role.BOUNDARY
