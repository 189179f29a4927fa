"""The parts of a message that are translated: the texts between the syntax of ICU messages and of plural forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.documents.formats.codes import has_words, is_code

_COMPLEX = re.compile(r"\{\s*+[\w.]++\s*+,\s*+(plural|selectordinal|select|choice)\s*+,")
_TOKEN = re.compile(r"''|\{\{[^{}]{0,300}\}\}|'(?=[{}])[^']*+(?:'|\Z)|[{}]")
_SELECTOR = re.compile(r"\s*+(?:offset:\s*+\d++\s*+)?=?[\w.+-]++\s*+\{")
_ARGUMENT_END = re.compile(r"\s*+\}")
_CHOICE = re.compile(r"\{[^{}]*+\}|\[[^\[\]]*+\]|(?P<bar>\|++)")
_INTERVAL = re.compile(
    r"\s*+(?:\{-?\d{1,9}\}|[\[\]]\s?(?:-?\d{1,9}|-Inf|\*)\s?,\s?(?:\d{1,9}|\+?Inf|\*)\s?[\[\]])?\s*+"
)
_DOUBLED = re.compile(r"(?<![{}'])''(?![{}'])")
_APOSTROPHE = re.compile(r"(?<![{}'])'(?![{}'])")
_MAX_DEPTH = 20

_NUMBER = "{#}"
"""How the model sees the number of a plural form, as ``#`` alone is no placeholder to it."""


@dataclass(frozen=True)
class Part:
    """A part of a message.

    Args:
        source: Its characters in the message.
        text: The text to be translated; empty for syntax.
        is_doubled: Whether an apostrophe in it is written twice.
        has_number: Whether ``#`` stands for the number of a plural form.
    """

    source: str
    text: str = ""
    is_doubled: bool = False
    has_number: bool = False

    def written(self, translation: str) -> str:
        """The characters of the message for a translation of the text."""
        if self.is_doubled:
            translation = _APOSTROPHE.sub("''", translation)
        return translation.replace(_NUMBER, "#") if self.has_number else translation


def message_parts(message: str, has_choices: bool = False, is_bilingual: bool = False) -> list[Part]:
    """A message in parts, which make up its characters.

    Args:
        message: The message.
        has_choices: Whether bars separate plural forms.
        is_bilingual: Whether its translation is written beside it, so that a message of placeholders needs one, too.
    """
    if "{" in message and (argument := _COMPLEX.search(message)):
        if argument[1] == "choice":  # of Java, with a syntax of its own
            return [Part(message)]
        try:
            return list(_icu_parts(message))
        except (ValueError, RecursionError):
            return [Part(message)]  # a message that cannot be parsed keeps its text
    if has_choices and "|" in message and (forms := _plural_forms(message)):
        return forms
    if is_code(message):
        return [Part(message, message if is_bilingual and not has_words(message) else "")]
    return [_text_part(message, has_arguments="{" in message)]


def _text_part(source: str, has_arguments: bool, has_number: bool = False) -> Part:
    """A text of a message; in one with arguments a doubled apostrophe is one."""
    text, num_doubled = _DOUBLED.subn("'", source) if has_arguments else (source, 0)
    has_number = has_number and "#" in text and _NUMBER not in text
    return Part(source, text.replace("#", _NUMBER) if has_number else text, bool(num_doubled), has_number)


def _icu_parts(message: str) -> Iterator[Part]:
    """The parts of a message in the format of ICU: the texts of its branches, and what is between them.

    Raises:
        ValueError: It is not in this format.
    """
    spans: list[tuple[int, int, bool]] = []
    if _read_texts(message, 0, 0, False, spans) != len(message):
        raise ValueError("a brace closes nothing")
    end = 0
    for start, stop, has_number in spans:
        if start < stop:
            yield Part(message[end:start])
            yield _text_part(message[start:stop], True, has_number)
            end = stop
    yield Part(message[end:])


def _read_texts(message: str, position: int, depth: int, has_number: bool, spans: list[tuple[int, int, bool]]) -> int:
    """Add the spans of texts from a position to the end of their branch, which is returned.

    Raises:
        ValueError: The message is not in the format of ICU.
    """
    start, open_braces = position, 0
    while token := _TOKEN.search(message, position):
        position = token.end()
        argument = _COMPLEX.match(message, token.start())
        if argument and not open_braces:
            spans.append((start, token.start(), has_number))
            start = position = _read_branches(message, argument, depth + 1, has_number, spans)
        elif token[0] == "{":
            open_braces += 1
        elif token[0] == "}":
            if not open_braces:
                spans.append((start, token.start(), has_number))
                return token.start()
            open_braces -= 1
    if depth or open_braces:
        raise ValueError("a brace is not closed")
    spans.append((start, len(message), has_number))
    return len(message)


def _read_branches(
    message: str, argument: re.Match[str], depth: int, has_number: bool, spans: list[tuple[int, int, bool]]
) -> int:
    if depth > _MAX_DEPTH:
        raise ValueError("it is nested too deeply")
    position = argument.end()
    while selector := _SELECTOR.match(message, position):
        position = _read_texts(message, selector.end(), depth, has_number or argument[1] != "select", spans) + 1
    closing = _ARGUMENT_END.match(message, position)
    if closing is None:
        raise ValueError("an argument is not closed")
    return closing.end()


def _plural_forms(message: str) -> list[Part]:
    """The plural forms of ``one apple|many apples`` or ``{0} none|[1,*] some``; empty if one of them has no letters."""
    bars = [bar.span() for bar in _CHOICE.finditer(message) if bar["bar"]]
    ends = [start for start, _ in bars] + [len(message)]
    spans = list(zip([0, *(end for _, end in bars)], ends, strict=True))
    if not bars or any(end - start != 1 for start, end in bars):
        return []
    parts: list[Part] = []
    for start, end in spans:
        interval = _INTERVAL.match(message, start, end)
        begin = interval.end() if interval else start
        stop = begin + len(message[begin:end].rstrip())
        if not any(map(str.isalpha, message[begin:stop])):
            return []
        parts += [Part(message[start:begin]), _text_part(message[begin:stop], True), Part(message[stop : end + 1])]
    return parts
