"""The units that the texts of a file make: in the language of a memory, and in another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.memories.store import Added, MemoryInfo, MemoryStore
from app.memories.unit import Unit
from model.languages import plain_code, standard_code


def units_of(texts: Mapping[str, str], source: str) -> list[Unit]:
    """The units that texts in several languages make, without those that cannot be stored.

    Args:
        texts: Texts by language, as a file names it.
        source: The language of the memory.
    """
    codes = {language: standard_code(language) for language in texts}
    sources = [language for language, code in codes.items() if code == source]
    sources += [language for language, code in codes.items() if plain_code(code) == plain_code(source)]
    if not sources:
        return []
    units = [Unit(texts[sources[0]], text, codes[language]) for language, text in texts.items()]
    return [unit for unit in units if plain_code(unit.language) != plain_code(source) and unit.flaw is None]


def add_texts(
    store: MemoryStore, owner: str | None, memory: MemoryInfo, texts: Sequence[Mapping[str, str]], now: float
) -> tuple[Added, int]:
    """Add units of a file to a memory; returns what was added, and how many of them cannot be used.

    Args:
        store: The store.
        owner: The owner of the memory.
        memory: The memory.
        texts: The units, as texts by language.
        now: Seconds since 1970.

    Raises:
        MemoryNotFound: The owner has no such memory.
        MemoryStoreFull: There would be too many units or bytes; none is added.
    """
    divided = [units_of(each, memory.source) for each in texts]
    units = [unit for own in divided for unit in own]
    return store.add(owner, memory.id, units, now), sum(not own for own in divided)


def source_of(header_language: str, units: Sequence[Mapping[str, str]]) -> str:
    """The source language of a file: that of its header, or of its first text.

    Args:
        header_language: The language that its header names.
        units: Its first units, as texts by language.
    """
    first = next((language for texts in units for language in texts), "und")
    return standard_code(first if header_language.lower() in ("", "*all*") else header_language)
