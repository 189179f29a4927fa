"""How the characters of a translation are written: as references where the source has references, and the like."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from model.text.markup.items import Item, Role
from model.text.markup.offsets import Part

_ESCAPES = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;"}
_REFERENCE = re.compile(r"&#?\w{1,40};")
_AMPERSAND = re.compile(r"&[#\w]*")
_CHUNK = re.compile(r"\w(?:\S*\w)?")
_DIVISION = "\u00ad"


class Spelling:
    """Writes characters of translations.

    A sign of markup that the source writes as it is, such as the one of ``R&D``, stays one where it cannot become
    markup. A word that the source writes with soft hyphens gets them again.

    Args:
        plain: The characters that the source does not write as references.
        references: The references by character, besides those that are always written.
        words: The sources of words by the word.
    """

    def __init__(self, plain: str, references: Mapping[int, str] = {}, words: Mapping[str, Sequence[str]] = {}) -> None:
        self._escapes = {**_ESCAPES, **references}
        if ">" in plain:
            self._escapes.pop(ord(">"), None)
        self._ampersands = frozenset(_AMPERSAND.findall(plain)) if "&" in plain else frozenset()
        self._has_less = "<" in plain
        self._words = words

    @classmethod
    def of_items(cls, items: Sequence[Item]) -> Spelling:
        """The spelling of a text.

        Args:
            items: Its items.
        """
        texts = [item for item in items if item.role is Role.TEXT]
        plain = "".join(item.text for item in texts if not item.is_reference)
        characters = set(plain)
        references = {
            ord(item.text): item.source
            for item in texts
            if item.is_reference and len(item.text) == 1 and item.source.endswith(";") and item.text not in characters
        }
        is_divided = any(not item.text for item in texts)
        return cls(plain, references, _divided_words(items) if is_divided else {})

    @classmethod
    def of_value(cls, source: str, quote: str) -> Spelling:
        """The spelling of the value of an attribute, or of a text that is not part of a sentence.

        Args:
            source: Its source.
            quote: The quotation mark around it, or an empty string.
        """
        references = {ord(quote): "&quot;" if quote == '"' else "&#39;"} if quote else {}
        return cls(_REFERENCE.sub("", source), references)

    def write(self, characters: str) -> tuple[str, list[Part]]:
        """The source of characters, and its parts.

        Args:
            characters: Characters of a translation.
        """
        if characters.translate(self._escapes) == characters and not self._words:
            return characters, [Part(len(characters), 0, len(characters))]
        sources: list[str] = []
        parts: list[Part] = []
        length = 0
        for text, source in self._with_words(characters) if self._words else self._escaped(characters):
            sources.append(source)
            parts.append(Part(len(text), length, length + len(source)))
            length += len(source)
        return "".join(sources), parts

    def _with_words(self, characters: str) -> Iterator[tuple[str, str]]:
        position = 0
        for chunk in _CHUNK.finditer(characters):
            if chunk[0] in self._words:
                yield from self._escaped(characters[position : chunk.start()])
                divided = self._words[chunk[0]]
                written = (
                    part if number % 2 else "".join(source for _, source in self._escaped(part))
                    for number, part in enumerate(divided)
                )
                yield chunk[0], "".join(written)
                position = chunk.end()
        yield from self._escaped(characters[position:])

    def _escaped(self, characters: str) -> Iterator[tuple[str, str]]:
        for is_escaped, group in groupby(enumerate(characters), lambda pair: ord(pair[1]) in self._escapes):
            run = list(group)
            if not is_escaped:
                yield (text := "".join(character for _, character in run)), text
                continue
            for index, character in run:
                is_plain = self._is_plain(characters, index)
                yield character, character if is_plain else self._escapes[ord(character)]

    def _is_plain(self, characters: str, index: int) -> bool:
        """Whether a sign of markup is written as it is, as the source does."""
        if characters[index] == "&" and self._ampersands:
            reference = _AMPERSAND.match(characters, index)
            return reference is not None and (reference[0] == "&" or reference[0] in self._ampersands)
        following = characters[index + 1 : index + 2]
        return characters[index] == "<" and self._has_less and (following.isspace() or following.isdigit())


def _divided_words(items: Sequence[Item]) -> dict[str, list[str]]:
    """The words that soft hyphens and the like divide: text, source of the hyphen, text, and so on."""
    texts = [item for item in items if item.role in (Role.TEXT, Role.BREAK, Role.CONTENT)]
    text = "".join(" " if item.role is not Role.TEXT else item.text or _DIVISION for item in texts)
    divisions = iter([item.source for item in texts if item.role is Role.TEXT and not item.text])
    divided: dict[str, list[str]] = {}
    position = 0
    for chunk in _CHUNK.finditer(text):
        for _ in range(text.count(_DIVISION, position, chunk.start())):
            next(divisions)
        position = chunk.end()
        first, *others = chunk[0].split(_DIVISION)
        parts = [first]
        for other in others:
            parts += [next(divisions), other]
        if others:
            divided.setdefault("".join(parts[::2]), parts)
    return divided
