"""Language codes on the wire: LibreTranslate's codes, independent of the codes of the loaded models."""

from __future__ import annotations

import re
from functools import lru_cache

from app.http.compat.libretranslate.schemas import LanguageBody
from app.http.schemas.fields import LANGUAGE_PATTERN, MAX_LANGUAGE_CHARACTERS
from model.languages import LanguagePairs, closest, english_name, plain_code, standard_code

AUTO = "auto"
"""The source that asks for detection."""

NOTHING_DETECTED = "en"
"""The language that LibreTranslate names, with confidence 0, if it detects none."""

_ALIASES = {"pb": "pt-BR", "zh": "zh-Hans", "zt": "zh-Hant"}
"""Codes of LibreTranslate's models, and what it calls these languages on the wire."""


def find_language(code: str, languages: tuple[str, ...]) -> str | None:
    """The loaded language of a client's code, in the spelling of its model; None if it is not loaded.

    Args:
        code: A code in any case, or an alias.
        languages: The loaded languages.
    """
    if len(code) > MAX_LANGUAGE_CHARACTERS or not re.match(LANGUAGE_PATTERN, code):
        return None
    return closest(code, languages) or closest(_ALIASES.get(code.lower(), code), languages)


def wire_code(language: str, languages: tuple[str, ...]) -> str:
    """The code of a loaded language on the wire.

    Args:
        language: The language in the spelling of its model.
        languages: The loaded languages.

    Returns:
        The code, with two letters if possible: ``fa`` for ``pes_Arab``.
    """
    code, short = standard_code(language), plain_code(language)
    if len(code.partition("-")[0]) > 2 and len(short) == 2 and closest(short, languages) == language:
        code = short
    return _ALIASES.get(code, code)


@lru_cache(maxsize=8)
def describe_languages(pairs: LanguagePairs) -> list[LanguageBody]:
    """All loaded languages by code, each with the languages it can be translated to, itself included.

    Args:
        pairs: The loaded pairs.
    """
    codes = {language: wire_code(language, pairs.languages) for language in pairs.languages}
    targets = {code: {code} for code in codes.values()}
    for source, target in pairs.pairs:
        targets[codes[source]].add(codes[target])
    group = {codes[language] for language in pairs.any_to_any}
    for code in group:
        targets[code] |= group
    return [
        LanguageBody(code=code, name=english_name(code), targets=sorted(reached))
        for code, reached in sorted(targets.items())
    ]
