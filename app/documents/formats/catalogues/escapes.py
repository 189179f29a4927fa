"""Backslashes in strings of catalogues: characters that a string cannot have as they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ESCAPE = re.compile(r"\\(?:[uU]([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{3})|u\{([0-9a-fA-F]{1,6})\}|(.))", re.DOTALL)
_NO_ASCII = re.compile(r"[^\0-\x7f]")


@dataclass(frozen=True)
class Escapes:
    """How a format writes characters with a backslash.

    Args:
        letters: The letters that stand for other characters behind a backslash.
        escaped: The characters that need a backslash.
    """

    letters: Mapping[str, str]
    escaped: str

    def read(self, text: str) -> str:
        """The characters that a text of the file stands for."""
        if "\\" not in text:
            return text
        characters = _ESCAPE.sub(self._character, text)
        return characters.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")  # pairs of \\u

    def write(self, text: str, only_ascii: bool = False) -> str:
        """A text as the file writes it.

        Args:
            text: The text.
            only_ascii: Whether other characters than those of ASCII are written by their numbers.
        """
        letters = {character: letter for letter, character in self.letters.items()}
        table = {ord(character): "\\" + letters.get(character, character) for character in self.escaped}
        written = text.translate(table)
        return _NO_ASCII.sub(_numbered, written) if only_ascii else written

    def _character(self, match: re.Match[str]) -> str:
        if match[5]:
            return self.letters.get(match[5], match[5])
        number = int(match[1] or match[2] or match[4] or "0", 16) if match[3] is None else int(match[3], 8)
        return chr(number) if number < 0x110000 else "\ufffd"


def _numbered(match: re.Match[str]) -> str:
    return "".join(f"\\u{unit:04x}" for unit in memoryview(match[0].encode("utf-16-le")).cast("H"))
