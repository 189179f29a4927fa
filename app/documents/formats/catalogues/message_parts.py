"""The parts of a message that are translated: the texts between the syntax of ICU messages and of plural forms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from app.documents.formats.codes import has_words, is_code
from model.text.spans.messages import BRANCHED, read_message

_CHOICE = re.compile(r"\{[^{}]*+\}|\[[^\[\]]*+\]|(?P<bar>\|++)")
_INTERVAL = re.compile(
    r"\s*+(?:\{-?\d{1,9}\}|[\[\]]\s?(?:-?\d{1,9}|-Inf|\*)\s?,\s?(?:\d{1,9}|\+?Inf|\*)\s?[\[\]])?\s*+"
)
_DOUBLED = re.compile(r"(?<![{}'])''(?![{}'])")
_APOSTROPHE = re.compile(r"(?<![{}'])'(?![{}'])")

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
    if "{" in message and BRANCHED.search(message):
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
    end = 0
    for start, stop, has_number in read_message(message):
        if start < stop:
            yield Part(message[end:start])
            yield _text_part(message[start:stop], True, has_number)
            end = stop
    yield Part(message[end:])


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
