"""A unit of a translation memory: a text and its translation, and the form in which texts are compared."""

from __future__ import annotations

import hashlib
import re
import unicodedata
import zlib
from dataclasses import dataclass
from itertools import pairwise

MAX_TEXT_CHARACTERS = 10_000
"""Maximum number of characters of one side of a unit."""

MAX_FUZZY_CHARACTERS = 1_000
"""Longer sentences are looked up exactly, but not compared with similar ones."""

MAX_WORDS = 64
"""Words of a text that it is found by."""

_RUN = re.compile(r"[^\W_]+")
# Scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han. Their words are pairs of characters.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


@dataclass(frozen=True)
class Unit:
    """A text and its translation.

    Args:
        source: The text.
        target: Its translation.
        language: The language of the translation, as :func:`model.languages.standard_code` writes it.
    """

    source: str
    target: str
    language: str

    @property
    def num_bytes(self) -> int:
        """Its size in UTF-8."""
        return len(self.source.encode()) + len(self.target.encode())

    @property
    def flaw(self) -> str | None:
        """Why it cannot be stored, or None."""
        for side, text in (("source", self.source), ("target", self.target)):
            if not text.strip():
                return f"the {side} is blank"
            if len(text) > MAX_TEXT_CHARACTERS:
                return f"the {side} has {len(text)} characters; the limit is {MAX_TEXT_CHARACTERS}"
            if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
                return f"the {side} has a character that is not text"
        return None


@dataclass(frozen=True)
class StoredUnit:
    """A unit in a memory.

    Args:
        id: Its id.
        source: The text.
        target: Its translation.
        language: The language of the translation.
        created: When it was added, in seconds since 1970.
        updated: When its translation was last changed.
        used: When it last answered a request, or None.
    """

    id: int
    source: str
    target: str
    language: str
    created: float
    updated: float
    used: float | None


def normalised(text: str) -> str:
    """The form in which texts are compared: NFC, with single spaces and none at the ends."""
    return unicodedata.normalize("NFC", " ".join(text.split()))


def digest_of(text: str) -> bytes:
    """The digest that a normalised text is looked up by."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def words_of(text: str) -> set[int]:
    """The words that a normalised text is found by, each as a number of 32 bits; the first :data:`MAX_WORDS`.

    Args:
        text: The text; only its first :data:`MAX_FUZZY_CHARACTERS` characters are read.
    """
    words: dict[int, None] = {}
    for run in _RUN.findall(text[:MAX_FUZZY_CHARACTERS].lower()):
        parts = [run]
        if _UNSPACED.match(run) and len(run) > 1:
            parts = ["".join(pair) for pair in pairwise(run)]
        words.update(dict.fromkeys(zlib.crc32(part.encode("utf-8", "surrogatepass")) for part in parts))
        if len(words) >= MAX_WORDS:
            break
    return set(list(words)[:MAX_WORDS])
