"""Code of template languages in a page: the page is read as if it were not there, and it comes back byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator

from model.text.markup.items import Role
from model.text.symbols import Span

_OPENING = re.compile(
    r"<%|<\?(?:php\b|=|\s)|</?[#@][A-Za-z]|\{\{|\{%|\{#|\{!!|\[%|(?<![\w@.])@(?=[a-z])|\}", re.IGNORECASE
)
_ENDS = {"<%": "%>", "<?": "?>", "{{": "}}", "{%": "%}", "{#": "#}", "{!": "!!}", "[%": "%]"}
_MAX_BRACED = 1_000
"""The most characters of code in braces or brackets, which are also characters of a text."""

_VALUE = re.compile(r"<%[=-]|<\?=|<\?(?i:php)\s+(?:echo|print)\b|\{\{|\{!!|\[%[-+]?\s*(?![A-Z]{2})|<@")
_COMMENT = re.compile(r"<%--|<%#|\{#|<#--|\{\{!?--|\{\{-?\s?/\*")
_COMMENT_IN_BRACES = re.compile(r"\{\{(?:!?--|-?\s?(?P<stars>/\*))")
"""The beginning of a comment that may be long, as no text has these signs."""
_STATEMENT = re.compile(
    r"\{\{[-~]?\s*(?:[#/>^]|(?:if|else|end|range|with|define|block|template|partial|break|continue)\b|\$\w+\s*:?=)"
)
_ARGUMENTS = r"\s?\((?:[^()]|\((?:[^()]|\([^()]{0,300}+\)){0,300}+\)){0,1000}+\)"
_DIRECTIVE = re.compile(
    r"@(?:(?:if|else ?if|unless|for(?:each|else)?|while|switch|case|isset|empty|can(?:not|any)?|section|yield|extends"
    r"|include\w*|component|push|stack|slot|lang|vite|props|class|error|defer|placeholder|loading|let|method|json|php)"
    rf"{_ARGUMENTS}|(?:else|end[a-z]+|auth|guest|csrf|show|parent|php|default|empty|defer|placeholder|loading|error)\b)"
    r"(?P<block>\s*+\{)?"
)
"""Directives of Blade, and blocks of Angular, which end with a brace."""
_MASK = "\ue000"


def template_code(document: str) -> Iterator[Span]:
    """The code of template languages, in order.

    Args:
        document: A page.
    """
    missing: set[str] = set()
    position = num_blocks = 0  # of Angular, which are open
    while match := _OPENING.search(document, position):
        start, position = match.span()
        if match[0] == "@" and (directive := _DIRECTIVE.match(document, start)):
            position = directive.end()
            num_blocks += bool(directive["block"])
            yield start, position
        elif match[0] == "}" and num_blocks:
            num_blocks -= 1
            yield start, position
        if match[0] in "@}":
            continue
        opening = match[0][:2]
        is_tag = opening not in _ENDS
        end = ">" if is_tag else _ENDS[opening]
        if end in missing:
            continue
        is_braced = not opening.startswith("<")
        if comment := _COMMENT_IN_BRACES.match(document, start):
            is_braced, end = False, "*/" if comment["stars"] else "--}}"
            if end in missing:
                continue
        stop = document.find(end, position, position + _MAX_BRACED if is_braced else len(document))
        if stop >= 0:
            position = stop + len(end) if end != "*/" else max(document.find("}}", stop, stop + 9) + 2, stop + 2)
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
    return Role.CONTENT if _VALUE.match(code) and not _STATEMENT.match(code) else Role.BOUNDARY
