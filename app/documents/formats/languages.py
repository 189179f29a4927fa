"""Languages as files name them, and the target language written where a file names its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from langcodes import Language

from model.languages import is_language, standard_code

_REGION = re.compile("[-_@.]")
_LANGUAGE_CODE = re.compile(r"[a-z]{2,3}(?:[-_][A-Z][a-z]{3})?(?:[-_](?:[A-Z]{2}|\d{3}))?")
_NAME = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{1,8}){0,4}")
_NO_LANGUAGE = frozenset({"zxx", "mul", "mis"})
_RIGHT_TO_LEFT = frozenset({"Adlm", "Arab", "Hebr", "Mand", "Mend", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"})
_EAST_ASIAN = frozenset({"Hans", "Hant", "Hani", "Jpan", "Kore", "Hang"})


@dataclass(frozen=True)
class LanguageMark:
    """A stretch of a text file that depends on the language that the text is in.

    Args:
        start: Its first character.
        end: The character after its last.
        write: What is there in a text of a language.
        language: The language that it names; empty if it only shows the direction of the script.
    """

    start: int
    end: int
    write: Callable[[str], str]
    language: str = ""


def language_mark(text: str, start: int, end: int) -> LanguageMark | None:
    """The mark of the language that a stretch of a text names, or None if it names none.

    Args:
        text: The text.
        start: The first character of the stretch.
        end: The character after its last.
    """
    name = text[start:end]
    return LanguageMark(start, end, lambda target: written_like(name, target), name) if names_language(name) else None


@lru_cache(maxsize=1000)
def names_language(text: str) -> bool:
    """Whether a text is the code of a language in any spelling; those for several languages and for none are not."""
    return bool(_NAME.fullmatch(text)) and text[:3].lower() not in _NO_LANGUAGE and is_language(text)


@lru_cache(maxsize=1000)
def written_like(name: str, target: str) -> str:
    """The target language in the spelling of another one: like ``en_US``, ``de`` is ``de_DE``.

    A language with a region gets the region where most of its texts are from. The name of the target language stays as
    it is if the target has no region: ``de-AT``.

    Args:
        name: The other language.
        target: The target language.
    """
    code = standard_code(target)
    if plain_language(name) == code.lower():
        return name
    if _REGION.search(name) and is_language(target):
        code = locale_of(target)
    return code.replace("-", "_") if "_" in name else code


def renamed(name: str, target: str) -> str:
    """As :func:`written_like`; what names no language stays as it is."""
    return written_like(name, target) if names_language(name) else name


@lru_cache(maxsize=100)
def locale_of(target: str) -> str:
    """A language with a region, by default that of most of its texts: ``de-DE``, ``zh-TW`` for ``zh-Hant``."""
    language = Language.get(standard_code(target))
    territory = language.territory or language.maximize().territory
    return f"{language.language}-{territory}" if language.language and territory else standard_code(target)


def is_right_to_left(language: str) -> bool:
    """Whether a language is written from the right to the left."""
    return _script_of(language) in _RIGHT_TO_LEFT


def is_east_asian(language: str) -> bool:
    """Whether a language is written in Chinese, Japanese or Korean characters."""
    return _script_of(language) in _EAST_ASIAN


@lru_cache(maxsize=100)
def _script_of(language: str) -> str:
    return (Language.get(standard_code(language)).maximize().script or "") if is_language(language) else ""


def is_language_code(text: str) -> bool:
    """Whether a text has the form of a language code, such as ``de`` or ``pt_BR``."""
    return bool(_LANGUAGE_CODE.fullmatch(text))


def plain_language(code: str) -> str:
    """A language code without script and region."""
    return _REGION.split(code.strip(), maxsplit=1)[0].lower()


def names_same_language(first: str, second: str) -> bool:
    """Whether two language codes name one language, in any regions: ``de_AT`` and ``de``."""
    return plain_language(first) == plain_language(second)
